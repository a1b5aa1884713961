package compressions

import (
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/virtward/virtward/sources/compressions/xz"
)

// Why a content cannot be read. Errors of reading the compressed bytes are others.
var (
	// ErrDamaged means that the bytes are not those of the compression, or end early.
	ErrDamaged = errors.New("the compressed file is damaged or truncated")
	// ErrTooLarge means that the content has more bytes than are permitted.
	ErrTooLarge = errors.New("the content of the compressed file is larger than permitted")
	// ErrWindow means that zstd needs more memory than is permitted, and ErrDictionary that xz does.
	ErrWindow     = errors.New("zstd needs a larger window than is permitted")
	ErrDictionary = errors.New("xz needs a larger dictionary than is permitted")
	// ErrFilter means that xz has a filter for programs.
	ErrFilter = errors.New("xz has a filter for programs, which is not read")
)

// The names of compressions.
const (
	Gzip  = "gzip"
	Bzip2 = "bzip2"
	Xz    = "xz"
	Zstd  = "zstd"
)

// decoder returns the content of compressed bytes, and ends it.
type decoder func(from io.Reader, window uint64) (content io.Reader, end func(), err error)

// decoders are the compressions that can be read, and that of a file without one.
var decoders = map[string]decoder{
	"": func(from io.Reader, _ uint64) (io.Reader, func(), error) { return from, func() {}, nil },
	Gzip: func(from io.Reader, _ uint64) (io.Reader, func(), error) {
		z, err := gzip.NewReader(from)
		return z, func() {}, err //nolint:wrapcheck // described
	},
	Bzip2: func(from io.Reader, _ uint64) (io.Reader, func(), error) {
		return bzip2.NewReader(from), func() {}, nil
	},
	Xz: func(from io.Reader, window uint64) (io.Reader, func(), error) {
		return xz.NewReader(from, int64(window)), func() {}, nil
	},
	Zstd: func(from io.Reader, window uint64) (io.Reader, func(), error) {
		z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return nil, nil, err //nolint:wrapcheck // described
		}
		return z, z.Close, nil
	},
}

// Names are the compressions that can be read.
func Names() []string { return []string{Bzip2, Gzip, Xz, Zstd} }

// IsReadable reports whether files with a compression can be read.
func IsReadable(name string) bool { return slices.Contains(Names(), name) }

// Content is the content of a file. Create it with Open, and close it.
type Content struct {
	from    *source
	content io.Reader
	end     func()
	left    int64
	failed  error
}

// overhead is how many bytes more than its content a compressed file may have, and also one for each perByte bytes of it: a content that does
// not compress has headers.
const overhead, perByte = 1 << 20, 128

// Open returns the content of a file with one of the Names, or of one that is not compressed, whose name is empty. The content has at most
// a number of bytes, and the file as many, a MiB and a part of it: its parts can have no content, and be without an end. The window bounds the
// memory of zstd and of xz, in bytes.
func Open(name string, from io.Reader, most int64, window uint64) (*Content, error) {
	open := decoders[name]
	if open == nil {
		return nil, fmt.Errorf("files that are compressed with %q are not read", name)
	}
	c := &Content{from: &source{Reader: from, left: most + most/perByte + overhead}, left: most}
	var err error
	if c.content, c.end, err = open(c.from, window); err != nil {
		return nil, c.describe(err)
	}
	return c, nil
}

// Read implements io.Reader. The error in place of io.EOF is one of the package, or that of reading the compressed bytes.
func (c *Content) Read(into []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.content.Read(into)
	if c.left -= int64(n); c.left < 0 {
		c.failed = ErrTooLarge
		return 0, c.failed
	}
	if err != nil {
		if !errors.Is(err, io.EOF) || c.from.err != nil {
			err = c.describe(err)
		}
		c.failed = err
	}
	return n, err //nolint:wrapcheck // io.EOF must stay
}

// Finish reads what follows the content, which no decoder has read.
func (c *Content) Finish() error {
	_, err := io.Copy(io.Discard, c.from)
	return err //nolint:wrapcheck // one of the package, or of reading the compressed bytes
}

// Close ends the content.
func (c *Content) Close() { c.end() }

// describe is the error of the compressed bytes, or one of the package.
func (c *Content) describe(err error) error {
	switch {
	case c.from.err != nil:
		return c.from.err
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return ErrWindow
	case errors.Is(err, xz.ErrDictionary):
		return ErrDictionary
	case errors.Is(err, xz.ErrFilter):
		return ErrFilter
	}
	return damaged{err}
}

// damaged is the error of a decoder.
type damaged struct{ error }

// Is implements the interface of errors.Is.
func (damaged) Is(target error) bool { return target == ErrDamaged }

// source bounds the compressed bytes, and remembers an error of reading: those of decoders are of the file.
type source struct {
	io.Reader

	left int64
	err  error
}

// Read implements io.Reader.
func (s *source) Read(into []byte) (int, error) {
	n, err := s.Reader.Read(into)
	if s.left -= int64(n); s.left < 0 {
		n, err = 0, ErrTooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err //nolint:wrapcheck // io.EOF must stay
}
