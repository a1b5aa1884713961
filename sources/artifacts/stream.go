package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources/web"
)

// A connection is continued at most so many times without a byte in between, with a growing pause before each.
const (
	maxResumptions = 5
	firstPause     = time.Second
)

// Disk returns the raw bytes of a disk. It returns io.EOF only if all bytes of the layer have its digest, and the disk its size:
// discard what was read before another error. Close the reader.
func (r *Repository) Disk(ctx context.Context, disk *oci.Disk) (io.ReadCloser, error) {
	stream := r.Stream(ctx, &disk.Descriptor, 0)
	raw, err := oci.Decompress(oci.Verified(stream, &disk.Descriptor), disk, oci.MaxWindow)
	if err != nil {
		return nil, errors.Join(r.described(ctx, "reading a disk", err), stream.Close())
	}
	return &disks{raw: raw, stream: stream, describe: func(err error) error { return r.described(ctx, "reading the disk "+disk.Names[0], err) }}, nil
}

// disks closes both readers.
type disks struct {
	raw      io.ReadCloser
	stream   *Stream
	describe func(error) error
}

// Read implements io.Reader.
func (d *disks) Read(p []byte) (int, error) {
	n, err := d.raw.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = d.describe(err)
	}
	return n, err
}

// Close implements io.Closer.
func (d *disks) Close() error { return errors.Join(d.raw.Close(), d.stream.Close()) }

// Stream reads the bytes of a blob from an offset. It continues a connection that breaks. It does not check the digest: use
// oci.Verified. Close it.
type Stream struct {
	repository *Repository
	d          *oci.Descriptor
	parent     context.Context //nolint:containedctx // it is read as an io.Reader
	body       io.ReadCloser
	cancel     context.CancelCauseFunc
	ctx        context.Context //nolint:containedctx // of the connection; it ends when no byte arrives
	// offset is that of the next byte in the blob, end that behind the last one.
	offset, end int64
	failures    int
	pause       time.Duration
	err         error
	// ranges requires that the registry sends ranges.
	ranges bool
	// Resumptions counts the connections after the first.
	Resumptions int
}

// Stream returns the bytes of a blob from an offset. It connects at the first read.
func (r *Repository) Stream(ctx context.Context, d *oci.Descriptor, offset int64) *Stream {
	s := &Stream{repository: r, d: d, parent: ctx, offset: offset, end: d.Size}
	s.reset()
	return s
}

// Part returns a part of a blob, which is within it. Its errors are for users.
func (r *Repository) Part(ctx context.Context, d *oci.Descriptor, offset, length int64) *Part {
	s := r.Stream(ctx, d, offset)
	s.end = offset + length
	return &Part{s}
}

// Ranges returns a part of a blob as Part does. The error has the reason web.ReasonNoRanges if the registry sends no ranges: Part would read
// all bytes before the part.
func (r *Repository) Ranges(ctx context.Context, d *oci.Descriptor, offset, length int64) *Part {
	p := r.Part(ctx, d, offset, length)
	p.stream.ranges = true
	return p
}

// Random returns a blob that is read at random, by ranges. The context ends all reads. It does not check the digest. The errors are those of
// Ranges.
func (r *Repository) Random(ctx context.Context, d *oci.Descriptor) *web.Blocks {
	return web.NewBlocks(d.Size, func(offset, length int64) ([]byte, error) {
		part := r.Ranges(ctx, d, offset, length)
		defer part.Close()
		data := make([]byte, length)
		_, err := io.ReadFull(part, data)
		return data, err //nolint:wrapcheck // it is an Error for users
	})
}

// Part is a part of a blob. It is a Stream whose errors are for users. Close it.
type Part struct{ stream *Stream }

// Read implements io.Reader.
func (p *Part) Read(into []byte) (int, error) {
	n, err := p.stream.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		err = p.stream.repository.described(p.stream.parent, "reading the blob "+p.stream.d.Digest.String(), err)
	}
	return n, err
}

// Resumptions is how often a connection was continued.
func (p *Part) Resumptions() int { return p.stream.Resumptions }

// Close implements io.Closer.
func (p *Part) Close() error { return p.stream.Close() }

func (s *Stream) reset() {
	s.failures, s.pause = 0, firstPause
	if s.repository.options.Pause > 0 {
		s.pause = s.repository.options.Pause
	}
}

var errStalled = errors.New("the registry sends no bytes")

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	for s.err == nil {
		if s.offset > 0 && s.offset == s.end && (s.body == nil || s.end < s.d.Size) { // no range is left
			s.err = io.EOF
			break
		}
		if s.end < s.d.Size {
			p = p[:min(int64(len(p)), s.end-s.offset)]
		}
		n, err := s.read(p)
		if n > 0 {
			s.offset += int64(n)
			s.reset()
			return n, nil
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF) && s.offset >= s.end:
			s.err = io.EOF
		default:
			s.err = s.resume(err)
		}
	}
	return 0, s.err
}

// read reads from the connection, and ends it if no byte arrives. Not one byte more than the size and one is read.
func (s *Stream) read(p []byte) (int, error) {
	if s.body == nil {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	stalled := time.AfterFunc(s.repository.stall(), func() { s.cancel(errStalled) })
	defer stalled.Stop()
	n, err := s.body.Read(p)
	if err != nil && errors.Is(context.Cause(s.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

// open requests the rest of the blob.
func (s *Stream) open() error {
	s.ctx, s.cancel = context.WithCancelCause(s.parent)
	header := http.Header{"Accept-Encoding": {"identity"}}
	if s.ranges || s.offset > 0 || s.end < s.d.Size {
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", s.offset, s.end-1)) // not all registries know ranges without an end
	}
	response, err := s.repository.get(s.ctx, "blobs/"+s.d.Digest.String(), "", header, http.StatusOK, http.StatusPartialContent) //nolint:bodyclose // Close closes it
	if err != nil {
		s.cancel(nil)
		return err
	}
	s.body = response.Body
	switch {
	case response.Header.Get("Content-Encoding") != "" && response.Header.Get("Content-Encoding") != "identity":
		return s.fatal(oci.WrongType, "the registry encodes the blob although the request does not permit it")
	case response.StatusCode == http.StatusOK && s.ranges:
		return &web.Error{Reason: web.ReasonNoRanges, Message: "the registry does not send ranges of blobs", Permanent: true}
	case response.StatusCode == http.StatusOK && response.ContentLength >= 0 && response.ContentLength != s.d.Size:
		return s.fatal(oci.SizeMismatch, fmt.Sprintf("the registry has a blob of %d bytes, not of %d", response.ContentLength, s.d.Size))
	case response.StatusCode == http.StatusOK: // of a registry without ranges, the first bytes are read again
		return s.skip()
	}
	if start, ok := strings.CutPrefix(response.Header.Get("Content-Range"), "bytes "); !ok || !strings.HasPrefix(start, strconv.FormatInt(s.offset, 10)+"-") {
		return s.fatal(oci.SizeMismatch, "the registry sends another part of the blob")
	}
	return nil
}

// skip reads up to the offset.
func (s *Stream) skip() error {
	if s.offset == 0 {
		return nil
	}
	stalled := time.AfterFunc(s.repository.stall(), func() { s.cancel(errStalled) })
	defer stalled.Stop()
	for left := s.offset; left > 0; {
		n, err := io.CopyN(io.Discard, s.body, min(left, 1<<20))
		if left -= n; err != nil {
			return err
		}
		stalled.Reset(s.repository.stall())
	}
	return nil
}

func (s *Stream) fatal(reason oci.Reason, message string) error {
	return &oci.Rejection{Reason: reason, Message: message}
}

// resume opens a connection again. What the registry rejects is the end.
func (s *Stream) resume(cause error) error {
	for {
		var rejection *oci.Rejection
		var known *web.Error
		var answer *transport.Error
		switch {
		case s.parent.Err() != nil:
			return context.Cause(s.parent)
		case errors.As(cause, &rejection), errors.As(cause, &known) && known.Permanent, errors.As(cause, &answer) && answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusTooManyRequests:
			return cause
		case errors.Is(cause, io.EOF):
			cause = io.ErrUnexpectedEOF
		}
		if s.failures++; s.failures > maxResumptions {
			return fmt.Errorf("after %d bytes: %w", s.offset, cause)
		}
		_ = s.Close()
		select {
		case <-s.parent.Done():
			continue
		case <-time.After(s.pause):
		}
		s.pause *= 2
		s.Resumptions++
		if cause = s.open(); cause == nil {
			return nil
		}
	}
}

// Offset is the number of the next byte.
func (s *Stream) Offset() int64 { return s.offset }

// Close ends the connection.
func (s *Stream) Close() error {
	if s.body == nil {
		return nil
	}
	s.cancel(nil)
	err := s.body.Close()
	s.body = nil
	return err
}
