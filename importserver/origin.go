package importserver

import (
	"context"
	"crypto/sha1" //nolint:gosec // manifests of old producers have it; it is compared, and not trusted
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"

	godigest "github.com/opencontainers/go-digest"

	"github.com/virtward/virtward/importserver/volumes"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/web"
)

var errChanged = &web.Error{Reason: web.ReasonChanged, Message: "the file is not the one that was inspected", Permanent: true}

// origin reads the files of a plan.
type origin struct {
	files    []transfer.File
	volume   *transfer.Volume
	client   *web.Client
	registry *artifacts.Options

	mu sync.Mutex
	// repository is that of all blobs; nil before the first connection.
	repository *artifacts.Repository
}

// open reads a part of a file.
func (o *origin) open(ctx context.Context, file int, offset, length int64) (io.ReadCloser, error) {
	f := &o.files[file]
	switch {
	case f.Volume:
		return openVolume(o.volume, f, offset, length)
	case f.Blob != "":
		return o.openBlob(ctx, f, offset, length)
	}
	s, err := o.client.Part(ctx, &web.File{URL: f.URL, Size: f.Size, Validator: f.Validator, Ranges: true}, offset, length)
	if err != nil {
		_ = s.Close()
		return nil, err //nolint:wrapcheck // it is an Error for users
	}
	return s, nil
}

// openBlob reads a part of a blob.
func (o *origin) openBlob(ctx context.Context, f *transfer.File, offset, length int64) (io.ReadCloser, error) {
	image, err := f.Image()
	if err != nil {
		return nil, err //nolint:wrapcheck // the plan is valid
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.repository == nil {
		if o.repository, err = artifacts.Open(ctx, artifacts.Reference{Image: image, Named: true}, *o.registry); err != nil {
			return nil, err //nolint:wrapcheck // it is an Error for users
		}
	}
	blob := &oci.Descriptor{Digest: godigest.Digest(image.Digest), Size: f.Size}
	if offset > 0 { // without ranges, each request would read all bytes before it
		return o.repository.Ranges(ctx, blob, offset, length), nil
	}
	return o.repository.Part(ctx, blob, offset, length), nil
}

// resumed is a stream that continues broken connections.
type resumed interface{ Resumptions() int }

// section is a part of the file of a volume.
type section struct {
	*io.SectionReader
	io.Closer
}

// Read implements io.Reader.
func (s section) Read(into []byte) (int, error) {
	n, err := s.SectionReader.Read(into)
	return n, unreadable(err)
}

// unreadable is the error of a volume for the status.
func unreadable(err error) error {
	if errors.Is(err, volumes.ErrChanged) {
		return errChanged
	}
	return err
}

// openVolume reads a part of the file of a volume, if it is the one of the plan.
func openVolume(v *transfer.Volume, f *transfer.File, offset, length int64) (io.ReadCloser, error) {
	opened, err := volumes.Open(v)
	switch {
	case err != nil:
		return nil, fmt.Errorf("opening the file of the volume: %w", err)
	case opened.Size() != f.Size, f.Validator != "" && opened.Tag != f.Validator:
		_ = opened.Close() // nothing was written
		return nil, errChanged
	}
	return section{io.NewSectionReader(opened, offset, length), opened}, nil
}

// content reads a span of a disk across its parts. Read returns an error instead of io.EOF if a part that was read completely has another
// digest than that of the plan.
type content struct {
	ctx    context.Context //nolint:containedctx // of one answer
	origin *origin
	disk   *transfer.Disk
	span   span
	// counted is called with the bytes that were read, and with the resumptions of a connection when it ends.
	counted func(bytes int64, resumptions int)

	part    int
	left    int64 // of the part
	current io.ReadCloser
	sum     hash.Hash
	// failed is the error after which nothing is read: a reader of buffers can drop it once.
	failed error
}

// skip finds the part with the first byte, and returns the offset in it.
func (c *content) skip() (within int64) {
	within = c.span.offset
	for c.part < len(c.disk.Parts)-1 && within >= c.disk.Parts[c.part].Size {
		within -= c.disk.Parts[c.part].Size
		c.part++
	}
	return within
}

// Read implements io.Reader.
func (c *content) Read(into []byte) (n int, err error) {
	if c.failed != nil {
		return 0, c.failed
	}
	if n, err = c.read(into); err != nil && !errors.Is(err, io.EOF) {
		c.failed = err
	}
	return n, err
}

func (c *content) read(into []byte) (int, error) {
	for c.span.offset < c.span.end {
		if c.current == nil {
			if err := c.open(); err != nil {
				return 0, err
			}
		}
		n, err := c.current.Read(into[:min(int64(len(into)), c.left)])
		if n > 0 {
			c.counted(int64(n), 0)
			c.span.offset += int64(n)
			c.left -= int64(n)
			if c.sum != nil {
				_, _ = c.sum.Write(into[:n]) // a hash returns no error
			}
			if c.left == 0 {
				err = c.close()
			} else if errors.Is(err, io.EOF) {
				err = nil // the next call sees it
			}
			return n, err
		}
		if errors.Is(err, io.EOF) {
			return 0, errChanged // of a volume; a stream continues
		}
		if err != nil {
			return 0, err //nolint:wrapcheck // it is an Error for users
		}
	}
	return 0, io.EOF
}

// open opens the next part.
func (c *content) open() error {
	within := int64(0)
	if c.part == 0 {
		within = c.skip()
	}
	p := &c.disk.Parts[c.part]
	c.left = min(p.Size-within, c.span.end-c.span.offset)
	c.sum = nil
	if p.Digest != "" && c.left == p.Size {
		c.sum = newHash(p.Digest)
	}
	var err error
	c.current, err = c.origin.open(c.ctx, p.File, p.Offset+within, c.left)
	return err
}

// close ends a part, and compares its digest.
func (c *content) close() error {
	if c.current == nil {
		return nil
	}
	if s, isStream := c.current.(resumed); isStream {
		c.counted(0, s.Resumptions())
	}
	_ = c.current.Close() // all of it was read
	c.current = nil
	p := &c.disk.Parts[c.part]
	c.part++
	if c.sum == nil || c.left > 0 {
		return nil
	}
	kind, _, _ := strings.Cut(p.Digest, ":")
	if got := kind + ":" + hex.EncodeToString(c.sum.Sum(nil)); got != p.Digest {
		return &web.Error{Reason: web.ReasonChecksumMismatch, Message: "the file has the digest " + got + ", and the manifest " + p.Digest, Permanent: true}
	}
	return nil
}

// newHash returns the hash of a digest of a valid plan.
func newHash(digest string) hash.Hash {
	kind, _, _ := strings.Cut(digest, ":")
	switch kind {
	case "sha1":
		return sha1.New() //nolint:gosec // as above
	case "sha384":
		return sha512.New384()
	case "sha512":
		return sha512.New()
	}
	return sha256.New()
}
