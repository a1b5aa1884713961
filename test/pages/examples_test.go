package pages

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExamples(t *testing.T) {
	const text = "$ one \\\n    --two NAME\nout NAME NAMES\n…\n$ three\n"
	block := Block{Line: 3, Language: "console", Text: text, Notes: map[string]string{With: "NAME=web X=y"}}
	want := []Example{{Line: 3, Command: "one \\\n    --two web", Output: []string{"out web NAMES", dots}}, {Line: 7, Command: "three"}}
	if diff := cmp.Diff(want, block.Examples()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	block = Block{Line: 9, Text: "one |\n  two\nthree\n"}
	if diff := cmp.Diff([]Example{{Line: 9, Command: "one |\n  two\nthree"}}, block.Examples()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestShows(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		want           bool
	}{
		{"a  b", "a b\n", true},
		{"a b", "a c\n", false},
		{"a b", "a b\nc\n", false},
		{"a\n…", "a\nb\nc\n", true},
		{"…\nc", "a\nb\nc\n", true},
		{"…\nc", "c\n", true},
		{"…\nd", "a\nb\nc\n", false},
		{"x … z", "x y z\n", true},
		{"site 4s", "site   2d1h\n", true},
		{"site 4s", "site Ready\n", false},
		{"after 21.9s.", "after 7.3s.\n", true},
		{"memory 8Gi", "memory 16Gi\n", false},
	} {
		if got := (&Example{Output: strings.Split(c.shown, "\n")}).Shows(c.printed); got != c.want {
			t.Errorf("%q and %q: %t", c.shown, c.printed, got)
		}
	}
}
