package e2e

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/test/simulators"
)

// The names of the fields in the rows.
const (
	inSpec  = "spec.template.spec."
	sockets = inSpec + "domain.cpu.sockets"
	guest   = inSpec + "domain.memory.guest"
)

// edit changes a VM.
type edit func(*kubevirtv1.VirtualMachine)

// rolloutRow is a change of a running VM, and the result.
type rolloutRow struct {
	// rule and what name the row; the first one is the rule of docs/rollouts.md.
	rule, what string
	// before is what the VM has at its start, and prepare what happens while it runs.
	before  edit
	prepare func(context.Context, *kubevirtv1.VirtualMachine)
	change  edit
	// field that the plan must name, and when it takes effect.
	field string
	takes rollouts.Takes
	// warning is a part of the warning at the change; empty if there must be none.
	warning string
}

func spec(change func(*kubevirtv1.VirtualMachineInstanceSpec)) edit {
	return func(vm *kubevirtv1.VirtualMachine) { change(&vm.Spec.Template.Spec) }
}

func cpu(change func(*kubevirtv1.CPU)) edit {
	return spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) { change(s.Domain.CPU) })
}

func withSockets(number uint32) edit {
	return cpu(func(c *kubevirtv1.CPU) { c.Sockets = number })
}

func withGuest(size string) edit {
	return spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		s.Domain.Memory.Guest = new(resource.MustParse(size))
	})
}

func annotated(key, value string) edit {
	return func(vm *kubevirtv1.VirtualMachine) { vm.Annotations = map[string]string{key: value} }
}

func templateLabelled(key, value string) edit {
	return func(vm *kubevirtv1.VirtualMachine) {
		vm.Spec.Template.ObjectMeta.Labels = map[string]string{key: value}
	}
}

func templateAnnotated(key, value string) edit {
	return func(vm *kubevirtv1.VirtualMachine) {
		vm.Spec.Template.ObjectMeta.Annotations = map[string]string{key: value}
	}
}

var (
	onArm64 = spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) { s.Architecture = "arm64" })
	// realtime has what its CPUs require: a CPU for each thread, and huge pages on the same NUMA nodes.
	realtime = spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		s.Domain.CPU.DedicatedCPUPlacement, s.Domain.CPU.Realtime = true, &kubevirtv1.Realtime{}
		s.Domain.CPU.NUMA = &kubevirtv1.NUMA{GuestMappingPassthrough: &kubevirtv1.NUMAGuestMappingPassthrough{}}
		s.Domain.Memory.Hugepages = &kubevirtv1.Hugepages{PageSize: "2Mi"}
	})
	encrypted = spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		s.Domain.LaunchSecurity = &kubevirtv1.LaunchSecurity{SEV: &kubevirtv1.SEV{}}
		s.Domain.Firmware.Bootloader = &kubevirtv1.Bootloader{EFI: &kubevirtv1.EFI{SecureBoot: new(false)}}
	})
)

func named(name string) edit {
	return spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) { s.Hostname = name })
}

func both(edits ...edit) edit {
	return func(vm *kubevirtv1.VirtualMachine) {
		for _, e := range edits {
			e(vm)
		}
	}
}

// claimed is a VM with a disk of a claim.
func claimed(claim string, hotpluggable bool, bus kubevirtv1.DiskBus) edit {
	return spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		source := &kubevirtv1.PersistentVolumeClaimVolumeSource{Hotpluggable: hotpluggable}
		source.ClaimName = claim
		s.Volumes = append(s.Volumes, kubevirtv1.Volume{Name: "data", VolumeSource: kubevirtv1.VolumeSource{PersistentVolumeClaim: source}})
		s.Domain.Devices.Disks = append(s.Domain.Devices.Disks, kubevirtv1.Disk{Name: "data", DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: bus}}})
	})
}

func reclaimed(claim string) edit {
	return spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		s.Volumes[len(s.Volumes)-1].PersistentVolumeClaim.ClaimName = claim
	})
}

func migratesVolumes(vm *kubevirtv1.VirtualMachine) {
	vm.Spec.UpdateVolumesStrategy = new(kubevirtv1.UpdateVolumesStrategyMigration)
}

// networked is a VM with an interface of another network.
func networked(change func(*kubevirtv1.Interface)) edit {
	return spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		i := kubevirtv1.Interface{Name: "blue"}
		change(&i)
		s.Domain.Devices.Interfaces = append(s.Domain.Devices.Interfaces, i)
		s.Networks = append(s.Networks, kubevirtv1.Network{Name: "blue", NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: "blue"}}})
	})
}

func bridge(i *kubevirtv1.Interface) { i.Bridge = &kubevirtv1.InterfaceBridge{} }

func sriov(i *kubevirtv1.Interface) { i.SRIOV = &kubevirtv1.InterfaceSRIOV{} }

func withState(state kubevirtv1.InterfaceState) edit {
	return spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) { s.Domain.Devices.Interfaces[1].State = state })
}

// claims creates claims that all nodes can use.
func claims(modes corev1.PersistentVolumeAccessMode, names ...string) func(context.Context, *kubevirtv1.VirtualMachine) {
	return func(ctx context.Context, vm *kubevirtv1.VirtualMachine) {
		GinkgoHelper()
		for _, name := range names {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{modes},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}}
			Expect(admin.Create(ctx, claim)).To(Succeed())
			cleanUpClaim(claim)
		}
	}
}

// templated is a VM with a DataVolume of its own.
func templated(vm *kubevirtv1.VirtualMachine) {
	spec := &vm.Spec.Template.Spec
	spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: "data", VolumeSource: kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: vm.Name}}})
	spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirtv1.Disk{Name: "data", DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusVirtio}}})
	vm.Spec.DataVolumeTemplates = []kubevirtv1.DataVolumeTemplateSpec{{
		ObjectMeta: metav1.ObjectMeta{Name: vm.Name},
		Spec: cdiv1beta1.DataVolumeSpec{
			Source:  &cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}},
			Storage: &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		},
	}}
}

// dataVolume creates the DataVolume of a VM in a phase.
func dataVolume(phase cdiv1beta1.DataVolumePhase) func(context.Context, *kubevirtv1.VirtualMachine) {
	return func(ctx context.Context, vm *kubevirtv1.VirtualMachine) {
		GinkgoHelper()
		volume := &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: vm.Name}}
		Expect(admin.Create(ctx, volume)).To(Succeed())
		volume.Status.Phase = phase
		Expect(admin.Status().Update(ctx, volume)).To(Succeed())
		cleanUp(volume)
	}
}

func drive(s *kubevirtv1.VirtualMachineInstanceSpec) {
	s.Domain.Devices.Disks = append(s.Domain.Devices.Disks, kubevirtv1.Disk{Name: "cd", DiskDevice: kubevirtv1.DiskDevice{CDRom: &kubevirtv1.CDRomTarget{Bus: kubevirtv1.DiskBusSATA}}})
}

const (
	byMigration = "takes effect with a live migration. The guest gets the change with the next live migration. KubeVirt does not start one."
	byRestart   = "takes effect when the VM restarts."
	atStart     = byRestart + " KubeVirt applies this field only when the VM starts."
	noMaximum   = byRestart + " The VM was started without a maximum of memory, so that none can be added." // KubeVirt computes none
	noMigration = byRestart + " The change needs a live migration, and the VM cannot be migrated: a device."
)

// rolloutRows has the rules of docs/rollouts.md, with their exceptions.
var rolloutRows = []rolloutRow{
	{
		rule: "stopped", what: "a VM that is halted", before: func(vm *kubevirtv1.VirtualMachine) { vm.Spec.RunStrategy = new(kubevirtv1.RunStrategyHalted) },
		change: named("other"), field: inSpec + "hostname", takes: rollouts.NextStart,
	},
	{
		rule: "instancetype-missing", what: "an instancetype that does not exist", before: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: "e2e.rows"}
			vm.Spec.Template.Spec.Domain.CPU, vm.Spec.Template.Spec.Domain.Memory = nil, nil
		}, change: both(named("other"), func(vm *kubevirtv1.VirtualMachine) { vm.Spec.Instancetype.Name = "e2e.absent" }),
		field: inSpec + "hostname", takes: rollouts.Blocked, warning: `VirtualMachineClusterInstancetype "e2e.absent" does not exist. KubeVirt applies no change of the VM until it does.`,
	},
	{
		rule: "run-strategy", what: "another run strategy", change: func(vm *kubevirtv1.VirtualMachine) { vm.Spec.RunStrategy = new(kubevirtv1.RunStrategyManual) },
		field: "spec.runStrategy", takes: rollouts.Live,
	},
	{
		rule: "data-volume-unready", what: "a DataVolume that is being filled", before: templated, prepare: dataVolume(cdiv1beta1.ImportInProgress),
		change: named("other"), field: inSpec + "hostname", takes: rollouts.Blocked, warning: "is blocked. KubeVirt applies no change of the VM until the DataVolume NAME is filled.",
	},
	{
		rule: "explicit-default", what: "the CPU model that the instance has", change: cpu(func(c *kubevirtv1.CPU) { c.Model = "host-model" }),
		field: inSpec + "domain.cpu.model", takes: rollouts.Live,
	},

	{rule: "sockets", what: "more", change: withSockets(4), field: sockets, takes: rollouts.LiveOnMigration, warning: byMigration},
	{rule: "sockets", what: "fewer", change: withSockets(1), field: sockets, takes: rollouts.Restart, warning: byRestart + " CPU sockets can only be added to a running VM, not removed."},
	{rule: "sockets", what: "beyond the maximum of the start", change: withSockets(9), field: sockets, takes: rollouts.Restart, warning: byRestart + " The VM was started with a maximum of 8 sockets."},
	{rule: "sockets", what: "a VM that cannot be migrated", before: annotated(simulators.NotMigratable, "a device"), change: withSockets(4), field: sockets, takes: rollouts.Restart, warning: noMigration},
	{
		rule: "sockets", what: "with a field that needs a restart", change: both(withSockets(4), named("other")), field: sockets, takes: rollouts.Restart,
		warning: "spec.template.spec.domain.cpu.sockets: " + byRestart + " The changed field hostname needs a restart. Until then, KubeVirt applies no live change of this kind.",
	},
	{
		rule: "sockets", what: "an earlier change that waits", prepare: applying(withSockets(3), pendingSockets), change: withSockets(4), field: sockets, takes: rollouts.Blocked,
		warning: "is blocked. An earlier change of this kind is in progress.",
	},

	{rule: "guest-memory", what: "more", change: withGuest("4Gi"), field: guest, takes: rollouts.LiveOnMigration, warning: byMigration},
	{rule: "guest-memory", what: "beyond the maximum of the start", change: withGuest("9Gi"), field: guest, takes: rollouts.Restart, warning: byRestart + " The VM was started with a maximum of 8Gi."},
	{rule: "guest-memory", what: "below the memory of the start", change: withGuest("1Gi"), field: guest, takes: rollouts.Restart, warning: byRestart + " The VM was started with 2Gi. Less is only possible after a restart."},
	{rule: "guest-memory", what: "not a multiple of 2Mi", change: withGuest("3221225473"), field: guest, takes: rollouts.Restart, warning: byRestart + " The guest memory is not a multiple of 2Mi."},
	{rule: "guest-memory", what: "a VM that cannot be migrated", before: annotated(simulators.NotMigratable, "a device"), change: withGuest("4Gi"), field: guest, takes: rollouts.Restart, warning: noMigration},

	{
		rule: "sockets", what: "on arm64", before: both(onArm64, cpu(func(c *kubevirtv1.CPU) { c.MaxSockets = 8 })), change: withSockets(4),
		field: sockets, takes: rollouts.Restart, warning: sockets + ": " + byRestart + " On arm64, CPUs cannot be added to a running VM.",
	},
	{
		rule: "guest-memory", what: "on arm64", before: onArm64, change: withGuest("4Gi"),
		field: guest, takes: rollouts.Restart, warning: guest + ": " + noMaximum,
	},
	{
		rule: "guest-memory", what: "realtime CPUs", before: realtime, change: withGuest("4Gi"),
		field: guest, takes: rollouts.Restart, warning: guest + ": " + noMaximum,
	},
	{
		rule: "guest-memory", what: "encrypted memory", before: encrypted, change: withGuest("4Gi"),
		field: guest, takes: rollouts.Restart, warning: guest + ": " + noMaximum,
	},
	{
		rule: "node-selector-and-affinity", what: "a node selector", change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) { s.NodeSelector = map[string]string{"zone": "a"} }),
		field: inSpec + "nodeSelector[zone]", takes: rollouts.LiveOnMigration, warning: byMigration,
	},
	{
		rule: "node-selector-and-affinity", what: "a VM that cannot be migrated", before: annotated(simulators.NotMigratable, "a device"),
		change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) { s.NodeSelector = map[string]string{"zone": "a"} }),
		field:  inSpec + "nodeSelector[zone]", takes: rollouts.Restart, warning: noMigration,
	},
	{rule: "tolerations", what: "one more", change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		s.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	}), field: inSpec + "tolerations", takes: rollouts.LiveOnMigration, warning: byMigration},

	{
		rule: "volume-migration", what: "a claim that exists", before: both(claimed("row-from", false, kubevirtv1.DiskBusVirtio), migratesVolumes),
		prepare: claims(corev1.ReadWriteMany, "row-from", "row-to"), change: reclaimed("row-to"),
		field: inSpec + "volumes[data].persistentVolumeClaim.claimName", takes: rollouts.LiveOnMigration, warning: byMigration,
	},
	{
		rule: "volume-migration", what: "a claim that does not exist", before: both(claimed("row-from", false, kubevirtv1.DiskBusVirtio), migratesVolumes),
		prepare: claims(corev1.ReadWriteMany, "row-from"), change: reclaimed("row-missing"),
		field: inSpec + "volumes[data].persistentVolumeClaim.claimName", takes: rollouts.Blocked, warning: "is blocked. The volume migration waits for the claim row-missing, which does not exist.",
	},
	{rule: "hotplug-volume", what: "one more", change: claimed("row-hot", true, kubevirtv1.DiskBusSCSI), field: inSpec + "volumes[data]", takes: rollouts.Live},
	{rule: "hotplug-volume", what: "removed", before: claimed("row-hot", true, kubevirtv1.DiskBusSCSI), change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		s.Volumes, s.Domain.Devices.Disks = s.Volumes[:1], s.Domain.Devices.Disks[:1]
	}), field: inSpec + "volumes[data]", takes: rollouts.Live},
	{
		rule: "hotplug-volume", what: "a disk that the instance rejects", change: claimed("row-hot", true, kubevirtv1.DiskBusSATA), field: inSpec + "volumes[data]", takes: rollouts.Restart,
		warning: byRestart + " The VM accepts this disk, but the running instance rejects it without end",
	},
	{
		rule: "hotplug-volume", what: "under the strategy Migration", before: migratesVolumes, change: claimed("row-hot", true, kubevirtv1.DiskBusSCSI), field: inSpec + "volumes[data]", takes: rollouts.Restart,
		warning: byRestart + " With updateVolumesStrategy Migration, KubeVirt neither attaches nor detaches volumes.",
	},
	{
		rule: "hotplugged-disk", what: "its serial", before: claimed("row-hot", true, kubevirtv1.DiskBusSCSI), change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) { s.Domain.Devices.Disks[1].Serial = "A1" }),
		field: inSpec + "domain.devices.disks[data].serial", takes: rollouts.Restart, warning: byRestart + " KubeVirt does not change the disk of an attached volume.",
	},
	{
		rule: "cd-rom-drive", what: "removed", before: spec(drive), change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) { s.Domain.Devices.Disks = s.Domain.Devices.Disks[:1] }),
		field: inSpec + "domain.devices.disks[cd]", takes: rollouts.Live,
	},
	{
		rule: "device-order", what: "interfaces", before: networked(bridge), change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) { slices.Reverse(s.Domain.Devices.Interfaces) }),
		field: inSpec + "domain.devices.interfaces", takes: rollouts.Restart, warning: byRestart + " The guest gets its devices in the new order when the VM starts.",
	},

	{rule: "interface-added", what: "by a bridge", change: networked(bridge), field: inSpec + "domain.devices.interfaces[blue]", takes: rollouts.LiveOnMigration, warning: byMigration},
	{
		rule: "interface-added", what: "by SR-IOV, to a VM that cannot be migrated", before: annotated(simulators.NotMigratable, "a device"), change: networked(sriov),
		field: inSpec + "domain.devices.interfaces[blue]", takes: rollouts.Restart, warning: noMigration,
	},
	{
		rule: "interface-added", what: "by a binding plugin", change: networked(func(i *kubevirtv1.Interface) { i.Binding = &kubevirtv1.PluginBinding{Name: "plugin"} }),
		field: inSpec + "domain.devices.interfaces[blue]", takes: rollouts.Restart, warning: byRestart + " Only interfaces with the binding bridge or sriov can be added to a running VM.",
	},
	{rule: "interface-state", what: "down", before: networked(bridge), change: withState(kubevirtv1.InterfaceStateLinkDown), field: inSpec + "domain.devices.interfaces[blue].state", takes: rollouts.Live},
	{rule: "interface-state", what: "absent", before: networked(bridge), change: withState(kubevirtv1.InterfaceStateAbsent), field: inSpec + "domain.devices.interfaces[blue].state", takes: rollouts.Live},
	{rule: "interface-removed", what: "without the state absent", before: networked(bridge), change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		s.Domain.Devices.Interfaces, s.Networks = s.Domain.Devices.Interfaces[:1], s.Networks[:1]
	}), field: inSpec + "domain.devices.interfaces[blue]", takes: rollouts.Restart, warning: byRestart + " KubeVirt does not unplug an interface that the VM does not have any more."},
	{
		rule: "network-attachment", what: "another one", before: networked(bridge), change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) { s.Networks[1].Multus.NetworkName = "green" }),
		field: inSpec + "networks[blue].multus.networkName", takes: rollouts.LiveOnMigration, warning: byMigration,
	},

	{
		rule: "synced-metadata", what: "an annotation that KubeVirt copies", change: templateAnnotated("descheduler.alpha.kubernetes.io/evict", "true"),
		field: "spec.template.metadata.annotations[descheduler.alpha.kubernetes.io/evict]", takes: rollouts.Live,
	},
	{
		rule: "metadata", what: "a label", change: templateLabelled("team", "a"), field: "spec.template.metadata.labels[team]", takes: rollouts.Restart,
		warning: byRestart + " KubeVirt copies it to the instance only when the VM starts.",
	},
	{rule: "data-volume-template", what: "of a DataVolume that exists", before: templated, prepare: dataVolume(cdiv1beta1.Succeeded), change: func(vm *kubevirtv1.VirtualMachine) {
		vm.Spec.DataVolumeTemplates[0].Spec.Storage.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	}, field: "spec.dataVolumeTemplates[NAME]", takes: rollouts.Never, warning: "has no effect. The DataVolume exists, and KubeVirt does not change it."},
	{rule: "max-sockets", what: "a maximum of the VM", change: cpu(func(c *kubevirtv1.CPU) { c.MaxSockets = 16 }), field: inSpec + "domain.cpu.maxSockets", takes: rollouts.Restart, warning: byRestart},
	{rule: "max-guest", what: "a maximum of the VM", change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		s.Domain.Memory.MaxGuest = new(resource.MustParse("16Gi"))
	}), field: inSpec + "domain.memory.maxGuest", takes: rollouts.Restart, warning: byRestart},
	{rule: "firmware-uuid", what: "another one", change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		s.Domain.Firmware.UUID = "22222222-2222-4333-8444-555555555555"
	}), field: inSpec + "domain.firmware.uuid", takes: rollouts.Restart, warning: byRestart + " The guest sees another firmware UUID after the restart. Licenses may depend on it."},
	{rule: "other", what: "the host name", change: named("other"), field: inSpec + "hostname", takes: rollouts.Restart, warning: atStart},
	{rule: "other", what: "cores", change: cpu(func(c *kubevirtv1.CPU) { c.Cores = 2 }), field: inSpec + "domain.cpu.cores", takes: rollouts.Restart, warning: atStart},
	{
		rule: "other", what: "the machine type", change: spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
			s.Domain.Machine = &kubevirtv1.Machine{Type: "pc-q35-9.0"}
		}),
		field: inSpec + "domain.machine.type", takes: rollouts.Restart, warning: atStart,
	},
}
