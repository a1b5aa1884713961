package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestDemo gives the demo as DEMO=once does. The demo checks what it shows; this checks how it looks, and
// that nothing is left.
func TestDemo(t *testing.T) {
	parent := t.TempDir()
	var out strings.Builder
	err := Run(t.Context(), &out, Options{Parent: parent})
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimRight(line, "\n")
		if strings.HasSuffix(line, " ") || strings.ContainsRune(line, '\x1b') {
			t.Errorf("%q ends with a space or has colours", line)
		}
		if utf8.RuneCountInString(line) > width && !strings.Contains(line, parent) && !strings.Contains(line, switchOff) {
			t.Errorf("%q is wider than %d columns", line, width)
		}
	}
	for i, c := range chapters() {
		if heading := fmt.Sprintf("\n%d. %s\n---", i+1, c.title); !strings.Contains(out.String(), heading) {
			t.Errorf("there is no heading %q", heading)
		}
	}
	if left, err := filepath.Glob(filepath.Join(parent, "virtward-sandbox-*", "*.kubeconfig")); err != nil || len(left) > 0 {
		t.Errorf("these are left behind: %v (%v)", left, err)
	}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		want           []string
	}{
		{name: "equal", from: "a\nb\n", to: "a\nb\n"},
		{name: "added", from: "a\nc\n", to: "a\nb\nc\n", want: []string{" a", "+b", " c"}},
		{name: "removed", from: "a\nb\nc", to: "a\nc", want: []string{" a", "-b", " c"}},
		{name: "replaced", from: "a\nb\nc", to: "a\nx\ny\nc", want: []string{" a", "-b", "+x", "+y", " c"}},
		{name: "at the ends", from: "b", to: "a\nb\nc", want: []string{"+a", " b", "+c"}},
		{
			name: "far apart", from: "1\n2\n3\n4\n5\n6\n7\n8\n9", to: "x\n2\n3\n4\n5\n6\n7\n8\ny",
			want: []string{"-1", "+x", " 2", " 3", " ...", " 7", " 8", "-9", "+y"},
		},
		{name: "leading context left out", from: "1\n2\n3\n4", to: "1\n2\n3\n4\n5", want: []string{" ...", " 3", " 4", "+5"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if difference := cmp.Diff(c.want, diff(c.from, c.to)); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		name, line string
		columns    int
		want       []string
	}{
		{name: "short", line: "a b", columns: 5, want: []string{"a b"}},
		{name: "fits", line: "ab cd", columns: 5, want: []string{"ab cd"}},
		{name: "breaks", line: "ab cd ef", columns: 5, want: []string{"ab cd", "  ef"}},
		{name: "breaks where the space is just outside", line: "abcde fg", columns: 5, want: []string{"abcde", "  fg"}},
		{name: "again", line: "ab cd ef gh", columns: 5, want: []string{"ab cd", "  ef", "  gh"}},
		{name: "nowhere to break", line: "abcdefgh", columns: 5, want: []string{"abcdefgh"}},
		{name: "nowhere but in the indent", line: "  abcdefgh", columns: 5, want: []string{"  abcdefgh"}},
		{name: "runes", line: "äö üß éé", columns: 5, want: []string{"äö üß", "  éé"}},
		{name: "empty", line: "", columns: 5, want: []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if difference := cmp.Diff(c.want, wrap(c.line, c.columns, "  ")); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}

func TestWantsColour(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "page"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if wantsColour(file) {
		t.Error("a file got colours")
	}
	t.Setenv("NO_COLOR", "1")
	if wantsColour(os.Stdout) {
		t.Error("NO_COLOR had no effect")
	}
}
