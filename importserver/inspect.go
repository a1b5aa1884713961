package importserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/vmdk"
)

// The bounds of what is kept of inspected images, in bytes: a header and a descriptor of VMDK, and those of all disks. A grain directory,
// which is inspected last, can have more than that: the file reads nothing else because of it.
const (
	maxKeptOfDisk = 1<<20 + 256<<10
	maxKept       = 16 << 20
)

// piece is a part of a disk that was inspected.
type piece struct {
	offset int64
	data   []byte
}

// kept are the pieces that were inspected.
type kept struct {
	pieces []piece
	bytes  int64
}

var errKept = &ovf.Rejection{Reason: ovf.LimitExceeded, Message: "the headers of all disks have more than 16 MiB together", Remedy: "import fewer disks at a time"}

// add keeps a piece. The number is that of the bytes that all disks keep.
func (k *kept) add(offset int64, data []byte, all *atomic.Int64) error {
	n := int64(len(data))
	if k.bytes+n > maxKeptOfDisk {
		return nil
	}
	if all.Add(n) > maxKept {
		all.Add(-n)
		return errKept
	}
	k.bytes += n
	k.pieces = append(k.pieces, piece{offset, bytes.Clone(data)})
	return nil
}

// drop forgets all pieces.
func (k *kept) drop(all *atomic.Int64) {
	all.Add(-k.bytes)
	*k = kept{}
}

// same reports whether bytes of the disk are those that were inspected.
func (k *kept) same(offset int64, data []byte) bool {
	for i := range k.pieces {
		p := &k.pieces[i]
		from, to := max(offset, p.offset), min(offset+int64(len(data)), p.offset+int64(len(p.data)))
		if from < to && !bytes.Equal(data[from-offset:to-offset], p.data[from-p.offset:to-p.offset]) {
			return false
		}
	}
	return true
}

// random reads a disk at random, and keeps what it reads.
type random struct {
	read func(span) io.ReadCloser
	kept *kept
	all  *atomic.Int64
}

// ReadAt implements io.ReaderAt, within the disk.
func (r *random) ReadAt(into []byte, offset int64) (int, error) {
	c := r.read(span{offset, offset + int64(len(into))})
	defer c.Close()
	n, err := io.ReadFull(c, into)
	if err == nil {
		err = r.kept.add(offset, into, r.all)
	}
	return n, err //nolint:wrapcheck // it is an Error for users
}

// inspect inspects a disk once. The error is a *ovf.Rejection that stays, or one of reading.
func (s *Server) inspect(ctx context.Context, d *disk) error {
	if d.inspected.Load() {
		return nil
	}
	select {
	case s.inspecting <- struct{}{}: // one at a time: a grain directory has megabytes
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the client has gone
	}
	defer func() { <-s.inspecting }()
	if d.inspected.Load() {
		return nil
	}
	image, err := s.image(ctx, d)
	if err == nil && image != nil && d.plan.Format != "" && image.Format != d.plan.Format {
		err = &ovf.Rejection{Reason: ovf.InvalidImage, Element: d.plan.Name, Message: fmt.Sprintf("the image is %s, and was %s when the import began", image.Format, d.plan.Format), Remedy: "import the package again"}
	}
	if err != nil {
		d.kept.drop(&s.keptBytes)
		return err
	}
	if image != nil {
		d.found(image)
	}
	d.inspected.Store(true)
	return nil
}

// image inspects the headers of a disk. Of a compressed one, these are the first bytes of its content: the rest is inspected while the disk
// is read.
func (s *Server) image(ctx context.Context, d *disk) (*vmdk.Image, error) {
	if d.plan.Compression == transfer.CompressionZstd {
		if err := s.layerHead(ctx, d); err != nil {
			return nil, err
		}
		return &vmdk.Image{Format: formatRaw, Size: d.size}, nil
	}
	read := func(part span) io.ReadCloser { return s.content(ctx, d, part) }
	if d.plan.Compression == "" {
		image, err := vmdk.Inspect(&random{read, &d.kept, &s.keptBytes}, d.size)
		if err != nil {
			return nil, appliance.ImageRejection(d.plan.Name, err)
		}
		return image, nil
	}
	c := read(span{0, d.size})
	defer c.Close()
	source := &faulty{Reader: io.LimitReader(c, maxCompressedHead)}
	z, err := gzip.NewReader(source)
	if err == nil {
		_, _, err = inspectHead(z)
	}
	if err == nil {
		err = d.kept.add(0, source.data, &s.keptBytes)
	}
	switch {
	case source.err != nil:
		return nil, source.err
	case err != nil:
		return nil, unzipped(d.plan, err)
	}
	return nil, nil //nolint:nilnil // its size is not known
}

// inspectHead inspects the first bytes of a content, and returns them, and whether there are no more.
func inspectHead(r io.Reader) (head []byte, ended bool, err error) {
	head = make([]byte, vmdk.HeadBytes)
	n := 0
	for n < len(head) && err == nil {
		var more int
		more, err = r.Read(head[n:])
		n += more
	}
	if ended = errors.Is(err, io.EOF); err != nil && !ended {
		return nil, false, err //nolint:wrapcheck // unzipped is its message
	}
	return head[:n], ended, vmdk.InspectHead(head[:n]) //nolint:wrapcheck // as above
}

// formatRaw is the format of disks with zstd.
const formatRaw = "raw"

// maxCompressedHead bounds what is read of a compressed image for the first bytes of its content.
const maxCompressedHead = 256 << 10

// faulty remembers what it read, and an error of reading: those of gzip are of the file.
type faulty struct {
	io.Reader

	data []byte
	err  error
}

// Read implements io.Reader.
func (f *faulty) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	f.data = append(f.data, p[:n]...)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err //nolint:wrapcheck // it is compared
}

// unzipped is the rejection of a compressed image.
func unzipped(d *transfer.Disk, err error) error {
	var known *ovf.Rejection
	if rejected := appliance.ImageRejection(d.Name, err); errors.As(rejected, &known) {
		return known
	}
	return &ovf.Rejection{Reason: ovf.InvalidImage, Element: d.Name, Message: "the compressed image is damaged or truncated", Remedy: "download it again"}
}

// unzip inspects the content of a compressed disk while its bytes are sent. Create it with newUnzip, write the compressed bytes, and close
// it before the last of them is sent.
type unzip struct {
	pipe *io.PipeWriter
	done chan struct{}
	err  error
}

func newUnzip(d *transfer.Disk) *unzip {
	r, w := io.Pipe()
	u := &unzip{pipe: w, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		if u.err = u.run(d, r); u.err != nil {
			u.err = unzipped(d, u.err)
		}
		_ = r.CloseWithError(io.ErrClosedPipe) // it has no error
	}()
	return u
}

// errTooLarge is the error of content that is larger than the plan permits.
var errTooLarge = &ovf.Rejection{Reason: ovf.LimitExceeded, Message: "the compressed image is larger than its capacity", Remedy: "correct the capacity of the disk"}

// run inspects the beginning, the size and the end of the content.
func (u *unzip) run(d *transfer.Disk, r io.Reader) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return err //nolint:wrapcheck // unzipped is its message
	}
	head, ended, err := inspectHead(z)
	if err != nil {
		return err
	}
	end := &tail{size: int64(len(head))}
	end.keep(head)
	buffer := make([]byte, 64<<10)
	for !ended {
		n, err := z.Read(buffer)
		end.size += int64(n)
		end.keep(buffer[:n])
		switch {
		case end.size > d.MaxContent:
			return errTooLarge
		case errors.Is(err, io.EOF):
			ended = true
		case err != nil:
			return err //nolint:wrapcheck // as above
		}
	}
	image, err := vmdk.Inspect(&ends{head, end}, end.size)
	if err == nil && d.Format != "" && image.Format != d.Format {
		err = fmt.Errorf("%w: it is %s, and was %s when the import began", vmdk.ErrInvalid, image.Format, d.Format)
	}
	return err //nolint:wrapcheck // as above
}

// tail has the last bytes of a content.
type tail struct {
	size int64
	last []byte
}

const tailBytes = 4 << 10

func (t *tail) keep(data []byte) {
	if t.last = append(t.last, data[max(0, len(data)-tailBytes):]...); len(t.last) > tailBytes {
		t.last = append([]byte(nil), t.last[len(t.last)-tailBytes:]...)
	}
}

// ends has the beginning and the end of a content. What is between them reads as zeros, such as a grain directory, whose entries are not
// inspected.
type ends struct {
	head []byte
	tail *tail
}

// ReadAt implements io.ReaderAt.
func (e *ends) ReadAt(into []byte, offset int64) (int, error) {
	clear(into)
	if offset < int64(len(e.head)) {
		copy(into, e.head[offset:])
	}
	for i, b := range e.tail.last {
		if at := e.tail.size - int64(len(e.tail.last)) + int64(i) - offset; at >= 0 && at < int64(len(into)) {
			into[at] = b
		}
	}
	return len(into), nil
}

// write inspects more bytes.
func (u *unzip) write(data []byte) error {
	if _, err := u.pipe.Write(data); err != nil {
		<-u.done
		return u.err
	}
	return nil
}

// close inspects the end.
func (u *unzip) close() error {
	_ = u.pipe.Close() // it has no error
	<-u.done
	return u.err
}
