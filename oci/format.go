package oci

import (
	"fmt"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Kind is what an artifact has.
type Kind string

// The kinds of artifacts.
const (
	VirtualMachine         Kind = "VirtualMachine"
	VirtualMachineTemplate Kind = "VirtualMachineTemplate"
	// Appliance is an OVA file as one layer.
	Appliance Kind = "OVA"
)

// The media types of KubeVirt's format.
const (
	machineType    = "application/vnd.kubevirt.virtualmachine.v1"
	machineConfig  = "application/vnd.kubevirt.virtualmachine.config.v1+json"
	templateType   = "application/vnd.kubevirt.virtualmachinetemplate.v1"
	templateConfig = "application/vnd.kubevirt.virtualmachinetemplate.config.v1+json"

	// MediaTypeDisk is that of a layer with a disk.
	MediaTypeDisk = "application/vnd.kubevirt.disk.raw+zstd"
)

// The media types of an OVA file as a layer. No standard has one.
const (
	applianceType = "application/vnd.virtward.ova.v1"

	// MediaTypeOVA is that of a layer with an OVA file.
	MediaTypeOVA = "application/vnd.virtward.ova.v1.tar"
)

// The annotations of layers. KubeVirt 1.9 writes the first two and the title. The others are those of its enhancement proposals.
const (
	annotationName        = "io.kubevirt.disk.name"
	annotationSize        = "io.kubevirt.disk.size"
	annotationNames       = "io.kubevirt.disk.names"
	annotationCapacity    = "io.kubevirt.pvc.capacity"
	annotationVolumeMode  = "io.kubevirt.pvc.volumeMode"
	annotationAccessModes = "io.kubevirt.pvc.accessModes"
)

// DefaultArchitecture is that of an object that names none.
const DefaultArchitecture = "amd64"

// linux is the operating system of each platform, whatever the guest runs.
const linux = "linux"

// Limits of an artifact.
const (
	// MaxIndex and MaxManifest bound the bytes of an index and of a manifest. 256 layers have about 100 KiB.
	MaxIndex    = 256 << 10
	MaxManifest = 1 << 20
	// maxObjects bounds the objects of an index or a manifest: an empty one needs a hundred times its bytes in memory.
	maxObjects = 4096
	// MaxConfig bounds the bytes of a configuration. etcd stores no object that is larger.
	MaxConfig = 2 << 20
	// MaxVariants bounds the architectures of an index, MaxDisks the layers of a manifest.
	MaxVariants = 32
	MaxDisks    = 256
	// MaxDiskBytes bounds a disk, and what is compressed of it.
	MaxDiskBytes = 64 << 40
	// MaxWindow bounds the window of zstd, which a reader holds in memory. Level 19 of the zstd program needs 8 MiB.
	MaxWindow = 32 << 20
)

// format is what a kind is written as.
type format struct {
	kind             Kind
	artifact, config string
	// apiGroup is that of the object.
	apiGroup string
}

// formats are those of the kinds that have an object.
func formats() []format {
	return []format{
		{VirtualMachine, machineType, machineConfig, "kubevirt.io"},
		{VirtualMachineTemplate, templateType, templateConfig, "template.kubevirt.io"},
	}
}

// formatOf returns the format that a function selects.
func formatOf(is func(*format) bool) *format {
	for _, f := range formats() {
		if is(&f) {
			return &f
		}
	}
	return nil
}

// Reason is the class of a rejection.
type Reason string

// The classes of rejections.
const (
	InvalidJSON       Reason = "InvalidJSON"
	WrongType         Reason = "WrongType"
	LimitExceeded     Reason = "LimitExceeded"
	InvalidDescriptor Reason = "InvalidDescriptor"
	ForeignURL        Reason = "ForeignURL"
	UnsafeName        Reason = "UnsafeName"
	DuplicateName     Reason = "DuplicateName"
	InvalidSize       Reason = "InvalidSize"
	InvalidObject     Reason = "InvalidObject"
	NoVariant         Reason = "NoVariant"
	InvalidImage      Reason = "InvalidCompression"
	SizeMismatch      Reason = "SizeMismatch"
	DigestMismatch    Reason = "DigestMismatch"
)

// Rejection is a reason why an artifact is not read. It is the same at the next attempt.
type Rejection struct {
	Reason Reason `json:"reason"`
	// Element is where it is, such as layers[0].annotations.
	Element string `json:"element"`
	// Message says what is wrong and what is allowed.
	Message string `json:"message"`
}

// Error is the element and the message in one line.
func (r *Rejection) Error() string {
	if r.Element == "" {
		return r.Message
	}
	return r.Element + ": " + r.Message
}

func rejected(reason Reason, element, message string, values ...any) *Rejection {
	return &Rejection{reason, element, fmt.Sprintf(message, values...)}
}

// Descriptor names a blob by its digest.
type Descriptor = v1.Descriptor
