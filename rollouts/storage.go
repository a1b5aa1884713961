package rollouts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/claims"
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
	if !p.hotplugsVolumes() || p.sameStorage() {
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

// sameStorage reports whether the instance has the volumes of the VM, and its disks by their names.
func (p *planner) sameStorage() bool {
	wanted, runs := p.written.Domain.Devices.Disks, p.running.Domain.Devices.Disks
	return same(&p.written.Volumes, &p.running.Volumes) &&
		slices.EqualFunc(wanted, runs, func(a, b v1.Disk) bool { return a.Name == b.Name })
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
	switch invalid, missing := p.destinations(moved); {
	case missing != "":
		return outcome{condition: true}
	case invalid != "" || p.leftBehind(moved) != "":
		return outcome{restart: ReasonVolumesInvalid}
	case len(migrated) > 0: // KubeVirt changes the volumes in the status only
		return outcome{}
	}
	return outcome{patched: true, condition: true}
}

// movedClaims are the volumes whose claim differs from the one of the instance, by their names.
func (p *planner) movedClaims() map[string]*v1.Volume {
	moved := map[string]*v1.Volume{}
	for i := range p.running.Volumes {
		runs := &p.running.Volumes[i]
		wants := p.wantedVolumes.find(runs.Name)
		if from, to := claims.OfVolume(runs), claims.OfVolume(wants); from != "" && to != "" && from != to {
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
		if m.SourcePVCInfo == nil || claims.OfVolume(moved[m.VolumeName]) != m.SourcePVCInfo.ClaimName {
			return false
		}
	}
	return len(moved) == len(migrated)
}

// destinations says why a volume cannot be migrated, and which destination does not exist. Both are empty if all is well.
func (p *planner) destinations(moved map[string]*v1.Volume) (invalid, missing string) {
	disks := indexed(p.running.Domain.Devices.Disks, diskName)
	for i := range p.wanted.Volumes {
		volume := &p.wanted.Volumes[i]
		if moved[volume.Name] == nil {
			continue
		}
		why := p.unmovable(volume, disks.find(volume.Name))
		if why == "" && p.isMissing(volume) {
			return "", claims.OfVolume(volume)
		}
		if why == "" && p.unpopulated(volume) {
			why = "the DataVolume of " + volume.Name + " is not filled by a volume populator"
		}
		if invalid == "" {
			invalid = why
		}
	}
	return invalid, ""
}

// unmovable says why a volume cannot be migrated to any claim.
func (p *planner) unmovable(volume *v1.Volume, disk *v1.Disk) string {
	switch {
	case slices.ContainsFunc(p.running.Domain.Devices.Filesystems, func(f v1.Filesystem) bool { return f.Name == volume.Name }):
		return "the volume " + volume.Name + " is shared as a filesystem"
	case disk != nil && disk.Shareable != nil && *disk.Shareable:
		return "the disk " + volume.Name + " is shareable"
	case disk != nil && disk.LUN != nil:
		return "the disk " + volume.Name + " is a LUN"
	}
	return ""
}

// unpopulated reports whether KubeVirt rejects the destination: a DataVolume that is neither ready nor filled by a populator.
func (p *planner) unpopulated(volume *v1.Volume) bool {
	if !p.in.Storage.Known || volume.DataVolume == nil {
		return false
	}
	return p.in.Storage.DataVolumes[volume.DataVolume.Name].Phase != cdiv1beta1.Succeeded && !p.in.Storage.Claims[volume.DataVolume.Name].Populated
}

// isMissing reports whether the destination of a volume does not exist.
func (p *planner) isMissing(volume *v1.Volume) bool {
	if !p.in.Storage.Known {
		return false
	}
	_, hasClaim := p.in.Storage.Claims[claims.OfVolume(volume)]
	if volume.DataVolume == nil {
		return !hasClaim
	}
	dataVolume, exists := p.in.Storage.DataVolumes[volume.DataVolume.Name]
	return !exists || !hasClaim && dataVolume.Phase != cdiv1beta1.Succeeded
}

// unreadyDataVolume is the name of a DataVolume of the VM that is not filled. KubeVirt changes nothing until it is.
func (p *planner) unreadyDataVolume() string {
	if !p.in.Storage.Known || p.in.Desired.Annotations[v1.ImmediateDataVolumeCreation] == "false" {
		return ""
	}
	for i := range p.in.Desired.Spec.DataVolumeTemplates {
		name := p.in.Desired.Spec.DataVolumeTemplates[i].Name
		dataVolume, exists := p.in.Storage.DataVolumes[name]
		if _, hasClaim := p.in.Storage.Claims[name]; exists && !dataVolume.ready() || !exists && !hasClaim {
			return name
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
		shared := claim == nil || slices.Contains(claim.AccessModes, corev1.ReadWriteMany) || slices.Contains(claim.AccessModes, corev1.ReadOnlyMany)
		if !shared && moved[status.Name] == nil && !p.backendStorage(status.Name) {
			return "the volume " + status.Name + " is ReadWriteOnce and keeps its claim"
		}
	}
	return ""
}

// backendStorage reports whether a volume holds the persistent state of the VM: it is not in the spec.
func (p *planner) backendStorage(name string) bool { return p.runningVolumes.find(name) == nil }
