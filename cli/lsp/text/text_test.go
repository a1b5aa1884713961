package text_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/lsp/text"
)

var encodings = []text.Encoding{text.UTF8, text.UTF16, text.UTF32}

// A flag of two code points, four units of UTF-16 and eight bytes makes every encoding count differently.
func TestPositions(t *testing.T) {
	of := text.New("a: é\r\nb: 🇫🇷x\rc\n")
	for _, c := range []struct {
		encoding text.Encoding
		at       text.Position
		offset   int
	}{
		{text.UTF8, text.Position{Line: 0, Character: 5}, 5},
		{text.UTF16, text.Position{Line: 0, Character: 4}, 5},
		{text.UTF8, text.Position{Line: 1, Character: 11}, 18},
		{text.UTF16, text.Position{Line: 1, Character: 7}, 18},
		{text.UTF32, text.Position{Line: 1, Character: 5}, 18},
		{text.UTF16, text.Position{Line: 2, Character: 1}, 21},
		{text.UTF16, text.Position{Line: 3, Character: 0}, 22},
	} {
		if got := of.Offset(c.at, c.encoding); got != c.offset {
			t.Errorf("%s %v: offset %d, want %d", c.encoding, c.at, got, c.offset)
		}
		if got := of.Position(c.offset, c.encoding); got != c.at {
			t.Errorf("%s offset %d: %v, want %v", c.encoding, c.offset, got, c.at)
		}
	}
	for name, c := range map[string]struct {
		at   text.Position
		want int
	}{
		"behind the line":     {text.Position{Line: 0, Character: 99}, 5},
		"behind the text":     {text.Position{Line: 9}, 22},
		"before the text":     {text.Position{Line: -1, Character: 3}, 0},
		"inside a code point": {text.Position{Line: 1, Character: 4}, 10},
	} {
		if got := of.Offset(c.at, text.UTF16); got != c.want {
			t.Errorf("%s: offset %d, want %d", name, got, c.want)
		}
	}
}

func TestApplyRejects(t *testing.T) {
	start, end := text.Position{Line: 0, Character: 2}, text.Position{}
	if _, err := text.New("abc").Apply([]text.Change{{Range: &text.Range{Start: start, End: end}}}, text.UTF16, 10); err == nil || !strings.Contains(err.Error(), "contentChanges[0].range: its end is before its start") {
		t.Errorf("error %v", err)
	}
	for _, c := range []text.Change{{Text: "12345678901"}, {Range: &text.Range{}, Text: "12345678"}} {
		if _, err := text.New("abc").Apply([]text.Change{c}, text.UTF16, 10); !errors.Is(err, text.ErrTooLarge) {
			t.Errorf("error %v", err)
		}
	}
}

// FuzzApply edits a text, and its model: lines of code units of the encoding.
func FuzzApply(f *testing.F) {
	f.Add("a: 1\nb: 🇫🇷\n", "é\r\n", 0, 2, 1, 4)
	f.Add("x\r\ny", "", 0, 1, 1, 0)
	f.Add("\r", "\n", 1, 0, 1, 0)
	f.Fuzz(func(t *testing.T, content, inserted string, line, character, endLine, endCharacter int) {
		content, inserted = strings.ToValidUTF8(content, "?"), strings.ToValidUTF8(inserted, "?")
		at := text.Range{Start: text.Position{Line: line, Character: character}, End: text.Position{Line: endLine, Character: endCharacter}}
		for _, e := range encodings {
			from, to := modelOffset(content, at.Start, e), modelOffset(content, at.End, e)
			got, err := text.New(content).Apply([]text.Change{{Range: &at, Text: inserted}}, e, 1<<20)
			if from > to {
				if err == nil {
					t.Fatalf("%s: a range whose end is before its start is accepted", e)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			want := content[:from] + inserted + content[to:]
			if got.String() != want {
				t.Fatalf("%s: %q, want %q", e, got, want)
			}
			if diff := cmp.Diff(modelLines(want), lines(got)); diff != "" {
				t.Fatalf("%s: lines (-want +got):\n%s", e, diff)
			}
			for offset := range want {
				if p := got.Position(offset, e); modelOffset(want, p, e) > offset {
					t.Fatalf("%s: offset %d has the position %v, which is behind it", e, offset, p)
				}
			}
		}
	})
}

func lines(of *text.Text) (all []string) {
	for i := range of.Lines() {
		all = append(all, of.Line(i))
	}
	return all
}

// modelLines splits at the three line ends.
func modelLines(content string) []string {
	return strings.Split(strings.ReplaceAll(strings.ReplaceAll(content, "\r\n", "\n"), "\r", "\n"), "\n")
}

// modelOffset counts units of an encoding in lines.
func modelOffset(content string, p text.Position, e text.Encoding) int {
	if p.Line < 0 {
		return 0
	}
	rest := content
	for range p.Line {
		i := strings.IndexAny(rest, "\r\n")
		if i < 0 {
			return len(content)
		}
		if strings.HasPrefix(rest[i:], "\r\n") {
			i++
		}
		rest = rest[i+1:]
	}
	offset := len(content) - len(rest)
	line := modelLines(rest)[0]
	units := 0
	for i, r := range line {
		switch e {
		case text.UTF8:
			units += len(string(r))
		case text.UTF16:
			units += len(utf16.Encode([]rune{r}))
		default:
			units++
		}
		if units > p.Character {
			return offset + i
		}
	}
	return offset + len(line)
}
