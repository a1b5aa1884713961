package vmdk

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
)

// Walk calls a function with each grain that the file has, in the order of the disk: the offset in bytes, and the content. The
// content is valid during the call. What is not reported is zero.
func (d *Disk) Walk(visit func(offset int64, content []byte) error) error {
	grain := int64(d.header.GrainSize) * sector
	buffer := make([]byte, grain)
	left, visited, tables := d.grains(), int64(0), int64(0)
	for i, at := range d.directory {
		n := min(left, uint64(d.header.EntriesPerTable))
		left -= n
		if at == 0 {
			continue
		}
		if tables++; tables > d.size/(4*int64(d.header.EntriesPerTable))+1 {
			return invalid("it has more tables of grains than fit into the file: tables share their place")
		}
		table, err := d.entries(int64(at), int(n))
		if err != nil {
			return err
		}
		for j, place := range table {
			if place == 0 || place == 1 && d.header.Flags&flagZeroGrains != 0 {
				continue
			}
			if visited++; visited > d.most() {
				return invalid("it has more grains than fit into the file: grains share their place")
			}
			offset := (int64(i)*int64(d.header.EntriesPerTable) + int64(j)) * grain
			content := buffer[:min(grain, d.Capacity-offset)]
			if err := d.grain(content, buffer, int64(place), offset/sector); err != nil {
				return err
			}
			if err := visit(offset, content); err != nil {
				return err
			}
		}
	}
	return nil
}

// most is how many grains fit into the file.
func (d *Disk) most() int64 {
	if d.header.Flags&flagCompressed != 0 {
		return d.size/sector + 1
	}
	return d.size/(int64(d.header.GrainSize)*sector) + 1
}

// grain reads the grain at a sector of the file, which begins at a sector of the disk.
func (d *Disk) grain(content, buffer []byte, place, position int64) error {
	if uint64(place) < d.dataBegins() {
		return invalid("a grain is in the header")
	}
	if d.header.Flags&flagCompressed == 0 {
		return d.read(content, place*sector)
	}
	var marker [12]byte
	if err := d.read(marker[:], place*sector); err != nil {
		return err
	}
	if at := binary.LittleEndian.Uint64(marker[:]); at != uint64(position) {
		return invalid("the grain of the sector %d has the marker of the sector %d", position, at)
	}
	size := int64(binary.LittleEndian.Uint32(marker[8:]))
	if size == 0 || size > 2*int64(len(buffer))+sector {
		return invalid("a compressed grain has %d bytes", size)
	}
	compressed := make([]byte, size)
	if err := d.read(compressed, place*sector+12); err != nil {
		return err
	}
	return inflate(content, buffer, compressed)
}

// dataBegins is the first sector behind the header and the descriptor.
func (d *Disk) dataBegins() uint64 {
	return max(1, d.header.DescriptorOffset+d.header.DescriptorSize)
}

// inflate decompresses a grain into a buffer, of which content is the beginning. The last grain of a disk can be shorter than others.
func inflate(content, buffer, compressed []byte) error {
	z, err := zlib.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return invalid("a grain is not compressed with zlib")
	}
	n, err := io.ReadFull(z, buffer)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && n >= len(content):
		return nil
	case err != nil:
		return invalid("a grain has %d bytes, or is damaged", n)
	}
	if n, err := z.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return invalid("a grain is larger than %d bytes, or is damaged", len(buffer))
	}
	return nil
}
