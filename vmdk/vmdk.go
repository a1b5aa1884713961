package vmdk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// The errors of an image, which others wrap.
var (
	// ErrInvalid is an image that contradicts itself, is truncated, or has a feature that is not supported.
	ErrInvalid = errors.New("the image is not valid")
	// ErrReference is an image that refers to another file.
	ErrReference = errors.New("the image refers to another file")
	// ErrParent is an image that is a difference to a parent.
	ErrParent = errors.New("the image is a difference to a parent image")
	// ErrEncrypted is an encrypted image.
	ErrEncrypted = errors.New("the image is encrypted")
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// sector is the unit of a VMDK in bytes.
const sector = 512

// The bounds of a VMDK.
const (
	maxDescriptor = 1 << 20
	maxCapacity   = 64 << 40
	maxGrain      = 2048 // sectors
)

// The flags of a header.
const (
	flagNewLines   = 1 << 0
	flagZeroGrains = 1 << 2 // the place 1 is a grain of zeros
	flagCompressed = 1 << 16
	flagMarkers    = 1 << 17
)

// directoryAtEnd is the place of the grain directory in the header of a file that was written as a stream. Its footer has the real one.
const directoryAtEnd = ^uint64(0)

// header is the SparseExtentHeader of VMware, in the byte order of the file. Sizes and offsets are in sectors.
type header struct {
	Magic            [4]byte
	Version          uint32
	Flags            uint32
	Capacity         uint64
	GrainSize        uint64
	DescriptorOffset uint64
	DescriptorSize   uint64
	EntriesPerTable  uint32
	RedundantOffset  uint64
	DirectoryOffset  uint64
	OverHead         uint64
	UncleanShutdown  uint8
	NewLines         [4]byte
	Compression      uint16
	Padding          [433]byte
}

const magic = "KDMV"

// Disk is a VMDK whose header was inspected.
type Disk struct {
	// CreateType is monolithicSparse or streamOptimized.
	CreateType string
	// Capacity is the virtual size in bytes.
	Capacity int64

	reader    io.ReaderAt
	size      int64
	header    header
	directory []uint32
}

// Open reads the header, the footer, the descriptor and the grain directory of a VMDK of a size in bytes.
func Open(r io.ReaderAt, size int64) (*Disk, error) {
	d := &Disk{reader: r, size: size}
	if size < sector {
		return nil, invalid("the file has %d bytes, less than a header", size)
	}
	first := make([]byte, sector)
	if err := d.read(first, 0); err != nil {
		return nil, err
	}
	h, err := parseHeader(first)
	if err != nil {
		return nil, err
	}
	d.header = h
	d.Capacity = int64(h.Capacity) * sector
	if err := d.footer(); err != nil {
		return nil, err
	}
	if err := d.descriptor(); err != nil {
		return nil, err
	}
	return d, d.readDirectory()
}

func (d *Disk) read(into []byte, offset int64) error {
	if offset < 0 || offset > d.size-int64(len(into)) {
		return invalid("it is truncated: it refers to byte %d of %d", offset+int64(len(into)), d.size)
	}
	n, err := d.reader.ReadAt(into, offset)
	if n == len(into) {
		return nil
	}
	return fmt.Errorf("reading the image at byte %d: %w", offset, err)
}

// parseHeader inspects a header without the rest of the file.
func parseHeader(data []byte) (header, error) {
	var h header
	if strings.HasPrefix(string(data), "# Disk DescriptorFile") {
		return h, fmt.Errorf("%w: it is the descriptor of a VMDK whose disk is in other files", ErrReference)
	}
	if _, err := binary.Decode(data, binary.LittleEndian, &h); err != nil || string(h.Magic[:]) != magic {
		return h, invalid("it has no header of a sparse VMDK")
	}
	compressed := h.Flags&flagCompressed != 0
	switch {
	case h.Version < 1 || h.Version > 3:
		return h, invalid("the header has the version %d, which is not supported", h.Version)
	case h.Capacity == 0:
		return h, fmt.Errorf("%w: the header has the capacity 0, so the embedded descriptor names the extents", ErrReference)
	case h.Capacity > maxCapacity/sector:
		return h, invalid("the capacity is above 64 TiB")
	case h.Flags&flagNewLines != 0 && h.NewLines != [4]byte{'\n', ' ', '\r', '\n'}:
		return h, invalid("the header was damaged by a transfer as text")
	case h.GrainSize < 8 || h.GrainSize > maxGrain || h.GrainSize&(h.GrainSize-1) != 0:
		return h, invalid("the grain size %d is not a power of 2 from 8 to %d sectors", h.GrainSize, maxGrain)
	case h.EntriesPerTable != 512:
		return h, invalid("a grain table has %d entries, not 512", h.EntriesPerTable)
	case compressed && h.Compression != 1, !compressed && h.Compression != 0:
		return h, invalid("the compression %d is not supported", h.Compression)
	case compressed != (h.Flags&flagMarkers != 0):
		return h, invalid("the grains are compressed, or have markers, but not both")
	}
	return h, nil
}

// footer replaces the place of the grain directory by that of the footer, if the header refers to it.
func (d *Disk) footer() error {
	if d.header.DirectoryOffset != directoryAtEnd {
		return nil
	}
	if d.header.Flags&flagMarkers == 0 {
		return invalid("the header refers to a footer, which only a streamOptimized VMDK has")
	}
	data := make([]byte, sector)
	if err := d.read(data, d.size-2*sector); err != nil {
		return err
	}
	h, err := parseHeader(data)
	if err != nil {
		return fmt.Errorf("the footer, which is the last sector but one: %w", err)
	}
	if h.Capacity != d.header.Capacity || h.GrainSize != d.header.GrainSize || h.EntriesPerTable != d.header.EntriesPerTable || h.Flags != d.header.Flags {
		return invalid("the footer contradicts the header")
	}
	if h.DirectoryOffset == directoryAtEnd {
		return invalid("neither the header nor the footer states the place of the grain directory")
	}
	d.header.DirectoryOffset = h.DirectoryOffset
	return nil
}

var (
	extentLine = regexp.MustCompile(`^(RW|RDONLY|NOACCESS)\s+(\d+)\s+(\w+)(?:\s+"([^"]*)")?`)
	setting    = regexp.MustCompile(`^([\w.]+)\s*=\s*"?([^"]*)"?$`)
)

// descriptor inspects the embedded descriptor: one sparse extent, and no parent.
func (d *Disk) descriptor() error {
	h := &d.header
	if h.DescriptorOffset == 0 || h.DescriptorSize == 0 {
		return invalid("it has no embedded descriptor: it is an extent of another VMDK")
	}
	if h.DescriptorSize > maxDescriptor/sector || h.DescriptorOffset > uint64(d.size)/sector {
		return invalid("the descriptor is larger than 1 MiB, or outside of the file")
	}
	data := make([]byte, h.DescriptorSize*sector)
	if err := d.read(data, int64(h.DescriptorOffset)*sector); err != nil {
		return err
	}
	text, _, _ := bytes.Cut(data, []byte{0})
	extents := 0
	for _, line := range strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		if match := extentLine.FindStringSubmatch(line); match != nil {
			extents++
			if match[3] != "SPARSE" {
				return fmt.Errorf("%w: the descriptor has an extent of the type %s", ErrReference, match[3])
			}
			if match[2] != fmt.Sprint(h.Capacity) {
				return invalid("the extent of the descriptor has %s sectors, the header %d", match[2], h.Capacity)
			}
			continue
		}
		if match := setting.FindStringSubmatch(line); match != nil {
			if err := d.setting(match[1], strings.TrimSpace(match[2])); err != nil {
				return err
			}
		}
	}
	switch {
	case extents != 1:
		return fmt.Errorf("%w: the descriptor has %d extents, not 1", ErrReference, extents)
	case d.CreateType == "":
		return invalid("the descriptor has no createType")
	}
	return nil
}

// setting inspects a line of the descriptor.
func (d *Disk) setting(key, value string) error {
	switch strings.ToLower(key) {
	case "createtype":
		if value != "monolithicSparse" && value != "streamOptimized" {
			return fmt.Errorf("%w: the descriptor has the createType %.40q, not monolithicSparse or streamOptimized", ErrReference, value)
		}
		d.CreateType = value
	case "parentcid":
		if !strings.EqualFold(value, "ffffffff") {
			return fmt.Errorf("%w: the descriptor has the parentCID %.20q", ErrParent, value)
		}
	case "parentfilenamehint":
		return fmt.Errorf("%w: the descriptor has a parentFileNameHint", ErrParent)
	case "changetrackpath":
		return fmt.Errorf("%w: the descriptor has a changeTrackPath", ErrReference)
	case "encryption.keysafe", "encryption.data", "keyid":
		return fmt.Errorf("%w: the descriptor has the key %s", ErrEncrypted, key)
	}
	return nil
}

// grains is the number of grains, and tables that of grain tables.
func (d *Disk) grains() uint64 {
	return (d.header.Capacity + d.header.GrainSize - 1) / d.header.GrainSize
}

func (d *Disk) tables() uint64 {
	perTable := uint64(d.header.EntriesPerTable)
	return (d.grains() + perTable - 1) / perTable
}

// maxDirectory bounds the grain directory in entries: 4 MiB. With grains of 64 KiB, these are 32 TiB.
const maxDirectory = 1 << 20

func (d *Disk) readDirectory() error {
	n := d.tables()
	if n > maxDirectory {
		return invalid("the grain directory has more than %d entries", maxDirectory)
	}
	if d.header.DirectoryOffset > uint64(d.size)/sector {
		return invalid("the grain directory is outside of the file")
	}
	if int64(n)*4 > d.size {
		return invalid("it is truncated: the file is smaller than its grain directory")
	}
	var err error
	d.directory, err = d.entries(int64(d.header.DirectoryOffset), int(n))
	return err
}

// entries reads numbers of 32 bits at a sector.
func (d *Disk) entries(at int64, n int) ([]uint32, error) {
	data := make([]byte, n*4)
	if at < 0 || uint64(at) < d.dataBegins() {
		return nil, invalid("a table is in the header")
	}
	if err := d.read(data, at*sector); err != nil {
		return nil, err
	}
	found := make([]uint32, n)
	for i := range found {
		found[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return found, nil
}
