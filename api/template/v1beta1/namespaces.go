package v1beta1

import (
	"slices"
	"strings"
)

const (
	// ApprovedOnlyLabel is the label of a namespace whose VirtualMachines may only be created from approved templates.
	// Its value is "true".
	ApprovedOnlyLabel = "template.virtward.io/approved-only"
	// TrustedNamespacesAnnotation is the annotation of a namespace that lists the namespaces of the templates that it
	// trusts, separated by commas. Its own templates are always trusted.
	TrustedNamespacesAnnotation = "template.virtward.io/trusted-namespaces"
)

// ApprovedOnly reports whether a namespace with these labels is approved-only.
func ApprovedOnly(labels map[string]string) bool { return labels[ApprovedOnlyLabel] == "true" }

// TrustedNamespaces are the namespaces that the annotations of a namespace list. Listed reports whether there is a list.
func TrustedNamespaces(annotations map[string]string) (names []string, listed bool) {
	text, listed := annotations[TrustedNamespacesAnnotation]
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), listed
}
