package vmdk

import (
	"encoding/binary"
	"errors"
	"io"
)

// The shape of the files that are written.
const (
	grainSectors      = 128
	grainBytes        = grainSectors * sector
	entriesPerTable   = 512
	descriptorAt      = 1
	descriptorSectors = 20 // room for programs that rewrite the descriptor
	maxWritten        = entriesPerTable * grainBytes * maxDirectory
	maxNameBytes      = 1 << 10
)

// The types of markers.
const (
	markerEnd = iota
	markerTable
	markerDirectory
	markerFooter
)

// Write writes the content of a disk as a streamOptimized VMDK. It never seeks. The capacity is in bytes, and is rounded up to a sector.
// The name is that of the file in the descriptor. The same content gives the same bytes.
func Write(to io.Writer, content io.Reader, capacity int64, name string) error {
	_, err := Measure(to, &inOrder{content: content}, MeasureOptions{Capacity: capacity, Name: name})
	return err
}

// inOrder is a stream that is read from its start to its end.
type inOrder struct {
	content io.Reader
	at      int64
}

// ReadAt implements io.ReaderAt for the next bytes.
func (s *inOrder) ReadAt(into []byte, offset int64) (int, error) {
	if offset != s.at {
		return 0, errors.New("the stream is not read in its order")
	}
	n, err := io.ReadFull(s.content, into)
	s.at += int64(n)
	return n, err //nolint:wrapcheck // of the caller
}

func zero(data []byte) bool {
	for len(data) >= 8 {
		if binary.LittleEndian.Uint64(data) != 0 {
			return false
		}
		data = data[8:]
	}
	return true
}
