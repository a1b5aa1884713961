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

// File is a file of this machine, as it was when it was opened.
type File struct {
	*os.File

	// Size is the number of bytes.
	Size     int64
	modified time.Time
}

// Whole is the content of the file.
func (f *File) Whole() *Content { return Join(Section{f, 0, f.Size}) }

// Section is a part of a file, in bytes.
type Section struct {
	File         *File
	Offset, Size int64
}

// Content is what is uploaded: sections of files, one behind the other.
type Content struct {
	// Size is the number of bytes.
	Size     int64
	sections []Section
	// decode returns the bytes that are uploaded; nil for those of the sections.
	decode func(io.Reader) io.Reader
}

// Join is what sections have, one behind the other.
func Join(sections ...Section) *Content {
	c := &Content{sections: sections}
	for _, s := range sections {
		c.Size += s.Size
	}
	return c
}

// Decoded is content of a size that a function reads from the sections. The function is called for each request. The last bytes are sent
// only if its reader returns io.EOF behind them.
func (c *Content) Decoded(size int64, decode func(io.Reader) io.Reader) *Content {
	return &Content{Size: size, sections: c.sections, decode: decode}
}

// read reads what is uploaded, from its begin.
func (c *Content) read() io.Reader {
	all := make([]io.Reader, len(c.sections))
	for i, s := range c.sections {
		all[i] = io.NewSectionReader(s.File, s.Offset, s.Size)
	}
	whole := io.MultiReader(all...)
	if c.decode != nil {
		return c.decode(whole)
	}
	return whole
}

// Sum is the checksum of what is uploaded, in hex. The hash is empty. The function, which can be nil, returns a reader of the same bytes.
func (c *Content) Sum(with hash.Hash, through func(io.Reader) io.Reader) (string, error) {
	from := c.read()
	if through != nil {
		from = through(from)
	}
	if _, err := io.Copy(with, from); err != nil {
		return "", fmt.Errorf("reading %s: %w", c.sections[0].File.Name(), err)
	}
	return hex.EncodeToString(with.Sum(nil)), nil
}

// unchanged returns an error if another program wrote one of the files.
func (c *Content) unchanged() error {
	for _, s := range c.sections {
		if err := s.File.Unchanged(); err != nil {
			return err
		}
	}
	return nil
}

// Open opens a file. It returns an error for a folder, a device or a pipe: an upload can begin again, and states its size.
func Open(name string) (*File, error) {
	return open(name, os.Stat, os.Open)
}

// OpenIn opens a file of a folder, as Open does. Links that leave the folder are errors.
func OpenIn(folder *os.Root, name string) (*File, error) {
	return open(name, folder.Stat, folder.Open)
}

func open(name string, stat func(string) (os.FileInfo, error), open func(string) (*os.File, error)) (*File, error) {
	irregular := fmt.Errorf("%s is not a regular file", name)
	if info, err := stat(name); err == nil && !info.Mode().IsRegular() { // to open a pipe would wait for its writer
		return nil, irregular
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = irregular
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &File{File: file, Size: info.Size(), modified: info.ModTime()}, nil
}

// Ends returns the first and the last bytes of a file.
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

// Unchanged returns an error if another program wrote the file.
func (f *File) Unchanged() error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	if info.Size() != f.Size || !info.ModTime().Equal(f.modified) {
		return fmt.Errorf("%s changed while it was read", f.Name())
	}
	return nil
}

// body is the content in one request. The last bytes are sent only if no file changed before, so that CDI never completes an image of
// two versions.
type body struct {
	content *Content
	from    io.Reader
	sum     hash.Hash
	sent    func(bytes int64)
	// ended is why the request ends before the file; nil while it does not. A request that ended sends no more.
	ended func() error
	// stalled fires if the proxy takes nothing for some time.
	stall   time.Duration
	stalled *time.Timer
	// offset is the number of bytes that were read, and failure why no more are.
	offset  atomic.Int64
	failure atomic.Pointer[error]
}

func newBody(content *Content, stall time.Duration, ended func() error, stalled func(), sent func(int64)) *body {
	return &body{
		content: content, from: content.read(), sum: sha256.New(), sent: sent, ended: ended,
		stall: stall, stalled: time.AfterFunc(stall, stalled),
	}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if err := b.ended(); err != nil {
		return 0, err
	}
	n, err := b.from.Read(p)
	if errors.Is(err, io.EOF) && b.offset.Load() < b.content.Size {
		err = b.content.unchanged()
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
	}
	if b.offset.Load()+int64(n) == b.content.Size {
		if failed := errors.Join(b.content.unchanged(), b.ends()); failed != nil {
			n, err = 0, failed
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

// ends returns an error if the last bytes are not valid, or others follow.
func (b *body) ends() error {
	var more [1]byte
	switch n, err := io.ReadFull(b.from, more[:]); {
	case n > 0:
		return fmt.Errorf("%s has more bytes than its size", b.content.sections[0].File.Name())
	case !errors.Is(err, io.EOF):
		return err //nolint:wrapcheck // of the reader
	}
	return nil
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

func (b *body) complete() bool { return b.offset.Load() == b.content.Size }

// checksum is that of a file that was read to its end.
func (b *body) checksum() string { return "sha256:" + hex.EncodeToString(b.sum.Sum(nil)) }
