package rollouts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
)

// summary is the short form of a plan: what KubeVirt does, and per field what the change takes.
type summary struct {
	Restart RestartReason
	Failure string
	Takes   map[string]Takes
	Patched []string
}

func summaryOf(result Result) summary {
	all := summary{Restart: result.RestartRequired, Failure: result.Failure, Takes: map[string]Takes{}}
	for _, c := range result.Changes {
		all.Takes[c.Field] = c.Takes
		if c.Patched {
			all.Patched = append(all.Patched, c.Field)
		}
	}
	return all
}

const (
	sockets = template + "domain.cpu.sockets"
	cores   = template + "domain.cpu.cores"
	guest   = template + "domain.memory.guest"
	blue    = template + "domain.devices.interfaces[blue]"
	green   = template + "domain.devices.interfaces[green]"
	nets    = template + "networks"
	volumes = template + "volumes"
	disks   = template + "domain.devices.disks"
)

// withGates changes the feature gates of the cluster.
func withGates(t *testing.T, in *Input, enabled, disabled []any) {
	t.Helper()
	facts, err := platform.FromKubeVirt(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": map[string]any{
		"developerConfiguration": map[string]any{"featureGates": enabled, "disabledFeatureGates": disabled},
	}}}}, platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	facts.WorkloadUpdateMethods = in.Facts.WorkloadUpdateMethods
	in.Facts = facts
}

func (in *Input) addHotpluggable(name string, d v1.Disk) {
	in.spec().Volumes = append(in.spec().Volumes, claim(name, name, true))
	in.spec().Domain.Devices.Disks = append(in.spec().Domain.Devices.Disks, d)
}

func (in *Input) addInterface(i v1.Interface) {
	in.spec().Domain.Devices.Interfaces = append(in.spec().Domain.Devices.Interfaces, i)
	in.spec().Networks = append(in.spec().Networks, multus(i.Name, "nad-"+i.Name))
}

func (in *Input) notMigratable() {
	in.setCondition(v1.VirtualMachineInstanceIsMigratable, corev1.ConditionFalse, "a host device")
}

func (in *Input) startMigration() {
	in.Running.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{StartTimestamp: &metav1.Time{}}
}

func (in *Input) volumesStrategy(strategy v1.UpdateVolumesStrategy) {
	in.Desired.Spec.UpdateVolumesStrategy = ptr.To(strategy)
}

// TestKubeVirt holds that the planner knows how KubeVirt leaves changes pending silently, flags changes for nothing, or
// cannot take them back.
func TestKubeVirt(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*testing.T, *Input)
		want summary
	}{
		// Pending silently.
		"a hotpluggable volume under the strategy Migration": {
			func(_ *testing.T, in *Input) {
				in.volumesStrategy(v1.UpdateVolumesStrategyMigration)
				in.addHotpluggable("new", disk("new", v1.DiskBusSCSI))
			},
			summary{Takes: map[string]Takes{volumes + "[new]": Restart, disks + "[new]": Restart}},
		},
		"a hotpluggable volume with the gate off": {
			func(t *testing.T, in *Input) {
				withGates(t, in, nil, []any{"DeclarativeHotplugVolumes"})
				in.addHotpluggable("new", disk("new", v1.DiskBusSCSI))
			},
			summary{Takes: map[string]Takes{volumes + "[new]": Restart, disks + "[new]": Restart}},
		},
		"a hotpluggable volume with both gates": {
			func(t *testing.T, in *Input) {
				withGates(t, in, []any{"DeclarativeHotplugVolumes", "HotplugVolumes"}, nil)
				in.spec().Volumes, in.spec().Domain.Devices.Disks = in.spec().Volumes[:1], in.spec().Domain.Devices.Disks[:1]
			},
			summary{Takes: map[string]Takes{volumes + "[data]": Restart, disks + "[data]": Restart}},
		},
		"a hotpluggable volume of an instance that does not run yet": {
			func(_ *testing.T, in *Input) {
				in.Running.Status.Phase = v1.Scheduled
				in.addHotpluggable("new", disk("new", v1.DiskBusSCSI))
			},
			summary{Takes: map[string]Takes{volumes + "[new]": Blocked, disks + "[new]": Blocked}},
		},
		"an interface with a binding plugin": {
			func(_ *testing.T, in *Input) {
				in.addInterface(v1.Interface{Name: "green", Binding: &v1.PluginBinding{Name: "passt"}})
			},
			summary{Takes: map[string]Takes{green: Restart, nets + "[green]": Restart}},
		},
		"the attachment of a default network": {
			func(_ *testing.T, in *Input) {
				for _, spec := range []*v1.VirtualMachineInstanceSpec{&in.LastStarted.Template.Spec, in.spec(), &in.Running.Spec} {
					spec.Networks[1].Multus.Default = true
				}
				in.spec().Networks[1].Multus.NetworkName = "other"
			},
			summary{Takes: map[string]Takes{nets + "[blue].multus.networkName": LiveOnMigration}, Patched: []string{nets + "[blue].multus.networkName"}},
		},
		"memory without the current memory of the guest": {
			func(_ *testing.T, in *Input) {
				in.spec().Domain.Memory.Guest, in.Running.Status.Memory = quantity("4Gi"), &v1.MemoryStatus{GuestAtBoot: quantity("2Gi")}
			},
			summary{Takes: map[string]Takes{guest: Blocked}},
		},
		"the order of disks": {
			func(_ *testing.T, in *Input) {
				d := in.spec().Domain.Devices.Disks
				d[0], d[1] = d[1], d[0]
			},
			summary{Takes: map[string]Takes{disks: Restart}},
		},
		// RestartRequired blind.
		"a cold field after referencePolicy becomes expandAll": {
			func(_ *testing.T, in *Input) {
				in.LastStarted.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
				in.spec().Hostname = "x"
				policy := v1.ExpandAll
				configuration := *in.Facts.Configuration
				configuration.Instancetype = &v1.InstancetypeConfiguration{ReferencePolicy: &policy}
				in.Facts.Configuration = &configuration
			},
			summary{Takes: map[string]Takes{template + "hostname": Restart}},
		},
		"a start that is unknown": {
			func(_ *testing.T, in *Input) { in.LastStarted, in.spec().Hostname = nil, "x" },
			summary{Takes: map[string]Takes{template + "hostname": Restart}},
		},
		// No way back from a pending plug.
		"a second step while sockets are plugged": {
			func(_ *testing.T, in *Input) {
				in.Running.Spec.Domain.CPU.Sockets, in.spec().Domain.CPU.Sockets = 4, 6
				in.setCondition(v1.VirtualMachineInstanceVCPUChange, corev1.ConditionTrue, "")
				in.spec().Domain.Memory.Guest = quantity("4Gi")
			},
			summary{Failure: "sockets", Takes: map[string]Takes{sockets: Blocked, guest: Blocked}},
		},
		"sockets reverted after the plug": {
			func(_ *testing.T, in *Input) { in.Running.Spec.Domain.CPU.Sockets = 4 },
			summary{Restart: ReasonSocketsReduced, Takes: map[string]Takes{sockets: Restart}},
		},
		"memory reverted after the plug": {
			func(_ *testing.T, in *Input) {
				in.Running.Spec.Domain.Memory.Guest, in.Running.Status.Memory.GuestCurrent = quantity("4Gi"), quantity("4Gi")
			},
			summary{Takes: map[string]Takes{guest: LiveOnMigration}, Patched: []string{guest}},
		},
		"memory reverted while it is plugged": {
			func(_ *testing.T, in *Input) {
				in.Running.Spec.Domain.Memory.Guest = quantity("4Gi")
				in.setCondition(v1.VirtualMachineInstanceMemoryChange, corev1.ConditionTrue, "")
			},
			summary{Failure: "memory", Takes: map[string]Takes{guest: Blocked}},
		},
		// Limits.
		"memory whose request grows above the limit": {
			func(_ *testing.T, in *Input) {
				for _, spec := range []*v1.VirtualMachineInstanceSpec{&in.LastStarted.Template.Spec, in.spec(), &in.Running.Spec} {
					spec.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *quantity("1Gi")}
					spec.Domain.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: *quantity("2Gi")}
				}
				in.spec().Domain.Memory.Guest = quantity("4Gi")
			},
			summary{Takes: map[string]Takes{guest: Restart}, Patched: []string{guest}},
		},
		// Maxima.
		"sockets of a VM with cores only": {
			func(_ *testing.T, in *Input) {
				for _, spec := range []*v1.VirtualMachineInstanceSpec{&in.LastStarted.Template.Spec, &in.Running.Spec, in.spec()} {
					spec.Domain.CPU = &v1.CPU{Cores: 2}
				}
				in.spec().Domain.CPU.Sockets = 1
			},
			summary{Restart: ReasonSocketsBeyond, Takes: map[string]Takes{sockets: Restart}},
		},
		// Flagged for nothing.
		"maxSockets as KubeVirt has computed it": {
			func(_ *testing.T, in *Input) { in.spec().Domain.CPU.MaxSockets = 8 },
			summary{Restart: ReasonTemplate, Takes: map[string]Takes{template + "domain.cpu.maxSockets": Live}},
		},
		"the strategy becomes Stage after a live change": {
			func(_ *testing.T, in *Input) {
				in.spec().Domain.CPU.Sockets, in.Running.Spec.Domain.CPU.Sockets, in.Facts.LiveUpdate = 4, 4, false
			},
			summary{Restart: ReasonTemplate, Takes: map[string]Takes{}},
		},
		"a label after a failed change of memory": {
			func(_ *testing.T, in *Input) {
				in.Desired.Labels = map[string]string{"a": "b"}
				in.setCondition(v1.VirtualMachineInstanceMemoryChange, corev1.ConditionFalse, "")
			},
			summary{Restart: ReasonMemoryFailed, Takes: map[string]Takes{guest: Restart}},
		},
		"a CD-ROM drive that is removed": {
			func(_ *testing.T, in *Input) {
				drive := v1.Disk{Name: "cd", DiskDevice: v1.DiskDevice{CDRom: &v1.CDRomTarget{Bus: v1.DiskBusSATA}}}
				in.LastStarted.Template.Spec.Domain.Devices.Disks = append(in.LastStarted.Template.Spec.Domain.Devices.Disks, drive)
				in.Running.Spec.Domain.Devices.Disks = append(in.Running.Spec.Domain.Devices.Disks, drive)
			},
			summary{Restart: ReasonTemplate, Takes: map[string]Takes{disks + "[cd]": Live}, Patched: []string{disks + "[cd]"}},
		},
		"an interface under a preference with a model": {
			func(_ *testing.T, in *Input) {
				preference := &instancetypes.Preference{Name: "linux", Spec: instancetypev1beta1.VirtualMachinePreferenceSpec{
					Devices: &instancetypev1beta1.DevicePreferences{PreferredInterfaceModel: v1.VirtIO},
				}}
				in.StartedKinds.Preference, in.DesiredKinds.Preference = preference, preference
				for i := range in.Running.Spec.Domain.Devices.Interfaces {
					in.Running.Spec.Domain.Devices.Interfaces[i].Model = v1.VirtIO
				}
				in.addInterface(bridge("green"))
			},
			summary{Restart: ReasonTemplate, Takes: map[string]Takes{green: LiveOnMigration, nets + "[green]": LiveOnMigration}, Patched: []string{green, nets + "[green]"}},
		},
		// Rejected without end.
		"a new CD-ROM drive with a volume": {
			func(_ *testing.T, in *Input) {
				in.addHotpluggable("cd", v1.Disk{Name: "cd", DiskDevice: v1.DiskDevice{CDRom: &v1.CDRomTarget{Bus: v1.DiskBusSATA}}})
				in.spec().Domain.CPU.Sockets = 4
			},
			summary{Failure: "hotplug-volumes", Takes: map[string]Takes{volumes + "[cd]": Restart, disks + "[cd]": Restart, sockets: Blocked}},
		},
		"a disk with a valid bus beside one without": {
			func(_ *testing.T, in *Input) {
				in.addHotpluggable("good", disk("good", v1.DiskBusVirtio))
				in.addHotpluggable("bad", v1.Disk{Name: "bad"})
			},
			summary{Failure: "hotplug-volumes", Takes: map[string]Takes{volumes + "[bad]": Restart, disks + "[bad]": Restart, volumes + "[good]": Blocked, disks + "[good]": Blocked}},
		},
		// In flight.
		"fewer sockets, a node selector and a volume while the VM migrates": {
			func(_ *testing.T, in *Input) {
				in.startMigration()
				in.spec().Domain.CPU.Sockets, in.spec().NodeSelector = 1, map[string]string{"zone": "a"}
				in.addHotpluggable("new", disk("new", v1.DiskBusSCSI))
			},
			summary{
				Failure: "sockets", Patched: []string{volumes + "[new]", disks + "[new]"},
				Takes: map[string]Takes{sockets: Restart, template + "nodeSelector[zone]": Blocked, volumes + "[new]": Live, disks + "[new]": Live},
			},
		},
		"tolerations while the VM migrates": {
			func(_ *testing.T, in *Input) {
				in.startMigration()
				in.spec().Tolerations = []corev1.Toleration{{Key: "db"}}
			},
			summary{Failure: "tolerations", Takes: map[string]Takes{template + "tolerations": Blocked}},
		},
		// A restart stops other changes.
		"cores, sockets and an interface": {
			func(_ *testing.T, in *Input) {
				in.spec().Domain.CPU.Sockets, in.spec().Domain.CPU.Cores = 4, 2
				in.addInterface(bridge("green"))
			},
			summary{
				Restart: ReasonTemplate, Patched: []string{green, nets + "[green]"},
				Takes: map[string]Takes{sockets: Restart, cores: Restart, green: LiveOnMigration, nets + "[green]": LiveOnMigration},
			},
		},
		"too many sockets, and memory": {
			func(_ *testing.T, in *Input) {
				in.spec().Domain.CPU.Sockets, in.spec().Domain.Memory.Guest = 9, quantity("4Gi")
			},
			summary{Restart: ReasonSocketsBeyond, Takes: map[string]Takes{sockets: Restart, guest: LiveOnMigration}, Patched: []string{guest}},
		},
		// Stopped.
		"a stopped VM keeps the condition": {
			func(_ *testing.T, in *Input) {
				in.Running, in.Desired.Spec.RunStrategy, in.LastStarted.RunStrategy = nil, ptr.To(v1.RunStrategyHalted), ptr.To(v1.RunStrategyHalted)
				in.spec().Domain.CPU.Cores = 2
				in.Desired.Status.Conditions = []v1.VirtualMachineCondition{{Type: v1.VirtualMachineRestartRequired, Message: "a non-live-updatable field was changed in the template spec"}}
			},
			summary{Restart: ReasonTemplate, Takes: map[string]Takes{cores: NextStart}},
		},
		"a VM that starts loses the condition": {
			func(_ *testing.T, in *Input) {
				in.Running = nil
				in.Desired.Status.Conditions = []v1.VirtualMachineCondition{{Type: v1.VirtualMachineRestartRequired}}
			},
			summary{Takes: map[string]Takes{}},
		},
		// Interfaces.
		"an absent interface that is wanted again": {
			func(_ *testing.T, in *Input) {
				in.Running.Spec.Domain.Devices.Interfaces[1].State = v1.InterfaceStateAbsent
			},
			summary{Takes: map[string]Takes{blue + ".state": Blocked}},
		},
		"an interface that was added and is removed before the migration": {
			func(_ *testing.T, in *Input) {
				in.Running.Spec.Domain.Devices.Interfaces = append(in.Running.Spec.Domain.Devices.Interfaces, bridge("green"))
				in.Running.Spec.Networks = append(in.Running.Spec.Networks, multus("green", "nad-green"))
			},
			summary{Takes: map[string]Takes{green: Restart, nets + "[green]": Restart}},
		},
		"an interface of an old version that becomes absent": {
			func(_ *testing.T, in *Input) {
				in.Running.Status.Interfaces[1].PodInterfaceName = "net1"
				in.spec().Domain.Devices.Interfaces[1].State = v1.InterfaceStateAbsent
			},
			summary{Takes: map[string]Takes{blue + ".state": Blocked}},
		},
		"an interface that becomes absent": {
			func(_ *testing.T, in *Input) { in.spec().Domain.Devices.Interfaces[1].State = v1.InterfaceStateAbsent },
			summary{Takes: map[string]Takes{blue + ".state": Live}, Patched: []string{blue + ".state"}},
		},
		// Firmware.
		"no UUID": {
			func(_ *testing.T, in *Input) { in.spec().Domain.Firmware = nil },
			summary{Restart: ReasonTemplate, Takes: map[string]Takes{template + "domain.firmware.uuid": Restart}},
		},
		// Annotations of two sources.
		"a copied annotation and skip-backup-hooks": {
			func(_ *testing.T, in *Input) {
				in.Desired.Annotations = map[string]string{skipBackupHooks: "true"}
				in.Desired.Spec.Template.ObjectMeta.Annotations = map[string]string{evictPod: "true"}
			},
			summary{Failure: "labels-and-annotations", Takes: map[string]Takes{"metadata.annotations[" + skipBackupHooks + "]": Blocked, "spec.template.metadata.annotations[" + evictPod + "]": Blocked}},
		},
		"a copied label with a pattern": {
			func(_ *testing.T, in *Input) {
				in.Facts.SyncedLabels = []string{"corp.io/*", "*"}
				in.Desired.Spec.Template.ObjectMeta.Labels = map[string]string{"kubevirt.io/vm": "db", "corp.io/team": "a", "other": "b"}
			},
			summary{
				Takes:   map[string]Takes{"spec.template.metadata.labels[corp.io/team]": Live, "spec.template.metadata.labels[other]": Restart},
				Patched: []string{"spec.template.metadata.labels[corp.io/team]"},
			},
		},
		// Volume migration.
		"a claim of a VM that cannot be migrated": {
			func(_ *testing.T, in *Input) {
				in.volumesStrategy(v1.UpdateVolumesStrategyMigration)
				in.setCondition(v1.VirtualMachineInstanceIsStorageLiveMigratable, corev1.ConditionFalse, "a host device")
				in.spec().Volumes[0] = claim("root", "root2", false)
			},
			summary{Restart: ReasonVolumesInvalid, Takes: map[string]Takes{volumes + "[root].persistentVolumeClaim.claimName": Restart}},
		},
		"a third claim during a migration": {
			func(_ *testing.T, in *Input) {
				migratesRoot(in)
				in.spec().Volumes[0] = claim("root", "root3", false)
			},
			summary{Failure: "volume-migration", Takes: map[string]Takes{volumes + "[root].persistentVolumeClaim.claimName": Blocked}},
		},
		"the previous claim during a migration": {
			func(_ *testing.T, in *Input) { migratesRoot(in) },
			summary{Takes: map[string]Takes{volumes + "[root].persistentVolumeClaim.claimName": Live}, Patched: []string{volumes + "[root].persistentVolumeClaim.claimName"}},
		},
		"another volume during a migration": {
			func(_ *testing.T, in *Input) {
				migratesRoot(in)
				in.spec().Volumes = []v1.Volume{claim("root", "root2", false), claim("data", "data2", true)}
			},
			summary{Takes: map[string]Takes{volumes + "[data].persistentVolumeClaim.claimName": Blocked, volumes + "[root].persistentVolumeClaim.claimName": LiveOnMigration}},
		},
		"a template whose DataVolume is not filled": {
			func(_ *testing.T, in *Input) {
				in.Desired.Spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{ObjectMeta: metav1.ObjectMeta{Name: "new"}}}
				in.Storage, in.spec().Domain.CPU.Sockets = Storage{Known: true}, 4
			},
			summary{Takes: map[string]Takes{"spec.dataVolumeTemplates[new]": Live, sockets: Blocked}},
		},
		"a VM that is stopped by the change": {
			func(_ *testing.T, in *Input) {
				in.Desired.Spec.RunStrategy, in.spec().Domain.CPU.Cores = ptr.To(v1.RunStrategyHalted), 2
			},
			summary{Restart: ReasonTemplate, Takes: map[string]Takes{"spec.runStrategy": Live, cores: NextStart}},
		},
		"a node selector of a VM that cannot be migrated": {
			func(_ *testing.T, in *Input) {
				in.notMigratable()
				in.spec().NodeSelector = map[string]string{"zone": "a"}
			},
			summary{Takes: map[string]Takes{template + "nodeSelector[zone]": Restart}, Patched: []string{template + "nodeSelector[zone]"}},
		},
		"a node selector that only the instance has": {
			func(_ *testing.T, in *Input) { in.Running.Spec.NodeSelector = map[string]string{"pool": "x"} },
			summary{Takes: map[string]Takes{template + "nodeSelector[pool]": LiveOnMigration}, Patched: []string{template + "nodeSelector[pool]"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := running(t)
			test.edit(t, in)
			result := Plan(in)
			if diff := cmp.Diff(test.want, summaryOf(result)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			for i := range result.Changes {
				checkChange(t, &result.Changes[i])
			}
		})
	}
}

// migratesRoot is a migration of the volume root to the claim root2, which the VM reverts.
func migratesRoot(in *Input) {
	in.volumesStrategy(v1.UpdateVolumesStrategyMigration)
	in.LastStarted.UpdateVolumesStrategy = in.Desired.Spec.UpdateVolumesStrategy
	in.Running.Spec.Volumes[0] = claim("root", "root2", false)
	in.setCondition(v1.VirtualMachineInstanceVolumesChange, corev1.ConditionTrue, "")
	in.Running.Status.MigratedVolumes = []v1.StorageMigratedVolumeInfo{{
		VolumeName: "root", SourcePVCInfo: &v1.PersistentVolumeClaimInfo{ClaimName: "root"},
	}}
}
