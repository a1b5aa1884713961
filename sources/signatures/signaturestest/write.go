package signaturestest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources/artifacts"
)

const mediaTypeBundle = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Signed is a payload with its signature.
type Signed struct {
	Payload     []byte
	Annotations map[string]string
}

func blob(mediaType string, content []byte) oci.Blob {
	return oci.Blob{Descriptor: oci.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}, Content: content}
}

// Refer writes a bundle that refers to the manifest with this content. The repository is HOST/PATH.
func Refer(t testing.TB, repository string, content, bundle []byte) {
	t.Helper()
	config, layer := blob(v1.MediaTypeEmptyJSON, []byte("{}")), blob(mediaTypeBundle, bundle)
	write(t, repository+":unused", false, config, []oci.Blob{layer}, &v1.Manifest{
		ArtifactType: mediaTypeBundle, Layers: []oci.Descriptor{layer.Descriptor},
		Subject: &oci.Descriptor{MediaType: v1.MediaTypeImageIndex, Digest: digest.FromBytes(content), Size: int64(len(content))},
	})
}

// Tag writes signatures of the manifest with this content, with the tag of cosign.
func Tag(t testing.TB, repository string, content []byte, all ...Signed) {
	t.Helper()
	m := &v1.Manifest{}
	var layers []oci.Blob
	for _, s := range all {
		layer := blob("application/vnd.dev.cosign.simplesigning.v1+json", s.Payload)
		layers = append(layers, layer)
		layer.Annotations = s.Annotations
		m.Layers = append(m.Layers, layer.Descriptor)
	}
	tag := strings.Replace(digest.FromBytes(content).String(), ":", "-", 1) + ".sig"
	write(t, repository+":"+tag, true, blob(v1.MediaTypeImageConfig, []byte("{}")), layers, m)
}

func write(t testing.TB, reference string, tag bool, config oci.Blob, layers []oci.Blob, m *v1.Manifest) {
	t.Helper()
	parsed, err := artifacts.ParseReference(artifacts.Scheme + reference)
	if err != nil {
		t.Fatal(err)
	}
	w, err := artifacts.NewWriter(t.Context(), parsed, artifacts.Options{Transport: http.DefaultTransport})
	if err != nil {
		t.Fatal(err)
	}
	m.Versioned, m.MediaType, m.Config = specs.Versioned{SchemaVersion: 2}, v1.MediaTypeImageManifest, config.Descriptor
	content, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Write(t.Context(), config)
	for _, layer := range layers {
		err = errors.Join(err, w.Write(t.Context(), layer))
	}
	put := w.Put
	if tag {
		put = w.Tag
	}
	if err := errors.Join(err, put(t.Context(), blob(v1.MediaTypeImageManifest, content))); err != nil {
		t.Fatal(err)
	}
}
