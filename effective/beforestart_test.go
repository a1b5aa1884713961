package effective_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

// TestDefaultsOfTheVMI compares with KubeVirt, which validates a VM without the defaults of the VMI, and the VMI with them.
func TestDefaultsOfTheVMI(t *testing.T) {
	efi := func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{EFI: &v1.EFI{}}}
	}
	input := func(kind v1.InputType) func(*v1.VirtualMachineInstanceSpec) {
		return func(spec *v1.VirtualMachineInstanceSpec) {
			spec.Domain.Devices.Inputs = []v1.Input{{Name: "pointer", Type: kind}}
		}
	}
	dedicated := func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Domain.Devices.Disks[0].DedicatedIOThread = new(true)
	}
	address := func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Domain.Devices.Disks[0].Disk.PciAddress = "0000:81:01.0"
	}
	machine := func(arch string) *build.VMIBuilder {
		return build.VMI("db").Architecture(arch).Memory("1Gi").Disk("root", "")
	}
	for name, tc := range map[string]struct {
		vm   *build.VMIBuilder
		want []string
	}{
		"Secure Boot that arm64 switches off":  {machine("arm64").With(efi), []string{"firmware-secure-boot-smm spec.template.spec.domain"}},
		"Secure Boot on amd64":                 {machine("amd64").With(efi), []string{"firmware-secure-boot-smm spec.template.spec.domain"}},
		"an input device without a type":       {machine("amd64").With(input("")), []string{"device-input-type spec.template.spec.domain.devices.inputs[0].type"}},
		"an input device with a type":          {machine("amd64").With(input(v1.InputTypeTablet)), nil},
		"an I/O thread on the bus of amd64":    {machine("amd64").With(dedicated), []string{"disk-iothread-bus spec.template.spec.domain.devices.disks[0].dedicatedIOThread, when it starts"}},
		"an I/O thread on the bus of arm64":    {machine("arm64").With(dedicated), nil},
		"a PCI address without a bus on amd64": {machine("amd64").With(address), []string{"disk-pci-bus spec.template.spec.domain.devices.disks[0].disk.pciAddress"}},
		"a PCI address without a bus on arm64": {machine("arm64").With(address), []string{"disk-pci-bus spec.template.spec.domain.devices.disks[0].disk.pciAddress"}},
		"no memory":                            {without(), []string{"memory-amount spec.template.spec.domain.memory, when it starts"}},
		"a memory request of zero":             {without().With(requesting(corev1.ResourceMemory, "0")), []string{"memory-amount spec.template.spec.domain.memory, when it starts"}},
		"memory by a limit":                    {without().Limit(corev1.ResourceMemory, "1Gi"), nil},
		"memory by hugepages":                  {without().With(hugepages("2Mi")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := evaluate(t, effective.Input{VM: build.VMOf(tc.vm).Obj()})
			if diff := cmp.Diff(tc.want, timed(verdict.Findings), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// without is a VMI without memory.
func without() *build.VMIBuilder {
	return build.VMI("db").With(func(spec *v1.VirtualMachineInstanceSpec) { spec.Domain.Memory = nil })
}

func requesting(name corev1.ResourceName, amount string) func(*v1.VirtualMachineInstanceSpec) {
	return func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Domain.Resources.Requests = corev1.ResourceList{name: resource.MustParse(amount)}
	}
}

func hugepages(size string) func(*v1.VirtualMachineInstanceSpec) {
	return func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Domain.Memory = &v1.Memory{Hugepages: &v1.Hugepages{PageSize: size}}
	}
}

// timed are the rules and fields of findings that deny, and whether KubeVirt reports them only at the start.
func timed(findings []validators.Finding) (all []string) {
	for i := range findings {
		f := &findings[i]
		if f.Severity != validators.Deny {
			continue
		}
		text := f.Rule + " " + f.Where()
		if f.AtStart {
			text += ", when it starts"
		}
		all = append(all, text)
	}
	return all
}

// TestRulesThatReadDefaults evaluates the specs of all conformance cases with the defaults of the VMI and without them. A rule
// whose findings differ must be marked.
func TestRulesThatReadDefaults(t *testing.T) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	facts, path := platform.Defaults(platform.Settings{}), field.NewPath("spec", "template", "spec")
	used := map[string]bool{}
	for i, object := range writtenObjects(t) {
		var vmi v1.VirtualMachineInstance
		if json.Unmarshal([]byte(object), &vmi) != nil {
			continue
		}
		for _, arch := range []string{architectures.AMD64, architectures.ARM64, architectures.S390X} {
			vmi.Spec.Architecture = arch
			defaults, err := registry.Defaults(platform.KVM, arch)
			if err != nil {
				t.Fatal(err)
			}
			rules, err := registry.Validator(platform.KVM, arch)
			if err != nil {
				t.Fatal(err)
			}
			before, complete := vmi.Spec.DeepCopy(), vmi.Spec.DeepCopy()
			defaults.SetDefaultTemplateSpec(facts, before)
			defaults.SetDefaultVirtualMachineInstanceSpec(facts, complete, provenance.NewRecorder(""))
			found := func(spec *v1.VirtualMachineInstanceSpec) map[string]bool {
				subject := &validators.Subject{Facts: facts, Spec: spec, Path: path, Meta: &metav1.ObjectMeta{}, MetaPath: path}
				all := map[string]bool{}
				for _, f := range rules.ValidateVirtualMachineInstanceSpec(subject) {
					all[f.Rule+" "+f.Error.Field] = !f.AtStart
				}
				return all
			}
			marked := map[string]bool{}
			for _, rule := range rules.Rules() {
				marked[rule.ID] = rule.ReadsDefaults
			}
			without, with := found(before), found(complete)
			for _, pair := range [][2]map[string]bool{{without, with}, {with, without}} {
				for finding, counts := range pair[0] {
					rule, _, _ := strings.Cut(finding, " ")
					if _, both := pair[1][finding]; both || !counts {
						continue
					}
					if used[rule] = true; !marked[rule] {
						t.Errorf("case %d on %s: %s is only found with or without the defaults of the VMI", i, arch, finding)
					}
				}
			}
		}
	}
	if len(used) < 5 {
		t.Errorf("only %v read defaults", used)
	}
}

// TestUnresolvedInstancetype has a preference whose requirements cannot be verified without the instancetype.
func TestUnresolvedInstancetype(t *testing.T) {
	preference := &instancetypes.Preference{Kind: apikinds.VirtualMachineClusterPreference, Name: "linux", Spec: instancetypev1beta1.VirtualMachinePreferenceSpec{
		Requirements: &instancetypev1beta1.PreferenceRequirements{
			CPU:    &instancetypev1beta1.CPUPreferenceRequirement{Guest: 4},
			Memory: &instancetypev1beta1.MemoryPreferenceRequirement{Guest: resource.MustParse("8Gi")},
		},
	}}
	found := effective.References{Preference: preference}
	requires := func(arch string) effective.References {
		other := *preference
		other.Spec = *preference.Spec.DeepCopy()
		other.Spec.Requirements.Architecture = &arch
		return effective.References{Preference: &other}
	}
	named := build.VMOf(without()).Preference("linux")
	for name, tc := range map[string]struct {
		in   effective.Input
		want []string
	}{
		"it determines CPUs and memory": {effective.Input{VM: named.Instancetype("big").Obj(), References: found}, nil},
		"it does not determine the architecture": {
			effective.Input{VM: build.VMOf(without().Architecture("amd64")).Preference("linux").Instancetype("big").Obj(), References: requires("arm64")},
			[]string{"preference-requirements spec.template.spec.architecture"},
		},
		"there is none": {effective.Input{VM: build.VMOf(build.VMI("db").Memory("1Gi")).Preference("linux").Obj(), References: found}, []string{
			"preference-requirements spec.template.spec.domain.cpu.sockets", "preference-requirements spec.template.spec.domain.memory",
		}},
		"CPUs by a request": {effective.Input{VM: build.VMOf(build.VMI("db").Memory("8Gi").With(requesting(corev1.ResourceCPU, "4"))).Preference("linux").Obj(), References: found}, nil},
		"no memory": {effective.Input{VM: build.VMOf(without().Topology(4, 1, 1)).Preference("linux").Obj(), References: found}, []string{
			"preference-requirements spec.template.spec.domain.memory",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, timed(evaluate(t, tc.in).Findings), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
