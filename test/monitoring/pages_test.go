package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var queryBlock = regexp.MustCompile("(?ms)^```promql\n(.*?)^```$")

// TestPages: every query of the documentation parses, and its metrics and labels exist. A line that begins with a space continues the
// one before.
func TestPages(t *testing.T) {
	known := declared(t)
	for name := range known { // Prometheus adds them to what it scrapes
		known[name] = append(known[name], "pod", "namespace", "job", "instance")
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range queryBlock.FindAllStringSubmatch(string(text), -1) {
			queries := strings.Split(strings.TrimSpace(strings.ReplaceAll(block[1], "\n ", " ")), "\n")
			for i, query := range queries {
				verify(t, fmt.Sprintf("%s, query %d of %q", filepath.Base(page), i+1, queries[0]), query, known)
				count++
			}
		}
	}
	if count < 10 {
		t.Errorf("the pages have only %d queries", count)
	}
}
