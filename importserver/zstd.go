package importserver

import (
	"context"
	"errors"
	"io"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/vmdk"
)

// layered is the raw content of a disk with zstd: all bytes, and zeros up to its size if it is padded.
type layered struct {
	raw     io.ReadCloser
	content *content
	left    int64
	ended   bool
}

// layered reads a disk with zstd from its start.
func (s *Server) layered(ctx context.Context, d *disk) (*layered, error) {
	stored := s.content(ctx, d, span{0, d.plan.Stored()})
	raw, err := oci.Decompress(stored, &oci.Disk{Size: d.size, Capacity: d.plan.Padded}, transfer.MaxWindow)
	if err != nil {
		return nil, err //nolint:wrapcheck // a rejection
	}
	return &layered{raw: raw, content: stored, left: d.size}, nil
}

// Read implements io.Reader.
func (l *layered) Read(into []byte) (n int, err error) {
	if !l.ended {
		n, err = l.raw.Read(into)
		l.left -= int64(n)
		l.ended = errors.Is(err, io.EOF)
		if n > 0 || !l.ended {
			return n, err //nolint:wrapcheck // io.EOF is compared
		}
	}
	if l.left == 0 {
		return 0, io.EOF
	}
	n = int(min(int64(len(into)), l.left))
	clear(into[:n])
	l.left -= int64(n)
	return n, nil
}

// Close implements io.Closer.
func (l *layered) Close() error { return errors.Join(l.raw.Close(), l.content.Close()) }

// layerHead inspects the first bytes of a disk with zstd, and keeps them.
func (s *Server) layerHead(ctx context.Context, d *disk) error {
	source, err := s.layered(ctx, d)
	if err != nil {
		return err
	}
	defer source.Close()
	head := make([]byte, min(d.size, vmdk.HeadBytes))
	if _, err := io.ReadFull(source, head); err != nil {
		return err //nolint:wrapcheck // a rejection, or an Error for users
	}
	if err := vmdk.CheckRaw(head); err != nil {
		return appliance.ImageRejection(d.plan.Name, err) //nolint:wrapcheck // a rejection
	}
	return d.kept.add(0, head, &s.keptBytes)
}

// scan inspects the raw content of a disk while it is sent: the beginning and the end.
type scan struct {
	plan *transfer.Disk
	head []byte
	tail tail
}

// next inspects a block, and the whole behind the last one.
func (s *scan) next(block []byte, last bool) error {
	s.head = append(s.head, block[:min(len(block), vmdk.HeadBytes-len(s.head))]...)
	s.tail.size += int64(len(block))
	s.tail.keep(block)
	if !last {
		return nil
	}
	image, err := vmdk.Inspect(&ends{s.head, &s.tail}, s.tail.size)
	if err == nil {
		err = image.CheckRaw()
	}
	return appliance.ImageRejection(s.plan.Name, err) //nolint:wrapcheck // a rejection, or nil
}

// close implements inspector.
func (s *scan) close() error { return nil }
