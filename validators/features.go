package validators

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/mutators"
)

func featureRules() Table {
	return Scoped(OnSpec,
		hypervDependenciesRule,
		hypervEVMCSRule,
		hypervVMXOverwrittenRule,
		hypervPassthroughRule,
	)
}

// enlightenments are those of the VM, and their path; nil if it has none.
func enlightenments(s *Subject) (*v1.FeatureHyperv, place) {
	f := s.Spec.Domain.Features
	if f == nil {
		return nil, nil
	}
	return f.Hyperv, inDomain(s, "features", "hyperv")
}

func featureEnabled(f *v1.FeatureState) bool { return f != nil && f.Enabled != nil && *f.Enabled }

var hypervDependenciesRule = Rule{
	ID:      "hyperv-dependency",
	Title:   "A Hyper-V enlightenment that needs another has it",
	Remedy:  "Enable the enlightenment that is needed, or leave it out: it is then enabled by default.",
	AtStart: true,
	Check:   hypervDependencies,
}

func hypervDependencies(s *Subject, found *Errors) {
	hyperv, at := enlightenments(s)
	if hyperv == nil {
		return
	}

	for _, d := range mutators.HypervDependencies() {
		if featureEnabled(d.Feature(hyperv)) && !featureEnabled(*d.Needed(hyperv)) {
			found.Add(field.Invalid(at().Child(d.Name), "enabled",
				fmt.Sprintf("%s needs %s, which is not enabled", d.Name, d.Needs)))
		}
	}
}

var hypervEVMCSRule = Rule{
	ID:            "hyperv-evmcs-vmx",
	Title:         "The enlightenment evmcs needs the CPU feature vmx",
	Remedy:        "Set the policy of the CPU feature vmx to require, or disable features.hyperv.evmcs.",
	ReadsDefaults: true,
	Check:         hypervEVMCS,
}

// hypervEVMCS expects vmx where completing puts it. KubeVirt puts it nowhere while a dependency is broken.
func hypervEVMCS(s *Subject, found *Errors) {
	hyperv, _ := enlightenments(s)
	if hyperv == nil || !featureEnabled(hyperv.EVMCS) {
		return
	}
	if cpu := s.Spec.Domain.CPU; cpu == nil || len(cpu.Features) == 0 {
		found.Add(field.Required(s.Domain().Child("cpu", "features"), "features.hyperv.evmcs needs the CPU feature vmx"))
		return
	}
	if !hypervBroken(hyperv) {
		return
	}
	vmxPolicies(s, "features.hyperv.evmcs needs another policy of vmx", found)
}

var hypervVMXOverwrittenRule = Rule{
	ID:            "hyperv-evmcs-vmx-overwritten",
	Title:         "KubeVirt requires the CPU feature vmx for evmcs, whatever its policy",
	Remedy:        "Set the policy of the CPU feature vmx to require, or disable features.hyperv.evmcs.",
	Severity:      Warn,
	ReadsDefaults: true,
	Check:         hypervVMXOverwritten,
}

// hypervVMXOverwritten says what KubeVirt does to the policy of vmx when nothing else is in its way.
func hypervVMXOverwritten(s *Subject, found *Errors) {
	hyperv, _ := enlightenments(s)
	if hyperv == nil || !featureEnabled(hyperv.EVMCS) || hypervBroken(hyperv) || s.Spec.Domain.CPU == nil {
		return
	}
	vmxPolicies(s, "KubeVirt replaces this policy, because features.hyperv.evmcs needs vmx", found)
}

// hypervBroken reports whether a dependency was switched off, which is where KubeVirt stops completing.
func hypervBroken(hyperv *v1.FeatureHyperv) bool {
	return slices.ContainsFunc(mutators.HypervDependencies(), func(d mutators.HypervDependency) bool { return d.Broken(hyperv) })
}

// vmxPolicies finds the policies of vmx that are not what evmcs needs.
func vmxPolicies(s *Subject, detail string, found *Errors) {
	for i := range s.Spec.Domain.CPU.Features {
		if f := &s.Spec.Domain.CPU.Features[i]; f.Name == "vmx" && f.Policy != "require" {
			found.Add(field.Invalid(s.Domain().Child("cpu", "features").Index(i).Child("policy"), f.Policy, detail))
		}
	}
}

var hypervPassthroughRule = Rule{
	ID:     "hyperv-passthrough-alone",
	Title:  "Enlightenments are either listed or passed through",
	Remedy: "Remove one of features.hyperv and features.hypervPassthrough.",
	Check:  hypervPassthrough,
}

func hypervPassthrough(s *Subject, found *Errors) {
	hyperv, at := enlightenments(s)
	if hyperv == nil || s.Spec.Domain.Features.HypervPassthrough == nil {
		return
	}
	found.Add(field.Invalid(at(), field.OmitValueType{},
		"features.hypervPassthrough is also set, and enables all enlightenments of the host"))
}
