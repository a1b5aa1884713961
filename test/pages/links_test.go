package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the project.
const root = "../.."

// everyPage returns the Markdown files of the project with their texts.
func everyPage(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != root || slices.Contains([]string{"bin", "dist", "node_modules"}, entry.Name())):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path) //nolint:gosec // files of the repository
			found[path] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestLinksOfPages holds that each link of a page leads to a file or a heading.
func TestLinksOfPages(t *testing.T) {
	all, count := everyPage(t), 0
	read := func(file string) (string, error) {
		if text, found := all[file]; found {
			return text, nil
		}
		text, err := os.ReadFile(file)
		return string(text), err
	}
	for file, text := range all {
		for _, link := range Links(text) {
			count++
			if why := Dead(file, link.Target, read); why != "" {
				t.Errorf("%s:%d: %s: %s", strings.TrimPrefix(file, root+"/"), link.Line, link.Target, why)
			}
		}
	}
	if len(all) < 50 || count < 500 {
		t.Errorf("%d pages with %d links", len(all), count)
	}
}

func TestDead(t *testing.T) {
	page := "# A page: with `code` and [a link](b.md)\n## Twice\n## Twice\n```\n# no heading\n[no](link.md)\n```\n[one](#twice-1) `[no](link.md)` [two](links.go)\n"
	if title := Title(page); title != "A page: with code and [a link](b.md)" {
		t.Errorf("title %q", title)
	}
	want := []Link{{1, "b.md"}, {8, "#twice-1"}, {8, "links.go"}}
	if got := Links(page); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	read := func(string) (string, error) { return page, nil }
	for target, want := range map[string]string{
		"#a-page-with-code-and-a-link": "", "#twice-1": "", "links.go": "", "https://example.com/x#y": "", "../pages": "",
		"#twice-2": "no such heading", "#no-heading": "no such heading", "gone.go": "no such file", "../gone": "no such file",
	} {
		file := "links_test.md"
		if strings.HasPrefix(target, "#") {
			file = filepath.Join(t.TempDir(), file)
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := Dead(file, target, read); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}
