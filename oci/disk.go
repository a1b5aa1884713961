package oci

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
)

// Verified returns a reader of the bytes of a descriptor. It returns io.EOF only if all bytes were read, and have the size and the
// digest. A reader of more bytes returns an error after the last one of the size.
func Verified(r io.Reader, d *Descriptor) io.Reader {
	return &verified{r: r, left: d.Size, want: d.Digest, sum: sha256.New()}
}

type verified struct {
	r    io.Reader
	left int64
	want digest.Digest
	sum  hash.Hash
	err  error
}

// Read implements io.Reader.
func (v *verified) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	if v.left == 0 {
		v.err = v.end()
		return 0, v.err
	}
	n, err := v.r.Read(p[:min(int64(len(p)), v.left)])
	v.left -= int64(n)
	_, _ = v.sum.Write(p[:n]) // a hash returns no error
	switch {
	case errors.Is(err, io.EOF) && v.left > 0:
		v.err = rejected(SizeMismatch, "", "the blob ends %d bytes before its size", v.left)
	case errors.Is(err, io.EOF):
		v.err = v.end()
	default:
		v.err = err
	}
	if n > 0 {
		return n, nil
	}
	return 0, v.err
}

// end checks that nothing follows, and the digest.
func (v *verified) end() error {
	var more [1]byte
	n, err := io.ReadFull(v.r, more[:])
	switch {
	case n > 0:
		return rejected(SizeMismatch, "", "the blob is longer than its size")
	case !errors.Is(err, io.EOF):
		return err
	}
	if got := digest.NewDigestFromBytes(digest.SHA256, v.sum.Sum(nil)); got != v.want {
		return rejected(DigestMismatch, "", "the blob has the digest %s, not %s", got, v.want)
	}
	return io.EOF
}

// Decompress returns the raw bytes of a disk from the bytes of its layer, as Verified returns them. The window bounds the memory, at most
// MaxWindow. It returns io.EOF only if the layer was valid to its end and the disk has its size. Discard what was read before another error.
// Close the reader.
func Decompress(layer io.Reader, disk *Disk, window uint64) (io.ReadCloser, error) {
	source := &source{Reader: layer, window: window}
	decoder, err := zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, source.describe(err)
	}
	return &raw{decoder: decoder, source: source, left: disk.Size, capacity: disk.Capacity}, nil
}

// source keeps the error of the layer, which zstd can wrap or replace.
type source struct {
	io.Reader

	window uint64
	err    error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err //nolint:wrapcheck // io.EOF is compared
}

func (s *source) describe(err error) error {
	switch {
	case s.err != nil:
		return s.err
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return rejected(LimitExceeded, "", "the layer needs a window of more than %d MiB: compress it with a lower level", s.window>>20)
	}
	return rejected(InvalidImage, "", "the layer is not valid zstd: %v", err)
}

type raw struct {
	decoder  *zstd.Decoder
	source   *source
	left     int64
	capacity bool
	err      error
}

// Read implements io.Reader.
func (r *raw) Read(p []byte) (int, error) {
	if r.err != nil || len(p) == 0 {
		return 0, r.err
	}
	if r.left == 0 {
		p = p[:1] // one more byte shows that the disk does not end here
	}
	n, err := r.decoder.Read(p[:max(1, min(int64(len(p)), r.left))])
	switch {
	case int64(n) > r.left:
		r.err = rejected(SizeMismatch, "", "the layer has more raw bytes than the size of the disk")
		return 0, r.err
	case errors.Is(err, io.EOF):
		r.err = io.EOF
		if r.left -= int64(n); r.left > 0 && !r.capacity {
			r.err = rejected(SizeMismatch, "", "the layer ends %d bytes before the size of the disk", r.left)
		}
	case err != nil:
		r.err = r.source.describe(err)
	default:
		r.left -= int64(n)
	}
	if n > 0 {
		return n, nil
	}
	return 0, r.err
}

// Close releases the window.
func (r *raw) Close() error {
	r.decoder.Close()
	return nil
}
