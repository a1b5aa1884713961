package oci

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Limits of an archive with a layout.
const (
	// maxLayoutFiles bounds the files: those of an index with the most variants and of the layers of one of them, and those of referrers.
	maxLayoutFiles = 1000
	// maxLayoutFile bounds the file that names the version of the layout.
	maxLayoutFile = 4 << 10
	// maxLayoutName bounds the name of a file in bytes: that of a blob has 77. An archive can have names of a MiB.
	maxLayoutName = 1 << 10
)

// Stored is an OCI layout in an archive of tar, as WriteLayout writes it. Create it with OpenLayout.
type Stored struct {
	data  io.ReaderAt
	files map[string]section
}

// section is where a file is in the archive, in bytes.
type section struct{ offset, size int64 }

// IsLayout reports whether an archive of tar has an OCI layout: its first file is one of a layout.
func IsLayout(data io.ReaderAt, size int64) bool {
	archive := tar.NewReader(io.NewSectionReader(data, 0, size))
	for range maxLayoutFiles {
		header, err := archive.Next()
		if err != nil {
			return false
		}
		name := strings.TrimPrefix(header.Name, "./")
		if header.Typeflag == tar.TypeReg || name == v1.ImageBlobsDir+"/" {
			return name == v1.ImageLayoutFile || name == v1.ImageIndexFile || strings.HasPrefix(name, v1.ImageBlobsDir+"/")
		}
	}
	return false
}

// OpenLayout reads where the files of a layout are.
func OpenLayout(data io.ReaderAt, size int64) (*Stored, error) {
	s := &Stored{data: data, files: map[string]section{}}
	whole := io.NewSectionReader(data, 0, size)
	archive := tar.NewReader(whole)
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return s, s.check()
		case err != nil:
			return nil, rejected(InvalidImage, "archive", "it is not an archive of tar, or is damaged: %s", printable(err.Error()))
		case header.Typeflag == tar.TypeDir, header.Typeflag == tar.TypeXGlobalHeader:
			continue
		case header.Typeflag != tar.TypeReg, sparse(header):
			return nil, rejected(UnsafeName, "archive", "%s is a link, a device or a sparse file", printable(header.Name))
		case len(s.files) == maxLayoutFiles:
			return nil, rejected(LimitExceeded, "archive", "it has more than %d files", maxLayoutFiles)
		case len(header.Name) > maxLayoutName:
			return nil, rejected(LimitExceeded, "archive", "a name of a file has %d bytes: at most %d", len(header.Name), maxLayoutName)
		}
		name := strings.TrimPrefix(header.Name, "./")
		if _, twice := s.files[name]; twice {
			return nil, rejected(DuplicateName, "archive", "it has the file %s twice", printable(name))
		}
		at, err := whole.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, fmt.Errorf("reading the archive: %w", err)
		}
		if header.Size > size-at {
			return nil, rejected(SizeMismatch, "archive", "it ends in the middle of %s", printable(name))
		}
		s.files[name] = section{at, header.Size}
	}
}

// sparse reports whether a file has holes, which the archive does not have.
func sparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// check requires the version of the layout.
func (s *Stored) check() error {
	content, err := s.small(v1.ImageLayoutFile, maxLayoutFile)
	if err != nil {
		return err
	}
	var layout v1.ImageLayout
	if err := json.Unmarshal(content, &layout); err != nil || layout.Version != v1.ImageLayoutVersion {
		return rejected(WrongType, v1.ImageLayoutFile, "imageLayoutVersion must be %s", v1.ImageLayoutVersion)
	}
	return nil
}

// small reads a file that is not a layer.
func (s *Stored) small(name string, limit int64) ([]byte, error) {
	at, found := s.files[name]
	switch {
	case !found:
		return nil, rejected(InvalidDescriptor, "archive", "it has no file %s", name)
	case at.size > limit:
		return nil, rejected(LimitExceeded, name, "has %d bytes: at most %d", at.size, limit)
	}
	content := make([]byte, at.size)
	if _, err := io.ReadFull(io.NewSectionReader(s.data, at.offset, at.size), content); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return content, nil
}

// Top returns the artifact of the layout. Its index is that of the artifact, as KubeVirt writes it, or refers to the only artifact, as other
// programs write it.
func (s *Stored) Top() (*Top, error) {
	content, err := s.small(v1.ImageIndexFile, MaxIndex)
	if err != nil {
		return nil, err
	}
	var index v1.Index
	if err := unmarshal("index", content, MaxIndex, &index); err != nil {
		return nil, err
	}
	if index.ArtifactType != "" {
		return ParseTop(content)
	}
	if n := len(index.Manifests); n != 1 {
		return nil, rejected(NoVariant, "index.manifests", "the layout has %d artifacts: it must have one", n)
	}
	if err := checkDescriptor("index.manifests[0]", &index.Manifests[0], MaxManifest); err != nil {
		return nil, err
	}
	if content, err = s.Blob(&index.Manifests[0]); err != nil {
		return nil, err
	}
	return ParseTop(content)
}

// Blob returns a manifest or a configuration, with its size and its digest. The descriptor is one that was read from the layout.
func (s *Stored) Blob(d *Descriptor) ([]byte, error) {
	if _, err := s.Layer(d); err != nil {
		return nil, err
	}
	content, err := s.small(BlobPath(d), MaxConfig)
	if err != nil {
		return nil, err
	}
	if got := digest.FromBytes(content); got != d.Digest {
		return nil, rejected(DigestMismatch, BlobPath(d), "the blob has the digest %s", got)
	}
	return content, nil
}

// Layer returns where a blob begins in the archive, in bytes. It has the size of the descriptor. Its digest is not compared: read it with
// Verified.
func (s *Stored) Layer(d *Descriptor) (offset int64, err error) {
	at, found := s.files[BlobPath(d)]
	switch {
	case !found:
		return 0, rejected(InvalidDescriptor, "archive", "it has no file %s", BlobPath(d))
	case at.size != d.Size:
		return 0, rejected(SizeMismatch, BlobPath(d), "has %d bytes, and its descriptor %d", at.size, d.Size)
	}
	return at.offset, nil
}
