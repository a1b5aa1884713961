package rollouts

import (
	"reflect"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/claims"
)

// requested applies to volumes of the subresources addvolume and removevolume.
func requested(p *planner, d *difference) bool {
	if d.list != "volumes" && d.list != "disks" {
		return false
	}
	for _, request := range p.in.Desired.Status.VolumeRequests {
		if add := request.AddVolumeOptions; add != nil && add.Name == d.item {
			return true
		}
		if remove := request.RemoveVolumeOptions; remove != nil && remove.Name == d.item {
			return true
		}
	}
	return false
}

func volumeRequest(*planner, *difference) decision {
	return decision{takes: Live, reason: "KubeVirt executes the request of the subresource, and then writes it into the VM."}
}

// movesClaim applies to volumes whose claim KubeVirt migrates.
func movesClaim(p *planner, d *difference) bool {
	if d.list != "volumes" || d.event != changed || claims.OfVolume(p.wantedVolumes.find(d.item)) == claims.OfVolume(p.runningVolumes.find(d.item)) {
		return false
	}
	if claims.OfVolume(p.wantedVolumes.find(d.item)) == "" || claims.OfVolume(p.runningVolumes.find(d.item)) == "" {
		return false
	}
	return migratesVolumes(&p.in.Desired.Spec) || p.in.is(v1.VirtualMachineInstanceVolumesChange)
}

func (p *planner) volumeMigration(*difference) decision {
	if v, waits := p.waiting(stepClaims); waits {
		return v
	}
	o, moved := &p.kubevirt.outcomes[stepClaims], p.movedClaims()
	v := decision{takes: Restart, announced: p.announcesRestart(), wayOut: wayOutRestart}
	switch {
	case o.failure != "":
		return decision{
			takes: Blocked, announced: ByFailure, reason: "A migration of the volumes is in progress. Until it ends, KubeVirt accepts only the previous claims.",
			wayOut: "Wait for the migration, or write the previous claims to cancel it.",
		}
	case o.patched && p.in.is(v1.VirtualMachineInstanceVolumesChange) && p.revertsClaims(moved):
		return decision{takes: Live, patched: true, announced: ByCondition, reason: "KubeVirt cancels the migration of the volumes."}
	case o.patched:
		return p.migration(true)
	case o.restart != "":
		why, _ := p.destinations(moved)
		if why == "" {
			why = p.leftBehind(moved)
		}
		v.reason = shortened("The volumes cannot be migrated: " + why + ".")
	case o.condition:
		_, missing := p.destinations(moved)
		v.takes, v.announced = Blocked, ByCondition
		v.reason = shortened("The volume migration waits for the claim " + missing + ", which does not exist.")
		v.wayOut = "Create the claim."
	case len(p.in.Running.Status.MigratedVolumes) > 0:
		v.takes, v.announced = Blocked, Silent
		v.reason, v.wayOut = "Another volume migration is in progress. KubeVirt ignores this volume until it ends.", "Wait for the migration to end."
	default:
		v.reason = "KubeVirt does not migrate these volumes."
	}
	return v
}

// hotplugs applies to hotpluggable volumes and their disks that are added, removed, or get another claim.
func hotplugs(p *planner, d *difference) bool {
	if d.list != "volumes" && d.list != "disks" || d.event == reordered {
		return false
	}
	wants, runs := p.wantedVolumes.find(d.item), p.runningVolumes.find(d.item)
	if d.list == "volumes" {
		return hotpluggable(wants) || wants == nil && hotpluggable(runs)
	}
	if isDrive(d) && runs == nil {
		return false
	}
	return d.event != changed && (hotpluggable(wants) || wants == nil && hotpluggable(runs)) || d.event == reattach
}

// hotplug decides about hotpluggable volumes.
func (p *planner) hotplug(d *difference) decision {
	o := &p.kubevirt.outcomes[stepHotplug]
	wants, runs := p.wantedVolumes.find(d.item), p.runningVolumes.find(d.item)
	v := decision{takes: Restart, announced: p.announcesRestart(), wayOut: wayOutRestart}
	switch {
	case runs != nil && wants != nil && !hotpluggable(runs):
		v.reason = "A volume cannot become hotpluggable while the VM runs with it."
	case !p.gateOpen():
		v.reason = "The feature gate DeclarativeHotplugVolumes of the cluster is off, or HotplugVolumes is on: KubeVirt ignores hotpluggable volumes of the VM."
		v.wayOut = "Use virtctl addvolume or removevolume, or restart the VM."
	case migratesVolumes(&p.in.Desired.Spec):
		v.reason = "With updateVolumesStrategy Migration, KubeVirt neither attaches nor detaches volumes."
		v.wayOut = "Remove spec.updateVolumesStrategy, or restart the VM."
	case len(p.in.Desired.Status.VolumeRequests) > 0:
		return decision{takes: Blocked, reason: "KubeVirt first executes the volume requests in the status of the VM.", wayOut: "Wait for the requests to end."}
	case p.in.Running.Status.Phase != v1.Running:
		return decision{takes: Blocked, reason: "KubeVirt attaches and detaches volumes once the VM runs.", wayOut: "Wait for the VM to run."}
	case !o.ran:
		return p.halted()
	case o.failure != "":
		return p.rejected(d)
	default:
		return p.hotplugged(d)
	}
	return v
}

// rejected decides about volumes that the webhook of the instance rejects, after that of the VM has accepted them.
func (p *planner) rejected(d *difference) decision {
	disks := indexed(p.written.Domain.Devices.Disks, diskName)
	disk := disks.find(d.item)
	if p.runningVolumes.find(d.item) == nil && (disk == nil || !pluggable(disk)) {
		return decision{
			takes: Restart, announced: ByFailure, reason: "The VM accepts this disk, but the running instance rejects it without end: it must be a disk with the bus virtio or scsi.",
			wayOut: "Set the bus to virtio or scsi. Otherwise, the disk needs a restart.",
		}
	}
	return decision{
		takes: Blocked, announced: ByFailure, reason: "The running instance rejects the volumes and disks of the VM. KubeVirt applies none of them.",
		wayOut: "Correct the other volumes and disks: each volume needs one disk, with the bus virtio or scsi.",
	}
}

// hotplugged decides about volumes that KubeVirt attaches and detaches.
func (p *planner) hotplugged(d *difference) decision {
	v := decision{takes: Live, patched: true}
	switch {
	case d.event == reattach:
		v.reattached, v.reason = true, "KubeVirt detaches the disk from the guest, and attaches it with the new volume."
	case isDrive(d):
		v.announced, v.reason = p.announcesRestart(), "KubeVirt removes the drive from the running VM."
	case d.event == removed:
		v.reason = "KubeVirt detaches it from the running VM."
	case d.event == changed:
		v.reattached, v.reason = true, "KubeVirt detaches the volume, and attaches the new one afterwards."
	case p.volumeStatus(d.item) != nil && p.runningVolumes.find(d.item) == nil:
		v.patched, v.reason = false, "KubeVirt attaches it once the old volume of this name is detached."
	default:
		v.reason = "KubeVirt attaches it to the running VM."
	}
	return v
}

// hotpluggedDisk applies to changes of disks with a hotpluggable volume.
func hotpluggedDisk(p *planner, d *difference) bool {
	return d.list == "disks" && d.event == changed && hotpluggable(p.wantedVolumes.find(d.item))
}

func (p *planner) diskOfHotplugged(d *difference) decision {
	if p.replugs(d.item) {
		return decision{takes: Live, patched: true, reattached: true, reason: "KubeVirt detaches the disk from the guest, and attaches it with the new values."}
	}
	return decision{
		takes: Restart, announced: p.announcesRestart(), reason: "KubeVirt does not change the disk of an attached volume.",
		wayOut: "Remove the volume and its disk, and add them again later. Or restart the VM.",
	}
}

// replugs reports whether KubeVirt detaches the disk of a changed volume. A CD-ROM drive stays.
func (p *planner) replugs(name string) bool {
	wants, runs := p.wantedVolumes.find(name), p.runningVolumes.find(name)
	if !p.kubevirt.outcomes[stepHotplug].patched || !hotpluggable(wants) || !hotpluggable(runs) || same(wants, runs) {
		return false
	}
	disks := indexed(p.running.Domain.Devices.Disks, diskName)
	disk := disks.find(name)
	return disk != nil && disk.CDRom == nil
}

// reattachments are the disks that KubeVirt detaches and attaches again, though the VM does not change them.
func (p *planner) reattachments() {
	if p.running == nil || !p.kubevirt.outcomes[stepHotplug].patched {
		return
	}
	changedDisks := map[string]bool{}
	for i := range p.found {
		if p.found[i].list == "disks" {
			changedDisks[p.found[i].item] = true
		}
	}
	for i := range p.running.Domain.Devices.Disks {
		if disk := &p.running.Domain.Devices.Disks[i]; !changedDisks[disk.Name] && p.replugs(disk.Name) {
			at := nodeOf("domain.devices.disks").item(disk.Name)
			p.add(difference{path: at.relative(), list: "disks", item: disk.Name, name: disk.Name, event: reattach})
		}
	}
}

// removesDrive applies to CD-ROM drives that the VM does not have any more.
func removesDrive(_ *planner, d *difference) bool {
	return d.list == "disks" && isDrive(d)
}

// isDrive reports whether a disk that is removed is a CD-ROM drive.
func isDrive(d *difference) bool {
	if d.event != removed || !d.old.IsValid() {
		return false
	}
	disk, ok := reflect.TypeAssert[*v1.Disk](d.old)
	return ok && disk.CDRom != nil
}

func (p *planner) driveRemoved(d *difference) decision {
	if o := &p.kubevirt.outcomes[stepHotplug]; !o.patched {
		return cold("KubeVirt removes the drive only when the VM starts.")(p, d)
	}
	return decision{takes: Live, patched: true, announced: p.announcesRestart(), reason: "KubeVirt removes the drive from the running VM."}
}
