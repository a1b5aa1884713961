package effective_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

// violated evaluates a condition about vm, and returns the texts of its findings.
func violated(t *testing.T, in effective.Input, expression, field string) []string {
	t.Helper()
	in.Facts, in.Request = platform.Defaults(platform.Settings{}), create("jane")
	place := ""
	if field != "" {
		place = ", fieldPath: " + field
	}
	in.Policies = active(t, fmt.Sprintf(`{enforcement: Deny, validations: [{expression: %q, message: "no"%s}]}`, expression, place))
	verdict, err := pipeline(t).Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range verdict.Findings {
		if f := &verdict.Findings[i]; strings.HasPrefix(f.Rule, policies.RulePrefix) {
			all = append(all, f.Error.Field+": "+f.Text())
		}
	}
	return all
}

// Policies read the values that KubeVirt uses at run time, of VMs and of instances, also of those that arrived.
func TestPoliciesReadValuesAtRunTime(t *testing.T) {
	efi := build.VMI("db.shop").Memory("1Gi").Obj()
	efi.Spec.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{EFI: &v1.EFI{}}}
	efi.Spec.Domain.CPU = &v1.CPU{Sockets: 2}
	efi.Spec.Domain.Devices.TPM = &v1.TPMDevice{}
	efi.Spec.Domain.Devices.AutoattachSerialConsole = new(false)
	efi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "a", Shareable: new(true)}, {Name: "b"}}
	efi.Spec.Volumes = []v1.Volume{{Name: "a", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("1Gi")}}}, {Name: "b", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("1Gi")}}}}
	vm := build.VM("db.shop").Obj()
	vm.Spec.Template.Spec = *efi.Spec.DeepCopy()
	for expression, want := range map[string]bool{
		"vm.spec.domain.cpu.cores == 1 && vm.spec.domain.cpu.sockets == 2 && vm.spec.domain.cpu.threads == 1": true,
		"vm.spec.domain.firmware.bootloader.efi.secureBoot":                                                   true,
		"!has(vm.spec.domain.firmware.bootloader.bios)":                                                       true,
		"vm.spec.domain.firmware.bootloader.efi.persistent":                                                   false,
		"vm.spec.domain.devices.tpm.persistent":                                                               false,
		"vm.spec.domain.devices.autoattachSerialConsole":                                                      false,
		"vm.spec.domain.devices.autoattachGraphicsDevice":                                                     true,
		"vm.spec.terminationGracePeriodSeconds == 30":                                                         true,
		"vm.spec.hostname == 'db'":                                                                            true,
		"vm.spec.domain.devices.interfaces.all(i, i.model == 'virtio')":                                       true,
		"vm.spec.domain.devices.interfaces.all(i, i.state == 'up')":                                           true,
		"vm.spec.domain.devices.disks.map(d, d.shareable) == [true, false]":                                   true,
		"vm.spec.domain.devices.disks.exists(d, d.dedicatedIOThread)":                                         false,
		"vm.spec.domain.devices.tpm.enabled && !vm.spec.domain.devices.autoattachInputDevice":                 true,
		"vm.spec.domain.devices.useVirtioTransitional":                                                        false,
		"vm.spec.domain.devices.video.type == 'bochs'":                                                        true,
		"vm.spec.domain.devices.networkInterfaceMultiqueue || vm.spec.domain.devices.blockMultiQueue":         false,
	} {
		t.Run(expression, func(t *testing.T) {
			for name, in := range map[string]effective.Input{
				"VM": {VM: vm}, "instance": {VMI: efi}, "arrived": {VMI: complete(t, efi), PostMutation: true},
			} {
				if found := violated(t, in, expression, ""); (len(found) == 0) != want {
					t.Errorf("%s: %v", name, found)
				}
			}
		})
	}
}

// The video device depends on the architecture and the firmware, and on the author.
func TestVideoAtRunTime(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1.VirtualMachineInstanceSpec)
		want   string
	}{
		"a BIOS": {func(*v1.VirtualMachineInstanceSpec) {}, "vga"},
		"EFI": {func(s *v1.VirtualMachineInstanceSpec) {
			s.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{EFI: &v1.EFI{SecureBoot: new(false)}}}
		}, "bochs"},
		"arm64":    {func(s *v1.VirtualMachineInstanceSpec) { s.Architecture = "arm64" }, "virtio"},
		"s390x":    {func(s *v1.VirtualMachineInstanceSpec) { s.Architecture = "s390x" }, "virtio"},
		"a choice": {func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Devices.Video = &v1.VideoDevice{Type: "ramfb"} }, "ramfb"},
		"none":     {func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Devices.AutoattachGraphicsDevice = new(false) }, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := build.VMI("db").Memory("1Gi").Obj()
			c.change(&vmi.Spec)
			if found := violated(t, effective.Input{VM: build.VMOf(build.VMI("db").With(func(s *v1.VirtualMachineInstanceSpec) { *s = vmi.Spec })).Obj()},
				"vm.spec.domain.devices.?video.?type.orValue('none') == '"+c.want+"'", ""); len(found) > 0 {
				t.Error(found)
			}
		})
	}
}

// Values at run time are never stored, and a finding does not quote one as the author's.
func TestValuesAtRunTimeAreDefaults(t *testing.T) {
	vm := build.VMOf(build.VMI("db").Memory("1Gi")).Obj()
	for field, want := range map[string]string{
		"spec.terminationGracePeriodSeconds":       "spec.template.spec.terminationGracePeriodSeconds: not set; the default is 30: no (filled by kubevirt)",
		"spec.domain.devices.autoattachMemBalloon": "spec.template.spec.domain.devices.autoattachMemBalloon: not set; the default is true: no (filled by kubevirt)",
		"spec.domain.machine.type":                 `spec.template.spec.domain.machine.type: not set; the default is "q35": no (filled by amd64)`,
		"spec.domain.memory.guest":                 `spec.template.spec.domain.memory.guest: Invalid value: "1Gi": no`,
		"spec.schedulerName":                       "spec.template.spec.schedulerName: Required value: no",
	} {
		if diff := cmp.Diff([]string{want}, violated(t, effective.Input{VM: vm}, "false", field)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
	arrived := complete(t, build.VMI("db").Memory("1Gi").Obj())
	if diff := cmp.Diff([]string{"spec.terminationGracePeriodSeconds: not set; the default is 30: no (filled by kubevirt)"},
		violated(t, effective.Input{VMI: arrived, PostMutation: true}, "false", "spec.terminationGracePeriodSeconds")); diff != "" {
		t.Errorf("an instance that arrived (-want +got):\n%s", diff)
	}
	verdict, err := pipeline(t).Decide(effective.Input{VMI: build.VMI("db").Memory("1Gi").Obj(), Facts: platform.Defaults(platform.Settings{})})
	if err != nil {
		t.Fatal(err)
	}
	if verdict.VMI.Spec.TerminationGracePeriodSeconds != nil || verdict.Spec.Domain.Devices.AutoattachMemBalloon != nil {
		t.Error("a value at run time is stored")
	}
}

// Each field that a complete spec always has can be read without has().
func TestAlwaysSet(t *testing.T) {
	for _, path := range effective.AlwaysSet() {
		expression := "string(vm.spec." + path + ") != ''"
		for name, in := range map[string]effective.Input{"VM": {VM: build.VMOf(build.VMI("db")).Obj()}, "instance": {VMI: build.VMI("db").Obj()}} {
			if found := violated(t, in, expression, ""); len(found) > 0 {
				t.Errorf("%s: %v", name, found)
			}
		}
	}
}

// The documentation has each value at run time.
func TestRuntimeDefaultsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/policy-inputs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range effective.RuntimeDefaults() {
		if row := fmt.Sprintf("| `%s` | %s | %s |", d.Path, d.Value, d.Source); !strings.Contains(string(page), row) {
			t.Errorf("docs/policy-inputs.md lacks the row\n%s", row)
		}
	}
	for _, path := range effective.AlwaysSet() {
		if !strings.Contains(string(page), "`"+path+"`") {
			t.Errorf("docs/policy-inputs.md lacks %s", path)
		}
	}
}
