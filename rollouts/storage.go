package rollouts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// hotplugsVolumes reports whether KubeVirt attaches and detaches hotpluggable volumes of the VM.
func (p *planner) hotplugsVolumes() bool {
	return p.gateOpen() && len(p.in.Desired.Status.VolumeRequests) == 0 && !migratesVolumes(&p.in.Desired.Spec) &&
		p.in.Running.Status.Phase == v1.Running
}

func (p *planner) gateOpen() bool {
	return p.facts.GateEnabled("DeclarativeHotplugVolumes") && !p.facts.GateEnabled("HotplugVolumes")
}

// hotplugVolumes attaches and detaches hotpluggable volumes.
func (p *planner) hotplugVolumes() outcome {
	if !p.hotplugsVolumes() {
		return outcome{}
	}
	volumes := p.pluggedVolumes()
	disks := p.pluggedDisks(volumes)
	if same(&volumes, &p.running.Volumes) && same(&disks, &p.running.Domain.Devices.Disks) {
		return outcome{}
	}
	if p.rejects(volumes, disks) {
		return outcome{failure: failRejected}
	}
	return outcome{patched: true}
}

// pluggedVolumes are the volumes that KubeVirt writes to the instance. A changed one is detached first.
func (p *planner) pluggedVolumes() []v1.Volume {
	wanted, running := indexed(p.written.Volumes, volumeName), indexed(p.running.Volumes, volumeName)
	var volumes []v1.Volume
	for i := range p.running.Volumes {
		runs := &p.running.Volumes[i]
		if wants := wanted.find(runs.Name); hotpluggable(runs) && (wants == nil || hotpluggable(wants) && !same(wants, runs)) {
			continue
		}
		volumes = append(volumes, *runs)
	}
	for i := range p.written.Volumes {
		if wants := &p.written.Volumes[i]; hotpluggable(wants) && running.find(wants.Name) == nil && p.volumeStatus(wants.Name) == nil {
			volumes = append(volumes, *wants)
		}
	}
	return volumes
}

// pluggedDisks are the disks that KubeVirt writes to the instance. A CD-ROM drive stays without its volume.
func (p *planner) pluggedDisks(volumes []v1.Volume) []v1.Disk {
	plugged, wantedVolumes := indexed(volumes, volumeName), indexed(p.written.Volumes, volumeName)
	wanted, running := indexed(p.written.Domain.Devices.Disks, diskName), indexed(p.running.Domain.Devices.Disks, diskName)
	var disks []v1.Disk
	for i := range p.running.Domain.Devices.Disks {
		runs := &p.running.Domain.Devices.Disks[i]
		wants := wanted.find(runs.Name)
		if plugged.find(runs.Name) != nil || wants != nil && (wantedVolumes.find(runs.Name) == nil || runs.CDRom != nil) {
			disks = append(disks, *runs)
		}
	}
	for i := range p.written.Domain.Devices.Disks {
		wants := &p.written.Domain.Devices.Disks[i]
		if hotpluggable(plugged.find(wants.Name)) && running.find(wants.Name) == nil {
			disks = append(disks, *wants)
		}
	}
	return disks
}

func (p *planner) volumeStatus(name string) *v1.VolumeStatus {
	for i := range p.in.Running.Status.VolumeStatus {
		if s := &p.in.Running.Status.VolumeStatus[i]; s.Name == name {
			return s
		}
	}
	return nil
}

// rejects reports whether KubeVirt's webhook rejects the volumes and disks for the running instance.
func (p *planner) rejects(volumes []v1.Volume, disks []v1.Disk) bool {
	named := indexed(volumes, volumeName)
	count, required := 0, len(p.running.Domain.Devices.Filesystems)
	for i := range volumes {
		if volumes[i].MemoryDump == nil {
			count++
		}
	}
	for i := range disks {
		if disks[i].CDRom == nil || named.find(disks[i].Name) != nil {
			required++
		}
	}
	if count != required {
		return true
	}
	for i := range p.running.Volumes {
		name := p.running.Volumes[i].Name
		if status := p.volumeStatus(name); status != nil && status.HotplugVolume == nil && named.find(name) == nil {
			return true
		}
	}
	return p.rejectsNew(volumes, disks)
}

func (p *planner) rejectsNew(volumes []v1.Volume, disks []v1.Disk) bool {
	runningVolumes, runningDisks := indexed(p.running.Volumes, volumeName), indexed(p.running.Domain.Devices.Disks, diskName)
	wanted := indexed(disks, diskName)
	for i := range volumes {
		name := volumes[i].Name
		if runningVolumes.find(name) != nil {
			continue
		}
		disk := wanted.find(name)
		if disk == nil || runningDisks.find(name) == nil && !pluggable(disk) {
			return true
		}
	}
	return false
}

// pluggable reports whether a disk can be plugged into a running instance.
func pluggable(disk *v1.Disk) bool {
	var bus v1.DiskBus
	switch {
	case disk.Disk != nil:
		if bus = disk.Disk.Bus; bus != v1.DiskBusSCSI && bus != v1.DiskBusVirtio {
			return false
		}
	case disk.LUN != nil:
		if bus = disk.LUN.Bus; bus != v1.DiskBusSCSI {
			return false
		}
	default:
		return false
	}
	if disk.DedicatedIOThread != nil && *disk.DedicatedIOThread && bus != v1.DiskBusVirtio {
		return false
	}
	return disk.BootOrder == nil || *disk.BootOrder >= 1
}

// migrateClaims migrates volumes to other claims.
func (p *planner) migrateClaims() outcome {
	moved := p.movedClaims()
	migrated := p.in.Running.Status.MigratedVolumes
	if p.in.is(v1.VirtualMachineInstanceVolumesChange) && slices.ContainsFunc(migrated, func(m v1.StorageMigratedVolumeInfo) bool { return moved[m.VolumeName] != nil }) {
		if p.revertsClaims(moved) {
			return outcome{patched: true, condition: true}
		}
		return outcome{failure: failRevert}
	}
	if !migratesVolumes(&p.in.Desired.Spec) || len(moved) == 0 || p.in.Desired.Spec.RunStrategy != nil && *p.in.Desired.Spec.RunStrategy == v1.RunStrategyWaitAsReceiver {
		return outcome{}
	}
	if p.unmovable(moved) != "" {
		return outcome{restart: ReasonVolumesInvalid}
	}
	if p.missingClaim(moved) != "" {
		return outcome{condition: true}
	}
	if p.leftBehind(moved) != "" {
		return outcome{restart: ReasonVolumesInvalid}
	}
	return outcome{patched: true, condition: true}
}

// movedClaims are the volumes whose claim differs from the one of the instance, by their names.
func (p *planner) movedClaims() map[string]*v1.Volume {
	moved := map[string]*v1.Volume{}
	for i := range p.running.Volumes {
		runs := &p.running.Volumes[i]
		wants := p.volumes.wanted[runs.Name]
		if from, to := claimOf(runs), claimOf(wants); from != "" && to != "" && from != to {
			moved[runs.Name] = wants
		}
	}
	return moved
}

// revertsClaims reports whether all volumes of the migration have their previous claims again, and no other one moves.
func (p *planner) revertsClaims(moved map[string]*v1.Volume) bool {
	migrated := p.in.Running.Status.MigratedVolumes
	for i := range migrated {
		m := &migrated[i]
		if m.SourcePVCInfo == nil || claimOf(moved[m.VolumeName]) != m.SourcePVCInfo.ClaimName {
			return false
		}
	}
	return len(moved) == len(migrated)
}

// unmovable says why a volume cannot be migrated; it is empty if all can.
func (p *planner) unmovable(moved map[string]*v1.Volume) string {
	for _, name := range sortedNames(moved) {
		disks := indexed(p.running.Domain.Devices.Disks, diskName)
		disk := disks.find(name)
		switch {
		case slices.ContainsFunc(p.running.Domain.Devices.Filesystems, func(f v1.Filesystem) bool { return f.Name == name }):
			return "the volume " + name + " is shared as a filesystem"
		case disk == nil:
		case disk.Shareable != nil && *disk.Shareable:
			return "the disk " + name + " is shareable"
		case disk.LUN != nil:
			return "the disk " + name + " is a LUN"
		case p.unpopulated(moved[name]):
			return "the DataVolume of " + name + " is not filled by a volume populator"
		}
	}
	return ""
}

// unpopulated reports whether KubeVirt rejects the destination: a DataVolume that is neither ready nor filled by a populator.
func (p *planner) unpopulated(volume *v1.Volume) bool {
	if !p.in.Storage.Known || volume.DataVolume == nil {
		return false
	}
	dataVolume, exists := p.in.Storage.DataVolumes[volume.DataVolume.Name]
	claim, hasClaim := p.in.Storage.Claims[volume.DataVolume.Name]
	return exists && !dataVolume.Succeeded && hasClaim && !claim.Populated
}

// missingClaim is the name of a destination that does not exist.
func (p *planner) missingClaim(moved map[string]*v1.Volume) string {
	if !p.in.Storage.Known {
		return ""
	}
	for _, name := range sortedNames(moved) {
		volume := moved[name]
		claim := claimOf(volume)
		_, hasClaim := p.in.Storage.Claims[claim]
		dataVolume, hasDataVolume := p.in.Storage.DataVolumes[claim]
		if volume.DataVolume != nil && (!hasDataVolume || !hasClaim && !dataVolume.Succeeded) || volume.DataVolume == nil && !hasClaim {
			return claim
		}
	}
	return ""
}

// leftBehind says why the instance cannot migrate with the volumes.
func (p *planner) leftBehind(moved map[string]*v1.Volume) string {
	if status, message := p.in.condition(v1.VirtualMachineInstanceIsStorageLiveMigratable); status == corev1.ConditionFalse {
		return "the storage of the VM cannot be migrated: " + message
	}
	for i := range p.in.Running.Status.VolumeStatus {
		status := &p.in.Running.Status.VolumeStatus[i]
		claim := status.PersistentVolumeClaimInfo
		if claim == nil || moved[status.Name] != nil || !slices.Contains(claim.AccessModes, corev1.ReadWriteOnce) || p.backendStorage(status.Name) {
			continue
		}
		if !slices.Contains(claim.AccessModes, corev1.ReadWriteMany) {
			return "the volume " + status.Name + " is ReadWriteOnce and keeps its claim"
		}
	}
	return ""
}

// backendStorage reports whether a volume holds the persistent state of the VM: it is not in the spec.
func (p *planner) backendStorage(name string) bool { return p.volumes.running[name] == nil }

func sortedNames(volumes map[string]*v1.Volume) []string {
	names := make([]string, 0, len(volumes))
	for name := range volumes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
