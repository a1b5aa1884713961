package virtualimages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
)

// Header is what the first bytes of a file say.
type Header struct {
	// Format is that of the file; raw for any other.
	Format v1alpha1.DiskFormat
	// VirtualSize is the size of the disk in bytes; 0 if the header does not state it.
	VirtualSize int64
	// Compressed names the compression of the file: gzip, xz, zstd, bzip2 or zip; empty for none.
	Compressed string
	// Text tells that the file starts as text, which no disk does.
	Text bool
}

// signature is where a format starts with which bytes.
type signature struct {
	offset int
	bytes  string
}

// formats are the formats with their signatures, and with the place of the virtual size.
var formats = []struct {
	format    v1alpha1.DiskFormat
	signature signature
	size      func(head []byte) int64
}{
	{v1alpha1.FormatQCOW2, signature{0, "QFI\xfb"}, func(h []byte) int64 { return number(binary.BigEndian, h, 24, 1) }},
	{v1alpha1.FormatVMDK, signature{0, "KDMV"}, func(h []byte) int64 { return number(binary.LittleEndian, h, 12, sector) }},
	{v1alpha1.FormatVDI, signature{0x40, "\x7f\x10\xda\xbe"}, func(h []byte) int64 { return number(binary.LittleEndian, h, 0x170, 1) }},
	{v1alpha1.FormatVHD, signature{0, "conectix"}, func(h []byte) int64 { return number(binary.BigEndian, h, 48, 1) }},
	{v1alpha1.FormatISO, signature{0x8001, "CD001"}, func([]byte) int64 { return 0 }},
}

// sector is the unit of sizes in the header of a VMDK.
const sector = 512

var compressions = []struct {
	name      string
	signature signature
}{
	{"gzip", signature{0, "\x1f\x8b"}},
	{"xz", signature{0, "\xfd7zXZ\x00"}},
	{"zstd", signature{0, "\x28\xb5\x2f\xfd"}},
	{"bzip2", signature{0, "BZh"}},
	{"zip", signature{0, "PK\x03\x04"}},
}

func (s signature) in(data []byte) bool {
	return len(data) >= s.offset+len(s.bytes) && string(data[s.offset:s.offset+len(s.bytes)]) == s.bytes
}

// number reads an integer of 64 bits, in units; 0 if it is not there or has no sense.
func number(order binary.ByteOrder, data []byte, offset int, unit int64) int64 {
	if len(data) < offset+8 {
		return 0
	}
	var value int64
	if _, err := binary.Decode(data[offset:], order, &value); err != nil || value < 0 || value > math.MaxInt64/unit {
		return 0
	}
	return value * unit
}

// Inspect reads the header of a file from its first bytes, and of those at its end if they are known.
func Inspect(head, tail []byte) Header {
	for _, f := range formats {
		if f.signature.in(head) {
			return Header{Format: f.format, VirtualSize: f.size(head)}
		}
	}
	if vhd := formats[3]; vhd.signature.in(tail) {
		return Header{Format: v1alpha1.FormatVHD, VirtualSize: vhd.size(tail)}
	}
	for _, c := range compressions {
		if c.signature.in(head) {
			return Header{Format: v1alpha1.FormatRaw, Compressed: c.name}
		}
	}
	return Header{Format: v1alpha1.FormatRaw, Text: isText(head)}
}

// isText reports whether bytes are printable text. A raw disk starts with boot code, a partition table or zeros.
func isText(head []byte) bool {
	head = head[:min(len(head), 512)]
	if len(head) == 0 {
		return false
	}
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		if r == utf8.RuneError && len(head) >= utf8.UTFMax || r != utf8.RuneError && !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return false
		}
		head = head[size:]
	}
	return true
}

// unread are formats that QEMU recognizes and no import reads. Some of them name other files.
var unread = []struct {
	name      string
	signature signature
}{
	{"an extent of a VMDK of ESX", signature{0, "COWD"}},
	{"VHDX", signature{0, "vhdxfile"}},
	{"QED", signature{0, "QED\x00"}},
	{"COW", signature{0, "OOOM"}},
	{"LUKS", signature{0, "LUKS\xba\xbe"}},
	{"Parallels", signature{0, "WithoutFreeSpace"}},
	{"Parallels", signature{0, "WithouFreSpacExt"}},
	{"Bochs", signature{0, "Bochs Virtual HD Image"}},
	{"cloop", signature{0, "#!/bin/sh\n#V2.0 Format\nmodprobe cloop"}},
}

// DescriptorOfVMDK is what Unread returns for a descriptor without its disk.
const DescriptorOfVMDK = "the descriptor of a VMDK"

// Unread names the format of a file that QEMU recognizes by its first bytes and no import reads; empty for none. It can be the one that
// QEMU chooses although Inspect finds another: a file can have the signatures of several formats.
func Unread(head []byte) string {
	if isDescriptor(head) {
		return DescriptorOfVMDK
	}
	for _, f := range unread {
		if f.signature.in(head) {
			return f.name
		}
	}
	return ""
}

// isDescriptor reports whether bytes are the descriptor of a VMDK for QEMU: only comments and blank lines before the version. What is
// behind it can be anything.
func isDescriptor(head []byte) bool {
	if bytes.HasPrefix(head, []byte("# Disk DescriptorFile")) {
		return true
	}
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte("\n"))
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			return bytes.HasPrefix(text, []byte("version="))
		}
		head = rest
	}
	return false
}

// Packed reports whether a format is read from a container of OpenStack, and has no header of its own. No virtual machine of
// KubeVirt boots it.
func Packed(format v1alpha1.DiskFormat) bool {
	return format == v1alpha1.FormatAMI || format == v1alpha1.FormatARI || format == v1alpha1.FormatAKI
}

// Check says why a file is not one of the stated format, or has something that no import may follow; nil if it is fine.
func Check(format v1alpha1.DiskFormat, head, tail []byte) (Header, error) {
	h := Inspect(head, tail)
	switch {
	case len(head) == 0:
		return h, errors.New("the file is empty")
	case h.Text && bytes.HasPrefix(bytes.TrimSpace(head), []byte("<")):
		return h, fmt.Errorf("the file is HTML or XML, not a disk of the format %s: open the URL in a browser", format)
	case Unread(head) == DescriptorOfVMDK:
		return h, errors.New("the file is the descriptor of a VMDK without its disk: convert it to a single file")
	case h.Text:
		return h, fmt.Errorf("the file is text, not a disk of the format %s", format)
	case Unread(head) != "":
		return h, fmt.Errorf("the file has the format %s, not %s", Unread(head), format)
	case h.Compressed != "", Packed(format):
		return h, nil
	case h.Format != format:
		return h, fmt.Errorf("the file has the format %s, not %s", h.Format, format)
	case format == v1alpha1.FormatQCOW2:
		return h, checkQCOW2(head)
	}
	return h, nil
}

// importable are the compressions that CDI reads.
var importable = []string{"", "gzip", "xz"}

// DiskSize is the size of the disk in a file that CDI imports, in bytes; 0 if it is not known. The file has a number of bytes; less
// than 1 if that is not known. The error says why CDI cannot import the file.
func DiskSize(format v1alpha1.DiskFormat, head, tail []byte, bytes int64) (int64, error) {
	header, err := Check(format, head, tail)
	switch {
	case err != nil:
		return 0, err
	case !slices.Contains(importable, header.Compressed):
		return 0, fmt.Errorf("CDI reads no files that are compressed with %s: use gzip or xz", header.Compressed)
	case header.VirtualSize == 0 && header.Compressed == "" && bytes > 0 && (format == v1alpha1.FormatRaw || format == v1alpha1.FormatISO):
		return bytes, nil
	}
	return header.VirtualSize, nil
}

// Fields of the header of a QCOW2: QEMU's docs/interop/qcow2.
const (
	qcow2Backing      = 8
	qcow2Incompatible = 72
	qcow2ExternalData = 1 << 2
)

// checkQCOW2 rejects a disk whose content is in other files, since the host would open them by name.
func checkQCOW2(head []byte) error {
	if number(binary.BigEndian, head, qcow2Backing, 1) != 0 {
		return errors.New("the disk has a backing file: convert it to a disk without one")
	}
	if len(head) >= 8 && binary.BigEndian.Uint32(head[4:]) >= 3 && len(head) >= qcow2Incompatible+8 && binary.BigEndian.Uint64(head[qcow2Incompatible:])&qcow2ExternalData != 0 {
		return errors.New("the disk has an external data file: convert it to a disk without one")
	}
	return nil
}
