package validators

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
)

// byAdmission is the source of what KubeVirt's own admission code rejects.
const byAdmission = "KubeVirt's admission"

// ForArchitecture is the table of an architecture, made of its lines of capabilities; one that is not known has
// none of its own.
func ForArchitecture(name string) Table {
	var lines SupportTable
	for _, line := range BaseSupport() {
		if line.Architecture == name && name != "" {
			lines = append(lines, line)
		}
	}
	return lines.Rules()
}

// each makes a line of every capability, which are all the same otherwise.
func each(line Support, capabilities ...Capability) SupportTable {
	lines := make(SupportTable, len(capabilities))
	for i, capability := range capabilities {
		lines[i] = line
		lines[i].Capability = capability
	}
	return lines
}

// rejected are lines for what KubeVirt's admission rejects on an architecture.
func rejected(architecture string, line Support, capabilities ...Capability) SupportTable {
	line.Architecture, line.Level, line.Source = architecture, Unsupported, byAdmission
	return each(line, capabilities...)
}

func amd64Support() SupportTable {
	return slices.Concat(
		rejected(architectures.AMD64, Support{
			Rule: "amd64-watchdog", Title: "The watchdog of amd64 is an i6300esb", Remedy: "Set only watchdog.i6300esb.",
			Detail: "amd64 supports only the i6300esb watchdog",
		}, watchdogDiag288(), watchdogOfNoKind()),
		videoOf(architectures.AMD64, "Choose a listed type, or remove devices.video for the default.",
			"vga", "cirrus", "virtio", "ramfb", "bochs"),
	)
}

func arm64Support() SupportTable {
	return slices.Concat(
		rejected(architectures.ARM64, Support{
			Rule: "arm64-bios", Title: "arm64 boots from EFI", Remedy: "Remove firmware.bootloader.bios.",
			Detail: "arm64 boots from EFI only",
		}, biosBoot()),
		rejected(architectures.ARM64, Support{
			Rule: "arm64-cpu-model", Title: "arm64 guests see the host's CPU", Remedy: "Change or remove cpu.model.",
			Detail: "arm64 guests see the host's CPU, " + v1.CPUModeHostPassthrough,
		}, namedCPUModel()),
		rejected(architectures.ARM64, Support{
			Rule: "arm64-disk-bus", Title: "Disks of arm64 are on a virtio or scsi bus", Remedy: "Change or remove the bus.",
			Detail: "disks of arm64 are on a virtio or scsi bus",
		}, diskOnBus(v1.DiskBusSATA), diskOnBus(v1.DiskBusUSB), diskOnUnknownBus()),
		rejected(architectures.ARM64, Support{
			Rule: "arm64-watchdog", Title: "arm64 has no watchdog", Remedy: "Remove devices.watchdog.",
			Detail: "arm64 has no watchdog",
		}, anyWatchdog()),
		rejected(architectures.ARM64, Support{
			Rule: "arm64-sound", Title: "arm64 has no sound device", Remedy: "Remove devices.sound.",
			Detail: "arm64 has no sound device",
		}, soundDevice()),
		videoOf(architectures.ARM64, "Choose a listed type, or remove devices.video for the default.", "virtio", "ramfb"),
		rejected(architectures.ARM64, Support{
			Rule: "launch-security-architecture", Title: "Launch security exists on amd64 and s390x", Security: true,
			Remedy: "Remove launchSecurity, or run the VM on amd64 or s390x.",
			Cause:  field.ErrorTypeInvalid, Detail: "does not support domain.launchSecurity",
		}, launchSecurity()),
		rejected(architectures.ARM64, Support{
			Rule: "cpu-dedicated-threads-arm64", Title: "Dedicated CPUs of arm64 have one thread per core",
			Remedy: "Set cpu.threads to 1, and use more cores.",
			Cause:  field.ErrorTypeInvalid, Detail: "dedicated CPUs have one thread per core",
		}, dedicatedCPUThreads()),
		growing(architectures.ARM64),
		SupportTable{{
			Architecture: architectures.ARM64, Capability: cpuHotplug(), Level: Ignored, Source: "KubeVirt's converter of domains",
			Rule: "arm64-cpu-hotplug", Title: "VMs of arm64 have no maxSockets", Remedy: "Remove cpu.maxSockets. More sockets need a restart of the VM.",
			Detail: "has no effect: KubeVirt adds no CPUs to a running guest of arm64",
		}},
	)
}

// cpuHotplug is used by a VM or a VMI with a maximum of sockets. KubeVirt's controller writes the VMI of a VM.
func cpuHotplug() Capability {
	return Capability{Name: "cpu-hotplug", Title: "CPUs that are added while the VM runs, up to cpu.maxSockets", Uses: func(s *Subject) []Use {
		cpu := s.Spec.Domain.CPU
		if cpu == nil || cpu.MaxSockets == 0 || s.VMI != nil && metav1.GetControllerOf(s.VMI) != nil {
			return nil
		}
		return []Use{{Path: cpuPath(s, "maxSockets"), Value: cpu.MaxSockets}}
	}}
}

func s390xSupport() SupportTable {
	return slices.Concat(
		rejected(architectures.S390X, Support{
			Rule: "s390x-watchdog", Title: "The watchdog of s390x is a diag288", Remedy: "Set only watchdog.diag288.",
			Detail: "s390x supports only the diag288 watchdog",
		}, watchdogI6300ESB(), watchdogOfNoKind()),
		videoOf(architectures.S390X, "Set video.type to virtio, or remove devices.video for the default.", "virtio"),
		rejected(architectures.S390X, Support{
			Rule: "s390x-block-size", Title: "Blocks of disks have at most 4096 bytes on s390x",
			Remedy: "Lower blockSize.custom.logical and blockSize.custom.physical.",
			Detail: fmt.Sprintf("s390x supports blocks of at most %d bytes", largeBlock),
		}, largeBlocks()),
		rejected(architectures.S390X, Support{
			Rule: "device-panic-architecture", Title: "Panic devices can be chosen on amd64 and arm64 only", Remedy: "Remove panicDevices.",
			Cause: field.ErrorTypeInvalid, Detail: "panic devices cannot be chosen on s390x",
		}, panicDevices()),
		growing(architectures.S390X),
	)
}

// growing is rejected by a shared rule, because it needs more than an architecture.
func growing(architecture string) SupportTable {
	return rejected(architecture, Support{Rule: "vm-max-guest-reachable", Detail: "memory is plugged into running guests of amd64 only"},
		Capability{Name: "memory-hotplug", Title: "Memory that grows while the VM runs, up to memory.maxGuest"})
}

// videoTypes are those that some architecture has.
var videoTypes = []string{"vga", "cirrus", "virtio", "ramfb", "bochs"}

// videoOf are the lines of an architecture that has video devices of some types only.
func videoOf(architecture, remedy string, types ...string) SupportTable {
	var missing []Capability
	for _, name := range videoTypes {
		if !slices.Contains(types, name) {
			missing = append(missing, videoType(name))
		}
	}
	return rejected(architecture, Support{
		Rule: architecture + "-video", Title: "The video device is one that " + architecture + " has", Remedy: remedy,
		Detail: architecture + " has " + strings.Join(types, ", "),
	}, append(missing, unknownVideoType())...)
}

func videoType(name string) Capability {
	return Capability{
		Name: "video-" + name, Title: "A video device of type " + name,
		Uses: videoUses(func(used string) bool { return used == name }),
	}
}

func unknownVideoType() Capability {
	return Capability{
		Name: "video-unknown", Title: "A video device of a type other than " + strings.Join(videoTypes, ", "),
		Uses: videoUses(func(used string) bool { return !slices.Contains(videoTypes, used) }),
	}
}

func videoUses(wanted func(string) bool) func(*Subject) []Use {
	return func(s *Subject) []Use {
		video := s.Spec.Domain.Devices.Video
		if video == nil || !wanted(video.Type) {
			return nil
		}
		return []Use{{Path: s.Devices().Child("video", "type"), Value: video.Type}}
	}
}

func anyWatchdog() Capability {
	return Capability{Name: "watchdog", Title: "A watchdog", Uses: func(s *Subject) []Use {
		w := s.Spec.Domain.Devices.Watchdog
		if w == nil {
			return nil
		}
		return []Use{{Path: s.Devices().Child("watchdog"), Value: w.Name}}
	}}
}

func watchdogI6300ESB() Capability {
	return Capability{
		Name: "watchdog-i6300esb", Title: "A watchdog that is an i6300esb",
		Uses: watchdogUses(func(w *v1.Watchdog) bool { return w.I6300ESB != nil }),
	}
}

func watchdogDiag288() Capability {
	return Capability{
		Name: "watchdog-diag288", Title: "A watchdog that is a diag288",
		Uses: watchdogUses(func(w *v1.Watchdog) bool { return w.Diag288 != nil }),
	}
}

func watchdogOfNoKind() Capability {
	return Capability{
		Name: "watchdog-unknown", Title: "A watchdog that is neither an i6300esb nor a diag288",
		Uses: watchdogUses(func(w *v1.Watchdog) bool { return w.I6300ESB == nil && w.Diag288 == nil }),
	}
}

func watchdogUses(wanted func(*v1.Watchdog) bool) func(*Subject) []Use {
	return func(s *Subject) []Use {
		w := s.Spec.Domain.Devices.Watchdog
		if w == nil || !wanted(w) {
			return nil
		}
		return []Use{{Path: s.Devices().Child("watchdog"), Value: watchdogs(w)}}
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

func soundDevice() Capability {
	return Capability{Name: "sound", Title: "A sound device", Uses: func(s *Subject) []Use {
		sound := s.Spec.Domain.Devices.Sound
		if sound == nil {
			return nil
		}
		return []Use{{Path: s.Devices().Child("sound"), Value: sound.Name}}
	}}
}

func biosBoot() Capability {
	return Capability{Name: "bios", Title: "Booting from BIOS", Uses: func(s *Subject) []Use {
		f := s.Spec.Domain.Firmware
		if f == nil || f.Bootloader == nil || f.Bootloader.BIOS == nil {
			return nil
		}
		return []Use{{Path: s.firmware().Child("bootloader", "bios"), Value: field.OmitValueType{}}}
	}}
}

func namedCPUModel() Capability {
	return Capability{
		Name: "named-cpu-model", Title: "A CPU model other than " + v1.CPUModeHostPassthrough,
		Uses: func(s *Subject) []Use {
			cpu := s.Spec.Domain.CPU
			if cpu == nil || cpu.Model == "" || cpu.Model == v1.CPUModeHostPassthrough {
				return nil
			}
			return []Use{{Path: s.Domain().Child("cpu", "model"), Value: cpu.Model}}
		},
	}
}

// diskBuses are those that some architecture has.
var diskBuses = []v1.DiskBus{v1.DiskBusVirtio, v1.DiskBusSCSI, v1.DiskBusSATA, v1.DiskBusUSB}

func diskOnBus(name v1.DiskBus) Capability {
	return Capability{
		Name: "disk-bus-" + string(name), Title: "A disk, CD-ROM drive or LUN on the bus " + string(name),
		Uses: diskUses(func(used v1.DiskBus) bool { return used == name }),
	}
}

func diskOnUnknownBus() Capability {
	return Capability{
		Name: "disk-bus-unknown", Title: "A disk, CD-ROM drive or LUN on a bus other than virtio, scsi, sata and usb",
		Uses: diskUses(func(used v1.DiskBus) bool { return used != "" && !slices.Contains(diskBuses, used) }),
	}
}

// diskUses looks at each kind of device that a disk names: to name several is another fault.
func diskUses(wanted func(v1.DiskBus) bool) func(*Subject) []Use {
	return func(s *Subject) (uses []Use) {
		for i := range s.Spec.Domain.Devices.Disks {
			disk := &s.Spec.Domain.Devices.Disks[i]
			add := func(kind string, bus v1.DiskBus) {
				if wanted(bus) {
					uses = append(uses, Use{Path: s.Devices().Child("disks").Index(i).Child(kind, "bus"), Value: string(bus)})
				}
			}
			if disk.Disk != nil {
				add("disk", disk.Disk.Bus)
			}
			if disk.CDRom != nil {
				add("cdrom", disk.CDRom.Bus)
			}
			if disk.LUN != nil {
				add("lun", disk.LUN.Bus)
			}
		}
		return uses
	}
}

// launchSecurity is used by the architecture, because that is where KubeVirt says so.
func launchSecurity() Capability {
	return Capability{Name: "launch-security", Title: "Launch security", Uses: func(s *Subject) []Use {
		if s.Spec.Domain.LaunchSecurity == nil {
			return nil
		}
		return []Use{{Path: s.Path.Child("architecture"), Value: s.architecture()}}
	}}
}

// dedicatedCPUThreads is used by the architecture, because that is where KubeVirt says so.
func dedicatedCPUThreads() Capability {
	return Capability{
		Name: "dedicated-cpu-threads", Title: "Dedicated CPUs with more than one thread per core",
		Uses: func(s *Subject) []Use {
			cpu := s.Spec.Domain.CPU
			if cpu == nil || !cpu.DedicatedCPUPlacement || cpu.Threads <= 1 {
				return nil
			}
			return []Use{{
				Path: s.Path.Child("architecture"), Value: s.architecture(),
				Detail: fmt.Sprintf("supports one thread per core of dedicated CPUs, not %d", cpu.Threads),
			}}
		},
	}
}

func panicDevices() Capability {
	return Capability{Name: "panic-devices", Title: "Custom panic devices", Uses: func(s *Subject) []Use {
		if len(s.Spec.Domain.Devices.PanicDevices) == 0 {
			return nil
		}
		return []Use{{Path: s.Devices().Child("panicDevices"), Value: field.OmitValueType{}}}
	}}
}

// largeBlock is the largest block that DASD and SCSI disks of s390x have, in bytes.
const largeBlock = 4096

func largeBlocks() Capability {
	return Capability{
		Name: "large-blocks", Title: fmt.Sprintf("Disks with blocks of more than %d bytes", largeBlock),
		Uses: func(s *Subject) (uses []Use) {
			for i := range s.Spec.Domain.Devices.Disks {
				block := s.Spec.Domain.Devices.Disks[i].BlockSize
				if block == nil || block.Custom == nil {
					continue
				}
				at := s.Devices().Child("disks").Index(i).Child("blockSize", "custom")
				if size := block.Custom.Logical; size > largeBlock {
					uses = append(uses, Use{Path: at.Child("logical"), Value: size})
				}
				if size := block.Custom.Physical; size > largeBlock {
					uses = append(uses, Use{Path: at.Child("physical"), Value: size})
				}
			}
			return uses
		},
	}
}
