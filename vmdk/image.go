package vmdk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/virtualimages"
)

// Image is an image that was inspected.
type Image struct {
	// Format is vmdk, qcow2, vdi, vhd, vhdx, iso or raw.
	Format string
	// Size is the virtual size in bytes.
	Size int64
	// VMDK is the disk of the format vmdk.
	VMDK *Disk
}

// HeadBytes is the size of the beginning of a file that is inspected in any format.
const HeadBytes = 64 << 10

// Inspect inspects an image of a size in bytes by its content.
func Inspect(r io.ReaderAt, size int64) (*Image, error) {
	if size <= 0 {
		return nil, invalid("the file is empty")
	}
	head, tail := make([]byte, min(size, HeadBytes)), make([]byte, min(size, sector))
	for _, part := range []struct {
		into   []byte
		offset int64
	}{{head, 0}, {tail, size - int64(len(tail))}} {
		if n, err := r.ReadAt(part.into, part.offset); n < len(part.into) {
			return nil, fmt.Errorf("reading the image: %w", err)
		}
	}
	h := virtualimages.Inspect(head, tail)
	if err := rejected(head, h); err != nil {
		return nil, err
	}
	image := &Image{Format: string(h.Format), Size: h.VirtualSize}
	var err error
	switch h.Format {
	case v1alpha1.FormatVMDK:
		if image.VMDK, err = Open(r, size); err == nil {
			image.Size = image.VMDK.Capacity
		}
	case v1alpha1.FormatQCOW2:
		err = checkQCOW2(head, size)
	case v1alpha1.FormatVHD:
		if err = checkVHD(head, tail); string(head[:min(8, len(head))]) != "conectix" { // QEMU reads it as a raw disk, with the footer
			image.Size = size
		}
	case v1alpha1.FormatVDI:
		err = checkVDI(head)
	default:
		image.Size = size
	}
	if err != nil {
		return nil, err
	}
	if image.Size <= 0 || image.Size > maxCapacity {
		return nil, invalid("the virtual size is 0, or above 64 TiB")
	}
	return image, nil
}

// InspectHead inspects the first HeadBytes of an image, or all of a shorter one, before the rest of it can be read: the header, and what
// refers to other files. An image that it accepts can still be rejected by Inspect.
func InspectHead(head []byte) error {
	h := virtualimages.Inspect(head, nil)
	if err := rejected(head, h); err != nil {
		return err
	}
	switch h.Format {
	case v1alpha1.FormatVMDK:
		header, err := parseHeader(head[:min(len(head), sector)])
		if err != nil {
			return err
		}
		d := &Disk{reader: bytes.NewReader(head), size: int64(len(head)), header: header}
		return d.descriptor()
	case v1alpha1.FormatQCOW2:
		return checkQCOW2(head, math.MaxInt64)
	case v1alpha1.FormatVDI:
		return checkVDI(head)
	}
	if len(head) == 0 {
		return invalid("the file is empty")
	}
	return nil
}

// CheckRaw inspects the first HeadBytes of an image that must be raw, or all of a shorter one. QEMU and CDI choose the format by the content:
// a guest can write the header of another one to its disk.
func CheckRaw(head []byte) error {
	if err := InspectHead(head); err != nil {
		return err
	}
	return mustBeRaw(virtualimages.Inspect(head, nil).Format)
}

// CheckRaw rejects an image that is not raw. The content of a CD is.
func (i *Image) CheckRaw() error { return mustBeRaw(v1alpha1.DiskFormat(i.Format)) }

func mustBeRaw(format v1alpha1.DiskFormat) error {
	if format == v1alpha1.FormatRaw || format == v1alpha1.FormatISO {
		return nil
	}
	return invalid("the disk must be raw, and its content is an image of the format %s", format)
}

// rejected says why a file is rejected by its first bytes.
func rejected(head []byte, h virtualimages.Header) error {
	switch unread := virtualimages.Unread(head); {
	case unread == virtualimages.DescriptorOfVMDK:
		return fmt.Errorf("%w: it is the descriptor of a VMDK whose disk is in other files", ErrReference)
	case string(head[:min(4, len(head))]) == "COWD":
		return fmt.Errorf("%w: it is an extent of a VMDK of ESX", ErrReference)
	case unread == "LUKS":
		return fmt.Errorf("%w: it is a volume of LUKS", ErrEncrypted)
	case unread == "VHDX":
		return invalid("the format VHDX is not supported, because a parent can be anywhere in it: convert it to qcow2 or VMDK")
	case unread != "":
		return invalid("the format %s is not supported: convert it to qcow2 or VMDK", unread)
	case h.Text:
		return invalid("it is text")
	case h.Compressed != "":
		return invalid("it is compressed with %s, and the descriptor does not say so", h.Compressed)
	}
	return nil
}

// The fields of the header of a qcow2 that are read: QEMU's docs/interop/qcow2.
const (
	qcow2Version      = 4
	qcow2Backing      = 8
	qcow2ClusterBits  = 20
	qcow2Size         = 24
	qcow2Encryption   = 32
	qcow2L1Size       = 36
	qcow2L1Offset     = 40
	qcow2Snapshots    = 60
	qcow2Incompatible = 72
	qcow2HeaderLength = 100
	qcow2Version2     = 72
	qcow2Version3     = 104

	qcow2DataFile = 1 << 2
	qcow2Known    = 1<<5 - 1 // dirty, corrupt, data file, compression type, extended L2

	extensionBacking  = 0xe2792aca
	extensionData     = 0x44415441
	extensionLUKS     = 0x0537be77
	maxExtensionsRead = 64
)

// checkQCOW2 inspects the header of a qcow2 and its extensions.
func checkQCOW2(head []byte, size int64) error {
	if len(head) < qcow2Version3 {
		return invalid("it is truncated: the header has less than %d bytes", qcow2Version3)
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(head[at:]) }
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(head[at:]) }
	version, bits := u32(qcow2Version), u32(qcow2ClusterBits)
	incompatible := uint64(0)
	if version >= 3 {
		incompatible = u64(qcow2Incompatible)
	}
	switch {
	case version != 2 && version != 3:
		return invalid("the header has the version %d, which is not supported", version)
	case u64(qcow2Backing) != 0:
		return fmt.Errorf("%w: it has a backing file", ErrParent)
	case u32(qcow2Encryption) != 0:
		return fmt.Errorf("%w: the header has the encryption method %d", ErrEncrypted, u32(qcow2Encryption))
	case incompatible&qcow2DataFile != 0:
		return fmt.Errorf("%w: it has an external data file", ErrReference)
	case incompatible&^qcow2Known != 0:
		return invalid("the header has incompatible features that are not known: %#x", incompatible&^uint64(qcow2Known))
	case bits < 9 || bits > 21:
		return invalid("the clusters have 2^%d bytes", bits)
	case u64(qcow2Size) == 0 || u64(qcow2Size) > maxCapacity:
		return invalid("the virtual size is 0, or above 64 TiB")
	case u64(qcow2L1Offset) > math.MaxInt64 || int64(u64(qcow2L1Offset)) > size-8*int64(u32(qcow2L1Size)):
		return invalid("it is truncated: the table of clusters is outside of the file")
	}
	if version == 2 {
		return checkExtensions(head, qcow2Version2)
	}
	return checkExtensions(head, u32(qcow2HeaderLength))
}

// checkExtensions inspects the extensions of the header of a qcow2.
func checkExtensions(head []byte, at uint32) error {
	for range maxExtensionsRead {
		if int64(at)+8 > int64(len(head)) {
			return nil
		}
		kind, length := binary.BigEndian.Uint32(head[at:]), binary.BigEndian.Uint32(head[at+4:])
		switch kind {
		case 0:
			return nil
		case extensionBacking:
			return fmt.Errorf("%w: the header names the format of a backing file", ErrParent)
		case extensionData:
			return fmt.Errorf("%w: the header names an external data file", ErrReference)
		case extensionLUKS:
			return fmt.Errorf("%w: the header has an encryption header", ErrEncrypted)
		}
		if length > HeadBytes {
			return invalid("an extension of the header has %d bytes", length)
		}
		at += 8 + (length+7)&^7
	}
	return invalid("the header has more than %d extensions", maxExtensionsRead)
}

// checkVHD inspects the footer of a VHD, and the copy at the beginning of a dynamic one, which QEMU reads.
func checkVHD(head, tail []byte) error {
	if len(tail) < sector || string(tail[:8]) != "conectix" {
		return invalid("it is truncated: a VHD ends with a footer")
	}
	parts := [][]byte{tail}
	if string(head[:8]) == "conectix" {
		parts = append(parts, head)
	} else if binary.BigEndian.Uint32(tail[60:]) == 3 {
		return invalid("the footer is that of a dynamic disk, and its copy at the beginning is missing: QEMU reads the file as a raw disk")
	}
	for _, footer := range parts {
		switch kind := binary.BigEndian.Uint32(footer[60:]); kind {
		case 2, 3: // fixed and dynamic
		case 4:
			return fmt.Errorf("%w: the footer has the type of a differencing disk", ErrParent)
		default:
			return invalid("the footer has the disk type %d", kind)
		}
	}
	return nil
}

// AllZero reports whether there is no other byte than 0, as in the parts of images and archives that have no content.
func AllZero(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

// checkVDI inspects the header of a VDI: the type of the image, and its link to a parent.
func checkVDI(head []byte) error {
	if len(head) < 0x1c8 {
		return invalid("it is truncated: the header has less than %d bytes", 0x1c8)
	}
	switch kind := binary.LittleEndian.Uint32(head[0x4c:]); kind {
	case 1, 2: // dynamic and fixed
	case 3, 4:
		return fmt.Errorf("%w: the header has the type of an undo or differencing image", ErrParent)
	default:
		return invalid("the header has the image type %d", kind)
	}
	if parent := head[0x1a8:0x1b8]; !AllZero(parent) {
		return fmt.Errorf("%w: the header has the UUID of a parent", ErrParent)
	}
	return nil
}
