package hypervisor

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestTheGuideLinks: its links lead somewhere, and so do those of the page of the sample.
func TestTheGuideLinks(t *testing.T) {
	folder := filepath.Join("..", "..", "docs")
	for _, page := range []string{filepath.Join(folder, "adding-a-hypervisor.md"), filepath.Join("sample", "README.md")} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), link[1])); err != nil {
				t.Errorf("%s: a link that leads nowhere: %v", page, err)
			}
		}
	}
}
