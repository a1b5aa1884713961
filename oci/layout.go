package oci

import (
	"archive/tar"
	"fmt"
	"io"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// layoutFile is the content of the file that names the version of the layout.
const layoutFile = `{"imageLayoutVersion":"1.0.0"}`

// LayoutFile is a file of a layout.
type LayoutFile struct {
	Name string
	// Size is in bytes.
	Size int64
	// Content is nil for a layer.
	Content []byte
	// Layer is that of the file; nil for other files.
	Layer *Descriptor
}

// Layout returns the files of the archive that KubeVirt's exporter serves for one manifest, in its order.
func Layout(index Blob, packed *Packed) []LayoutFile {
	files := []LayoutFile{{Name: v1.ImageLayoutFile, Content: []byte(layoutFile)}, {Name: v1.ImageIndexFile, Content: index.Content}}
	for _, blob := range []Blob{packed.Manifest, packed.Config} {
		files = append(files, LayoutFile{Name: BlobPath(&blob.Descriptor), Content: blob.Content})
	}
	for i := range files {
		files[i].Size = int64(len(files[i].Content))
	}
	for i := range packed.Layers {
		d := &packed.Layers[i]
		files = append(files, LayoutFile{Name: BlobPath(d), Size: d.Size, Layer: d})
	}
	return files
}

// WriteLayout writes the archive that KubeVirt's exporter serves for one manifest: an OCI layout whose index.json is the index of the
// artifact. The function writes the compressed bytes of a layer.
func WriteLayout(w io.Writer, index Blob, packed *Packed, layer func(io.Writer, *Descriptor) error) error {
	archive := tar.NewWriter(w)
	for _, file := range Layout(index, packed) {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file.Name, Size: file.Size, Mode: 0o644}); err != nil {
			return fmt.Errorf("%s: %w", file.Name, err)
		}
		var err error
		if file.Layer != nil {
			err = layer(archive, file.Layer)
		} else {
			_, err = archive.Write(file.Content)
		}
		if err != nil {
			return err //nolint:wrapcheck // of the caller's writer
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("the end of the archive: %w", err)
	}
	return nil
}

// BlobPath is the path of a blob in a layout.
func BlobPath(d *Descriptor) string { return v1.ImageBlobsDir + "/sha256/" + d.Digest.Encoded() }
