package goldenimages

import (
	"slices"
	"testing"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

func TestPlatforms(t *testing.T) {
	for text, want := range map[string]struct {
		parsed, normalized string
		imported           bool
	}{
		"arm64":          {"arm64", "arm64", true},
		" ARM64/V8 ":     {"arm64/v8", "arm64", true},
		"arm64/8":        {"arm64/8", "arm64", false},
		"arm64/v9":       {"arm64/v9", "arm64/v9", false},
		"linux/arm64/v8": {"arm64/v8", "arm64", true},
		"linux/amd64":    {"amd64", "amd64", true},
		"amd64/v1":       {"amd64/v1", "amd64", false},
		"amd64/v3":       {"amd64/v3", "amd64/v3", false},
		"s390x/":         {"s390x", "s390x", true},
		"windows/amd64":  {"windows/amd64", "windows/amd64", false},
		"a/b/c":          {"a/b/c", "a/b/c", false},
		"":               {"", "", true},
	} {
		p := ParsePlatform(text)
		if p.String() != want.parsed || p.Normalized().String() != want.normalized || p.ImportedByCDI() != want.imported {
			t.Errorf("%q: %s, normalized %s, imported %t", text, p, p.Normalized(), p.ImportedByCDI())
		}
	}
}

func TestPlatformsOfAnnotations(t *testing.T) {
	entry := &v1alpha1.DataImportCronTemplate{}
	entry.Annotations = map[string]string{v1alpha1.ArchitecturesAnnotation: "ARM64/v8, amd64/v3,linux/amd64,arm64,amd64/v1"}
	if got, _ := Listed(entry); !slices.Equal(got, []string{"arm64", "amd64/v3", "amd64"}) {
		t.Errorf("listed: %v", got)
	}
	if got := effective([]string{"arm64", "amd64/v3", "amd64"}, &v1alpha1.NodeArchitectures{WorkloadArchitectures: []v1alpha1.ArchitectureCount{{Architecture: "amd64", Nodes: 1}, {Architecture: "arm64", Nodes: 1}}}); !slices.Equal(got, []string{"arm64", "amd64"}) {
		t.Errorf("effective: %v", got)
	}
}
