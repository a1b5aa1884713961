package domain

import (
	"cmp"
	"fmt"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
)

// Architecture is how domains of an architecture differ.
type Architecture struct {
	// Name is that of Kubernetes, and LibvirtName that of libvirt: x86_64.
	Name, LibvirtName string
	// Machine is the machine type of an instance without one.
	Machine string
	// Emulator is the program that emulates it on another architecture.
	Emulator string
	// FirmwareFolder has the files of the EFI.
	FirmwareFolder string
	// PlainVirtio says that devices have the model virtio, which is not bound to PCI.
	PlainVirtio bool
	// CPUHotplug, SMBIOS, ROM, MPX, FirmwareLog, VMPort, PCIHole64, PCIe and Memfd say what domains have: vCPUs that can be
	// plugged, values of SMBIOS, boot ROMs of NICs, the CPU feature mpx that named models must disable, a log of the firmware, the
	// port of VMware, a 64-bit PCI hole, PCIe, and memory from memfd.
	CPUHotplug, SMBIOS, ROM, MPX, FirmwareLog, VMPort, PCIHole64, PCIe, Memfd bool
	// Firmware returns the firmware of an instance.
	Firmware func(b *Build) efi
	// USB reports whether an instance needs a USB controller.
	USB func(b *Build) bool
	// Video returns the video device of an instance that selects none.
	Video func(b *Build) DomainVideo
	// Inputs returns input devices that every instance with a display has.
	Inputs func(b *Build) []DomainInput
	// Watchdog returns the model and the action of a watchdog.
	Watchdog func(w *v1.Watchdog) (model, action string, err error)
}

// transitional returns the model of virtio devices.
func (a *Architecture) transitional(legacy bool) string {
	switch {
	case a.PlainVirtio:
		return virtio
	case legacy:
		return "virtio-transitional"
	}
	return "virtio-non-transitional"
}

const virtio = "virtio"

// findArchitecture returns an architecture. One that is not known is converted as the default one, as KubeVirt does.
func findArchitecture(name string) *Architecture {
	for _, a := range []func() *Architecture{amd64, arm64, s390x} {
		if found := a(); found.Name == name {
			return found
		}
	}
	return amd64()
}

func amd64() *Architecture {
	return &Architecture{
		Name: architectures.AMD64, LibvirtName: "x86_64", Machine: "q35", Emulator: "/usr/bin/qemu-system-x86_64", FirmwareFolder: "/usr/share/edk2/ovmf",
		CPUHotplug: true, SMBIOS: true, ROM: true, MPX: true, FirmwareLog: true, VMPort: true, PCIHole64: true, PCIe: true, Memfd: true,
		Firmware: ovmf, USB: usbIfUsed, Video: vga, Inputs: noInputs, Watchdog: i6300esb,
	}
}

func arm64() *Architecture {
	return &Architecture{
		Name: architectures.ARM64, LibvirtName: "aarch64", Machine: "virt", Emulator: "/usr/bin/qemu-system-aarch64", FirmwareFolder: "/usr/share/AAVMF",
		SMBIOS: true, ROM: true, PCIe: true, Memfd: true,
		Firmware: aavmf, USB: func(*Build) bool { return true }, Video: virtioVideo, Inputs: tabletAndKeyboard,
		Watchdog: func(*v1.Watchdog) (string, string, error) {
			return "", "", fmt.Errorf("watchdogs are not supported on arm64")
		},
	}
}

func s390x() *Architecture {
	return &Architecture{
		Name: architectures.S390X, LibvirtName: "s390x", Machine: "s390-ccw-virtio", Emulator: "/usr/bin/qemu-system-s390x", FirmwareFolder: "/usr/share/edk2/ovmf",
		PlainVirtio: true, CPUHotplug: true,
		Firmware: ovmf, USB: func(*Build) bool { return false }, Video: virtioVideo,
		Inputs:   func(*Build) []DomainInput { return []DomainInput{{Type: "keyboard", Bus: virtio}} },
		Watchdog: diag288,
	}
}

func usbIfUsed(b *Build) bool {
	devices := &b.VMI.Spec.Domain.Devices
	for i := range devices.Inputs {
		if bus := devices.Inputs[i].Bus; bus == v1.InputBusUSB || bus == "" {
			return true
		}
	}
	for i := range devices.Disks {
		if disk := devices.Disks[i].Disk; disk != nil && disk.Bus == v1.DiskBusUSB {
			return true
		}
	}
	for i := range devices.HostDevices {
		if _, set := b.Host.Env[resourceVariable(v1.USBResourcePrefix, devices.HostDevices[i].DeviceName)]; set {
			return true
		}
	}
	return devices.ClientPassthrough != nil
}

const vram = 16384

func vga(b *Build) DomainVideo {
	if b.BochsForEFI && b.VMI.IsBootloaderEFI() {
		return DomainVideo{Model: DomainVideoModel{Type: "bochs", Heads: 1}}
	}
	return DomainVideo{Model: DomainVideoModel{Type: "vga", Heads: 1, VRam: vram}}
}

func virtioVideo(*Build) DomainVideo {
	return DomainVideo{Model: DomainVideoModel{Type: virtio, Heads: 1}}
}

func noInputs(*Build) []DomainInput { return nil }

func tabletAndKeyboard(b *Build) []DomainInput {
	keyboard := DomainInput{Type: "keyboard", Bus: string(v1.InputBusUSB)}
	for i := range b.VMI.Spec.Domain.Devices.Inputs {
		if b.VMI.Spec.Domain.Devices.Inputs[i].Type == v1.InputTypeTablet {
			return []DomainInput{keyboard}
		}
	}
	return []DomainInput{{Type: string(v1.InputTypeTablet), Bus: string(v1.InputBusUSB)}, keyboard}
}

func i6300esb(w *v1.Watchdog) (model, action string, err error) {
	if w.I6300ESB == nil {
		return "", "", fmt.Errorf("the watchdog %s has no type", w.Name)
	}
	return "i6300esb", string(w.I6300ESB.Action), nil
}

func diag288(w *v1.Watchdog) (model, action string, err error) {
	if w.Diag288 == nil {
		return "", "", fmt.Errorf("the watchdog %s has no type", w.Name)
	}
	return "diag288", string(w.Diag288.Action), nil
}

// ArchitectureOf returns the architecture with whose converter virt-launcher converts an instance: that of the node. If KubeVirt
// emulates guests of others, it is that of the guest.
func ArchitectureOf(in *Input) string {
	if guest := in.VMI.Spec.Architecture; guest != "" && (in.Host.HostArch == "" || in.Facts.GateEnabled("CrossArchitectureVirtualization")) {
		return guest
	}
	return cmp.Or(in.Host.HostArch, architectures.Default)
}
