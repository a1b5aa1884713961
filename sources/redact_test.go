package sources

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{ //nolint:gosec // a URL of a test
		"https://example.com/a.ova":                             "https://example.com/a.ova",
		"https://me:secret@example.com/a.ova?token=secret#part": "https://example.com/a.ova?redacted",
		"https://example.com/a.ova?":                            "https://example.com/a.ova?redacted",
		"https://example.com/%zz?token=secret":                  "a URL that cannot be parsed",
		"secret:secret":                                         "a URL that cannot be parsed",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
	if got := Redact("https://example.com/" + strings.Repeat("a", 1000)); len(got) != maxRedacted {
		t.Errorf("got %d bytes", len(got))
	}
}
