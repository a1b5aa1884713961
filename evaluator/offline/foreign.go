package offline

import (
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/manifests"
)

// ForeignPolicy returns what to do with a policy of another engine; empty for other kinds.
func ForeignPolicy(kind schema.GroupVersionKind) string {
	switch of := "." + kind.Group; {
	case strings.HasSuffix(of, ".kyverno.io"):
		return "it is a policy of Kyverno: kubectl virtward policy convert converts its ValidatingPolicies, and docs/from-kyverno.md shows the others"
	case strings.HasSuffix(of, ".gatekeeper.sh"):
		return "it is a policy of Gatekeeper: docs/from-gatekeeper.md shows the same in Virtward"
	case kind.Group == "admissionregistration.k8s.io" && strings.HasPrefix(kind.Kind, "ValidatingAdmissionPolicy"):
		return "the API server evaluates it, on VMs as they are written: kubectl virtward policy convert makes a VirtualMachinePolicy of it"
	case kind.Group == "admissionregistration.k8s.io" && strings.HasPrefix(kind.Kind, "MutatingAdmissionPolicy"):
		return "the API server evaluates it: a VirtualMachineDefaults sets fields in Virtward, see docs/site-defaults.md"
	}
	return ""
}

// misspelt returns an error for a kind that is probably a misspelt one of a virtual machine: skipping it would look like
// success. Kinds of other groups are not checked: other products have virtual machines too.
func misspelt(kind schema.GroupVersionKind) error {
	var names []string
	for _, info := range evaluator.Kinds() {
		switch {
		case info.Kind == kind.Kind && (kind.Group == "" || strings.Contains(kind.Group, "kubevirt")):
			return &manifests.FieldError{Path: "apiVersion", Err: fmt.Errorf("%s has no %s: use %s", kind.GroupVersion(), kind.Kind, info.GroupVersion())}
		case info.Group == kind.Group:
			names = append(names, info.Kind)
		}
	}
	for _, name := range names {
		if len(kind.Kind) < 2*len(name) && levenshtein.ComputeDistance(strings.ToLower(kind.Kind), strings.ToLower(name)) <= maxTypos {
			return &manifests.FieldError{Path: "kind", Err: fmt.Errorf("%s is not a kind of %s: did you mean %s?", kind.Kind, kind.GroupVersion(), name)}
		}
	}
	return nil
}

// maxTypos is the number of wrong characters in a misspelt kind. No two kinds of KubeVirt are that similar.
const maxTypos = 2
