package rollouts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// brief is a pending change in short.
type brief struct {
	Field, Old, New string
	Takes           Takes
}

func TestPending(t *testing.T) {
	const reasonMigrates = "KubeVirt migrates the VM, and the guest gets the change with the migration."
	for name, test := range map[string]struct {
		change func(*Input)
		want   []brief
		waits  Waits
		reason string
	}{
		"nothing": {func(*Input) {}, nil, "", ""},
		"live changes are not pending": {func(in *Input) {
			in.addHotpluggable("more", v1.Disk{Name: "more", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusSCSI}}})
		}, nil, "", ""},
		"a restart":   {func(in *Input) { in.spec().Hostname = "x" }, []brief{{template + "hostname", "", "x", Restart}}, "", "KubeVirt applies this field only when the VM starts."},
		"a migration": {func(in *Input) { in.spec().Domain.CPU.Sockets = 3 }, []brief{{sockets, "2", "3", LiveOnMigration}}, "", reasonMigrates},
		"a plug that KubeVirt has written": {func(in *Input) {
			in.spec().Domain.CPU.Sockets, in.Running.Spec.Domain.CPU.Sockets = 3, 3
			in.Running.Status.CurrentCPUTopology = &v1.CPUTopology{Sockets: 2}
			in.setCondition(v1.VirtualMachineInstanceVCPUChange, corev1.ConditionTrue, "")
		}, []brief{{sockets, "2", "3", LiveOnMigration}}, "", reasonMigrates},
		"a second plug": {func(in *Input) {
			in.spec().Domain.CPU.Sockets, in.Running.Spec.Domain.CPU.Sockets = 4, 3
			in.setCondition(v1.VirtualMachineInstanceVCPUChange, corev1.ConditionTrue, "")
		}, []brief{{sockets, "3", "4", Blocked}}, "", "An earlier change of this kind is in progress. KubeVirt cannot change or revert it until its migration has ended."},
		"a plug on an instance that cannot be migrated": {func(in *Input) {
			in.spec().Domain.CPU.Sockets, in.Running.Spec.Domain.CPU.Sockets = 3, 3
			in.notMigratable()
			in.setCondition(v1.VirtualMachineInstanceVCPUChange, corev1.ConditionTrue, "")
		}, []brief{{sockets, "", "3", Restart}}, NotMigratable, "The change needs a live migration, and the VM cannot be migrated: a host device."},
		"a plug without LiveMigrate": {func(in *Input) {
			in.Facts.WorkloadUpdateMethods = nil
			in.setCondition(v1.VirtualMachineInstanceVCPUChange, corev1.ConditionTrue, "")
		}, []brief{{sockets, "", "2", LiveOnMigration}}, NoLiveMigrate, "The guest gets the change with the next live migration. KubeVirt does not start one."},
		"a plug that migrates": {func(in *Input) {
			in.Facts.WorkloadUpdateMethods = nil
			in.startMigration()
			in.setCondition(v1.VirtualMachineInstanceVCPUChange, corev1.ConditionTrue, "")
		}, []brief{{sockets, "", "2", LiveOnMigration}}, "", "The VM is migrating, and the guest gets the change with this migration."},
		"memory": {func(in *Input) {
			in.Running.Status.Memory.GuestCurrent = ptr.To(resource.MustParse("1Gi"))
			in.setCondition(v1.VirtualMachineInstanceMemoryChange, corev1.ConditionTrue, "")
		}, []brief{{guest, "1Gi", "2Gi", LiveOnMigration}}, "", reasonMigrates},
		"memory that could not be plugged": {func(in *Input) {
			in.setCondition(v1.VirtualMachineInstanceMemoryChange, corev1.ConditionFalse, "the device is full")
		}, []brief{{guest, "2Gi", "2Gi", Restart}}, "", "KubeVirt could not plug the memory: the device is full"},
		"an interface": {func(in *Input) {
			in.setCondition(v1.VirtualMachineInstanceMigrationRequired, corev1.ConditionTrue, "")
		}, []brief{{nets, "", "", LiveOnMigration}}, "", reasonMigrates},
		"an interface that is plugged": {func(in *Input) {
			for _, spec := range []*v1.VirtualMachineInstanceSpec{in.spec(), &in.Running.Spec} {
				spec.Domain.Devices.Interfaces = append(spec.Domain.Devices.Interfaces, bridge("n2"))
				spec.Networks = append(spec.Networks, multus("n2", "nad"))
			}
			in.setCondition(v1.VirtualMachineInstanceMigrationRequired, corev1.ConditionTrue, "")
		}, []brief{
			{template + "domain.devices.interfaces[n2]", "", `{"bridge":{},"name":"n2"}`, LiveOnMigration},
			{nets + "[n2]", "", `{"multus":{"networkName":"nad"},"name":"n2"}`, LiveOnMigration},
		}, "", reasonMigrates},
		"an interface before KubeVirt decides to migrate": {func(in *Input) {
			for _, spec := range []*v1.VirtualMachineInstanceSpec{in.spec(), &in.Running.Spec} {
				spec.Domain.Devices.Interfaces = append(spec.Domain.Devices.Interfaces, bridge("n2"))
				spec.Networks = append(spec.Networks, multus("n2", "nad"))
			}
			in.Running.Status.Conditions = append(in.Running.Status.Conditions, v1.VirtualMachineInstanceCondition{
				Type: v1.VirtualMachineInstanceMigrationRequired, Status: corev1.ConditionFalse, Reason: v1.VirtualMachineInstanceReasonAutoMigrationPending,
			})
			in.Running.Status.Interfaces = append(in.Running.Status.Interfaces, v1.VirtualMachineInstanceNetworkInterface{Name: "n2", InfoSource: "multus-status"})
		}, []brief{
			{template + "domain.devices.interfaces[n2]", "", `{"bridge":{},"name":"n2"}`, LiveOnMigration},
			{nets + "[n2]", "", `{"multus":{"networkName":"nad"},"name":"n2"}`, LiveOnMigration},
		}, "", reasonMigrates},
		"an interface that is unplugged": {func(in *Input) {
			for _, spec := range []*v1.VirtualMachineInstanceSpec{in.spec(), &in.Running.Spec} {
				spec.Domain.Devices.Interfaces[1].State = v1.InterfaceStateAbsent
			}
			in.setCondition(v1.VirtualMachineInstanceMigrationRequired, corev1.ConditionTrue, "")
		}, []brief{{template + "domain.devices.interfaces[blue].state", "", "absent", LiveOnMigration}}, "", reasonMigrates},
		"another NetworkAttachmentDefinition": {func(in *Input) {
			in.spec().Networks[1].Multus.NetworkName = "other"
			in.Running.Spec.Networks[1] = multus("blue", "other")
			in.setCondition(v1.VirtualMachineInstanceMigrationRequired, corev1.ConditionTrue, "")
		}, []brief{{nets + "[blue].multus.networkName", "nad-blue", "other", LiveOnMigration}}, "", reasonMigrates},
		"a claim that becomes a DataVolume": {func(in *Input) {
			moved := v1.Volume{Name: "root", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "new"}}}
			in.spec().Volumes[0], in.Running.Spec.Volumes[0] = moved, moved
			in.Running.Status.MigratedVolumes = []v1.StorageMigratedVolumeInfo{{
				VolumeName: "root", SourcePVCInfo: &v1.PersistentVolumeClaimInfo{ClaimName: "root"}, DestinationPVCInfo: &v1.PersistentVolumeClaimInfo{ClaimName: "new"},
			}}
			in.setCondition(v1.VirtualMachineInstanceVolumesChange, corev1.ConditionTrue, "")
		}, []brief{
			{volumes + "[root].persistentVolumeClaim", "root", "new", LiveOnMigration}, {volumes + "[root].dataVolume", "root", "new", LiveOnMigration},
		}, "", reasonMigrates},
		"a missing instancetype": {func(in *Input) {
			in.DesiredKinds.Missing = []Missing{{"spec.instancetype", "The object of spec.instancetype"}}
		}, []brief{{"spec.instancetype", "", "", Blocked}}, "", "The object of spec.instancetype does not exist. KubeVirt applies no change of the VM until it does."},
		"volumes": {func(in *Input) {
			in.Running.Status.MigratedVolumes = []v1.StorageMigratedVolumeInfo{{
				VolumeName: "root", SourcePVCInfo: &v1.PersistentVolumeClaimInfo{ClaimName: "old"}, DestinationPVCInfo: &v1.PersistentVolumeClaimInfo{ClaimName: "new"},
			}}
			in.setCondition(v1.VirtualMachineInstanceVolumesChange, corev1.ConditionTrue, "")
		}, []brief{{volumes + "[root].persistentVolumeClaim.claimName", "old", "new", LiveOnMigration}}, "", reasonMigrates},
		"a VM that is being stopped": {func(in *Input) {
			in.spec().Hostname = "x"
			in.Desired.Spec.RunStrategy = ptr.To(v1.RunStrategyHalted)
		}, nil, "", ""},
		"a VM that is stopped": {func(in *Input) {
			in.spec().Hostname = "x"
			in.Running = nil
		}, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := running(t)
			test.change(in)
			result := Pending(in)
			var got []brief
			for _, c := range result.Changes {
				got = append(got, brief{c.Field, c.Old, c.New, c.Takes})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if waits := result.WaitsWithoutEnd(in); waits != test.waits {
				t.Errorf("it waits for %q, want %q", waits, test.waits)
			}
			if len(result.Changes) > 0 && result.Changes[0].Reason != test.reason {
				t.Errorf("reason %q, want %q", result.Changes[0].Reason, test.reason)
			}
		})
	}
}

// TestSummary holds that fields with one reason are together, and that the summary is bounded.
func TestSummary(t *testing.T) {
	in := running(t)
	in.spec().Hostname, in.spec().Subdomain, in.spec().Domain.CPU.Sockets = "x", "y", 99
	result := Pending(in)
	got := result.Summary(7)
	if len(got.Changes) != 2 || got.Generation != 7 || got.RestartRequired != string(ReasonTemplate) || got.Omitted != 0 {
		t.Fatalf("%+v", got)
	}
	large := Result{}
	for i := range 40 {
		for k := range 20 {
			large.Changes = append(large.Changes, Change{Field: fmt.Sprintf("f%d.%d", i, k), Takes: Restart, Reason: fmt.Sprint(i, strings.Repeat("r", 400))})
		}
	}
	got = large.Summary(1)
	if len(got.Changes) != maxGroups || len(got.Changes[0].Fields) != maxGroupFields || got.Changes[0].More != 20-maxGroupFields || got.Omitted != 20*(40-maxGroups) || len(got.Changes[0].Reason) > maxSummaryText {
		t.Errorf("%+v", got)
	}
}
