package texts

import (
	"testing"
	"unicode/utf8"
)

func TestOneLine(t *testing.T) {
	if got := OneLine("  a\n\tb\x00c\u202ed  "); got != "a b c d" {
		t.Errorf("got %q", got)
	}
}

func TestPrintable(t *testing.T) {
	if got := Printable("a  b\n\tc\x1b[31m\u202e\r\u2028ä\xff"); got != "a  b\n\tc[31mä�" {
		t.Errorf("got %q", got)
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text  string
		bytes int
		want  string
	}{
		{"short", 5, "short"}, {"too long", 6, "too…"}, {"äöü", 6, "äöü"}, {"äöüß", 6, "ä…"}, {"äöüß", 7, "äö…"}, {"abc", 2, "…"}, {"a\xff", 9, "a�"}, {"", 0, ""},
	} {
		if got := Shorten(c.text, c.bytes); got != c.want {
			t.Errorf("Shorten(%q, %d) is %q, want %q", c.text, c.bytes, got, c.want)
		}
	}
}

func TestShortenCharacters(t *testing.T) {
	for text, want := range map[string]string{"äöü": "äöü", "äöüß": "äö…", "a bcd": "a…"} {
		if got := ShortenCharacters(text, 3); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func FuzzShorten(f *testing.F) {
	f.Add("äöü", 4)
	f.Fuzz(func(t *testing.T, text string, bytes int) {
		got := Shorten(text, bytes)
		if !utf8.ValidString(got) || len(got) > max(bytes, len(ellipsis)) && len(got) > 3*len(text) {
			t.Errorf("Shorten(%q, %d) is %q", text, bytes, got)
		}
	})
}
