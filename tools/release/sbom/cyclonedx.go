package sbom

import (
	"bytes"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// CycloneDX returns the document of an artifact in JSON.
func CycloneDX(artifact *Part, at time.Time) ([]byte, error) {
	bom := cyclonedx.NewBOM()
	root := componentOf(artifact)
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: at.UTC().Format(time.RFC3339),
		Tools:     &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{{Type: cyclonedx.ComponentTypeApplication, Name: "virtward-release"}}},
		Component: &root,
	}
	var components []cyclonedx.Component
	var dependencies []cyclonedx.Dependency
	for i, part := range all(artifact) {
		if i > 0 { // the first is the subject
			components = append(components, componentOf(part))
		}
		if len(part.Parts) == 0 {
			continue
		}
		var inner []string
		for _, p := range part.Parts {
			inner = append(inner, p.id())
		}
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: part.id(), Dependencies: &inner})
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	var out bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON)
	encoder.SetPretty(true).SetEscapeHTML(false)
	err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}

func componentOf(part *Part) cyclonedx.Component {
	c := cyclonedx.Component{
		BOMRef: part.id(), Type: cyclonedx.ComponentType(part.Kind), Name: part.Name, Version: part.Version, PackageURL: part.URL,
	}
	if part.SHA256 != "" {
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: part.SHA256}}
	}
	if part.Kind == Program {
		c.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	}
	if part.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: part.Sum}}
	}
	return c
}
