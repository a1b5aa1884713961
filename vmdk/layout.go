package vmdk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sort"
)

// ErrChanged is content that is not what it was when it was measured.
var ErrChanged = errors.New("the disk changed while it was exported")

// TableBytes is the memory of a grain table of a Layout: for 32 MiB of the disk that are not zeros.
const TableBytes = entriesPerTable * 3

// EntryBytes is the memory of an entry of the grain directory of a Layout: for 32 MiB of the disk.
const EntryBytes = 16

// Layout is where the grains of a streamOptimized VMDK are. With it, each part of the file can be made again from the content of the disk:
// the same content gives the same bytes. Create it with Measure. It is safe for concurrent use.
type Layout struct {
	capacity int64
	name     string
	seed     maphash.Seed
	// tables are nil for zeros. starts are the sectors of their first grains in the file.
	tables []*grainTable
	starts []uint64
	// directory is the sector behind the last grain table.
	directory uint64
}

// grainTable has the sizes of grains in sectors, 0 for zeros, and sums of what they contain.
type grainTable struct {
	sectors [entriesPerTable]uint8
	sums    [entriesPerTable]uint16
}

// size is that of the grains in sectors.
func (t *grainTable) size() (sectors uint64) {
	for _, n := range t.sectors {
		sectors += uint64(n)
	}
	return sectors
}

// MeasureOptions are those of Measure.
type MeasureOptions struct {
	// Capacity is that of the disk in bytes. It is rounded up to a sector.
	Capacity int64
	// Name is that of the file in its descriptor.
	Name string
	// MaxTables bounds the grain tables, of 32 MiB each, that are not zeros; 0 for no bound.
	MaxTables int
	// Progress is called with the number of bytes of the disk that were read.
	Progress func(done int64)
}

// Measure reads the content of a disk once, writes the VMDK, and returns its layout.
func Measure(to io.Writer, content io.ReaderAt, options MeasureOptions) (*Layout, error) {
	if options.Capacity <= 0 || options.Capacity > maxWritten {
		return nil, fmt.Errorf("the capacity must be from 1 byte to %d", int64(maxWritten))
	}
	if len(options.Name) > maxNameBytes {
		return nil, fmt.Errorf("the name has more than %d bytes", maxNameBytes)
	}
	grains := (options.Capacity + grainBytes - 1) / grainBytes
	l := &Layout{capacity: options.Capacity, name: options.Name, seed: maphash.MakeSeed()}
	l.tables = make([]*grainTable, (grains+entriesPerTable-1)/entriesPerTable)
	l.starts = make([]uint64, len(l.tables))
	if _, err := to.Write(l.head()); err != nil {
		return nil, err //nolint:wrapcheck // of the caller
	}
	next := int64(0)
	p := start(content, options.Capacity, l.seed, func(b *batch) bool {
		b.first, b.count = next, min(batchGrains, grains-next)
		for i := range b.wanted {
			b.wanted[i] = true
		}
		next += batchGrains
		return b.count > 0
	})
	defer p.stop()
	m := &measurement{Layout: l, to: to, at: grainSectors, grains: grains, options: options}
	l.starts[0] = m.at
	if err := p.each(m.add); err != nil {
		return nil, err
	}
	l.directory = m.at
	_, err := to.Write(l.tail())
	return l, err //nolint:wrapcheck // of the caller
}

// measurement fills a layout.
type measurement struct {
	*Layout

	to      io.Writer
	options MeasureOptions
	grains  int64
	// at is the sector of the file that is written next, used the number of tables.
	at   uint64
	used int
}

// add writes a batch, and the grain table behind its last grain.
func (m *measurement) add(b *batch) error {
	n := int(b.first / entriesPerTable)
	if _, err := m.to.Write(b.out.Bytes()); err != nil {
		return err //nolint:wrapcheck // of the caller
	}
	m.at += uint64(b.out.Len() / sector)
	if b.out.Len() > 0 && m.tables[n] == nil {
		if m.used++; m.options.MaxTables > 0 && m.used > m.options.MaxTables {
			return fmt.Errorf("the disk has more than %d bytes that are not zeros", int64(m.options.MaxTables)*entriesPerTable*grainBytes)
		}
		m.tables[n] = &grainTable{}
	}
	for i := range b.count {
		if size := len(b.grain(i)) / sector; size > 0 {
			m.tables[n].sectors[b.first%entriesPerTable+i] = uint8(size)
			m.tables[n].sums[b.first%entriesPerTable+i] = b.sums[i]
		}
	}
	if end := b.first + b.count; end%entriesPerTable == 0 || end == m.grains {
		if err := m.endTable(n); err != nil {
			return err
		}
	}
	if m.at > 1<<32-1 {
		return errors.New("the file is larger than 2 TiB")
	}
	if m.options.Progress != nil {
		m.options.Progress(min((b.first+b.count)*grainBytes, m.options.Capacity))
	}
	return nil
}

// endTable writes a grain table that is not empty.
func (m *measurement) endTable(n int) error {
	if m.tables[n] != nil {
		if _, err := m.to.Write(m.table(n)); err != nil {
			return err //nolint:wrapcheck // of the caller
		}
		m.at += tableSectors
	}
	if n+1 < len(m.starts) {
		m.starts[n+1] = m.at
	}
	return nil
}

// Size is that of the file in bytes.
func (l *Layout) Size() int64 { return (int64(l.directory) + 1 + int64(l.entrySectors()) + 3) * sector }

// entrySectors is the size of the grain directory in sectors.
func (l *Layout) entrySectors() int { return (len(l.tables)*4 + sector - 1) / sector }

// Capacity is that of the disk in bytes, in whole sectors.
func (l *Layout) Capacity() int64 { return (l.capacity + sector - 1) / sector * sector }

// clip writes the part of the file that is in a window.
type clip struct {
	to       io.Writer
	from, up int64
}

// put writes what is in the window of data at an offset of the file.
func (c *clip) put(data []byte, at int64) error {
	from, up := max(c.from, at), min(c.up, at+int64(len(data)))
	if from >= up {
		return nil
	}
	_, err := c.to.Write(data[from-at : up-at])
	return err //nolint:wrapcheck // of the caller
}

// WriteRange writes the bytes of the file from an offset up to another one. It reads only the part of the content that it needs. The error is
// ErrChanged if the content is not what was measured; what was written before is as measured.
func (l *Layout) WriteRange(to io.Writer, content io.ReaderAt, from, up int64) error {
	c := &clip{to, from, up}
	if err := c.put(l.head(), 0); err != nil {
		return err
	}
	g := &grains{layout: l, clip: c}
	g.table = max(0, sort.Search(len(l.starts), func(i int) bool { return int64(l.starts[i])*sector > from })-1)
	p := start(content, l.capacity, l.seed, g.next)
	defer p.stop()
	if err := p.each(g.write); err != nil {
		return err
	}
	if up <= int64(l.directory)*sector {
		return nil
	}
	return c.put(l.tail(), int64(l.directory)*sector)
}

// grains are those of a window, batch by batch. next and write run in different goroutines.
type grains struct {
	layout *Layout
	clip   *clip
	// table and grain are where next continues.
	table, grain int
	// at is the sector of the file where the grain is.
	at uint64
}

// next is the next batch that the window has a part of.
func (g *grains) next(b *batch) bool {
	l := g.layout
	for ; g.table < len(l.tables); g.table++ {
		t := l.tables[g.table]
		if t == nil {
			continue
		}
		if g.grain == 0 {
			g.at = l.starts[g.table]
		}
		if int64(g.at)*sector >= g.clip.up {
			return false
		}
		for g.grain < entriesPerTable {
			first := g.grain
			begin := g.at
			for i := range batchGrains {
				size := uint64(t.sectors[first+i])
				b.wanted[i] = size > 0 && int64(g.at+size)*sector > g.clip.from && int64(g.at)*sector < g.clip.up
				g.at += size
			}
			g.grain += batchGrains
			last := g.grain == entriesPerTable
			if int64(g.at)*sector > g.clip.from && int64(begin)*sector < g.clip.up && g.at > begin || last {
				b.first = int64(g.table)*entriesPerTable + int64(first)
				b.count = batchGrains
				if last {
					g.table, g.grain = g.table+1, 0
				}
				return true
			}
		}
	}
	return false
}

// write writes the part of a batch that is in the window, and the table behind its last batch.
func (g *grains) write(b *batch) error {
	l := g.layout
	n, first := int(b.first/entriesPerTable), int(b.first%entriesPerTable)
	t := l.tables[n]
	at := l.starts[n]
	for _, size := range t.sectors[:first] {
		at += uint64(size)
	}
	for i := range b.count {
		size := t.sectors[first+int(i)]
		if b.wanted[i] {
			data := b.grain(i)
			if len(data) != int(size)*sector || b.sums[i] != t.sums[first+int(i)] {
				return fmt.Errorf("%w: the bytes from %d on are not the same", ErrChanged, (b.first+i)*grainBytes)
			}
			if err := g.clip.put(data, int64(at)*sector); err != nil {
				return err
			}
		}
		at += uint64(size)
	}
	if first+batchGrains < entriesPerTable {
		return nil
	}
	return g.clip.put(l.table(n), int64(at)*sector)
}

// header is that of the file.
func (l *Layout) header(directory uint64) header {
	return header{
		Magic: [4]byte{'K', 'D', 'M', 'V'}, Version: 3, Flags: flagNewLines | flagCompressed | flagMarkers, Capacity: uint64(l.Capacity() / sector), GrainSize: grainSectors,
		DescriptorOffset: descriptorAt, DescriptorSize: descriptorSectors, EntriesPerTable: entriesPerTable, DirectoryOffset: directory,
		OverHead: grainSectors, NewLines: [4]byte{'\n', ' ', '\r', '\n'}, Compression: 1,
	}
}

// head is the beginning of the file: the header and the descriptor.
func (l *Layout) head() []byte {
	sectors := l.Capacity() / sector
	data := encode(l.header(directoryAtEnd))
	data = fmt.Appendf(data, "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType=\"streamOptimized\"\n\n# Extent description\nRW %d SPARSE %q\n\n"+
		"# The Disk Data Base\n#DDB\n\nddb.adapterType = \"lsilogic\"\nddb.geometry.cylinders = \"%d\"\nddb.geometry.heads = \"255\"\nddb.geometry.sectors = \"63\"\nddb.virtualHWVersion = \"13\"\n",
		sectors, l.name, min(65535, max(1, sectors/(255*63))))
	return append(data, make([]byte, grainBytes-len(data))...)
}

func encode(h header) []byte {
	data, _ := binary.Append(nil, binary.LittleEndian, &h) // it has a fixed size
	return data
}

// table is the marker and the entries of a grain table.
func (l *Layout) table(n int) []byte {
	t, at := l.tables[n], l.starts[n]
	data := marker(entriesPerTable*4/sector, markerTable)
	for _, size := range t.sectors {
		entry := uint32(0)
		if size > 0 {
			entry = uint32(at)
		}
		data = binary.LittleEndian.AppendUint32(data, entry)
		at += uint64(size)
	}
	return data
}

// tableSectors is the size of a grain table with its marker.
const tableSectors = 1 + entriesPerTable*4/sector

// tail is the end of the file: the grain directory and the footer.
func (l *Layout) tail() []byte {
	size := l.entrySectors()
	data := marker(uint64(size), markerDirectory)
	for i, t := range l.tables {
		entry := uint32(0)
		if t != nil {
			entry = uint32(l.starts[i] + t.size() + 1)
		}
		data = binary.LittleEndian.AppendUint32(data, entry)
	}
	data = append(data, make([]byte, (1+size)*sector-len(data))...)
	data = append(data, marker(1, markerFooter)...)
	data = append(data, encode(l.header(l.directory+1))...)
	return append(data, marker(0, markerEnd)...)
}

// marker is a marker in front of metadata of a number of sectors.
func marker(sectors uint64, kind uint32) []byte {
	data := make([]byte, sector)
	binary.LittleEndian.PutUint64(data, sectors)
	binary.LittleEndian.PutUint32(data[12:], kind)
	return data
}

// Tables is the number of grain tables, of 32 MiB each, that are not zeros.
func (l *Layout) Tables() (used int) {
	for _, t := range l.tables {
		if t != nil {
			used++
		}
	}
	return used
}
