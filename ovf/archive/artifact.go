package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/vmdk"
)

// artifactFiles are the files of a layout before its layers: its version, the index, the manifest and the configuration.
const artifactFiles = 4

// NewArtifact makes the layout of an OCI artifact with the disks that KubeVirt exports. It reads all contents once, by the names of their
// volumes. Created is a time as in RFC 3339; empty for none.
func NewArtifact(object *oci.Object, created string, contents map[string]Content, options Options) (*Archive, error) {
	var all, done int64
	for i := range object.Volumes {
		if v := &object.Volumes[i]; v.Layered {
			if contents[v.Name] == nil {
				return nil, fmt.Errorf("the volume %s has no content", v.Name)
			}
			all += contents[v.Name].Size()
		}
	}
	var disks []oci.Descriptor
	var layers []Content
	for i := range object.Volumes {
		v := &object.Volumes[i]
		if !v.Layered {
			continue
		}
		content := contents[v.Name]
		from := &exact{from: content, size: content.Size(), progress: func(n int64) {
			if options.Progress != nil {
				options.Progress(done+n, all)
			}
		}}
		disk, err := oci.Measure(v.Name, from)
		if err != nil {
			return nil, fmt.Errorf("the volume %s: %w", v.Name, err)
		}
		done += content.Size()
		disks, layers = append(disks, disk), append(layers, content)
	}
	packed, err := oci.Pack(object, disks)
	if err != nil {
		return nil, fmt.Errorf("the manifest: %w", err)
	}
	index, err := oci.NewIndex([]*oci.Packed{packed}, created)
	if err != nil {
		return nil, fmt.Errorf("the index: %w", err)
	}
	a := &Archive{}
	for i, file := range oci.Layout(index, packed) {
		m := member{size: file.Size, data: file.Content}
		sum := sha256.Sum256(file.Content)
		digest := hex.EncodeToString(sum[:])
		if file.Layer != nil {
			digest = file.Layer.Digest.Encoded()
			m.layer, m.content = digest, layers[i-artifactFiles]
		}
		a.Files, a.members = append(a.Files, File{file.Name, file.Size, digest}), append(a.members, m)
	}
	return a, a.finish()
}

// exact reads all of a content. A content that ends before its size is an error.
type exact struct {
	from     io.ReaderAt
	at, size int64
	progress func(int64)
}

// Read implements io.Reader.
func (e *exact) Read(into []byte) (int, error) {
	if e.at == e.size {
		return 0, io.EOF
	}
	n, err := e.from.ReadAt(into[:min(int64(len(into)), e.size-e.at)], e.at)
	if e.at += int64(n); e.progress != nil {
		e.progress(e.at)
	}
	switch {
	case n > 0:
		return n, nil
	case err == nil || errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return 0, fmt.Errorf("reading the disk at byte %d: %w", e.at, err)
}

// compress writes a part of a layer. The compressor begins at the beginning of the disk, because zstd has no other place to begin.
func (m *member) compress(to io.Writer, from, up int64) error {
	w := &window{to: to, from: from, up: up, size: m.size, sum: sha256.New()}
	compressor, err := oci.NewCompressor(w)
	if err != nil {
		return err //nolint:wrapcheck // it names zstd
	}
	_, err = io.Copy(compressor, &exact{from: m.content, size: m.content.Size()})
	if err == nil {
		err = compressor.Close()
	} else {
		_ = compressor.Close() // the error is known
	}
	switch {
	case w.err != nil && errors.Is(w.err, errWritten):
		return nil
	case w.err != nil:
		return w.err
	case err != nil:
		return err //nolint:wrapcheck // of the disk
	case w.at != m.size || hex.EncodeToString(w.sum.Sum(nil)) != m.layer:
		return fmt.Errorf("%w: its layer has another digest", vmdk.ErrChanged)
	}
	_, err = to.Write(w.last)
	return err //nolint:wrapcheck // of the caller
}

// errWritten ends a compressor whose other bytes are not needed.
var errWritten = errors.New("all is written")

// window writes a part of what is written to it. It keeps the last bytes of a layer until the digest of the layer is known.
type window struct {
	to                 io.Writer
	at, from, up, size int64
	sum                hash.Hash
	last               []byte
	err                error
}

// Write implements io.Writer.
func (w *window) Write(data []byte) (int, error) {
	if w.err == nil {
		w.err = w.write(data)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(data), nil
}

func (w *window) write(data []byte) error {
	begin := w.at
	w.at += int64(len(data))
	_, _ = w.sum.Write(data) // a hash returns no error
	if w.at > w.size {
		return fmt.Errorf("%w: its layer is longer", vmdk.ErrChanged)
	}
	first, end := max(w.from-begin, 0), min(w.up-begin, int64(len(data)))
	switch {
	case first < end && w.at == w.size && w.up == w.size:
		w.last = append([]byte(nil), data[first:end]...)
	case first < end:
		if _, err := w.to.Write(data[first:end]); err != nil {
			return err //nolint:wrapcheck // of the caller
		}
	}
	if w.up < w.size && w.at >= w.up {
		return errWritten
	}
	return nil
}
