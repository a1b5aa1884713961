package rollouts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
)

// running is the input of a VM that runs as it was started: two sockets of at most eight, 2Gi of at most 8Gi.
func running(t testing.TB) *Input {
	t.Helper()
	guest, most := resource.MustParse("2Gi"), resource.MustParse("8Gi")
	always := v1.RunStrategyAlways
	spec := v1.VirtualMachineSpec{
		RunStrategy: &always,
		Template: &v1.VirtualMachineInstanceTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kubevirt.io/vm": "db"}},
			Spec: v1.VirtualMachineInstanceSpec{
				Architecture: "amd64",
				Domain: v1.DomainSpec{
					CPU:      &v1.CPU{Sockets: 2, Cores: 1, Threads: 1},
					Memory:   &v1.Memory{Guest: &guest},
					Firmware: &v1.Firmware{UUID: "11111111-2222-4333-8444-555555555555"},
					Machine:  &v1.Machine{Type: "q35"},
					Devices: v1.Devices{
						Disks:      []v1.Disk{disk("root", v1.DiskBusVirtio), disk("data", v1.DiskBusSCSI)},
						Interfaces: []v1.Interface{*v1.DefaultMasqueradeNetworkInterface(), bridge("blue")},
					},
				},
				Networks: []v1.Network{*v1.DefaultPodNetwork(), multus("blue", "nad-blue")},
				Volumes:  []v1.Volume{claim("root", "root", false), claim("data", "data", true)},
			},
		},
	}
	vmi := &v1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default", UID: "vmi", Labels: map[string]string{"kubevirt.io/vm": "db", "kubevirt.io/nodeName": "n"}},
		Spec:       *spec.Template.Spec.DeepCopy(),
		Status: v1.VirtualMachineInstanceStatus{
			Phase:  v1.Running,
			Memory: &v1.MemoryStatus{GuestAtBoot: &guest, GuestCurrent: &guest},
			Conditions: []v1.VirtualMachineInstanceCondition{
				{Type: v1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue},
				{Type: v1.VirtualMachineInstanceIsStorageLiveMigratable, Status: corev1.ConditionTrue},
			},
			Interfaces: []v1.VirtualMachineInstanceNetworkInterface{
				{Name: "default", PodInterfaceName: "eth0"}, {Name: "blue", PodInterfaceName: podInterface("blue")},
			},
			VolumeStatus: []v1.VolumeStatus{{Name: "root"}, {Name: "data", HotplugVolume: &v1.HotplugVolumeStatus{}}},
		},
	}
	vmi.Spec.Domain.CPU.MaxSockets, vmi.Spec.Domain.CPU.Model = 8, "host-model"
	vmi.Spec.Domain.Memory.MaxGuest = &most
	facts := platform.Defaults(platform.Settings{})
	facts.WorkloadUpdateMethods = []v1.WorkloadUpdateMethod{v1.WorkloadUpdateMethodLiveMigrate}
	return &Input{
		LastStarted: spec.DeepCopy(), Running: vmi, Facts: facts,
		Desired: &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default"}, Spec: spec},
	}
}

func disk(name string, bus v1.DiskBus) v1.Disk {
	return v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: bus}}}
}

func claim(name, claimName string, hotpluggable bool) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
		PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName}, Hotpluggable: hotpluggable,
	}}}
}

func bridge(name string) v1.Interface {
	return v1.Interface{Name: name, InterfaceBindingMethod: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}}
}

func multus(name, attachment string) v1.Network {
	return v1.Network{Name: name, NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: attachment}}}
}

// spec is the desired spec of the instance.
func (in *Input) spec() *v1.VirtualMachineInstanceSpec { return &in.Desired.Spec.Template.Spec }

func (in *Input) setCondition(kind v1.VirtualMachineInstanceConditionType, status corev1.ConditionStatus, message string) {
	for i := range in.Running.Status.Conditions {
		if c := &in.Running.Status.Conditions[i]; c.Type == kind {
			c.Status, c.Message = status, message
			return
		}
	}
	in.Running.Status.Conditions = append(in.Running.Status.Conditions, v1.VirtualMachineInstanceCondition{Type: kind, Status: status, Message: message})
}

// planned is what a test asserts of a change.
type planned struct {
	Field, Old, New string
	Takes           Takes
	Patched         bool
	Announced       Announcement
	Rule, Reason    string
}

func plannedOf(result Result) []planned {
	var all []planned
	for _, c := range result.Changes {
		all = append(all, planned{c.Field, c.Old, c.New, c.Takes, c.Patched, c.Announced, c.Rule, c.Reason})
	}
	return all
}

func TestPlan(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*Input)
		want []planned
	}{
		"nothing changes": {func(*Input) {}, nil},
		"more sockets": {
			func(in *Input) { in.spec().Domain.CPU.Sockets = 4 },
			[]planned{{template + "domain.cpu.sockets", "2", "4", LiveOnMigration, true, ByCondition, "sockets", "KubeVirt migrates the VM, and the guest gets the change with the migration."}},
		},
		"more sockets than the maximum": {
			func(in *Input) { in.spec().Domain.CPU.Sockets = 9 },
			[]planned{{template + "domain.cpu.sockets", "2", "9", Restart, false, ByRestartRequired, "sockets", "The VM was started with a maximum of 8 sockets."}},
		},
		"more sockets of a VM that cannot be migrated": {
			func(in *Input) {
				in.spec().Domain.CPU.Sockets = 4
				in.setCondition(v1.VirtualMachineInstanceIsMigratable, corev1.ConditionFalse, "a host device")
			},
			[]planned{{template + "domain.cpu.sockets", "2", "4", Restart, true, ByCondition, "sockets", "The change needs a live migration, and the VM cannot be migrated: a host device."}},
		},
		"more sockets where KubeVirt evicts": {
			func(in *Input) {
				in.spec().Domain.CPU.Sockets = 4
				in.Facts.WorkloadUpdateMethods = []v1.WorkloadUpdateMethod{v1.WorkloadUpdateMethodEvict}
			},
			[]planned{{template + "domain.cpu.sockets", "2", "4", Restart, true, ByCondition, "sockets", "KubeVirt evicts the VM to apply the change: the guest is shut down."}},
		},
		"more sockets where KubeVirt does nothing": {
			func(in *Input) { in.spec().Domain.CPU.Sockets, in.Facts.WorkloadUpdateMethods = 4, nil },
			[]planned{{template + "domain.cpu.sockets", "2", "4", LiveOnMigration, true, ByCondition, "sockets", "The guest gets the change with the next live migration. KubeVirt does not start one."}},
		},
		"a revert while the plug is in progress": {
			func(in *Input) {
				in.Running.Spec.Domain.CPU.Sockets = 4
				in.setCondition(v1.VirtualMachineInstanceVCPUChange, corev1.ConditionTrue, "")
			},
			[]planned{{template + "domain.cpu.sockets", "4", "2", Restart, false, ByFailure, "sockets", "The change needs a restart. KubeVirt announces it when the change or migration in progress has ended."}},
		},
		"sockets and cores": {
			func(in *Input) { in.spec().Domain.CPU.Sockets, in.spec().Domain.CPU.Cores = 4, 2 },
			[]planned{
				{template + "domain.cpu.sockets", "2", "4", Restart, false, ByRestartRequired, "sockets", "The changed field domain.cpu.cores needs a restart. Until then, KubeVirt applies no live change of this kind."},
				{template + "domain.cpu.cores", "1", "2", Restart, false, ByRestartRequired, "other", "KubeVirt applies this field only when the VM starts."},
			},
		},
		"more memory without its status": {
			func(in *Input) { in.spec().Domain.Memory.Guest, in.Running.Status.Memory = quantity("4Gi"), nil },
			[]planned{{template + "domain.memory.guest", "2Gi", "4Gi", Blocked, false, Silent, "guest-memory", "KubeVirt does not know the memory of the guest yet. It applies the change once status.memory has it."}},
		},
		"memory that is not aligned": {
			func(in *Input) { in.spec().Domain.Memory.Guest = quantity("3001Mi") },
			[]planned{{template + "domain.memory.guest", "2Gi", "3001Mi", Restart, false, ByRestartRequired, "guest-memory", "The guest memory is not a multiple of 2Mi."}},
		},
		"the CPU model that the VM already has": {
			func(in *Input) { in.spec().Domain.CPU.Model = "host-model" },
			[]planned{{template + "domain.cpu.model", "", "host-model", Live, false, ByRestartRequired, "explicit-default", "The VM already runs with this value, so that nothing changes."}},
		},
		"a disk with a bus that cannot be plugged": {
			func(in *Input) {
				in.spec().Volumes = append(in.spec().Volumes, claim("more", "more", true))
				in.spec().Domain.Devices.Disks = append(in.spec().Domain.Devices.Disks, disk("more", v1.DiskBusSATA))
			},
			[]planned{
				{template + "volumes[more]", "", `{"name":"more","persistentVolumeClaim":{"claimName":"more","hotpluggable":true}}`, Restart, false, ByFailure, "hotplug-volume", "The VM accepts this disk, but the running instance rejects it without end: it must be a disk with the bus virtio or scsi."},
				{template + "domain.devices.disks[more]", "", `{"disk":{"bus":"sata"},"name":"more"}`, Restart, false, ByFailure, "hotplug-volume", "The VM accepts this disk, but the running instance rejects it without end: it must be a disk with the bus virtio or scsi."},
			},
		},
		"another claim of a hotpluggable volume": {
			func(in *Input) { in.spec().Volumes[1] = claim("data", "data2", true) },
			[]planned{
				{template + "volumes[data].persistentVolumeClaim.claimName", "data", "data2", Live, true, Silent, "hotplug-volume", "KubeVirt detaches the volume, and attaches the new one afterwards."},
				{template + "domain.devices.disks[data]", "", "", Live, true, Silent, "hotplug-volume", "KubeVirt detaches the disk from the guest, and attaches it with the new volume."},
			},
		},
		"a claim under Stage": {
			func(in *Input) {
				strategy := v1.UpdateVolumesStrategyMigration
				in.Desired.Spec.UpdateVolumesStrategy, in.Facts.LiveUpdate = &strategy, false
				in.spec().Volumes[0] = claim("root", "root2", false)
			},
			[]planned{{template + "volumes[root].persistentVolumeClaim.claimName", "root", "root2", Restart, false, Silent, "volume-migration", "The rollout strategy of the cluster is Stage: changes wait for a restart."}},
		},
		"a claim that does not exist": {
			func(in *Input) {
				strategy := v1.UpdateVolumesStrategyMigration
				in.Desired.Spec.UpdateVolumesStrategy, in.Storage = &strategy, Storage{Known: true}
				in.spec().Volumes[0] = claim("root", "root2", false)
			},
			[]planned{{template + "volumes[root].persistentVolumeClaim.claimName", "root", "root2", Blocked, false, ByCondition, "volume-migration", "The volume migration waits for the claim root2, which does not exist."}},
		},
		"the bus of a hotplugged disk": {
			func(in *Input) { in.spec().Domain.Devices.Disks[1] = disk("data", v1.DiskBusVirtio) },
			[]planned{{template + "domain.devices.disks[data].disk.bus", "scsi", "virtio", Restart, false, Silent, "hotplugged-disk", "KubeVirt does not change the disk of an attached volume."}},
		},
		"an interface that was removed": {
			func(in *Input) {
				in.spec().Domain.Devices.Interfaces, in.spec().Networks = in.spec().Domain.Devices.Interfaces[:1], in.spec().Networks[:1]
			},
			[]planned{
				{template + "domain.devices.interfaces[blue]", `{"bridge":{},"name":"blue"}`, "", Restart, false, ByRestartRequired, "interface-removed", "KubeVirt does not unplug an interface that the VM does not have any more."},
				{template + "networks[blue]", `{"multus":{"networkName":"nad-blue"},"name":"blue"}`, "", Restart, false, ByRestartRequired, "interface-removed", "KubeVirt does not unplug an interface that the VM does not have any more."},
			},
		},
		"a label of the template": {
			func(in *Input) { in.Desired.Spec.Template.ObjectMeta.Labels["team"] = "x" },
			[]planned{{"spec.template.metadata.labels[team]", "", "x", Restart, false, Silent, "metadata", "KubeVirt copies it to the instance only when the VM starts."}},
		},
		"a stopped VM": {
			func(in *Input) { in.Running, in.spec().Hostname = nil, "x" },
			[]planned{{template + "hostname", "", "x", NextStart, false, Silent, "stopped", "The VM is stopped. The change takes effect when it starts."}},
		},
		"a missing instancetype": {
			func(in *Input) {
				in.LastStarted.Instancetype, in.Desired.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "large"}, &v1.InstancetypeMatcher{Name: "small"}
				in.spec().Hostname, in.DesiredKinds.Missing = "x", []Missing{{"spec.instancetype", `VirtualMachineInstancetype "small"`}}
			},
			[]planned{{"spec.instancetype", "large", "small", Blocked, false, ByFailure, "instancetype-missing", `VirtualMachineInstancetype "small" does not exist. KubeVirt applies no change of the VM until it does.`}, {template + "hostname", "", "x", Blocked, false, ByFailure, "instancetype-missing", `VirtualMachineInstancetype "small" does not exist. KubeVirt applies no change of the VM until it does.`}},
		},
		"a missing preference of a VM without a change": {
			func(in *Input) {
				in.Desired.Spec.Preference = &v1.PreferenceMatcher{Name: "gone"}
				in.DesiredKinds.Missing = []Missing{{"spec.preference", `VirtualMachineClusterPreference "gone"`}}
			},
			[]planned{{"spec.preference", "", "gone", Blocked, false, ByFailure, "instancetype-missing", `VirtualMachineClusterPreference "gone" does not exist. KubeVirt applies no change of the VM until it does.`}},
		},
		"a missing instancetype of a stopped VM": {
			func(in *Input) {
				in.Running, in.spec().Hostname, in.DesiredKinds.Missing = nil, "x", []Missing{{"spec.instancetype", `VirtualMachineInstancetype "small"`}}
			},
			[]planned{
				{"spec.instancetype", "", "", Blocked, false, ByFailure, "instancetype-missing", `VirtualMachineInstancetype "small" does not exist. KubeVirt does not start the VM until it does.`},
				{template + "hostname", "", "x", NextStart, false, Silent, "stopped", "The VM is stopped. The change takes effect when it starts."},
			},
		},
		"a field beside an instancetype that determines it": {
			func(in *Input) {
				in.DesiredKinds.Instancetype = &instancetypes.Instancetype{Kind: apikinds.VirtualMachineInstancetype, Name: "large"}
				for _, spec := range []*v1.VirtualMachineInstanceSpec{&in.LastStarted.Template.Spec, in.spec()} {
					spec.Domain.Memory, spec.Domain.CPU = nil, &v1.CPU{Sockets: 2}
				}
				in.spec().Domain.CPU.Sockets = 4
			},
			[]planned{{template + "domain.cpu.sockets", "2", "4", Blocked, false, ByFailure, "instancetype-conflict", `KubeVirt cannot apply this field: must not be set: instancetype "large" determines it.`}},
		},
		"a field beside an instancetype, without a change": {
			func(in *Input) {
				in.DesiredKinds.Instancetype = &instancetypes.Instancetype{Kind: apikinds.VirtualMachineInstancetype, Name: "large"}
				in.LastStarted.Template.Spec.Domain.CPU, in.spec().Domain.CPU = nil, nil
			},
			[]planned{{template + "domain.memory.guest", "", "2Gi", Blocked, false, ByFailure, "instancetype-conflict", `KubeVirt cannot apply this field: must not be set: instancetype "large" determines it.`}},
		},
		"a failure that no change is about": {
			func(in *Input) {
				for _, spec := range []*v1.VirtualMachineInstanceSpec{&in.LastStarted.Template.Spec, &in.Running.Spec, in.spec()} {
					spec.Volumes, spec.Domain.Devices.Disks = nil, []v1.Disk{disk("root", v1.DiskBusVirtio), disk("data", v1.DiskBusSCSI)}
				}
				in.spec().Domain.Devices.Disks = in.spec().Domain.Devices.Disks[:1]
			},
			[]planned{
				{template + "volumes", "", "", Blocked, false, ByFailure, "failure", "KubeVirt fails here: the running instance rejects the volume or the disk. It applies no later change of the VM."},
				{disks + "[data]", `{"disk":{"bus":"scsi"},"name":"data"}`, "", Restart, false, Silent, "other", "KubeVirt applies this field only when the VM starts."},
			},
		},
		"the eviction strategy that counts already": {
			func(in *Input) { in.spec().EvictionStrategy = ptr.To(v1.EvictionStrategyNone) },
			[]planned{{template + "evictionStrategy", "", "None", Live, false, ByRestartRequired, "explicit-default", "The VM already runs with this value, so that nothing changes."}},
		},
		"another eviction strategy": {
			func(in *Input) { in.spec().EvictionStrategy = ptr.To(v1.EvictionStrategyLiveMigrate) },
			[]planned{{template + "evictionStrategy", "", "LiveMigrate", Restart, false, ByRestartRequired, "other", "KubeVirt applies this field only when the VM starts."}},
		},
		"the ACPI that the VM already has": {
			func(in *Input) {
				in.Running.Spec.Domain.Features = &v1.Features{ACPI: v1.FeatureState{Enabled: ptr.To(true)}}
				in.spec().Domain.Features = &v1.Features{ACPI: v1.FeatureState{Enabled: ptr.To(true)}}
			},
			[]planned{{template + "domain.features", "", `{"acpi":{"enabled":true}}`, Live, false, ByRestartRequired, "explicit-default", "The VM already runs with this value, so that nothing changes."}},
		},
		"a CD-ROM drive that is removed": {
			func(in *Input) {
				drive := v1.Disk{Name: "cd", DiskDevice: v1.DiskDevice{CDRom: &v1.CDRomTarget{Bus: v1.DiskBusSATA}}}
				for _, spec := range []*v1.VirtualMachineInstanceSpec{&in.LastStarted.Template.Spec, &in.Running.Spec} {
					spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, drive)
				}
			},
			[]planned{{disks + "[cd]", `{"cdrom":{"bus":"sata"},"name":"cd"}`, "", Live, true, ByRestartRequired, "cd-rom-drive", "KubeVirt removes the drive from the running VM."}},
		},
		"a template of a DataVolume that exists": {
			func(in *Input) {
				in.LastStarted.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{ObjectMeta: metav1.ObjectMeta{Name: "root"}}}
				in.Desired.Spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{ObjectMeta: metav1.ObjectMeta{Name: "root"}}}
				in.Desired.Spec.DataVolumeTemplates[0].Spec.PriorityClassName = "high"
			},
			[]planned{{"spec.dataVolumeTemplates[root]", "root", "root", Never, false, Silent, "data-volume-template", "The DataVolume exists, and KubeVirt does not change it. The template only counts for a new one."}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := running(t)
			test.edit(in)
			if diff := cmp.Diff(test.want, plannedOf(Plan(in))); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// TestLayer holds that a change names the instancetype or the preference that it results from.
func TestLayer(t *testing.T) {
	sized := func(name string, cpus uint32) *instancetypes.Instancetype {
		in := &instancetypes.Instancetype{Kind: apikinds.VirtualMachineInstancetype, Name: name}
		in.Spec.CPU.Guest, in.Spec.Memory.Guest = cpus, resource.MustParse("2Gi")
		return in
	}
	in := running(t)
	for _, spec := range []*v1.VirtualMachineInstanceSpec{&in.LastStarted.Template.Spec, in.spec()} {
		spec.Domain.CPU, spec.Domain.Memory = nil, nil
		spec.Domain.Devices.Disks[0].Disk.Bus = ""
	}
	in.StartedKinds.Instancetype, in.DesiredKinds.Instancetype = sized("small", 2), sized("large", 4)
	in.DesiredKinds.Preference = &instancetypes.Preference{Name: "old", Spec: instancetypev1beta1.VirtualMachinePreferenceSpec{
		Devices: &instancetypev1beta1.DevicePreferences{PreferredDiskBus: v1.DiskBusSATA},
	}}
	in.spec().Hostname = "x"
	got := map[string]string{}
	for _, c := range Plan(in).Changes {
		got[c.Field] = c.Layer
	}
	want := map[string]string{sockets: "instancetype/large", disks + "[root].disk.bus": "preference/old", template + "hostname": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
}

// The value of a field that is a pointer is compared with the one that runs.
func TestPointersToScalars(t *testing.T) {
	for name, s := range map[string]struct {
		started, runs, wants int64
		takes                Takes
	}{
		"changed":            {80, 80, 81, Restart},
		"changed, drifted":   {80, 82, 81, Restart},
		"explicit default":   {80, 81, 81, Live},
		"another that is 0":  {80, 80, 0, Restart},
		"running without it": {80, 0, 81, Restart},
	} {
		t.Run(name, func(t *testing.T) {
			in := running(t)
			in.LastStarted.Template.Spec.TerminationGracePeriodSeconds = &s.started
			in.Desired.Spec.Template.Spec.TerminationGracePeriodSeconds = &s.wants
			if in.Running.Spec.TerminationGracePeriodSeconds = &s.runs; s.runs == 0 {
				in.Running.Spec.TerminationGracePeriodSeconds = nil
			}
			result := Plan(in)
			if len(result.Changes) != 1 || result.Changes[0].Takes != s.takes || result.Changes[0].Field != "spec.template.spec.terminationGracePeriodSeconds" {
				t.Errorf("%+v", result.Changes)
			}
		})
	}
}
