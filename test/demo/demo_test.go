package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/soak"
)

// readable is the number of words of the tour that can be read in four minutes.
const readable = 1000

// TestDemo gives the demo as DEMO=once does. The demo checks what it shows; this checks how both forms look, and
// that nothing is left.
func TestDemo(t *testing.T) {
	planes.Skip(t)
	parent := t.TempDir()
	var tour, full strings.Builder
	err := Run(t.Context(), Options{Parent: parent, Tour: &tour, Full: &full})
	t.Log(full.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(tour.String())
	if words := len(regexp.MustCompile(`\S*\pL\S*`).FindAllString(tour.String(), -1)); words > readable {
		t.Errorf("the tour has %d words; in four minutes, a reader can read %d", words, readable)
	}
	for form, text := range map[string]string{"tour": tour.String(), "full": full.String()} {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if strings.HasSuffix(line, " ") || strings.ContainsRune(line, '\x1b') {
				t.Errorf("%s: %q ends with a space or has colours", form, line)
			}
			if utf8.RuneCountInString(line) > width && !strings.Contains(line, parent) && !strings.Contains(line, switchOff) {
				t.Errorf("%s: %q is wider than %d columns", form, line, width)
			}
		}
		checkChapters(t, form, text)
	}
	if left, err := filepath.Glob(filepath.Join(parent, "virtward-sandbox-*", "*.kubeconfig")); err != nil || len(left) > 0 {
		t.Errorf("these are left behind: %v (%v)", left, err)
	}
}

// checkChapters fails unless the contents list all chapters, and each of them shows a command.
func checkChapters(t *testing.T, form, text string) {
	t.Helper()
	for i, c := range chapters() {
		if row := fmt.Sprintf("\n%4d  %s\n", i+1, c.title); !strings.Contains(text, row) {
			t.Errorf("%s: the contents do not list %q", form, c.title)
		}
		_, chapter, found := strings.Cut(text, fmt.Sprintf("\n%d. %s\n---", i+1, c.title))
		if !found {
			t.Errorf("%s: there is no chapter %q", form, c.title)
			continue
		}
		chapter, _, _ = strings.Cut(chapter, "\n\n"+strconv.Itoa(i+2)+". ")
		if !strings.Contains(chapter, "$ kubectl") && !strings.Contains(chapter, "  kubectl") {
			t.Errorf("%s: %q shows no command:\n%s", form, c.title, chapter)
		}
	}
}

// TestSoakChapters shows each chapter by itself, after the chapters that it needs.
func TestSoakChapters(t *testing.T) {
	soak.Only(t)
	planes.Skip(t)
	for i, c := range chapters() {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			var full strings.Builder
			if err := Run(t.Context(), Options{Parent: t.TempDir(), Full: &full, Only: []int{i + 1}}); err != nil {
				t.Fatalf("%v\n%s", err, full.String())
			}
			if strings.Count(full.String(), "\n---") != 2 || !strings.Contains(full.String(), c.title) {
				t.Errorf("another chapter is shown, or this one is not:\n%s", full.String())
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		value    string
		tour     bool
		only     []int
		stay     bool
		complain string
	}{
		{value: "", tour: true, stay: true},
		{value: "once", tour: true},
		{value: "all", stay: true},
		{value: "all,once"},
		{value: "7", only: []int{7}, stay: true},
		{value: "once, 7,2", only: []int{7, 2}},
		{value: "0", complain: `DEMO=0: "0" is not once, all, or a chapter from 1 to 17`},
		{value: "18", complain: `"18" is not`},
		{value: "templates", complain: `"templates" is not`},
	} {
		t.Run(c.value, func(t *testing.T) {
			options, err := parse(c.value, io.Discard)
			if c.complain != "" {
				if err == nil || !strings.Contains(err.Error(), c.complain) {
					t.Errorf("the error is %v, want %s", err, c.complain)
				}
				return
			}
			if err != nil || (options.Tour != nil) != c.tour || (options.Full != nil) == c.tour || options.Stay != c.stay {
				t.Errorf("the options are %+v (%v)", options, err)
			}
			if difference := cmp.Diff(c.only, options.Only); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}

func TestSelected(t *testing.T) {
	for _, c := range []struct {
		only, shown, needed []int
	}{
		{only: []int{1}, shown: []int{1}},
		{only: []int{9}, shown: []int{9}, needed: []int{6}},
		{only: []int{8, 7}, shown: []int{7, 8}},
		{only: []int{15, 2}, shown: []int{2, 15}, needed: []int{1, 14}},
	} {
		shown, needed := selected(c.only)
		if difference := cmp.Diff([][]int{c.shown, c.needed}, [][]int{shown, needed}, cmpopts.EquateEmpty()); difference != "" {
			t.Errorf("%v (-want +got):\n%s", c.only, difference)
		}
	}
	if shown, needed := selected(nil); len(shown) != len(chapters()) || len(needed) > 0 {
		t.Errorf("without a selection, %v are shown after %v", shown, needed)
	}
}

func TestCut(t *testing.T) {
	lines := []string{"a1", "b1", "a2", "b2", "a3", "a4", "a5"}
	for _, c := range []struct {
		name   string
		cut    cut
		want   []string
		others bool
	}{
		{name: "everything", want: lines},
		{name: "the first lines", cut: cut{short: true}, want: []string{"a1", "b1", "a2", "b2"}, others: true},
		{name: "lines that match", cut: cut{short: true, lines: regexp.MustCompile("^a")}, want: []string{"a1", "a2", "a3", "a4"}, others: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept, others := c.cut.of(lines)
			if difference := cmp.Diff(c.want, kept); difference != "" || others != c.others {
				t.Errorf("others: %v, (-want +got):\n%s", others, difference)
			}
		})
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
