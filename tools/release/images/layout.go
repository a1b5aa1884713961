package images

import (
	"fmt"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/virtward/virtward/tools/release/files"
)

// refName is the annotation of a layout's index that names an image.
const refName = "org.opencontainers.image.ref.name"

// WriteLayout writes an index as an archive with an OCI layout, which skopeo, podman and crane read. The tag names it there.
func WriteLayout(path string, index v1.ImageIndex, tag string, at time.Time) error {
	folder, err := os.MkdirTemp("", "layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	written, err := layout.Write(folder, empty.Index)
	if err != nil {
		return fmt.Errorf("beginning an OCI layout: %w", err)
	}
	if err := written.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: tag})); err != nil {
		return fmt.Errorf("writing an OCI layout: %w", err)
	}
	entries, err := files.Folder(folder, "")
	if err != nil {
		return err
	}
	return files.WriteTar(path, entries, at)
}

// ReadLayout returns the only index of an archive, unpacked into a folder that must exist as long as the index is used.
func ReadLayout(path, folder string) (v1.ImageIndex, error) {
	if err := files.Unpack(path, folder); err != nil {
		return nil, err
	}
	read, err := layout.FromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the OCI layout %s: %w", path, err)
	}
	outer, err := read.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the OCI layout %s has %d images, want one", path, len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}
