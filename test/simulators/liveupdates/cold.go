package liveupdates

import (
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/claims"
)

// cold reports whether the VM differs from the start of the instance in what is never updated live. The fields that are
// live become equal first; then the two templates are compared as a whole.
func (p *pass) cold() bool {
	if p.Started == nil {
		return false
	}
	started, wanted := p.Started.Spec.DeepCopy(), p.Wanted.Spec.DeepCopy()
	p.equateUUID(started, wanted)
	if p.liveUpdate() {
		equateLive(started, wanted)
	}
	if !p.coldVolumes(started, wanted) {
		started.Volumes = wanted.Volumes
	}
	if !p.coldDisks(started, wanted) {
		started.Domain.Devices.Disks = wanted.Domain.Devices.Disks
	}
	if !p.coldNetworks(wanted) || same(started.Networks, wanted.Networks) && same(started.Domain.Devices.Interfaces, wanted.Domain.Devices.Interfaces) {
		started.Networks, started.Domain.Devices.Interfaces = wanted.Networks, wanted.Domain.Devices.Interfaces
	}
	return !same(started, wanted)
}

// equateLive copies what the strategy LiveUpdate updates.
func equateLive(started, wanted *kubevirtv1.VirtualMachineInstanceSpec) {
	if started.Domain.CPU != nil && wanted.Domain.CPU != nil {
		started.Domain.CPU.Sockets = wanted.Domain.CPU.Sockets
	}
	if m := wanted.Domain.Memory; m != nil && m.Guest != nil {
		if started.Domain.Memory == nil {
			started.Domain.Memory = &kubevirtv1.Memory{}
		}
		started.Domain.Memory.Guest = m.Guest
	}
	started.NodeSelector, started.Affinity, started.Tolerations = wanted.NodeSelector, wanted.Affinity, wanted.Tolerations
}

// derived is the namespace of the UUIDs that KubeVirt derives from the names of VMs.
var derived = uuid.MustParse("6a1a24a1-4061-4607-8bf4-a3963d0c5895")

// equateUUID makes the firmware of both equal if the VM asks for the UUID that it was started with, or that it runs with.
func (p *pass) equateUUID(started, wanted *kubevirtv1.VirtualMachineInstanceSpec) {
	for _, spec := range []*kubevirtv1.VirtualMachineInstanceSpec{started, wanted} {
		if spec.Domain.Firmware == nil {
			spec.Domain.Firmware = &kubevirtv1.Firmware{}
		}
	}
	if wanted.Domain.Firmware.UUID == "" {
		wanted.Domain.Firmware.UUID = kubevirtUUID(p.VM.Name)
	}
	if runs := p.instance.Spec.Domain.Firmware; runs != nil && runs.UUID == wanted.Domain.Firmware.UUID {
		started.Domain.Firmware.UUID = runs.UUID
	}
}

func (p *pass) coldVolumes(started, wanted *kubevirtv1.VirtualMachineInstanceSpec) bool {
	for i := range wanted.Volumes {
		wants := &wanted.Volumes[i]
		was := volumeOf(started.Volumes, wants.Name)
		moves := p.migratesVolumes() && claims.OfVolume(wants) != "" && wants.MemoryDump == nil
		if pluggedLater(wants) || was != nil && (moves || same(was, wants)) {
			continue
		}
		return true
	}
	return slices.ContainsFunc(started.Volumes, func(was kubevirtv1.Volume) bool {
		return !pluggedLater(&was) && volumeOf(wanted.Volumes, was.Name) == nil
	})
}

func (p *pass) coldDisks(started, wanted *kubevirtv1.VirtualMachineInstanceSpec) bool {
	for i := range wanted.Domain.Devices.Disks {
		wants := &wanted.Domain.Devices.Disks[i]
		was := diskOf(started.Domain.Devices.Disks, wants.Name)
		if !pluggedLater(volumeOf(wanted.Volumes, wants.Name)) && (was == nil || !same(was, wants)) {
			return true
		}
	}
	return slices.ContainsFunc(started.Domain.Devices.Disks, func(was kubevirtv1.Disk) bool {
		if diskOf(wanted.Domain.Devices.Disks, was.Name) != nil {
			return false
		}
		volume := volumeOf(started.Volumes, was.Name)
		return was.CDRom != nil || volume != nil && !pluggedLater(volume)
	})
}

// coldNetworks compares with the instance, which has the interfaces that were plugged since its start.
func (p *pass) coldNetworks(wanted *kubevirtv1.VirtualMachineInstanceSpec) bool {
	running := &p.instance.Spec
	for i := range running.Domain.Devices.Interfaces {
		runs := running.Domain.Devices.Interfaces[i]
		wants := interfaceOf(wanted.Domain.Devices.Interfaces, runs.Name)
		if wants == nil {
			return true
		}
		runs.State = wants.State
		if !same(&runs, wants) {
			return true
		}
	}
	pod := func(n kubevirtv1.Network) bool { return n.Pod != nil }
	if slices.ContainsFunc(wanted.Networks, pod) && !slices.ContainsFunc(running.Networks, pod) {
		return true
	}
	for i := range running.Networks {
		runs := &running.Networks[i]
		wants := networkOf(wanted.Networks, runs.Name)
		if wants == nil || !same(runs, wants) && !p.movesNetwork(runs, wants) {
			return true
		}
	}
	return false
}

func kubevirtUUID(name string) types.UID {
	return types.UID(uuid.NewSHA1(derived, []byte(name)).String())
}
