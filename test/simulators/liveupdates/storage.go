package liveupdates

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/claims"
)

func (p *pass) migratesVolumes() bool {
	s := p.VM.Spec.UpdateVolumesStrategy
	return s != nil && *s == kubevirtv1.UpdateVolumesStrategyMigration
}

// hotplug attaches and detaches the volumes that the VM declares hotpluggable. A changed volume is first detached.
func (p *pass) hotplug() *Failure {
	if !p.gate("DeclarativeHotplugVolumes") || p.gate("HotplugVolumes") || p.migratesVolumes() ||
		len(p.VM.Status.VolumeRequests) > 0 || p.instance.Status.Phase != kubevirtv1.Running {
		return nil
	}
	before := &p.instance.Spec
	volumes := p.plugVolumes()
	disks := p.plugDisks(volumes)
	if same(volumes, before.Volumes) && same(disks, before.Domain.Devices.Disks) {
		return nil
	}
	if why := p.rejected(volumes, disks); why != "" {
		return fails(reasonVolumes, "Error encountered while handling declarative hotplug volumes: admission webhook \"virtualmachineinstances-update-validator.kubevirt.io\" denied the request: %s", why)
	}
	before.Volumes, before.Domain.Devices.Disks = volumes, disks
	return nil
}

// plugVolumes are the volumes of the instance with those that are attached, and without those that are detached.
func (p *pass) plugVolumes() []kubevirtv1.Volume {
	written, before := &p.VM.Spec.Template.Spec, &p.instance.Spec
	volumes := slices.DeleteFunc(slices.Clone(before.Volumes), func(runs kubevirtv1.Volume) bool {
		wants := volumeOf(written.Volumes, runs.Name)
		return hotpluggable(&runs) && (wants == nil || hotpluggable(wants) && !same(wants, &runs))
	})
	for i := range written.Volumes {
		wants := &written.Volumes[i]
		if hotpluggable(wants) && volumeOf(before.Volumes, wants.Name) == nil && attachedVolume(p.instance, wants.Name) == nil {
			volumes = append(volumes, *wants)
		}
	}
	return volumes
}

// plugDisks are the disks for volumes. A CD-ROM drive stays without its volume.
func (p *pass) plugDisks(volumes []kubevirtv1.Volume) []kubevirtv1.Disk {
	written, before := &p.VM.Spec.Template.Spec, &p.instance.Spec
	disks := slices.DeleteFunc(slices.Clone(before.Domain.Devices.Disks), func(runs kubevirtv1.Disk) bool {
		stays := diskOf(written.Domain.Devices.Disks, runs.Name) != nil && (runs.CDRom != nil || volumeOf(written.Volumes, runs.Name) == nil)
		return volumeOf(volumes, runs.Name) == nil && !stays
	})
	for i := range written.Domain.Devices.Disks {
		wants := &written.Domain.Devices.Disks[i]
		if hotpluggable(volumeOf(volumes, wants.Name)) && diskOf(before.Domain.Devices.Disks, wants.Name) == nil {
			disks = append(disks, *wants)
		}
	}
	return disks
}

// rejected is why the admission of the instance rejects volumes and disks; it is empty if it admits them.
func (p *pass) rejected(volumes []kubevirtv1.Volume, disks []kubevirtv1.Disk) string {
	expected := len(p.instance.Spec.Domain.Devices.Filesystems)
	for i := range disks {
		if disks[i].CDRom == nil || volumeOf(volumes, disks[i].Name) != nil {
			expected++
		}
	}
	declared := slices.DeleteFunc(slices.Clone(volumes), func(v kubevirtv1.Volume) bool { return v.MemoryDump != nil })
	if len(declared) != expected {
		return fmt.Sprintf("mismatch between volumes declared (%d) and required (%d)", len(declared), expected)
	}
	for i := range p.instance.Status.VolumeStatus {
		s := &p.instance.Status.VolumeStatus[i]
		if s.HotplugVolume == nil && volumeOf(p.instance.Spec.Volumes, s.Name) != nil && volumeOf(volumes, s.Name) == nil {
			return "Number of permanent volumes has changed"
		}
	}
	for i := range volumes {
		name := volumes[i].Name
		if volumeOf(p.instance.Spec.Volumes, name) != nil {
			continue
		}
		disk := diskOf(disks, name)
		if disk == nil {
			return "Disk " + name + " does not exist"
		}
		if diskOf(p.instance.Spec.Domain.Devices.Disks, name) == nil && !plugsInto(disk) {
			return "Hotplug configuration for [" + name + "] requires diskDevice of type 'disk' or 'lun' to be used"
		}
	}
	return ""
}

// plugsInto reports whether a running guest accepts a disk.
func plugsInto(d *kubevirtv1.Disk) bool {
	threads := d.DedicatedIOThread != nil && *d.DedicatedIOThread
	switch {
	case d.Disk != nil:
		return d.Disk.Bus == kubevirtv1.DiskBusVirtio || d.Disk.Bus == kubevirtv1.DiskBusSCSI && !threads
	case d.LUN != nil:
		return d.LUN.Bus == kubevirtv1.DiskBusSCSI && !threads
	}
	return false
}

// claims migrates volumes to other claims.
func (p *pass) claims() *Failure {
	moved := map[string]*kubevirtv1.Volume{}
	for i := range p.instance.Spec.Volumes {
		runs := &p.instance.Spec.Volumes[i]
		wants := volumeOf(p.Wanted.Spec.Volumes, runs.Name)
		if from, to := claims.OfVolume(runs), claims.OfVolume(wants); from != "" && to != "" && from != to {
			moved[runs.Name] = wants
		}
	}
	migrated := p.instance.Status.MigratedVolumes
	if p.is(kubevirtv1.VirtualMachineInstanceVolumesChange) && slices.ContainsFunc(migrated, func(m kubevirtv1.StorageMigratedVolumeInfo) bool { return moved[m.VolumeName] != nil }) {
		return p.revert(moved)
	}
	if !p.migratesVolumes() || len(moved) == 0 {
		return nil
	}
	if why := p.fixed(moved); why != "" {
		return p.needs("invalid volumes to update with migration: " + why)
	}
	if v := found(p.Wanted.Spec.Volumes, func(v *kubevirtv1.Volume) bool { return moved[v.Name] != nil && p.Exists != nil && !p.Exists(v) }); v != nil {
		SetCondition(p.instance, kubevirtv1.VirtualMachineInstanceCondition{
			Type: kubevirtv1.VirtualMachineInstanceVolumesChange, Status: corev1.ConditionFalse, LastTransitionTime: now(),
			Message: "One of the destination volumes doesn't exist: " + claims.OfVolume(v),
		})
		return nil
	}
	if why := p.leftBehind(moved); why != "" {
		return p.needs(why)
	}
	if len(migrated) > 0 {
		return nil
	}
	for i := range p.instance.Spec.Volumes {
		runs := &p.instance.Spec.Volumes[i]
		wants := moved[runs.Name]
		if wants == nil {
			continue
		}
		p.instance.Status.MigratedVolumes = append(p.instance.Status.MigratedVolumes, kubevirtv1.StorageMigratedVolumeInfo{
			VolumeName:         runs.Name,
			SourcePVCInfo:      &kubevirtv1.PersistentVolumeClaimInfo{ClaimName: claims.OfVolume(runs)},
			DestinationPVCInfo: &kubevirtv1.PersistentVolumeClaimInfo{ClaimName: claims.OfVolume(wants)},
		})
		*runs = *wants.DeepCopy()
	}
	SetCondition(p.instance, kubevirtv1.VirtualMachineInstanceCondition{
		Type: kubevirtv1.VirtualMachineInstanceVolumesChange, Status: corev1.ConditionTrue, Message: "migrate volumes", LastTransitionTime: now(),
	})
	return nil
}

// revert accepts only the previous claims while volumes migrate.
func (p *pass) revert(moved map[string]*kubevirtv1.Volume) *Failure {
	migrated := p.instance.Status.MigratedVolumes
	for i := range migrated {
		if claims.OfVolume(moved[migrated[i].VolumeName]) != migrated[i].SourcePVCInfo.ClaimName || len(moved) != len(migrated) {
			return fails(reasonClaims, "error encountered while handling volumes update requests: The volume can only be reverted to the previous version during the update")
		}
	}
	for i := range p.instance.Spec.Volumes {
		if wants := moved[p.instance.Spec.Volumes[i].Name]; wants != nil {
			p.instance.Spec.Volumes[i] = *wants.DeepCopy()
		}
	}
	p.instance.Status.MigratedVolumes = nil
	SetCondition(p.instance, kubevirtv1.VirtualMachineInstanceCondition{Type: kubevirtv1.VirtualMachineInstanceVolumesChange})
	return nil
}

// fixed lists the volumes that cannot have another claim.
func (p *pass) fixed(moved map[string]*kubevirtv1.Volume) string {
	devices := &p.instance.Spec.Domain.Devices
	lists := map[string][]string{}
	for i := range p.Wanted.Spec.Volumes {
		name := p.Wanted.Spec.Volumes[i].Name
		if moved[name] == nil {
			continue
		}
		disk := diskOf(devices.Disks, name)
		switch {
		case found(devices.Filesystems, func(f *kubevirtv1.Filesystem) bool { return f.Name == name }) != nil:
			lists["filesystems"] = append(lists["filesystems"], name)
		case disk != nil && disk.Shareable != nil && *disk.Shareable:
			lists["shareable"] = append(lists["shareable"], name)
		case disk != nil && disk.LUN != nil:
			lists["luns"] = append(lists["luns"], name)
		}
	}
	var all []string
	for _, kind := range []string{"shareable", "luns", "filesystems"} {
		if len(lists[kind]) > 0 {
			all = append(all, kind+": ["+strings.Join(lists[kind], " ")+"]")
		}
	}
	return strings.Join(all, ", ")
}

// leftBehind is why the other volumes prevent the migration.
func (p *pass) leftBehind(moved map[string]*kubevirtv1.Volume) string {
	c := found(p.instance.Status.Conditions, func(c *kubevirtv1.VirtualMachineInstanceCondition) bool {
		return c.Type == kubevirtv1.VirtualMachineInstanceIsStorageLiveMigratable && c.Status == corev1.ConditionFalse
	})
	if c != nil {
		return "cannot migrate the volumes as the VMI isn't migratable: " + c.Message
	}
	for i := range p.instance.Status.VolumeStatus {
		s := &p.instance.Status.VolumeStatus[i]
		info := s.PersistentVolumeClaimInfo
		if info == nil || moved[s.Name] != nil || volumeOf(p.instance.Spec.Volumes, s.Name) == nil {
			continue
		}
		if !slices.Contains(info.AccessModes, corev1.ReadWriteMany) && !slices.Contains(info.AccessModes, corev1.ReadOnlyMany) {
			return "cannot migrate the VM. The volume " + s.Name + " is RWO and not included in the migration volumes"
		}
	}
	return ""
}
