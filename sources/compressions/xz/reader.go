package xz

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"slices"
)

// Why a file is not decompressed. Errors of reading are others, and so are those of a file that is damaged.
var (
	// ErrDictionary means that a block needs a larger dictionary than is permitted.
	ErrDictionary = errors.New("the file needs a larger dictionary than is permitted")
	// ErrFilter means that a block has another filter than LZMA2, such as one for programs.
	ErrFilter = errors.New("the file has a filter that is not read")

	errMagic   = errors.New("the file does not begin as one of xz")
	errCheck   = errors.New("a checksum is another one")
	errHeader  = errors.New("a header is damaged")
	errBlock   = errors.New("a block is damaged")
	errChunk   = errors.New("a chunk is damaged")
	errIndex   = errors.New("the index does not fit the blocks")
	errTrailer = errors.New("bytes that are no stream follow a stream")
	errKind    = errors.New("the file has a kind of checksums that is not known")
)

// The sizes of parts of a file, in bytes.
const (
	headerSize = 12
	footerSize = 12
	alignment  = 4
	// maxChunk is the largest chunk that is compressed, and maxCode the code of the largest dictionary.
	maxChunk, maxCode = 64 << 10, 40
	// MaxBuffers bounds the memory of a Reader beside its dictionary.
	MaxBuffers = 2*maxChunk + 64<<10
)

// lzma2 is the only filter that is read.
const lzma2 = 0x21

// checks are the kinds of checksums of a block.
var checks = map[byte]func() hash.Hash{
	0:    func() hash.Hash { return nil },
	1:    func() hash.Hash { return reversed{crc32.NewIEEE()} },
	4:    func() hash.Hash { return reversed{crc64.New(crc64.MakeTable(crc64.ECMA))} },
	0x0a: sha256.New,
}

// reversed is a hash whose sum is stored with the lowest byte first.
type reversed struct{ hash.Hash }

// Sum implements hash.Hash.
func (r reversed) Sum(in []byte) []byte {
	sum := r.Hash.Sum(in)
	slices.Reverse(sum[len(in):])
	return sum
}

// stage is what follows in a file.
type stage int

const (
	atStream stage = iota
	atBlock
	atChunk
	inChunk
)

// Reader is the content of a file. Create it with NewReader.
type Reader struct {
	from  *counter
	most  int64
	stage stage
	err   error

	// flags are those of the stream, and later tells that it is not the first one.
	flags [2]byte
	later bool
	// blocks and of are the number and the sizes of the blocks of the stream, and listed those of the index.
	blocks     uint64
	of, listed hash.Hash

	block block
	// check is the checksum of the content of the block; nil for none.
	check  hash.Hash
	lzma   decoder
	header [1 << 10]byte
	sums   [2 * sha256.Size]byte
	chunk  []byte
}

// block is a block that is read.
type block struct {
	// header is the size of its header, and begun where its content begins in the file.
	header, begun int64
	// compressed and uncompressed are what its header says; -1 without.
	compressed, uncompressed int64
	// size is that of the content until now.
	size int64
}

// NewReader returns the content of a file. The dictionary has at most a number of bytes.
func NewReader(from io.Reader, most int64) *Reader {
	return &Reader{from: &counter{Reader: bufio.NewReaderSize(from, maxChunk)}, most: most, of: sha256.New(), listed: sha256.New(), chunk: make([]byte, maxChunk)}
}

// counter counts and sums up what is read.
type counter struct {
	*bufio.Reader

	n   int64
	sum uint32
	one [1]byte
}

// ReadByte implements io.ByteReader.
func (c *counter) ReadByte() (byte, error) {
	b, err := c.Reader.ReadByte()
	if err != nil {
		return 0, early(err)
	}
	c.n++
	c.one[0] = b
	c.sum = crc32.Update(c.sum, crc32.IEEETable, c.one[:])
	return b, nil
}

// full fills a slice.
func (c *counter) full(into []byte) error {
	n, err := io.ReadFull(c.Reader, into)
	c.n += int64(n)
	c.sum = crc32.Update(c.sum, crc32.IEEETable, into[:n])
	return early(err)
}

// early is the error of a file that ends in between.
func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// numberOf reads a number of up to 63 bits.
func numberOf(from io.ByteReader) (uint64, error) {
	value := uint64(0)
	for shift := 0; shift < 63; shift += 7 {
		b, err := from.ReadByte()
		if err != nil {
			return 0, err
		}
		value |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if b == 0 && shift > 0 {
				return 0, errHeader
			}
			return value, nil
		}
	}
	return 0, errHeader
}

// summed reads the checksum of what was read since the sum was 0.
func (c *counter) summed(fault error) error {
	want := c.sum
	var stored [4]byte
	if err := c.full(stored[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(stored[:]) != want {
		return fault
	}
	return nil
}

// Read implements io.Reader.
func (r *Reader) Read(into []byte) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	for r.err == nil {
		if n := r.lzma.take(into); n > 0 {
			return n, nil
		}
		r.err = r.next()
	}
	return 0, r.err
}

// next reads the next part of the file.
func (r *Reader) next() error {
	switch r.stage {
	case atStream:
		return r.stream()
	case atBlock:
		return r.blockOrIndex()
	case atChunk:
		return r.nextChunk()
	}
	made, err := r.lzma.decode()
	if err != nil {
		return err
	}
	r.wrote(made)
	if r.lzma.left == 0 {
		r.stage = atChunk
		return r.lzma.finish()
	}
	return nil
}

// wrote adds content to the block.
func (r *Reader) wrote(content []byte) {
	r.block.size += int64(len(content))
	if r.check != nil {
		_, _ = r.check.Write(content) // a hash returns no error
	}
}

// magic and tail begin and end a stream.
var magic, tail = []byte("\xfd7zXZ\x00"), []byte("YZ")

// stream reads the header of a stream, or the end of the file.
func (r *Reader) stream() error {
	var header [headerSize]byte
	for {
		n, err := io.ReadFull(r.from.Reader, header[:alignment])
		switch {
		case n == 0 && errors.Is(err, io.EOF) && r.later:
			return io.EOF
		case err != nil:
			return early(err)
		case !r.later || [alignment]byte(header[:]) != [alignment]byte{}: // zeros are between streams
			return r.begin(header[:])
		}
	}
}

func (r *Reader) begin(header []byte) error {
	if err := r.from.full(header[alignment:]); err != nil {
		return err
	}
	switch {
	case !bytes.Equal(header[:len(magic)], magic) && r.later:
		return errTrailer
	case !bytes.Equal(header[:len(magic)], magic):
		return errMagic
	case crc32.ChecksumIEEE(header[6:8]) != binary.LittleEndian.Uint32(header[8:]):
		return errHeader
	case header[6] != 0 || checks[header[7]] == nil:
		return errKind
	}
	if flags := [2]byte(header[6:8]); !r.later || r.flags != flags {
		r.flags, r.check = flags, checks[header[7]]()
	}
	r.blocks, r.stage, r.later = 0, atBlock, true
	r.of.Reset()
	return nil
}

// blockOrIndex reads the header of a block, or the index of a stream and its end.
func (r *Reader) blockOrIndex() error {
	r.from.sum = 0
	size, err := r.from.ReadByte()
	if err != nil {
		return err
	}
	if size == 0 {
		return r.index()
	}
	header := r.header[:int(size)*alignment-1]
	if err := r.from.full(header); err != nil {
		return err
	}
	if err := r.from.summed(errHeader); err != nil {
		return err
	}
	r.block = block{header: (int64(size) + 1) * alignment, begun: r.from.n}
	if r.check != nil {
		r.check.Reset()
	}
	dictionary, err := r.block.parse(header)
	switch {
	case err != nil:
		return err
	case dictionary > r.most:
		return ErrDictionary
	}
	r.lzma.begin(int(dictionary), int(r.most))
	r.stage = atChunk
	return nil
}

// parse reads a header behind its size, without its checksum. The result is the size of the dictionary.
func (b *block) parse(header []byte) (dictionary int64, err error) {
	flags, rest := header[0], bytes.NewReader(header[1:])
	if flags&0x3c != 0 {
		return 0, errHeader
	}
	b.compressed, b.uncompressed = -1, -1
	for _, s := range []struct {
		flag byte
		into *int64
	}{{0x40, &b.compressed}, {0x80, &b.uncompressed}} {
		if flags&s.flag == 0 {
			continue
		}
		n, err := numberOf(rest)
		if err != nil {
			return 0, errHeader
		}
		*s.into = int64(n) //nolint:gosec // it has 63 bits
	}
	filter, err := numberOf(rest)
	switch {
	case err != nil:
		return 0, errHeader
	case filter != lzma2 || flags&3 != 0:
		return 0, ErrFilter
	}
	var properties [2]byte
	if _, err := io.ReadFull(rest, properties[:]); err != nil || properties[0] != 1 || properties[1] > maxCode {
		return 0, errHeader
	}
	for _, padding := range header[len(header)-rest.Len():] {
		if padding != 0 {
			return 0, errHeader
		}
	}
	return dictionaryOf(properties[1]), nil
}

// dictionaryOf is the size of a dictionary with a code.
func dictionaryOf(code byte) int64 {
	if code == maxCode {
		return 1<<32 - 1
	}
	return (2 | int64(code)&1) << (code/2 + 11)
}

// nextChunk reads the header of a chunk, or the end of a block.
func (r *Reader) nextChunk() error {
	control, err := r.from.ReadByte()
	if err != nil {
		return err
	}
	if control == 0 {
		return r.endBlock()
	}
	var sizes [5]byte
	header := sizes[:2]
	compressed := control >= 0x80
	switch {
	case control >= 0xc0:
		header = sizes[:5]
	case compressed:
		header = sizes[:4]
	case control > 2:
		return errChunk
	}
	if err := r.from.full(header); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint16(header)) + 1
	stored := size
	if compressed {
		size += int(control&0x1f) << 16
		stored = int(binary.BigEndian.Uint16(header[2:])) + 1
	}
	chunk := r.chunk[:stored]
	if err := r.from.full(chunk); err != nil {
		return err
	}
	r.stage = inChunk
	return r.lzma.start(control, sizes[4], chunk, size)
}

// endBlock reads what follows the chunks of a block.
func (r *Reader) endBlock() error {
	b := &r.block
	compressed := r.from.n - b.begun
	if b.compressed >= 0 && compressed != b.compressed || b.uncompressed >= 0 && b.size != b.uncompressed {
		return errBlock
	}
	if err := r.padding(compressed, errBlock); err != nil {
		return err
	}
	unpadded := b.header + compressed
	if r.check != nil {
		stored := r.sums[:r.check.Size()]
		if err := r.from.full(stored); err != nil {
			return err
		}
		if !bytes.Equal(stored, r.check.Sum(r.sums[sha256.Size:sha256.Size])) {
			return errCheck
		}
		unpadded += int64(len(stored))
	}
	r.blocks++
	record(r.of, uint64(unpadded), uint64(b.size)) //nolint:gosec // they are not negative
	r.stage = atBlock
	return nil
}

// padding reads zeros up to the alignment of a number of bytes.
func (r *Reader) padding(n int64, fault error) error {
	for ; n%alignment != 0; n++ {
		switch b, err := r.from.ReadByte(); {
		case err != nil:
			return err
		case b != 0:
			return fault
		}
	}
	return nil
}

// record adds the sizes of a block to those of a stream.
func record(to hash.Hash, unpadded, size uint64) {
	var numbers [16]byte
	binary.LittleEndian.PutUint64(numbers[:], unpadded)
	binary.LittleEndian.PutUint64(numbers[8:], size)
	_, _ = to.Write(numbers[:]) // a hash returns no error
}

// index reads the index of a stream behind its first byte, and the footer.
func (r *Reader) index() error {
	begun := r.from.n - 1
	number, err := numberOf(r.from)
	if err != nil {
		return err
	}
	if number != r.blocks {
		return errIndex
	}
	r.listed.Reset()
	for range number {
		unpadded, err := numberOf(r.from)
		if err != nil {
			return err
		}
		size, err := numberOf(r.from)
		if err != nil {
			return err
		}
		record(r.listed, unpadded, size)
	}
	if err := r.padding(r.from.n-begun, errIndex); err != nil {
		return err
	}
	if err := r.from.summed(errIndex); err != nil {
		return err
	}
	if !bytes.Equal(r.listed.Sum(r.sums[:0]), r.of.Sum(r.sums[sha256.Size:sha256.Size])) {
		return errIndex
	}
	return r.footer(r.from.n - begun)
}

// footer reads the end of a stream, which has the size of the index.
func (r *Reader) footer(index int64) error {
	var footer [footerSize]byte
	if err := r.from.full(footer[:]); err != nil {
		return err
	}
	if crc32.ChecksumIEEE(footer[4:10]) != binary.LittleEndian.Uint32(footer[:]) || [2]byte(footer[8:10]) != r.flags || !bytes.Equal(footer[10:], tail) {
		return errHeader
	}
	if (int64(binary.LittleEndian.Uint32(footer[4:]))+1)*alignment != index {
		return errIndex
	}
	r.stage = atStream
	return nil
}
