package explanation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each line has its layer, and the findings about its field or about a missing field below it.
func TestListing(t *testing.T) {
	lines, err := sample().Listing()
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{
		{Text: "changed: new", Layer: "finalize", Findings: []int{4}},
		{Text: "empty: {}", Layer: "arm64"},
		{Text: "list:"},
		{Text: "- mine: a", Findings: []int{1, 0}},
		{Text: "  theirs: b", Layer: "base"},
		{Text: "- c", Layer: "preference/a # kvm", Findings: []int{2}},
		{Text: "notes:"},
		{Text: "  a.b/c: |", Layer: "instancetype/u1", Findings: []int{3}},
		{Text: "    two"},
		{Text: "    lines"},
		{Text: "number: 1152921504606846976", Findings: []int{3}},
		{Text: `quoted: "true"`},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The lines are those of the output yaml without its comments.
func TestListingIsYAML(t *testing.T) {
	e := sample()
	e.Findings, e.Changes = nil, nil
	lines, err := e.Listing()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, line := range lines {
		texts = append(texts, line.Text)
	}
	whole, err := e.yaml(false)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, line := range strings.Split(strings.TrimSuffix(string(whole), "\n"), "\n") {
		if !strings.HasPrefix(line, "# ") {
			want = append(want, line)
		}
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
