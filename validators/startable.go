package validators

import (
	// A digest can only be read if its algorithm is part of the program.
	_ "crypto/sha256"
	_ "crypto/sha512"
	"fmt"
	"slices"

	"github.com/distribution/reference"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// startableRules are about values with which a VM never runs, although KubeVirt accepts them in the VM and in the VMI: the
// kubelet, libvirt or QEMU rejects them. Only VMs are evaluated. A VMI fails at once, and its status says why.
func startableRules() Table {
	return Scoped(OnVM,
		volumeImageRule,
		volumeClaimNameRule,
		memoryGuestLeastRule,
		memoryGuestOverLimitRule,
		watchdogActionRule,
		firmwareUUIDRule,
	)
}

var volumeImageRule = Rule{
	ID:      "volume-image",
	Title:   "A container disk and a kernel name an image",
	Remedy:  "Set image to a reference such as registry.example/disks/fedora:42.",
	AtStart: true,
	Check:   volumeImage,
}

func volumeImage(s *Subject, found *Errors) {
	if boot := kernelBoot(s); boot != nil && boot.Image != "" { // firmware-kernel-image reports a missing one
		imageFault(inDomain(s, "firmware", "kernelBoot", "container", "image"), boot.Image, found)
	}
	for i := range found.Each(len(s.Spec.Volumes)) {
		disk, at := s.Spec.Volumes[i].ContainerDisk, func() *field.Path { return volumeAt{s, i}.path("containerDisk", "image") }
		if disk != nil && disk.Image == "" {
			found.Add(field.Required(at(), "the container disk has no image"))
		} else if disk != nil {
			imageFault(at, disk.Image, found)
		}
	}
}

// maxImage is longer than any reference: the grammar allows 255 bytes of a name, 128 of a tag and 136 of a digest.
const maxImage = 1 << 10

// imageFault reads the reference as the kubelet does.
func imageFault(at place, image string, found *Errors) {
	if len(image) <= maxImage {
		if _, err := reference.ParseNormalizedNamed(image); err == nil {
			return
		}
	}
	found.Add(field.Invalid(at(), shortened(image), "is not a reference of an image, such as registry.example/disks/fedora:42"))
}

var volumeClaimNameRule = Rule{
	ID:      "volume-claim-name",
	Title:   "A persistentVolumeClaim volume names its claim",
	Remedy:  "Set persistentVolumeClaim.claimName to the name of a PersistentVolumeClaim in the namespace.",
	AtStart: true,
	Check:   eachVolume(volumeClaimName),
}

func volumeClaimName(v *v1.Volume, at volumeAt) *field.Error {
	if v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != "" {
		return nil
	}
	return field.Required(at.path("persistentVolumeClaim", "claimName"), "the volume must name its claim")
}

var memoryGuestLeastRule = Rule{
	ID:      "memory-guest-least",
	Title:   "The guest has at least 1M of memory",
	Remedy:  "Raise memory.guest. A number without a unit is an amount of bytes: 4Gi, not 4.",
	AtStart: true,
	Check:   memoryGuestLeast,
}

func memoryGuestLeast(s *Subject, found *Errors) {
	memory := s.Spec.Domain.Memory
	if memory == nil || memory.Guest == nil || memory.Guest.Sign() < 0 || memory.Guest.Cmp(leastMemory) >= 0 {
		return
	}
	found.Add(field.Invalid(s.Domain().Child("memory", "guest"), memory.Guest.String(), fmt.Sprintf("must be at least %s: it is an amount of bytes", &leastMemory)))
}

var memoryGuestOverLimitRule = Rule{
	ID:       "memory-guest-over-limit",
	Title:    "The guest's memory does not exceed the memory limit of its pod",
	Remedy:   "Lower memory.guest or raise resources.limits.memory.",
	Severity: Warn,
	Check:    memoryGuestOverLimit,
}

// memoryGuestOverLimit is about clusters with live updates. In others, memory-guest-within-limit rejects the VM, as KubeVirt does.
func memoryGuestOverLimit(s *Subject, found *Errors) {
	memory, limit := s.Spec.Domain.Memory, s.Spec.Domain.Resources.Limits.Memory()
	if !s.Facts.LiveUpdate || memory == nil || memory.Guest == nil || limit.Sign() <= 0 || memory.Guest.Cmp(*limit) <= 0 {
		return
	}
	found.Add(field.Invalid(s.Domain().Child("memory", "guest"), memory.Guest.String(),
		fmt.Sprintf("exceeds the memory limit of %s: the kernel ends the VM when the guest uses it", limit)))
}

// watchdogActions are those of libvirt. KubeVirt passes the action on.
var watchdogActions = []v1.WatchdogAction{
	v1.WatchdogActionPoweroff, v1.WatchdogActionReset, v1.WatchdogActionShutdown, "dump", "inject-nmi", "none", "pause",
}

var watchdogActionRule = Rule{
	ID:      "device-watchdog-action",
	Title:   "A watchdog has a known action",
	Remedy:  "Set action to reset, poweroff or shutdown.",
	AtStart: true,
	Check:   watchdogAction,
}

func watchdogAction(s *Subject, found *Errors) {
	w := s.Spec.Domain.Devices.Watchdog
	if w == nil {
		return
	}
	path := s.Devices().Child("watchdog")
	if w.I6300ESB != nil {
		knownAction(path.Child("i6300esb", "action"), w.I6300ESB.Action, found)
	}
	if w.Diag288 != nil {
		knownAction(path.Child("diag288", "action"), w.Diag288.Action, found)
	}
}

func knownAction(path *field.Path, action v1.WatchdogAction, found *Errors) {
	if action != "" && !slices.Contains(watchdogActions, action) {
		found.Add(field.NotSupported(path, v1.WatchdogAction(shortened(string(action))), watchdogActions))
	}
}

var firmwareUUIDRule = Rule{
	ID:      "firmware-uuid",
	Title:   "The UUID of the firmware is one",
	Remedy:  "Set firmware.uuid to a UUID, or leave it to KubeVirt.",
	AtStart: true,
	Check:   firmwareUUID,
}

func firmwareUUID(s *Subject, found *Errors) {
	firmware := s.Spec.Domain.Firmware
	if firmware == nil || firmware.UUID == "" {
		return
	}
	if _, err := uuid.Parse(string(firmware.UUID)); err != nil {
		found.Add(field.Invalid(s.Domain().Child("firmware", "uuid"), shortened(string(firmware.UUID)), "is not a UUID"))
	}
}
