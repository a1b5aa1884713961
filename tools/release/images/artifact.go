package images

import (
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Media types of artifacts.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	bundleType   types.MediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"
)

// artifact is a manifest with a configuration of any type, which images of go-containerregistry do not have.
type artifact struct {
	manifest, config []byte
	layer            v1.Layer
}

// Chart is a packaged chart as Helm stores it in a registry. The metadata are those of its Chart.yaml.
func Chart(metadata map[string]any, content []byte, annotations map[string]string) (v1.Image, error) {
	config, err := json.Marshal(metadata)
	if err != nil {
		return nil, fmt.Errorf("encoding the metadata of the chart: %w", err)
	}
	return newArtifact(v1.Manifest{Annotations: annotations}, chartConfig, config, static.NewLayer(content, chartContent))
}

// Signature is a signature of a manifest, as cosign finds it by the manifest that it refers to. Some registries list the type of
// the configuration in place of that of the artifact, so both are the same.
func Signature(subject v1.Descriptor, predicateType string, bundle []byte) (v1.Image, error) {
	return newArtifact(v1.Manifest{
		ArtifactType: string(bundleType),
		Subject:      &subject,
		Annotations: map[string]string{
			"dev.sigstore.bundle.content":       "dsse-envelope",
			"dev.sigstore.bundle.predicateType": predicateType,
		},
	}, bundleType, []byte("{}"), static.NewLayer(bundle, bundleType))
}

func newArtifact(manifest v1.Manifest, configType types.MediaType, config []byte, layer v1.Layer) (v1.Image, error) {
	configLayer := static.NewLayer(config, configType)
	configuration, err := partial.Descriptor(configLayer)
	if err != nil {
		return nil, err
	}
	content, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	manifest.SchemaVersion = 2
	manifest.MediaType = types.OCIManifestSchema1
	manifest.Config = *configuration
	manifest.Layers = []v1.Descriptor{*content}
	encoded, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&artifact{manifest: encoded, config: config, layer: layer})
}

func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (a *artifact) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a *artifact) RawConfigFile() ([]byte, error)      { return a.config, nil }

func (a *artifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	if own, err := a.layer.Digest(); err != nil || own != digest {
		return nil, fmt.Errorf("the artifact has no layer %s", digest)
	}
	return a.layer, nil
}
