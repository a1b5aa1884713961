package validators

import (
	"slices"
	"strconv"
	"strings"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// valueRules are about fields of Kubernetes with a fixed set of values. KubeVirt's mutating webhook compares each object with
// its own schema, which lists these values, and rejects others without naming the field. The CRDs do not list them.
func valueRules() Table {
	return append(Scoped(OnSpec, fixedValuesRule), Scoped(OnVM, dataVolumeValuesRule)...)
}

var (
	pullPolicies       = []k8sv1.PullPolicy{k8sv1.PullAlways, k8sv1.PullIfNotPresent, k8sv1.PullNever}
	tolerationOperator = []k8sv1.TolerationOperator{k8sv1.TolerationOpEqual, k8sv1.TolerationOpExists}
	taintEffects       = []k8sv1.TaintEffect{k8sv1.TaintEffectNoExecute, k8sv1.TaintEffectNoSchedule, k8sv1.TaintEffectPreferNoSchedule}
	inclusionPolicies  = []k8sv1.NodeInclusionPolicy{k8sv1.NodeInclusionPolicyHonor, k8sv1.NodeInclusionPolicyIgnore}
	uriSchemes         = []k8sv1.URIScheme{k8sv1.URISchemeHTTP, k8sv1.URISchemeHTTPS}
	accessModes        = []k8sv1.PersistentVolumeAccessMode{k8sv1.ReadOnlyMany, k8sv1.ReadWriteMany, k8sv1.ReadWriteOnce, k8sv1.ReadWriteOncePod}
	volumeModes        = []k8sv1.PersistentVolumeMode{k8sv1.PersistentVolumeBlock, k8sv1.PersistentVolumeFilesystem, "FromStorageProfile"}
)

var fixedValuesRule = Rule{
	ID:     "object-fixed-values",
	Title:  "A field of Kubernetes with a fixed set of values has one of them",
	Remedy: "Use one of the values that the message lists.",
	Check:  fixedValues,
}

func fixedValues(s *Subject, found *Errors) {
	if boot := kernelBoot(s); boot != nil {
		oneOf(inDomain(s, "firmware", "kernelBoot", "container", "imagePullPolicy"), boot.ImagePullPolicy, pullPolicies, found)
	}
	for i := range found.Each(len(s.Spec.Volumes)) {
		if disk := s.Spec.Volumes[i].ContainerDisk; disk != nil {
			oneOf(func() *field.Path { return volumeAt{s, i}.path("containerDisk", "imagePullPolicy") }, disk.ImagePullPolicy, pullPolicies, found)
		}
	}
	for i := range found.Each(len(s.Spec.Tolerations)) {
		t := &s.Spec.Tolerations[i]
		at := func(name string) place {
			return func() *field.Path { return s.Path.Child("tolerations").Index(i).Child(name) }
		}
		if t.Operator != k8sv1.TolerationOpLt && t.Operator != k8sv1.TolerationOpGt { // the release of KubeVirt decides on these
			oneOf(at("operator"), t.Operator, tolerationOperator, found)
		}
		oneOf(at("effect"), t.Effect, taintEffects, found)
	}
	eachSpread(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint, found *Errors) {
		oneOfOptional(path, "nodeAffinityPolicy", spread.NodeAffinityPolicy, inclusionPolicies, found)
		oneOfOptional(path, "nodeTaintsPolicy", spread.NodeTaintsPolicy, inclusionPolicies, found)
	}, found)
	visitProbes(s, func(path *field.Path, probe *v1.Probe) {
		if probe.HTTPGet != nil {
			oneOf(under(path, "httpGet", "scheme"), probe.HTTPGet.Scheme, uriSchemes, found)
		}
	})
}

func kernelBoot(s *Subject) *v1.KernelBootContainer {
	if firmware := s.Spec.Domain.Firmware; firmware != nil && firmware.KernelBoot != nil {
		return firmware.KernelBoot.Container
	}
	return nil
}

var dataVolumeValuesRule = Rule{
	ID:     "dvt-fixed-values",
	Title:  "The access modes and the volume mode of a DataVolume template are known",
	Remedy: "Use one of the values that the message lists.",
	Check:  dataVolumeValues,
}

func dataVolumeValues(s *Subject, found *Errors) {
	if s.VM == nil {
		return
	}
	if len(s.VM.Spec.DataVolumeTemplates) == 0 {
		return
	}
	eachElement(specOfVM.Child("dataVolumeTemplates"), s.VM.Spec.DataVolumeTemplates, func(path *field.Path, template *v1.DataVolumeTemplateSpec, found *Errors) {
		if claim := template.Spec.PVC; claim != nil {
			modes(path.Child("spec", "pvc"), claim.AccessModes, claim.VolumeMode, found)
		}
		if storage := template.Spec.Storage; storage != nil {
			modes(path.Child("spec", "storage"), storage.AccessModes, storage.VolumeMode, found)
		}
	}, found)
}

func modes(path *field.Path, access []k8sv1.PersistentVolumeAccessMode, volume *k8sv1.PersistentVolumeMode, found *Errors) {
	eachElement(path.Child("accessModes"), access, func(path *field.Path, mode *k8sv1.PersistentVolumeAccessMode, found *Errors) {
		oneOf(func() *field.Path { return path }, *mode, accessModes, found)
	}, found)
	oneOfOptional(path, "volumeMode", volume, volumeModes, found)
}

// unknown is the error of a value that is none of a fixed set, with KubeVirt's type of cause. It lists the set.
func unknown[T ~string](path *field.Path, value T, what string, values []T) *field.Error {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(string(v))
	}
	return field.Invalid(path, T(shortened(string(value))), what+" is unknown: supported values: "+strings.Join(quoted, ", "))
}

// oneOf accepts an empty value: it stands for the default.
func oneOf[T ~string](at place, value T, values []T, found *Errors) {
	if value != "" && !slices.Contains(values, value) {
		found.Add(field.NotSupported(at(), T(shortened(string(value))), values))
	}
}

func oneOfOptional[T ~string](parent *field.Path, name string, value *T, values []T, found *Errors) {
	if value != nil {
		oneOf(under(parent, name), *value, values, found)
	}
}
