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
	return Table{
		{ID: "metadata-hostname", Title: "The hostname is a DNS label", Scope: OnSpec, Remedy: "Use at most 63 lowercase letters, digits and dashes; a domain belongs in subdomain.", Check: hostnameIsLabel},
		{ID: "metadata-subdomain", Title: "The subdomain is a DNS subdomain", Scope: OnSpec, Remedy: "Use DNS labels in lowercase with single dots between them.", Check: subdomainIsSubdomain},
		{ID: "metadata-reserved-labels", Title: "KubeVirt's own labels are set by KubeVirt only", Scope: OnSpec, Security: true, Remedy: "Remove the label.", Check: reservedLabels},
		{ID: "metadata-ignition-gate", Title: "Ignition data has its feature gate", Scope: OnSpec | OnVMIUpdate, Remedy: "Remove the annotation and use cloud-init, or enable the gate ExperimentalIgnitionSupport in the KubeVirt resource.", Check: ignitionGate},
		{ID: "metadata-sidecar-gate", Title: "Hook sidecars have their feature gate", Scope: OnSpec | OnVMIUpdate, Security: true, Remedy: "Remove the annotation, or enable the gate Sidecar in the KubeVirt resource.", Check: sidecarGate},
		{ID: "metadata-template-valid", Title: "The template has labels and annotations that a VMI can have", Scope: OnVM, Severity: Warn, Remedy: "Correct the label or annotation in spec.template.metadata.", Check: templateMetadata},
	}
}

// sidecarAnnotation lists the hook sidecars of a VMI.
const sidecarAnnotation = "hooks.kubevirt.io/hookSidecars"

// What is said of names that Kubernetes does not take.
const (
	mustBeLabelKey   = "must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end, after an optional DNS subdomain and '/'"
	mustBeLabelValue = "must be empty or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end"
	mustBeDNSLabel   = "must be at most 63 lowercase letters, digits and '-', with a letter or digit at either end"
)

func isLabelKey(key string) bool     { return len(validation.IsQualifiedName(key)) == 0 }
func isLabelValue(value string) bool { return len(validation.IsValidLabelValue(value)) == 0 }

// labelFaults adds the faults in a map of labels, at the map, in the order of the keys.
func labelFaults(errs field.ErrorList, path *field.Path, labels map[string]string, consequence string) field.ErrorList {
	for i, key := range sortedKeys(labels) {
		if enough(errs) {
			return cutShort(errs, len(labels)-i)
		}
		if !isLabelKey(key) {
			errs = append(errs, field.Invalid(path, shortened(key), "a key "+mustBeLabelKey+consequence))
		}
		if value := labels[key]; !isLabelValue(value) {
			errs = append(errs, field.Invalid(path, shortened(value), "the value of "+strconv.Quote(shortened(key))+" "+mustBeLabelValue+consequence))
		}
	}
	return errs
}

// sortedKeys takes room for all keys at once: there may be very many.
func sortedKeys(of map[string]string) []string {
	keys := slices.AppendSeq(make([]string, 0, len(of)), maps.Keys(of))
	slices.Sort(keys)
	return keys
}

func hostnameIsLabel(s *Subject) field.ErrorList {
	if s.Spec.Hostname == "" || len(validation.IsDNS1123Label(s.Spec.Hostname)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Path.Child("hostname"), s.Spec.Hostname, mustBeDNSLabel)}
}

func subdomainIsSubdomain(s *Subject) field.ErrorList {
	if s.Spec.Subdomain == "" || len(validation.IsDNS1123Subdomain(s.Spec.Subdomain)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Path.Child("subdomain"), s.Spec.Subdomain,
		"must be at most 253 characters: DNS labels of lowercase letters, digits and '-', with single dots between them")}
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

func reservedLabels(s *Subject) (errs field.ErrorList) {
	if s.Meta == nil || len(s.Meta.Labels) == 0 || s.ByKubeVirt() {
		return nil
	}
	for _, label := range labelsOfKubeVirt {
		if _, ok := s.Meta.Labels[label]; ok {
			errs = append(errs, &field.Error{
				Type: field.ErrorTypeNotSupported, Field: s.MetaPath.Child("labels").String(), BadValue: label,
				Detail: "the label is reserved: only KubeVirt's own components may set it",
			})
		}
	}
	return errs
}

func ignitionGate(s *Subject) field.ErrorList {
	return annotationGate(s, v1.IgnitionAnnotation, "ExperimentalIgnitionSupport")
}

func sidecarGate(s *Subject) field.ErrorList {
	return annotationGate(s, sidecarAnnotation, "Sidecar")
}

// annotationGate rejects an annotation whose feature gate is off. An empty one asks for nothing. KubeVirt reads
// these again whenever it makes a pod for a VMI, also for a migration: so nobody else adds or changes one later,
// while one that is there may stay or go.
func annotationGate(s *Subject, annotation, gate string) field.ErrorList {
	if s.Meta == nil || s.Meta.Annotations[annotation] == "" {
		return nil
	}
	if s.updated() && (s.ByKubeVirt() || s.OldVMI.Annotations[annotation] == s.VMI.Annotations[annotation]) {
		return nil
	}
	return behindGate(s, gate, s.MetaPath.Child("annotations"), annotation, "the annotation")
}

// maxAnnotationBytes is what the annotations of an object may take up.
const maxAnnotationBytes = 256 << 10

// templateMetadata finds what the API server will reject in a VMI: nothing checks metadata in a template.
func templateMetadata(s *Subject) field.ErrorList {
	if s.Meta == nil {
		return nil
	}
	const rejected = "; KubeVirt accepts this, but the VMI will be rejected"
	var errs field.ErrorList
	path, size := s.MetaPath.Child("annotations"), 0
	for key, value := range s.Meta.Annotations {
		size += len(key) + len(value)
	}
	if size > maxAnnotationBytes {
		fault := field.TooLong(path, nil, maxAnnotationBytes)
		fault.Detail = fmt.Sprintf("annotations may take up %d bytes, these take up %d", maxAnnotationBytes, size) + rejected
		errs = append(errs, fault)
	}
	errs = labelFaults(errs, s.MetaPath.Child("labels"), s.Meta.Labels, rejected)
	for i, key := range sortedKeys(s.Meta.Annotations) {
		if enough(errs) {
			return cutShort(errs, len(s.Meta.Annotations)-i)
		}
		if !isLabelKey(strings.ToLower(key)) { // unlike those of labels, prefixes may be in upper case
			errs = append(errs, field.Invalid(path, shortened(key), "a key "+mustBeLabelKey+rejected))
		}
	}
	return errs
}
