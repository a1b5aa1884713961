package template

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/uploadproxy"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/vmdk"
)

// inspectArtifact reads the artifact of the file, an archive with an OCI layout, and decides what the command creates. All layers have the digests of
// the manifest, and the sizes of the disks.
func (u *uploading) inspectArtifact(ctx context.Context) error {
	data := u.file.Data()
	layout, err := oci.OpenLayout(data, data.Size())
	if err != nil {
		return err //nolint:wrapcheck // the caller names the file
	}
	top, err := layout.Top()
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	manifest := top.Manifest
	if manifest == nil {
		variant, err := top.Select(u.platform)
		if err != nil {
			return options.Usagef("%s: %w: use --platform", u.from, err)
		}
		content, err := layout.Blob(&variant.Descriptor)
		if err != nil {
			return err //nolint:wrapcheck // as above
		}
		if manifest, err = oci.ParseManifest(content); err != nil {
			return err //nolint:wrapcheck // as above
		}
	}
	if manifest.OVA != nil {
		return fmt.Errorf("the artifact is an OVA: get it with tar -xOf %s %s > appliance.ova, and import that", filepath.Base(u.from), oci.BlobPath(&manifest.OVA.Descriptor))
	}
	if size := manifest.Config.Size; size > imports.MaxTemplate {
		return fmt.Errorf("the configuration of the artifact has %d KiB, and at most %d are imported", size>>10, imports.MaxTemplate>>10)
	}
	config, err := layout.Blob(&manifest.Config)
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	object, err := oci.ParseObject(manifest.Kind, config)
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	u.outcome = imports.EvaluateArtifact(u.of, &imports.Artifact{Manifest: manifest, Object: object})
	for i := range u.outcome.Disks { // none, with a fault
		if err := u.layer(ctx, layout, &manifest.Disks[i], &u.outcome.Disks[i]); err != nil {
			return fmt.Errorf("the disk %s: %w", manifest.Disks[i].Names[0], err)
		}
	}
	return nil
}

// layer finds a layer in the file, and reads all of it.
func (u *uploading) layer(ctx context.Context, layout *oci.Stored, layer *oci.Disk, disk *imports.Disk) error {
	offset, err := layout.Layer(&layer.Descriptor)
	if err != nil {
		return err //nolint:wrapcheck // the caller names the disk
	}
	part := &disk.File.Parts[0]
	part.Offset = offset
	through, end := u.metered(ctx, "reading", part.Size)
	defer end()
	section := u.file.Part(part)
	raw, err := oci.Decompress(oci.Verified(through(io.NewSectionReader(section.File, section.Offset, section.Size)), &layer.Descriptor), layer, oci.MaxWindow)
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	defer raw.Close()
	head := &header{content: make([]byte, min(layer.Size, vmdk.HeadBytes))}
	if _, err := io.Copy(head, raw); err != nil {
		return err //nolint:wrapcheck // as above
	}
	if err := vmdk.CheckRaw(head.content); err != nil {
		return err //nolint:wrapcheck // as above
	}
	u.layers[disk.Name] = layer
	return nil
}

// header keeps the begin of what is written. What is not written is zeros.
type header struct {
	content []byte
	n       int
}

// Write implements io.Writer.
func (h *header) Write(p []byte) (int, error) {
	h.n += copy(h.content[h.n:], p)
	return len(p), nil
}

// content is what is uploaded of a disk: the file as it is, or the raw bytes of a layer.
func (u *uploading) content(disk *imports.Disk) *uploadproxy.Content {
	content := uploadproxy.Join(u.sections(disk)...)
	layer := u.layers[disk.Name]
	if layer == nil {
		return content
	}
	// The reader of a request that breaks is not closed: it holds memory only.
	return content.Decoded(layer.Size, func(from io.Reader) io.Reader {
		raw, err := oci.Decompress(oci.Verified(from, &layer.Descriptor), layer, oci.MaxWindow)
		switch {
		case err != nil:
			return failing{err}
		case layer.Capacity:
			return io.LimitReader(io.MultiReader(raw, zeros{}), layer.Size)
		}
		return raw
	})
}

// failing returns an error.
type failing struct{ error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.error }

// zeros are what a disk has behind a shorter layer.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
