package instancetypes

import "github.com/virtward/virtward/fieldpath"

// Describe names the object by its kind and name: VirtualMachineClusterInstancetype u1.medium.
func (i *Instancetype) Describe() string {
	return either(i.Inferred, "the inferred instancetype", i.Kind+" "+i.Name)
}

// Describe names the object by its kind and name: VirtualMachineClusterPreference fedora.
func (p *Preference) Describe() string {
	return either(p.Inferred, "the inferred preference", p.Kind+" "+p.Name)
}

// FieldBehind is the field of an instancetype that determines a field of a VMI's spec, given relative to the
// spec: spec.cpu.guest for domain.cpu.sockets. It is spec where none is known to.
func (i *Instancetype) FieldBehind(path string) string { return behind(instancetypeFields(), path) }

// FieldBehind is the field of a preference that determines a field of a VMI's spec, given relative to the
// spec: spec.devices.preferredDiskBus for domain.devices.disks[0].disk.bus. It is spec where none is known to.
func (p *Preference) FieldBehind(path string) string {
	field := behind(preferenceFields(), path)
	if field == "spec.firmware.preferredEfi" && p.Spec.Firmware != nil && p.Spec.Firmware.PreferredEfi == nil {
		return "spec.firmware.preferredUseEfi" // deprecated, and still heeded
	}
	return field
}

// origin says which field of the object, below its spec, is behind a field of a VMI's spec and those below it.
type origin struct{ path, field string }

func behind(origins []origin, path string) string {
	path = fieldpath.Fields(path)
	for _, o := range origins {
		if fieldpath.Within(path, o.path) {
			return "spec." + o.field
		}
	}
	return "spec"
}

// instancetypeFields: the more specific paths come first.
func instancetypeFields() []origin {
	return []origin{
		{"nodeSelector", "nodeSelector"},
		{"schedulerName", "schedulerName"},
		{"domain.cpu.sockets", "cpu.guest"},
		{"domain.cpu.cores", "cpu.guest"},
		{"domain.cpu.threads", "cpu.guest"},
		{"domain.cpu.maxSockets", "cpu.maxSockets"},
		{"domain.cpu.model", "cpu.model"},
		{"domain.cpu.dedicatedCpuPlacement", "cpu.dedicatedCPUPlacement"},
		{"domain.cpu.isolateEmulatorThread", "cpu.isolateEmulatorThread"},
		{"domain.cpu.numa", "cpu.numa"},
		{"domain.cpu.realtime", "cpu.realtime"},
		{"domain.cpu", "cpu"},
		{"domain.memory.guest", "memory.guest"},
		{"domain.memory.maxGuest", "memory.maxGuest"},
		{"domain.memory.hugepages", "memory.hugepages"},
		{"domain.memory", "memory"},
		{"domain.resources.requests", "memory.overcommitPercent"},
		{"domain.ioThreadsPolicy", "ioThreadsPolicy"},
		{"domain.ioThreads", "ioThreads"},
		{"domain.launchSecurity", "launchSecurity"},
		{"domain.devices.gpus", "gpus"},
		{"domain.devices.hostDevices", "hostDevices"},
	}
}

// preferenceFields: the more specific paths come first.
func preferenceFields() []origin {
	return []origin{
		{"architecture", "preferredArchitecture"},
		{"subdomain", "preferredSubdomain"},
		{"terminationGracePeriodSeconds", "preferredTerminationGracePeriodSeconds"},
		{"domain.clock.timer", "clock.preferredTimer"},
		{"domain.clock", "clock.preferredClockOffset"},
		{"domain.cpu.features", "cpu.preferredCPUFeatures"},
		{"domain.cpu", "cpu.preferredCPUTopology"},
		{"domain.launchSecurity", "preferredLaunchSecurity"},
		{"domain.machine", "machine.preferredMachineType"},
		{"domain.features.acpi", "features.preferredAcpi"},
		{"domain.features.apic", "features.preferredApic"},
		{"domain.features.hyperv", "features.preferredHyperv"},
		{"domain.features.kvm", "features.preferredKvm"},
		{"domain.features.pvspinlock", "features.preferredPvspinlock"},
		{"domain.features.smm", "features.preferredSmm"},
		{"domain.firmware.bootloader.bios.useSerial", "firmware.preferredUseBiosSerial"},
		{"domain.firmware.bootloader.bios", "firmware.preferredUseBios"},
		{"domain.firmware.bootloader.efi", "firmware.preferredEfi"},
		{"domain.firmware", "firmware"},
		{"domain.devices.autoattachGraphicsDevice", "devices.preferredAutoattachGraphicsDevice"},
		{"domain.devices.autoattachMemBalloon", "devices.preferredAutoattachMemBalloon"},
		{"domain.devices.autoattachPodInterface", "devices.preferredAutoattachPodInterface"},
		{"domain.devices.autoattachSerialConsole", "devices.preferredAutoattachSerialConsole"},
		{"domain.devices.autoattachInputDevice", "devices.preferredAutoattachInputDevice"},
		{"domain.devices.disableHotplug", "devices.preferredDisableHotplug"},
		{"domain.devices.gpus.virtualGPUOptions", "devices.preferredVirtualGPUOptions"},
		{"domain.devices.sound", "devices.preferredSoundModel"},
		{"domain.devices.useVirtioTransitional", "devices.preferredUseVirtioTransitional"},
		{"domain.devices.inputs.bus", "devices.preferredInputBus"},
		{"domain.devices.inputs.type", "devices.preferredInputType"},
		{"domain.devices.disks.disk.bus", "devices.preferredDiskBus"},
		{"domain.devices.disks.lun.bus", "devices.preferredLunBus"},
		{"domain.devices.disks.cdrom.bus", "devices.preferredCdromBus"},
		{"domain.devices.disks.dedicatedIOThread", "devices.preferredDiskDedicatedIoThread"},
		{"domain.devices.disks.cache", "devices.preferredDiskCache"},
		{"domain.devices.disks.io", "devices.preferredDiskIO"},
		{"domain.devices.disks.blockSize", "devices.preferredDiskBlockSize"},
		{"domain.devices.interfaces.model", "devices.preferredInterfaceModel"},
		{"domain.devices.interfaces.masquerade", "devices.preferredInterfaceMasquerade"},
		{"domain.devices.rng", "devices.preferredRng"},
		{"domain.devices.blockMultiQueue", "devices.preferredBlockMultiQueue"},
		{"domain.devices.networkInterfaceMultiqueue", "devices.preferredNetworkInterfaceMultiQueue"},
		{"domain.devices.tpm", "devices.preferredTPM"},
		{"domain.devices.panicDevices", "devices.preferredPanicDeviceModel"},
		{"domain.devices.video", "devices.preferredVideoType"},
	}
}
