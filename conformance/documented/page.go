package documented

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Page is the path of a page in Markdown.
type Page string

// row is a row of a table that begins with an id.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// read returns the text of the page.
func (p Page) read(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(string(p))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Rows are the ids of the cases that a section of the page has a row for, sorted. The heading has its number signs. The
// section ends at the next heading of the second level, or of the same.
func (p Page) Rows(t testing.TB, heading string) []string {
	t.Helper()
	_, section, ok := strings.Cut(p.read(t), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %s", p, heading)
	}
	for _, next := range []string{"\n## ", "\n" + heading[:strings.Index(heading, " ")+1]} {
		section, _, _ = strings.Cut(section, next)
	}
	var documented []string
	for _, found := range row.FindAllStringSubmatch(section, -1) {
		documented = append(documented, found[1])
	}
	slices.Sort(documented)
	return documented
}

// Figures holds that the first block of text after a heading is the measured one, or writes it. The empty heading is the
// begin of the page.
func (p Page) Figures(t testing.TB, heading, measured string, write bool) {
	t.Helper()
	const begin, end = "```text\n", "```\n"
	text := p.read(t)
	at := strings.Index(text, heading)
	if at < 0 {
		t.Fatalf("%s has no section %s", p, heading)
	}
	before, rest, opened := strings.Cut(text[at:], begin)
	documented, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s has no figures between ```text and ``` after %q", p, heading)
	}
	if write {
		if err := os.WriteFile(string(p), []byte(text[:at]+before+begin+measured+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(documented, measured); diff != "" {
		t.Errorf("the figures in %s are out of date; go test with -update writes them (-page +measured):\n%s", p, diff)
	}
}
