package oci

import (
	"archive/tar"
	"fmt"
	"io"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// layoutFile is the content of the file that names the version of the layout.
const layoutFile = `{"imageLayoutVersion":"1.0.0"}`

// WriteLayout writes the archive that KubeVirt's exporter serves for one manifest: an OCI layout whose index.json is the index of the
// artifact. The function writes the compressed bytes of a layer.
func WriteLayout(w io.Writer, index Blob, packed *Packed, layer func(io.Writer, *Descriptor) error) error {
	archive := tar.NewWriter(w)
	file := func(name string, size int64, write func(io.Writer) error) error {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return write(archive)
	}
	content := func(content []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(content); return err } //nolint:wrapcheck // of the caller's writer
	}
	if err := file(v1.ImageLayoutFile, int64(len(layoutFile)), content([]byte(layoutFile))); err != nil {
		return err
	}
	if err := file(v1.ImageIndexFile, index.Size, content(index.Content)); err != nil {
		return err
	}
	for _, blob := range []Blob{packed.Manifest, packed.Config} {
		if err := file(blobPath(&blob.Descriptor), blob.Size, content(blob.Content)); err != nil {
			return err
		}
	}
	for i := range packed.Layers {
		d := &packed.Layers[i]
		if err := file(blobPath(d), d.Size, func(w io.Writer) error { return layer(w, d) }); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("the end of the archive: %w", err)
	}
	return nil
}

// blobPath is the path of a blob in a layout.
func blobPath(d *Descriptor) string { return v1.ImageBlobsDir + "/sha256/" + d.Digest.Encoded() }
