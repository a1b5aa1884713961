package pages

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPaths holds that docs/README.md, from which the site has its sidebar, lists each page once, or the index of its folder, which
// lists the page.
func TestPaths(t *testing.T) {
	all := everyPage(t)
	docs := filepath.Join(root, "docs")
	item := regexp.MustCompile(`^- \[[^\]]+\]\(([^)]+)\): \S`)
	listed, group := map[string]int{}, ""
	for line := range strings.SplitSeq(all[filepath.Join(docs, "README.md")], "\n") {
		if title := heading.FindStringSubmatch(line); title != nil {
			group = title[1]
		}
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		found := item.FindStringSubmatch(line)
		if found == nil || group == "Documentation" {
			t.Errorf("docs/README.md: in %q, %q is not a link and a description", group, line)
			continue
		}
		listed[filepath.Join(docs, found[1])]++
	}
	// The indices of folders list the pages beside or below them.
	for _, index := range []string{"adr/README.md", "cli/README.md", "rules.md"} {
		file := filepath.Join(docs, index)
		if listed[file] != 1 {
			t.Errorf("docs/README.md does not list %s", index)
		}
		for _, link := range Links(all[file]) {
			target, _, _ := strings.Cut(link.Target, "#")
			if page := filepath.Join(filepath.Dir(file), target); filepath.Dir(page) != docs {
				listed[page] = 1
			}
		}
	}
	count := 0
	for file := range all {
		if file == filepath.Join(docs, "README.md") || !strings.HasPrefix(file, docs+"/") {
			continue
		}
		count++
		if listed[file] != 1 {
			t.Errorf("%s is listed %d times", strings.TrimPrefix(file, root+"/"), listed[file])
		}
		if Title(all[file]) == "" {
			t.Errorf("%s has no title", file)
		}
	}
	if count < 400 {
		t.Errorf("only %d pages", count)
	}
}
