package instancetypes

import (
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

func preferDevices(spec *vmiSpec, pref *preferenceSpec, rec *provenance.Recorder) {
	preferred := pref.Devices
	if preferred == nil {
		return
	}
	devices := &spec.Domain.Devices
	preferSwitches(devices, preferred, rec)
	if devices.Sound != nil {
		provenance.Fill(rec, "domain.devices.sound.model", &devices.Sound.Model, preferred.PreferredSoundModel)
	}
	adopt(rec, "domain.devices.rng", &devices.Rng, preferred.PreferredRng)
	adopt(rec, "domain.devices.tpm", &devices.TPM, preferred.PreferredTPM)
	if preferred.PreferredVideoType != nil {
		provenance.Fill(rec, "domain.devices.video.type", &provenance.Ensure(&devices.Video).Type, *preferred.PreferredVideoType)
	}
	for i := range devices.Disks {
		preferDisk(i, &devices.Disks[i], preferred, rec)
	}
	for i := range devices.Interfaces {
		preferInterface(i, &devices.Interfaces[i], spec.Networks, preferred, rec)
	}
	for i := range devices.Inputs {
		provenance.Fill(rec, fieldpath.Indexed("domain.devices.inputs", i, "bus"), &devices.Inputs[i].Bus, preferred.PreferredInputBus)
		provenance.Fill(rec, fieldpath.Indexed("domain.devices.inputs", i, "type"), &devices.Inputs[i].Type, preferred.PreferredInputType)
	}
	preferPanicDevices(devices, preferred, rec)
}

// preferSwitches fills what is on, off or left to others. disableHotplug has no such third state: it is overwritten.
func preferSwitches(devices *v1.Devices, preferred *instancetypev1beta1.DevicePreferences, rec *provenance.Recorder) {
	for _, s := range []struct {
		name      string
		field     **bool
		preferred *bool
	}{
		{"useVirtioTransitional", &devices.UseVirtioTransitional, preferred.PreferredUseVirtioTransitional},
		{"blockMultiQueue", &devices.BlockMultiQueue, preferred.PreferredBlockMultiQueue},
		{"networkInterfaceMultiqueue", &devices.NetworkInterfaceMultiQueue, preferred.PreferredNetworkInterfaceMultiQueue},
		{"autoattachGraphicsDevice", &devices.AutoattachGraphicsDevice, preferred.PreferredAutoattachGraphicsDevice},
		{"autoattachMemBalloon", &devices.AutoattachMemBalloon, preferred.PreferredAutoattachMemBalloon},
		{"autoattachPodInterface", &devices.AutoattachPodInterface, preferred.PreferredAutoattachPodInterface},
		{"autoattachSerialConsole", &devices.AutoattachSerialConsole, preferred.PreferredAutoattachSerialConsole},
		{"autoattachInputDevice", &devices.AutoattachInputDevice, preferred.PreferredAutoattachInputDevice},
	} {
		fillCopy(rec, "domain.devices."+s.name, s.field, s.preferred)
	}
	if preferred.PreferredDisableHotplug != nil {
		overwrite(rec, "domain.devices.disableHotplug", &devices.DisableHotplug, *preferred.PreferredDisableHotplug)
	}
}

// preferDisk treats a disk without a target as a plain disk, which it becomes.
func preferDisk(i int, disk *v1.Disk, preferred *instancetypev1beta1.DevicePreferences, rec *provenance.Recorder) {
	at := func(below string) string { return fieldpath.Indexed("domain.devices.disks", i, below) }
	if disk.Disk == nil && disk.CDRom == nil && disk.LUN == nil {
		disk.Disk = &v1.DiskTarget{}
	}
	switch {
	case disk.Disk != nil:
		provenance.Fill(rec, at("disk.bus"), &disk.Disk.Bus, preferred.PreferredDiskBus)
		adopt(rec, at("blockSize"), &disk.BlockSize, preferred.PreferredDiskBlockSize)
		provenance.Fill(rec, at("cache"), &disk.Cache, preferred.PreferredDiskCache)
		provenance.Fill(rec, at("io"), &disk.IO, preferred.PreferredDiskIO)
		if disk.Disk.Bus == v1.DiskBusVirtio { // no other bus has dedicated I/O threads
			fillCopy(rec, at("dedicatedIOThread"), &disk.DedicatedIOThread, preferred.PreferredDiskDedicatedIoThread)
		}
	case disk.CDRom != nil:
		provenance.Fill(rec, at("cdrom.bus"), &disk.CDRom.Bus, preferred.PreferredCdromBus)
	default:
		provenance.Fill(rec, at("lun.bus"), &disk.LUN.Bus, preferred.PreferredLunBus)
	}
}

// preferInterface offers masquerade only to interfaces on the pod network that have no binding at all.
func preferInterface(i int, nic *v1.Interface, networks []v1.Network, preferred *instancetypev1beta1.DevicePreferences, rec *provenance.Recorder) {
	provenance.Fill(rec, fieldpath.Indexed("domain.devices.interfaces", i, "model"), &nic.Model, preferred.PreferredInterfaceModel)
	unbound := nic.InterfaceBindingMethod == v1.InterfaceBindingMethod{} && nic.Binding == nil
	if unbound && onPodNetwork(nic.Name, networks) {
		adopt(rec, fieldpath.Indexed("domain.devices.interfaces", i, "masquerade"), &nic.Masquerade, preferred.PreferredInterfaceMasquerade)
	}
}

func onPodNetwork(name string, networks []v1.Network) bool {
	for i := range networks {
		if networks[i].Name == name {
			return networks[i].Pod != nil
		}
	}
	return false
}

// preferPanicDevices gives the devices of the VM a model, or makes one where it has none.
func preferPanicDevices(devices *v1.Devices, preferred *instancetypev1beta1.DevicePreferences, rec *provenance.Recorder) {
	model := preferred.PreferredPanicDeviceModel
	if model == nil {
		return
	}
	if len(devices.PanicDevices) == 0 {
		devices.PanicDevices = []v1.PanicDevice{{Model: copyOf(model)}}
		rec.Record("domain.devices.panicDevices", devices.PanicDevices)
		return
	}
	for i := range devices.PanicDevices {
		provenance.FillPointer(rec, fieldpath.Indexed("domain.devices.panicDevices", i, "model"), &devices.PanicDevices[i].Model, *model)
	}
}
