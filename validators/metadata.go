package validators

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func metadataRules() Table {
	return slices.Concat(
		Scoped(OnSpec, hostnameIsLabelRule, subdomainIsSubdomainRule, reservedLabelsRule),
		Scoped(OnSpec|OnVMIUpdate, ignitionGateRule, sidecarGateRule),
		Scoped(OnVM, templateMetadataRule),
	)
}

// sidecarAnnotation lists the hook sidecars of a VMI.
const sidecarAnnotation = "hooks.kubevirt.io/hookSidecars"

// What is said of names that Kubernetes does not take.
const (
	mustBeLabelKey   = "must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end, after an optional DNS subdomain and '/'"
	mustBeLabelValue = "must be empty or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end"
	mustBeDNSLabel   = "is not a DNS label"
)

func isLabelKey(key string) bool     { return len(validation.IsQualifiedName(key)) == 0 }
func isLabelValue(value string) bool { return len(validation.IsValidLabelValue(value)) == 0 }

// labelFaults adds the faults in a map of labels, at the map, in the order of the keys.
func labelFaults(path *field.Path, labels map[string]string, consequence string, found *Errors) {
	keys := sortedKeys(labels)
	for i := range found.Each(len(keys)) {
		key := keys[i]
		if !isLabelKey(key) {
			found.Add(field.Invalid(path, shortened(key), "a key "+mustBeLabelKey+consequence))
		}
		if value := labels[key]; !isLabelValue(value) {
			found.Add(field.Invalid(path, shortened(value), "the value of "+strconv.Quote(shortened(key))+" "+mustBeLabelValue+consequence))
		}
	}
}

// sortedKeys takes room for all keys at once: there may be very many.
func sortedKeys(of map[string]string) []string {
	keys := slices.AppendSeq(make([]string, 0, len(of)), maps.Keys(of))
	slices.Sort(keys)
	return keys
}

var hostnameIsLabelRule = Rule{
	ID:     "metadata-hostname",
	Title:  "The hostname is a DNS label",
	Remedy: "Use at most 63 lowercase letters, digits and '-', with a letter or digit at either end. Set subdomain for a domain.",
	Check:  hostnameIsLabel,
}

func hostnameIsLabel(s *Subject, found *Errors) {
	if s.Spec.Hostname == "" || len(validation.IsDNS1123Label(s.Spec.Hostname)) == 0 {
		return
	}
	found.Add(field.Invalid(s.Path.Child("hostname"), s.Spec.Hostname, mustBeDNSLabel))
}

var subdomainIsSubdomainRule = Rule{
	ID:     "metadata-subdomain",
	Title:  "The subdomain is a DNS subdomain",
	Remedy: "Use at most 253 characters: DNS labels in lowercase with single dots between them.",
	Check:  subdomainIsSubdomain,
}

func subdomainIsSubdomain(s *Subject, found *Errors) {
	if s.Spec.Subdomain == "" || len(validation.IsDNS1123Subdomain(s.Spec.Subdomain)) == 0 {
		return
	}
	found.Add(field.Invalid(s.Path.Child("subdomain"), s.Spec.Subdomain,
		"is not a DNS subdomain"))
}

// labelsOfKubeVirt are those by which KubeVirt's components find what is theirs, sorted.
var labelsOfKubeVirt = []string{
	v1.CreatedByLabel,
	v1.InstallStrategyLabel,
	v1.MigrationJobLabel,
	v1.MigrationTargetNodeNameLabel,
	v1.NodeNameLabel,
	v1.NodeSchedulable,
}

var reservedLabelsRule = Rule{
	ID:       "metadata-reserved-labels",
	Title:    "Only KubeVirt sets its own labels",
	Remedy:   "Remove the label.",
	Security: true,
	Check:    reservedLabels,
}

func reservedLabels(s *Subject, found *Errors) {
	if s.Meta == nil || len(s.Meta.Labels) == 0 || s.ByKubeVirt() {
		return
	}
	for _, label := range labelsOfKubeVirt {
		if _, ok := s.Meta.Labels[label]; ok {
			found.Add(&field.Error{
				Type: field.ErrorTypeNotSupported, Field: s.MetaPath.Child("labels").String(), BadValue: label,
				Detail: "only KubeVirt may set this label",
			})
		}
	}
}

var ignitionGateRule = Rule{
	ID:     "metadata-ignition-gate",
	Title:  "Ignition data needs the feature gate ExperimentalIgnitionSupport",
	Remedy: "Use cloud-init instead, or enable the feature gate in the KubeVirt resource.",
	Check:  ignitionGate,
}

func ignitionGate(s *Subject, found *Errors) {
	annotationGate(s, v1.IgnitionAnnotation, "ExperimentalIgnitionSupport", found)
}

var sidecarGateRule = Rule{
	ID:       "metadata-sidecar-gate",
	Title:    "Hook sidecars need the feature gate Sidecar",
	Remedy:   "Remove the annotation, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    sidecarGate,
}

func sidecarGate(s *Subject, found *Errors) {
	annotationGate(s, sidecarAnnotation, "Sidecar", found)
}

// annotationGate rejects an annotation whose feature gate is off. An empty one has no effect. KubeVirt reads these again
// when it makes a pod for a VMI, also for a migration. So only KubeVirt may add or change one later, but each user may
// remove it.
func annotationGate(s *Subject, annotation, gate string, found *Errors) {
	if s.Meta == nil || s.Meta.Annotations[annotation] == "" {
		return
	}
	if s.updated() && (s.ByKubeVirt() || s.OldVMI.Annotations[annotation] == s.VMI.Annotations[annotation]) {
		return
	}
	found.Add(gateOff(s, gate, s.MetaPath.Child("annotations"), annotation, "the annotation"))
}

// maxAnnotationBytes is what the annotations of an object may take up.
const maxAnnotationBytes = 256 << 10

var templateMetadataRule = Rule{
	ID:       "metadata-template-valid",
	Title:    "The template has labels and annotations that a VMI can have",
	Remedy:   "Correct the label or annotation in spec.template.metadata.",
	Severity: Warn,
	Check:    templateMetadata,
}

// templateMetadata finds what the API server will reject in a VMI: nothing checks metadata in a template.
func templateMetadata(s *Subject, found *Errors) {
	if s.Meta == nil {
		return
	}
	const rejected = "; KubeVirt accepts this, but the VMI will be rejected"
	path, size := s.MetaPath.Child("annotations"), 0
	for key, value := range s.Meta.Annotations {
		size += len(key) + len(value)
	}
	if size > maxAnnotationBytes {
		fault := field.TooLong(path, nil, maxAnnotationBytes)
		fault.Detail = fmt.Sprintf("annotations may take up %d bytes, these take up %d", maxAnnotationBytes, size) + rejected
		found.Add(fault)
	}
	labelFaults(s.MetaPath.Child("labels"), s.Meta.Labels, rejected, found)
	keys := sortedKeys(s.Meta.Annotations)
	for i := range found.Each(len(keys)) {
		key := keys[i]
		if !isLabelKey(strings.ToLower(key)) { // unlike those of labels, prefixes may be in upper case
			found.Add(field.Invalid(path, shortened(key), "a key "+mustBeLabelKey+rejected))
		}
	}
}
