package hypervisor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quoted = regexp.MustCompile("(?s)<!-- (sample/\\S+) -->\n```go\n(.*?)```\n")
	code   = regexp.MustCompile("(?m)^```go$")
)

// TestTheGuideQuotesTheSample verifies that all code of the guide is in a file that is compiled.
func TestTheGuideQuotesTheSample(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "adding-a-hypervisor.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := quoted.FindAllStringSubmatch(string(guide), -1)
	if all := len(code.FindAllIndex(guide, -1)); len(blocks) < 8 || len(blocks) != all {
		t.Errorf("of %d pieces of code, %d say which file they are from", all, len(blocks))
	}
	for _, block := range blocks {
		source, err := os.ReadFile(block[1])
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(source), block[2]) {
			t.Errorf("%s does not contain:\n%s", block[1], block[2])
		}
	}
}

// TestTheGuideLinks: its links lead somewhere, and so do those of the page of the sample.
func TestTheGuideLinks(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "docs")
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
