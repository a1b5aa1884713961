package status

import (
	"os"
	"strings"
	"testing"
)

// TestPageOfVersions holds that docs/install.md has the oldest supported versions of the components.
func TestPageOfVersions(t *testing.T) {
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range components() {
		if row := "\n| " + c.name + " | " + c.least + " or later |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/install.md lacks %q", row)
		}
	}
}
