package effective_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

// said is a finding in short: severity, rule, field, and the field in the effective object, if it is another.
func said(findings []validators.Finding) []string {
	var all []string
	for _, f := range findings {
		text := fmt.Sprintf("%s %s %s", f.Severity, f.Rule, f.Error.Field)
		if f.Effective != "" {
			text += " ← " + f.Effective
		}
		if f.Layer != "" {
			text += " by " + f.Layer
		}
		all = append(all, text)
	}
	return all
}

func arm(disks ...v1.DiskBus) *build.VMIBuilder {
	vmi := build.VMI("db").Architecture(architectures.ARM64)
	for i, bus := range disks {
		vmi.Disk(fmt.Sprintf("disk-%d", i), bus)
	}
	return vmi
}

func preferring(bus v1.DiskBus) *instancetypes.Preference {
	return &instancetypes.Preference{Kind: apikinds.VirtualMachineClusterPreference, Name: "old", Spec: instancetypev1beta1.VirtualMachinePreferenceSpec{
		Devices: &instancetypev1beta1.DevicePreferences{PreferredDiskBus: bus},
	}}
}

func TestFindingsAreToldWhereTheirCauseWasWritten(t *testing.T) {
	const disk = "spec.template.spec.domain.devices.disks[%d].disk.bus"
	inferred := build.VMOf(arm("")).Obj()
	inferred.Spec.Preference = &v1.PreferenceMatcher{InferFromVolume: "disk-0"}
	mshv, err := platform.HypervisorByName("mshv")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		in   effective.Input
		want []string
	}{
		"by the author": {
			in:   effective.Input{VM: build.VMOf(arm(v1.DiskBusSATA)).Obj()},
			want: []string{"Deny arm64-disk-bus " + fmt.Sprintf(disk, 0)},
		},
		"by a preference": {
			in:   effective.Input{VM: build.VMOf(arm("", v1.DiskBusVirtio)).Preference("old").Obj(), References: effective.References{Preference: preferring(v1.DiskBusSATA)}},
			want: []string{"Deny arm64-disk-bus spec.preference.name ← " + fmt.Sprintf(disk, 0) + " by preference/old"},
		},
		"by a preference that a volume names": {
			in:   effective.Input{VM: inferred, References: effective.References{Preference: preferring(v1.DiskBusSATA)}},
			want: []string{"Deny arm64-disk-bus spec.preference.inferFromVolume ← " + fmt.Sprintf(disk, 0) + " by preference/old"},
		},
		"by both": {
			in: effective.Input{VM: build.VMOf(arm(v1.DiskBusUSB, "")).Preference("old").Obj(), References: effective.References{Preference: preferring(v1.DiskBusSATA)}},
			want: []string{
				"Deny arm64-disk-bus spec.preference.name ← " + fmt.Sprintf(disk, 1) + " by preference/old",
				"Deny arm64-disk-bus " + fmt.Sprintf(disk, 0),
			},
		},
		"by no requester": {
			in: effective.Input{VM: build.VMOf(arm("")).Obj()},
		},
		"for a hypervisor": {
			in: effective.Input{
				VM:    build.VMOf(build.VMI("db").With(func(s *v1.VirtualMachineInstanceSpec) { s.Domain.CPU = &v1.CPU{Model: "Haswell"} })).Obj(),
				Facts: platform.Defaults(platform.Settings{}).WithHypervisor(mshv),
			},
			want: []string{"Deny mshv-cpu-model spec.template.spec.domain.cpu.model"},
		},
		"set to warn, and off": {
			in: effective.Input{
				VM: build.VMOf(arm(v1.DiskBusSATA).With(func(s *v1.VirtualMachineInstanceSpec) {
					s.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{BIOS: &v1.BIOS{}}}
				})).Obj(),
				Severities: validators.Severities{"arm64-disk-bus": validators.Warn, "arm64-bios": validators.Off},
			},
			want: []string{"Warn arm64-disk-bus " + fmt.Sprintf(disk, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := evaluate(t, tc.in)
			if diff := cmp.Diff(tc.want, said(verdict.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatTheSourceOfAFindingSays(t *testing.T) {
	in := effective.Input{VM: build.VMOf(arm("")).Preference("old").Obj(), References: effective.References{Preference: preferring(v1.DiskBusSATA)}}
	finding := evaluate(t, in).Findings[0]
	want := `Unsupported value: "sata": disks of arm64 are on a virtio or scsi bus (VirtualMachineClusterPreference old sets domain.devices.disks[0].disk.bus by its spec.devices.preferredDiskBus) [virtward/arm64-disk-bus] ` + finding.Remedy
	if got := finding.Message(); got != want {
		t.Errorf("message %q,\nwant %q", got, want)
	}
}

func TestAnInstancetypeThatCannotRunIsToldAtItsName(t *testing.T) {
	threads := uint32(2)
	in := effective.Input{VM: build.VMOf(arm("")).Instancetype("big").Preference("threads").Obj(), References: effective.References{
		Instancetype: &instancetypes.Instancetype{Kind: apikinds.VirtualMachineClusterInstancetype, Name: "big", Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
			CPU:    instancetypev1beta1.CPUInstancetype{Guest: threads, Model: new("Haswell")},
			Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("1Gi")},
		}},
	}}
	in.VM.Spec.Template.Spec.Domain.Memory = nil
	want := []string{"Deny arm64-cpu-model spec.instancetype.name ← spec.template.spec.domain.cpu.model by instancetype/big"}
	if diff := cmp.Diff(want, said(evaluate(t, in).Findings)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestADeletionTimestampSaysNothing: the author of an object can set one. Callers that know the object before the update
// leave out objects that are being deleted.
func TestADeletionTimestampSaysNothing(t *testing.T) {
	now := metav1.Now()
	vm, vmi := build.VMOf(arm(v1.DiskBusSATA)).Obj(), arm(v1.DiskBusSATA).Obj()
	vm.DeletionTimestamp, vmi.DeletionTimestamp = &now, &now
	for _, in := range []effective.Input{{VM: vm}, {VMI: vmi}} {
		if findings := said(evaluate(t, in).Findings); len(findings) != 1 || !strings.Contains(findings[0], "arm64-disk-bus") {
			t.Errorf("findings %q", findings)
		}
	}
}

// TestRatchet holds contract 6: what an update leaves as it was only warns.
func TestRatchet(t *testing.T) {
	evaluate := func(in, old effective.Input) []string {
		if in.Facts == nil {
			in.Facts = platform.Defaults(platform.Settings{})
		}
		old.Facts = in.Facts
		in.OldVM = old.VM
		verdict, err := pipeline(t).DecideUpdate(in, func() (effective.Input, error) { return old, nil })
		if err != nil {
			t.Fatal(err)
		}
		return said(verdict.Findings)
	}
	via := func(bus v1.DiskBus, name string) effective.Input {
		pref := preferring(bus)
		pref.Name = name
		return effective.Input{VM: build.VMOf(arm("")).Preference(name).Obj(), References: effective.References{Preference: pref}}
	}
	const disk = "spec.template.spec.domain.devices.disks[0].disk.bus"
	for name, tc := range map[string]struct {
		now, before effective.Input
		want        []string
	}{
		"the same preference":       {via("sata", "old"), via("sata", "old"), []string{"Warn arm64-disk-bus spec.preference.name ← " + disk + " by preference/old"}},
		"another one, just as bad":  {via("sata", "older"), via("sata", "old"), []string{"Warn arm64-disk-bus spec.preference.name ← " + disk + " by preference/older"}},
		"the preference grew worse": {via("usb", "old"), via("sata", "old"), []string{"Deny arm64-disk-bus spec.preference.name ← " + disk + " by preference/old"}},
		"it was good":               {via("sata", "old"), via("virtio", "old"), []string{"Deny arm64-disk-bus spec.preference.name ← " + disk + " by preference/old"}},
		"the author took it over": {
			effective.Input{VM: build.VMOf(arm("sata")).Obj()},
			via("sata", "old"),
			[]string{"Warn arm64-disk-bus " + disk},
		},
		"more of the same": {
			effective.Input{VM: build.VMOf(arm("sata", "sata")).Obj()},
			effective.Input{VM: build.VMOf(arm("sata")).Obj()},
			[]string{"Warn arm64-disk-bus " + disk, "Deny arm64-disk-bus spec.template.spec.domain.devices.disks[1].disk.bus"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, evaluate(tc.now, tc.before)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheRatchetAsksForTheObjectBeforeOnlyIfItMatters: looking up what it referred to costs something.
func TestTheRatchetAsksForTheObjectBeforeOnlyIfItMatters(t *testing.T) {
	in := effective.Input{VM: build.VMOf(arm("")).Obj(), Facts: platform.Defaults(platform.Settings{})}
	in.OldVM = in.VM
	if _, err := pipeline(t).DecideUpdate(in, func() (effective.Input, error) { return in, fmt.Errorf("asked") }); err != nil {
		t.Error(err)
	}
	in.VM = build.VMOf(arm("sata")).Obj()
	if _, err := pipeline(t).DecideUpdate(in, func() (effective.Input, error) { return in, fmt.Errorf("asked") }); err == nil {
		t.Error("the object before the update was not read")
	}
}
