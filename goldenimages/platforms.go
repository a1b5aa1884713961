package goldenimages

import (
	"slices"
	"strings"

	"github.com/virtward/virtward/api/architectures"
)

// Platform is an architecture of an image, and its variant, as OCI names them: arm64 and v8.
type Platform struct{ Architecture, Variant string }

// ParsePlatform reads ARCHITECTURE or ARCHITECTURE/VARIANT, in lower or upper case, also after linux/. A text of another form,
// such as windows/amd64, is no platform that has images: it keeps its text.
func ParsePlatform(text string) Platform {
	text = strings.ToLower(strings.TrimSpace(text))
	architecture, variant, _ := strings.Cut(strings.TrimPrefix(text, "linux/"), "/")
	return Platform{Architecture: architecture, Variant: variant}
}

// Normalized returns the platform without a variant that means the architecture itself.
func (p Platform) Normalized() Platform {
	if of, _ := architectures.Find(p.Architecture); slices.Contains(of.Baselines, p.Variant) {
		p.Variant = ""
	}
	return p
}

// String returns arm64/v8, or amd64 without a variant.
func (p Platform) String() string {
	if p.Variant == "" {
		return p.Architecture
	}
	return p.Architecture + "/" + p.Variant
}

// ImportedByCDI reports whether CDI finds an image of an index by its architecture. It requests
// the variants of the table of architectures.
func (p Platform) ImportedByCDI() bool {
	of, _ := architectures.Find(p.Architecture)
	return p.Variant == "" || slices.Contains(of.Imported, p.Variant)
}
