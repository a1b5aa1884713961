package oci

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Blob is bytes and how a manifest refers to them.
type Blob struct {
	Descriptor

	Content []byte
}

func blobOf(mediaType string, content []byte) Blob {
	return Blob{Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}, content}
}

// Packed is a manifest and what it refers to.
type Packed struct {
	Kind Kind
	// Platform is that of the manifest in the index.
	Platform *v1.Platform
	// Manifest and Config are written as they are. The layers are written by the caller.
	Manifest, Config Blob
	Layers           []Descriptor
}

// Pack makes the manifest of an object and its disks, which Measure returned. The layers have the order of the volumes.
func Pack(object *Object, disks []Descriptor) (*Packed, error) {
	f := formatOf(func(f *format) bool { return f.kind == object.Kind })
	position := map[string]int{}
	for i, v := range object.Volumes {
		position[v.Name] = i
	}
	layers := slices.Clone(disks)
	slices.SortStableFunc(layers, func(a, b Descriptor) int {
		return position[a.Annotations[annotationName]] - position[b.Annotations[annotationName]]
	})
	if layers == nil {
		layers = []Descriptor{}
	}
	p := &Packed{
		Kind: object.Kind, Platform: &v1.Platform{Architecture: object.Architecture, OS: linux},
		Config: blobOf(f.config, object.Config), Layers: layers,
	}
	return p, p.finish(f.artifact)
}

// PackAppliance makes the manifest of an OVA file.
func PackAppliance(layer Descriptor) (*Packed, error) {
	p := &Packed{Kind: Appliance, Config: blobOf(v1.MediaTypeEmptyJSON, []byte("{}")), Layers: []Descriptor{layer}}
	return p, p.finish(applianceType)
}

// finish writes the manifest, and reads it as a reader does.
func (p *Packed) finish(artifact string) error {
	content, err := json.Marshal(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, ArtifactType: artifact, Config: p.Config.Descriptor, Layers: p.Layers,
	})
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	p.Manifest = blobOf(v1.MediaTypeImageManifest, content)
	_, err = ParseManifest(content)
	return err
}

// NewIndex makes the index of manifests with different platforms. Created is a time as in RFC 3339; empty for none.
func NewIndex(all []*Packed, created string) (Blob, error) {
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []Descriptor{}}
	for _, p := range all {
		f := formatOf(func(f *format) bool { return f.kind == p.Kind })
		if f == nil || index.ArtifactType != "" && index.ArtifactType != f.artifact {
			return Blob{}, rejected(WrongType, "", "an index has either virtual machines or templates")
		}
		index.ArtifactType = f.artifact
		entry := p.Manifest.Descriptor
		entry.Platform = p.Platform
		index.Manifests = append(index.Manifests, entry)
	}
	if created != "" {
		index.Annotations = map[string]string{v1.AnnotationCreated: created}
	}
	content, err := json.Marshal(index)
	if err != nil {
		return Blob{}, fmt.Errorf("writing the index: %w", err)
	}
	if _, err := ParseTop(content); err != nil {
		return Blob{}, err
	}
	return blobOf(v1.MediaTypeImageIndex, content), nil
}

// CompressorBytes bounds the memory of a compressor: its history, of two windows of 8 MiB, its tables and its blocks.
const CompressorBytes = 20 << 20

// NewCompressor returns a writer that compresses as KubeVirt's exporter does. The same bytes give the same bytes, as long as the
// version of the library is the same.
func NewCompressor(w io.Writer) (*zstd.Encoder, error) {
	compressor, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return compressor, nil
}

// Measure reads a raw disk, and returns the descriptor of its layer. It keeps no compressed bytes: compress the disk again to
// write them.
func Measure(name string, raw io.Reader) (Descriptor, error) {
	if !diskNamePattern.MatchString(name) {
		return Descriptor{}, rejected(UnsafeName, "", "%q is not a name of a disk: use lower case letters, digits, hyphens and dots", name)
	}
	sum := &counter{Writer: sha256.New()}
	compressor, err := NewCompressor(sum)
	if err != nil {
		return Descriptor{}, err
	}
	size, err := io.Copy(compressor, raw)
	if err != nil {
		return Descriptor{}, err //nolint:wrapcheck // of the reader
	}
	if err := compressor.Close(); err != nil {
		return Descriptor{}, fmt.Errorf("zstd: %w", err)
	}
	return Descriptor{
		MediaType: MediaTypeDisk, Digest: sum.digest(), Size: sum.written,
		Annotations: map[string]string{
			annotationName: name, annotationSize: resource.NewQuantity(size, resource.BinarySI).String(), v1.AnnotationTitle: name + ".raw.zst",
		},
	}, nil
}

// MeasureAppliance reads an OVA file, and returns the descriptor of its layer.
func MeasureAppliance(name string, content io.Reader) (Descriptor, error) {
	if !safeFile(name) || !strings.HasSuffix(strings.ToLower(name), ".ova") {
		return Descriptor{}, rejected(UnsafeName, "", "%q is not the name of an OVA file", name)
	}
	sum := &counter{Writer: sha256.New()}
	if _, err := io.Copy(sum, content); err != nil {
		return Descriptor{}, err //nolint:wrapcheck // of the reader
	}
	return Descriptor{MediaType: MediaTypeOVA, Digest: sum.digest(), Size: sum.written, Annotations: map[string]string{v1.AnnotationTitle: name}}, nil
}

// diskNamePattern is a name of a volume or of a claim.
var diskNamePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// counter counts what it writes to a hash.
type counter struct {
	io.Writer

	written int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.written += int64(n)
	return n, err //nolint:wrapcheck // a hash has none
}

func (c *counter) digest() digest.Digest {
	sum, _ := c.Writer.(interface{ Sum(data []byte) []byte })
	return digest.NewDigestFromBytes(digest.SHA256, sum.Sum(nil))
}
