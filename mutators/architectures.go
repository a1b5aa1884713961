package mutators

import (
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// ForArchitecture is the layer of an architecture. One that is not known is completed as the default one, as KubeVirt
// does; the checks reject it.
func ForArchitecture(name string) Layer {
	if !architectures.Known(name) {
		name = architectures.Default
	}
	for _, layer := range layers() {
		if layer.Name == name {
			return layer
		}
	}
	return Layer{Name: name}
}

// layers are those of the architectures, in the order of their table.
func layers() []Layer { return []Layer{amd64(), arm64(), s390x()} }

// diskBuses are the fields that diskBus fills.
var diskBuses = []string{"domain.devices.disks[*].disk.bus", "domain.devices.disks[*].cdrom.bus", "domain.devices.disks[*].lun.bus"}

func amd64() Layer {
	return Layer{
		Name: architectures.AMD64,
		Steps: []Step{
			{Name: "machine-type", Writes: []string{"domain.machine.type"}, OnVM: true, BeforeStart: true, Fill: machineType(architectures.AMD64)},
			{Name: "disk-bus", Writes: diskBuses, Fill: diskBus(v1.DiskBusSATA)},
			{Name: "watchdog-action", Writes: []string{"domain.devices.watchdog.i6300esb.action"}, Fill: i6300esbAction},
		},
	}
}

// arm64 guests boot from EFI, see the host's CPU, and cannot be given more CPUs or memory while they run.
func arm64() Layer {
	return Layer{
		Name: architectures.ARM64,
		Steps: []Step{
			{Name: "machine-type", Writes: []string{"domain.machine.type"}, OnVM: true, BeforeStart: true, Fill: machineType(architectures.ARM64)},
			{Name: "cpu-model", Writes: []string{"domain.cpu.model"}, Fill: hostPassthrough},
			{Name: "bootloader", Writes: []string{"domain.firmware.bootloader"}, Fill: efiWithoutSecureBoot},
			{Name: "disk-bus", Writes: diskBuses, Fill: diskBus(v1.DiskBusVirtio)},
		},
		Finalize: []Step{
			{Name: "max-sockets"},
			{Name: "max-guest"},
		},
	}
}

// s390x has no ACPI, and can be given more CPUs but no memory while it runs.
func s390x() Layer {
	return Layer{
		Name: architectures.S390X,
		Steps: []Step{
			{Name: "machine-type", Writes: []string{"domain.machine.type"}, OnVM: true, BeforeStart: true, Fill: machineType(architectures.S390X)},
			{Name: "acpi", Writes: []string{"domain.features.acpi.enabled"}, Fill: acpi(false)},
			{Name: "disk-bus", Writes: diskBuses, Fill: diskBus(v1.DiskBusVirtio)},
			{Name: "watchdog-action", Writes: []string{"domain.devices.watchdog.diag288.action"}, Fill: diag288Action},
		},
		Finalize: []Step{
			{Name: "max-guest"},
		},
	}
}

// diskBus is the bus of every disk, CD-ROM and LUN that names none. What names no target is a disk.
func diskBus(bus v1.DiskBus) func(*Completion) {
	return func(c *Completion) {
		for i := range c.Spec.Domain.Devices.Disks {
			disk := &c.Spec.Domain.Devices.Disks[i]
			if disk.Disk == nil && disk.CDRom == nil && disk.LUN == nil {
				disk.Disk = &v1.DiskTarget{}
			}
			if disk.Disk != nil && disk.Disk.Bus == "" {
				provenance.Fill(c.Recorder, fieldpath.Indexed(disks, i, "disk.bus"), &disk.Disk.Bus, bus)
			}
			if disk.CDRom != nil && disk.CDRom.Bus == "" {
				provenance.Fill(c.Recorder, fieldpath.Indexed(disks, i, "cdrom.bus"), &disk.CDRom.Bus, bus)
			}
			if disk.LUN != nil && disk.LUN.Bus == "" {
				provenance.Fill(c.Recorder, fieldpath.Indexed(disks, i, "lun.bus"), &disk.LUN.Bus, bus)
			}
		}
	}
}

func i6300esbAction(c *Completion) {
	if w := c.Spec.Domain.Devices.Watchdog; w != nil {
		provenance.Fill(c.Recorder, "domain.devices.watchdog.i6300esb.action", &provenance.Ensure(&w.I6300ESB).Action, v1.WatchdogActionReset)
	}
}

func diag288Action(c *Completion) {
	if w := c.Spec.Domain.Devices.Watchdog; w != nil {
		provenance.Fill(c.Recorder, "domain.devices.watchdog.diag288.action", &provenance.Ensure(&w.Diag288).Action, v1.WatchdogActionReset)
	}
}

func hostPassthrough(c *Completion) { fillCPUModel(c, v1.CPUModeHostPassthrough) }

// efiWithoutSecureBoot is for guests that name no bootloader, or EFI without secureBoot.
func efiWithoutSecureBoot(c *Completion) {
	firmware := provenance.Ensure(&c.Spec.Domain.Firmware)
	if firmware.Bootloader == nil {
		firmware.Bootloader = &v1.Bootloader{EFI: &v1.EFI{}}
	}
	if efi := firmware.Bootloader.EFI; efi != nil {
		provenance.FillPointer(c.Recorder, "domain.firmware.bootloader.efi.secureBoot", &efi.SecureBoot, false)
	}
}
