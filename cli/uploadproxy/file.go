package uploadproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// File is a file that is uploaded, or a part of it, as the file was when it was opened.
type File struct {
	*os.File

	// Size is the number of bytes that are uploaded.
	Size int64
	// sections are uploaded one behind the other. Without them, it is the whole file.
	sections []Section
	// whole is the size of the file.
	whole    int64
	modified time.Time
}

// Section is a part of a file, in bytes.
type Section struct{ Offset, Size int64 }

// Part is what sections of the file have, one behind the other.
func (f *File) Part(sections ...Section) *File {
	part := &File{File: f.File, sections: sections, whole: f.whole, modified: f.modified}
	for _, s := range sections {
		part.Size += s.Size
	}
	return part
}

// content reads what is uploaded.
func (f *File) content() io.Reader {
	if f.sections == nil {
		return io.NewSectionReader(f, 0, f.whole)
	}
	all := make([]io.Reader, len(f.sections))
	for i, s := range f.sections {
		all[i] = io.NewSectionReader(f, s.Offset, s.Size)
	}
	return io.MultiReader(all...)
}

// Open opens a file. It returns an error for a folder, a device or a pipe: an upload can begin again, and states its size.
func Open(name string) (*File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &File{File: file, Size: info.Size(), whole: info.Size(), modified: info.ModTime()}, nil
}

// Ends returns the first and the last bytes of a whole file.
func (f *File) Ends(first, last int64) (head, tail []byte, err error) {
	head, tail = make([]byte, min(first, f.Size)), make([]byte, min(last, f.Size))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	if _, err := f.ReadAt(tail, f.Size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	return head, tail, nil
}

// Sum is the checksum of what is uploaded, in hex. The hash is empty.
func (f *File) Sum(with hash.Hash) (string, error) {
	if _, err := io.Copy(with, f.content()); err != nil {
		return "", fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	return hex.EncodeToString(with.Sum(nil)), nil
}

// unchanged returns an error if another program wrote the file.
func (f *File) unchanged() error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	if info.Size() != f.whole || !info.ModTime().Equal(f.modified) {
		return fmt.Errorf("%s changed while it was uploaded", f.Name())
	}
	return nil
}

// body is the file in one request. The last bytes are sent only if the file did not change before, so that CDI never completes an
// image of two versions.
type body struct {
	file *File
	from io.Reader
	sum  hash.Hash
	sent func(bytes int64)
	// ended is why the request ends before the file; nil while it does not. A request that ended sends no more.
	ended func() error
	// stalled fires if the proxy takes nothing for some time.
	stall   time.Duration
	stalled *time.Timer
	// offset is the number of bytes that were read, and failure why no more are.
	offset  atomic.Int64
	failure atomic.Pointer[error]
}

func newBody(file *File, stall time.Duration, ended func() error, stalled func(), sent func(int64)) *body {
	return &body{
		file: file, from: file.content(), sum: sha256.New(), sent: sent, ended: ended,
		stall: stall, stalled: time.AfterFunc(stall, stalled),
	}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if err := b.ended(); err != nil {
		return 0, err
	}
	n, err := b.from.Read(p)
	if errors.Is(err, io.EOF) && b.offset.Load() < b.file.Size {
		err = b.file.unchanged()
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
	}
	if b.offset.Load()+int64(n) == b.file.Size {
		if changed := b.file.unchanged(); changed != nil {
			n, err = 0, changed
		}
	}
	if err != nil {
		b.stalled.Stop()
		if !errors.Is(err, io.EOF) {
			b.failure.Store(&err)
		}
		return n, err //nolint:wrapcheck // the contract of an io.Reader
	}
	b.stalled.Reset(b.stall)
	b.sum.Write(p[:n])
	b.sent(b.offset.Add(int64(n)))
	return n, nil
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.stalled.Stop()
	return nil
}

// failed is why the file could not be read; nil if it could.
func (b *body) failed() error {
	if err := b.failure.Load(); err != nil {
		return *err
	}
	return nil
}

func (b *body) complete() bool { return b.offset.Load() == b.file.Size }

// checksum is that of a file that was read to its end.
func (b *body) checksum() string { return "sha256:" + hex.EncodeToString(b.sum.Sum(nil)) }
