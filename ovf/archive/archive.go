package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/vmdk"
)

// Content is the raw content of a disk or a CD. If it is vmdk.Sparse, its holes are not read.
type Content interface {
	io.ReaderAt
	// Size is in bytes.
	Size() int64
}

// Options are those of New.
type Options struct {
	// MaxTables bounds the grain tables of all disks that are not zeros, 32 MiB each; 0 for no bound.
	MaxTables int
	// Progress is called with the bytes of all contents that were read, and the bytes of all.
	Progress func(done, all int64)
}

// Archive is an OVA, or an OCI artifact in an image layout. It is safe for concurrent use, if its contents are.
type Archive struct {
	// Files are the members.
	Files []File

	members []member
	size    int64
	tag     string
}

// File describes a member.
type File struct {
	Name string `json:"name"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// SHA256 is the digest in hexadecimal digits.
	SHA256 string `json:"sha256"`
}

// member is a member with its header.
type member struct {
	header []byte
	size   int64
	// data is the content of a small file. Others have content: as it is, or as the VMDK of a layout.
	data    []byte
	content Content
	layout  *vmdk.Layout
	// layer is the digest of the content as zstd compresses it, in hexadecimal digits; empty for other members.
	layer string
}

const (
	// blockSize is that of tar.
	blockSize = 512
	// tagBytes is the length of a tag in bytes.
	tagBytes = 16
	// smallFiles are the descriptor and the manifest of an OVA.
	smallFiles = 2
)

// New reads all contents once, by the names of their volumes.
func New(export *ovf.Export, contents map[string]Content, options Options) (*Archive, error) {
	var all, done int64
	for _, c := range export.Contents {
		if contents[c.Volume] == nil {
			return nil, fmt.Errorf("the volume %s has no content", c.Volume)
		}
		all += contents[c.Volume].Size()
	}
	a := &Archive{}
	images := map[string]ovf.Image{}
	var files []File
	var members []member
	left := options.MaxTables
	for _, c := range export.Contents {
		m := member{content: contents[c.Volume]}
		hashed := sha256.New()
		capacity := m.content.Size()
		progress := func(n int64) {
			if options.Progress != nil {
				options.Progress(done+n, all)
			}
		}
		if c.Medium {
			m.size = capacity
			if err := copyRange(hashed, m.content, 0, m.size, progress); err != nil {
				return nil, fmt.Errorf("the volume %s: %w", c.Volume, err)
			}
		} else {
			if options.MaxTables > 0 && left <= 0 {
				return nil, fmt.Errorf("the disks have more than %d bytes that are not zeros", int64(options.MaxTables)*tableContent)
			}
			layout, err := vmdk.Measure(hashed, m.content, vmdk.MeasureOptions{Capacity: capacity, Name: c.Href, MaxTables: left, Progress: progress})
			if err != nil {
				return nil, fmt.Errorf("the volume %s: %w", c.Volume, err)
			}
			m.layout, m.size, capacity = layout, layout.Size(), layout.Capacity()
			left -= layout.Tables()
		}
		done += m.content.Size()
		images[c.Volume] = ovf.Image{Size: m.size, Capacity: capacity}
		files = append(files, File{c.Href, m.size, hex.EncodeToString(hashed.Sum(nil))})
		members = append(members, m)
	}
	descriptor, err := export.Write(images)
	if err != nil {
		return nil, err
	}
	name := ovf.Name(export.Template.Name)
	return a, a.assemble(name, descriptor, files, members)
}

// tableContent is what a grain table describes.
const tableContent = 32 << 20

// assemble adds the descriptor, the manifest and the files.
func (a *Archive) assemble(name string, descriptor []byte, files []File, members []member) error {
	small := func(name string, data []byte) (File, member) {
		sum := sha256.Sum256(data)
		return File{name, int64(len(data)), hex.EncodeToString(sum[:])}, member{data: data, size: int64(len(data))}
	}
	first, m := small(name+".ovf", descriptor)
	second, n := small(name+".mf", manifestOf(append([]File{first, {}}, files...)))
	a.Files = append([]File{first, second}, files...)
	a.members = append([]member{m, n}, members...)
	return a.finish()
}

// finish adds the headers, the size and the tag.
func (a *Archive) finish() error {
	tag := sha256.New()
	for i := range a.members {
		m := &a.members[i]
		var err error
		if m.header, err = header(a.Files[i].Name, m.size); err != nil {
			return err
		}
		_, _ = tag.Write(m.header) // a hash returns no error
		_, _ = tag.Write(m.data)   // of the manifest, which has the digests of all others; names of layers are digests
		a.size += int64(len(m.header)) + m.padded()
	}
	a.size += 2 * blockSize
	a.tag = hex.EncodeToString(tag.Sum(nil)[:tagBytes])
	return nil
}

// manifestOf is the manifest of the members of an OVA. It does not have itself, the second one.
func manifestOf(files []File) (manifest []byte) {
	for i, f := range files {
		if i != 1 {
			manifest = fmt.Appendf(manifest, "SHA256(%s)= %s\n", f.Name, f.SHA256)
		}
	}
	return manifest
}

// padded is the size with the zeros up to the end of the block.
func (m *member) padded() int64 { return (m.size + blockSize - 1) / blockSize * blockSize }

// header is the header of a member. It has neither a user nor a time of its own.
func header(name string, size int64) ([]byte, error) {
	var data bytes.Buffer
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, Format: tar.FormatUSTAR}
	if size > maxUSTAR {
		h.Format = tar.FormatGNU
	}
	if err := tar.NewWriter(&data).WriteHeader(h); err != nil {
		return nil, fmt.Errorf("the file %s: %w", name, err)
	}
	return data.Bytes(), nil
}

// maxUSTAR is the largest size that USTAR has digits for.
const maxUSTAR = 8<<30 - 1

// Size is that of the OVA in bytes.
func (a *Archive) Size() int64 { return a.size }

// Tag identifies the bytes of the OVA, in hexadecimal digits: it depends on the name, the size and the digest of each member. It is not the
// digest of the OVA, which is known only when all of it was written.
func (a *Archive) Tag() string { return a.tag }

// Write writes all of the OVA, and returns its SHA-256 digest in hexadecimal digits.
func (a *Archive) Write(to io.Writer, progress func(done, all int64)) (string, error) {
	hashed := sha256.New()
	counted := &counter{to: io.MultiWriter(hashed, to), all: a.size, progress: progress}
	if err := a.WriteRange(counted, 0, a.size); err != nil {
		return "", err
	}
	return hex.EncodeToString(hashed.Sum(nil)), nil
}

// counter reports what was written.
type counter struct {
	to        io.Writer
	done, all int64
	progress  func(done, all int64)
}

func (c *counter) Write(data []byte) (int, error) {
	n, err := c.to.Write(data)
	c.done += int64(n)
	if c.progress != nil {
		c.progress(c.done, c.all)
	}
	return n, err //nolint:wrapcheck // of the caller
}

// WriteRange writes the bytes from an offset up to another one. It reads only the parts of the contents that it needs. The error is
// vmdk.ErrChanged if a content is not what it was; what was written before is correct.
func (a *Archive) WriteRange(to io.Writer, from, up int64) error {
	at := int64(0)
	part := func(size int64, write func(from, up int64) error) error {
		begin := at
		at += size
		first, last := max(from-begin, 0), min(up-begin, size)
		if first >= last {
			return nil
		}
		return write(first, last)
	}
	whole := func(data []byte) error {
		return part(int64(len(data)), func(from, up int64) error {
			_, err := to.Write(data[from:up])
			return err //nolint:wrapcheck // of the caller
		})
	}
	for i := range a.members {
		m := &a.members[i]
		if err := whole(m.header); err != nil {
			return err
		}
		err := part(m.size, func(from, up int64) error { return m.write(to, from, up) })
		if err != nil {
			return fmt.Errorf("the file %s: %w", a.Files[i].Name, err)
		}
		if err := whole(make([]byte, m.padded()-m.size)); err != nil {
			return err
		}
	}
	return whole(make([]byte, 2*blockSize))
}

// write writes a part of the content of a member.
func (m *member) write(to io.Writer, from, up int64) error {
	switch {
	case m.layer != "":
		return m.compress(to, from, up)
	case m.layout != nil:
		return m.layout.WriteRange(to, m.content, from, up) //nolint:wrapcheck // the caller names the file
	case m.content != nil:
		return copyRange(to, m.content, from, up, nil)
	}
	_, err := to.Write(m.data[from:up])
	return err //nolint:wrapcheck // of the caller
}

// copyRange copies a part of a content.
func copyRange(to io.Writer, content io.ReaderAt, from, up int64, progress func(int64)) error {
	buffer := make([]byte, min(1<<20, up-from))
	for from < up {
		n := min(int64(len(buffer)), up-from)
		if read, err := content.ReadAt(buffer[:n], from); int64(read) < n {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("reading the disk at byte %d: %w", from+int64(read), err)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return err //nolint:wrapcheck // of the caller
		}
		if from += n; progress != nil {
			progress(from)
		}
	}
	return nil
}
