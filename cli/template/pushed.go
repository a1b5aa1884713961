package template

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/virtward/virtward/cli/downloads"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/texts"
)

// tarBlock is the unit of the sizes in an archive.
const tarBlock = 512

// send writes the artifact of an export to a registry while it is downloaded, and returns its digest. Layers that the repository has are
// not downloaded.
func (x *exporting) send(ctx context.Context, e *export, to *artifacts.Writer) (digest.Digest, error) {
	o, end, err := x.ready(ctx, e)
	defer func() { end() }()
	if err != nil {
		return "", err
	}
	stream, err := downloads.Open(ctx, "sending", o)
	if err != nil {
		return "", err //nolint:wrapcheck // it says what the server answered
	}
	defer stream.Close()
	l := &layout{stream: stream}
	if _, err := l.small(v1.ImageLayoutFile, oci.MaxIndex); err != nil {
		return "", err
	}
	index, err := l.small(v1.ImageIndexFile, oci.MaxIndex)
	if err != nil {
		return "", err
	}
	top, err := oci.ParseTop(index)
	if err != nil {
		return "", fmt.Errorf("the artifact: %w", err)
	}
	variant, err := top.Select("")
	if err != nil {
		return "", fmt.Errorf("the artifact: %w", err)
	}
	manifest, err := l.blob(&variant.Descriptor)
	if err != nil {
		return "", err
	}
	parsed, err := oci.ParseManifest(manifest.Content)
	if err != nil {
		return "", fmt.Errorf("the artifact: %w", err)
	}
	config, err := l.blob(&parsed.Config)
	if err != nil {
		return "", err
	}
	if err := to.Write(ctx, config); err != nil {
		return "", err //nolint:wrapcheck // it names the repository
	}
	for i := range parsed.Disks {
		if err := l.layer(ctx, &parsed.Disks[i].Descriptor, to); err != nil {
			return "", err
		}
	}
	if err := to.Put(ctx, manifest); err != nil {
		return "", err //nolint:wrapcheck // it names the repository
	}
	whole := oci.Blob{Descriptor: v1.Descriptor{MediaType: v1.MediaTypeImageIndex, Digest: digest.FromBytes(index), Size: int64(len(index))}, Content: index}
	return whole.Digest, to.Tag(ctx, whole) //nolint:wrapcheck // it names the repository
}

// layout reads the archive of an artifact, file by file.
type layout struct {
	stream *downloads.Stream

	mu sync.Mutex
	// sent is what the registry reads; nil for nothing.
	sent *sent
}

// sent is a layer that the registry reads. A connection that was given up can still read it beside a new one: it gets an error.
type sent struct {
	of   *layout
	from io.Reader
}

// Read implements io.Reader.
func (s *sent) Read(into []byte) (int, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.of.sent != s {
		return 0, fs.ErrClosed
	}
	return s.from.Read(into) //nolint:wrapcheck // io.Reader
}

// Close implements io.Closer.
func (s *sent) Close() error { return nil }

// open goes to the begin of a layer. What was opened before gets no more bytes.
func (l *layout) open(at, size int64) io.ReadCloser {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream.SeekTo(at)
	l.sent = &sent{of: l, from: io.LimitReader(l.stream, size)}
	return l.sent
}

// skip goes behind a layer.
func (l *layout) skip(to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream.SeekTo(to)
	l.sent = nil
}

// next goes to the content of the next file, which must have a name.
func (l *layout) next(name string) (size int64, err error) {
	header, err := tar.NewReader(l.stream).Next()
	if err != nil {
		return 0, fmt.Errorf("reading the artifact: %w", err)
	}
	if header.Name != name || header.Typeflag != tar.TypeReg {
		return 0, fmt.Errorf("the artifact has the file %q, not %s", texts.Shorten(texts.OneLine(header.Name), 200), name)
	}
	return header.Size, nil
}

// small reads a file that is not a layer.
func (l *layout) small(name string, limit int64) ([]byte, error) {
	size, err := l.next(name)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s of the artifact has %d bytes: at most %d", name, size, limit)
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(l.stream, content); err != nil {
		return nil, fmt.Errorf("reading the artifact: %w", err)
	}
	l.stream.SeekTo(padded(l.stream.Offset()))
	return content, nil
}

// blob reads a manifest or a configuration, and verifies its digest.
func (l *layout) blob(d *oci.Descriptor) (oci.Blob, error) {
	content, err := l.small(oci.BlobPath(d), oci.MaxConfig)
	if err != nil {
		return oci.Blob{}, err
	}
	if digest.FromBytes(content) != d.Digest || int64(len(content)) != d.Size {
		return oci.Blob{}, fmt.Errorf("the artifact has another blob than %s", d.Digest)
	}
	return oci.Blob{Descriptor: *d, Content: content}, nil
}

// layer writes a layer to a registry. The registry can ask for it again.
func (l *layout) layer(ctx context.Context, d *oci.Descriptor, to *artifacts.Writer) error {
	size, err := l.next(oci.BlobPath(d))
	if err != nil {
		return err
	}
	if size != d.Size {
		return fmt.Errorf("the layer %s has %d bytes: the manifest says %d", d.Digest, size, d.Size)
	}
	begin := l.stream.Offset()
	if err := to.Upload(ctx, d, func() (io.ReadCloser, error) { return l.open(begin, size), nil }, nil); err != nil {
		return err //nolint:wrapcheck // it names the repository
	}
	l.skip(padded(begin + size))
	return nil
}

// padded is the place of the next header. An archive has whole blocks.
func padded(offset int64) int64 { return (offset + tarBlock - 1) / tarBlock * tarBlock }
