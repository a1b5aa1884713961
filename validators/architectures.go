package validators

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
)

// ForArchitecture is the table of an architecture; one that is not known has none of its own.
func ForArchitecture(name string) Table {
	switch name {
	case platform.AMD64:
		return amd64Rules()
	case platform.ARM64:
		return arm64Rules()
	case platform.S390X:
		return s390xRules()
	}
	return nil
}

func amd64Rules() Table {
	return Table{
		{
			ID: "amd64-watchdog", Title: "The watchdog of amd64 is an i6300esb",
			Scope: OnSpec, Severity: Deny, Remedy: "Use watchdog.i6300esb alone.",
			Check: amd64Watchdog,
		},
		{
			ID: "amd64-video", Title: "The video device is one that amd64 has",
			Scope: OnSpec, Severity: Deny, Remedy: "Choose a type that the message lists, or remove devices.video for the default.",
			Check: videoTypes(platform.AMD64, "vga", "cirrus", "virtio", "ramfb", "bochs"),
		},
	}
}

func arm64Rules() Table {
	return Table{
		{
			ID: "arm64-bios", Title: "arm64 boots from EFI",
			Scope: OnSpec, Severity: Deny, Remedy: "Remove firmware.bootloader.bios; EFI is the default of arm64.",
			Check: arm64BIOS,
		},
		{
			ID: "arm64-cpu-model", Title: "arm64 guests see the host's CPU",
			Scope: OnSpec, Severity: Deny, Remedy: "Set cpu.model to host-passthrough, or leave it out.",
			Check: arm64CPUModel,
		},
		{
			ID: "arm64-disk-bus", Title: "Disks of arm64 are on a virtio or scsi bus",
			Scope: OnSpec, Severity: Deny, Remedy: "Set the bus to virtio or scsi, or leave it out.",
			Check: arm64DiskBus,
		},
		{
			ID: "arm64-watchdog", Title: "arm64 has no watchdog",
			Scope: OnSpec, Severity: Deny, Remedy: "Remove devices.watchdog.",
			Check: arm64Watchdog,
		},
		{
			ID: "arm64-sound", Title: "arm64 has no sound device",
			Scope: OnSpec, Severity: Deny, Remedy: "Remove devices.sound.",
			Check: arm64Sound,
		},
		{
			ID: "arm64-video", Title: "The video device is one that arm64 has",
			Scope: OnSpec, Severity: Deny, Remedy: "Choose a type that the message lists, or remove devices.video for the default.",
			Check: videoTypes(platform.ARM64, "virtio", "ramfb"),
		},
	}
}

func s390xRules() Table {
	return Table{
		{
			ID: "s390x-watchdog", Title: "The watchdog of s390x is a diag288",
			Scope: OnSpec, Severity: Deny, Remedy: "Use watchdog.diag288 alone.",
			Check: s390xWatchdog,
		},
		{
			ID: "s390x-video", Title: "The video device is one that s390x has",
			Scope: OnSpec, Severity: Deny, Remedy: "Set video.type to virtio, or remove devices.video for the default.",
			Check: videoTypes(platform.S390X, "virtio"),
		},
		{
			ID: "s390x-block-size", Title: "Blocks of disks have at most 4096 bytes on s390x",
			Scope: OnSpec, Severity: Deny, Remedy: "Set blockSize.custom.logical and physical to 4096 or less.",
			Check: s390xBlockSize,
		},
	}
}

// notOnArchitecture is a finding about a device that an architecture does not have in this form.
func notOnArchitecture(at *field.Path, value any, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeNotSupported, Field: at.String(), BadValue: value, Detail: detail}
}

// videoTypes checks that the type of a video device is one of those that an architecture has.
func videoTypes(architecture string, types ...string) func(*Subject) field.ErrorList {
	detail := fmt.Sprintf("%s has %s", architecture, strings.Join(types, ", "))
	return func(s *Subject) field.ErrorList {
		video := s.Spec.Domain.Devices.Video
		if video == nil || slices.Contains(types, video.Type) {
			return nil
		}
		return field.ErrorList{notOnArchitecture(s.Devices().Child("video", "type"), video.Type, detail)}
	}
}

// watchdogs names the kinds of watchdog that are set.
func watchdogs(w *v1.Watchdog) string {
	var set []string
	if w.I6300ESB != nil {
		set = append(set, "i6300esb")
	}
	if w.Diag288 != nil {
		set = append(set, "diag288")
	}
	return strings.Join(set, " and ")
}

func amd64Watchdog(s *Subject) field.ErrorList {
	w := s.Spec.Domain.Devices.Watchdog
	if w == nil || w.I6300ESB != nil && w.Diag288 == nil {
		return nil
	}
	return field.ErrorList{notOnArchitecture(s.Devices().Child("watchdog"), watchdogs(w), "the watchdog of amd64 is an i6300esb, and nothing else")}
}

func s390xWatchdog(s *Subject) field.ErrorList {
	w := s.Spec.Domain.Devices.Watchdog
	if w == nil || w.Diag288 != nil && w.I6300ESB == nil {
		return nil
	}
	return field.ErrorList{notOnArchitecture(s.Devices().Child("watchdog"), watchdogs(w), "the watchdog of s390x is a diag288, and nothing else")}
}

func arm64Watchdog(s *Subject) field.ErrorList {
	w := s.Spec.Domain.Devices.Watchdog
	if w == nil {
		return nil
	}
	return field.ErrorList{notOnArchitecture(s.Devices().Child("watchdog"), w.Name, "arm64 has no watchdog")}
}

func arm64Sound(s *Subject) field.ErrorList {
	sound := s.Spec.Domain.Devices.Sound
	if sound == nil {
		return nil
	}
	return field.ErrorList{notOnArchitecture(s.Devices().Child("sound"), sound.Name, "arm64 has no sound device")}
}

func arm64BIOS(s *Subject) field.ErrorList {
	f := s.Spec.Domain.Firmware
	if f == nil || f.Bootloader == nil || f.Bootloader.BIOS == nil {
		return nil
	}
	return field.ErrorList{notOnArchitecture(s.firmware().Child("bootloader", "bios"), field.OmitValueType{}, "arm64 boots from EFI only")}
}

func arm64CPUModel(s *Subject) field.ErrorList {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || cpu.Model == "" || cpu.Model == v1.CPUModeHostPassthrough {
		return nil
	}
	return field.ErrorList{notOnArchitecture(s.Domain().Child("cpu", "model"), cpu.Model, "arm64 guests see the host's CPU, "+v1.CPUModeHostPassthrough)}
}

func arm64DiskBus(s *Subject) field.ErrorList {
	var errs field.ErrorList
	for i := range s.Spec.Domain.Devices.Disks {
		disk := &s.Spec.Domain.Devices.Disks[i]
		at := s.Devices().Child("disks").Index(i)
		if d := disk.Disk; d != nil {
			errs = append(errs, arm64Bus(at.Child("disk", "bus"), d.Bus)...)
		}
		if d := disk.CDRom; d != nil {
			errs = append(errs, arm64Bus(at.Child("cdrom", "bus"), d.Bus)...)
		}
		if d := disk.LUN; d != nil {
			errs = append(errs, arm64Bus(at.Child("lun", "bus"), d.Bus)...)
		}
	}
	return errs
}

func arm64Bus(at *field.Path, bus v1.DiskBus) field.ErrorList {
	switch bus {
	case "", v1.DiskBusVirtio, v1.DiskBusSCSI:
		return nil
	}
	return field.ErrorList{notOnArchitecture(at, string(bus), "disks of arm64 are on a virtio or scsi bus")}
}

// s390xMaxBlock is the largest block that DASD and SCSI disks of s390x have, in bytes.
const s390xMaxBlock = 4096

func s390xBlockSize(s *Subject) field.ErrorList {
	var errs field.ErrorList
	for i := range s.Spec.Domain.Devices.Disks {
		block := s.Spec.Domain.Devices.Disks[i].BlockSize
		if block == nil || block.Custom == nil {
			continue
		}
		at := s.Devices().Child("disks").Index(i).Child("blockSize", "custom")
		for _, size := range []struct {
			name  string
			bytes uint
		}{{"logical", block.Custom.Logical}, {"physical", block.Custom.Physical}} {
			if size.bytes > s390xMaxBlock {
				errs = append(errs, notOnArchitecture(at.Child(size.name), size.bytes, fmt.Sprintf("s390x has blocks of at most %d bytes", s390xMaxBlock)))
			}
		}
	}
	return errs
}
