package texts_test

import (
	"testing"

	"github.com/virtward/virtward/texts"
)

// TestFolded holds which ranges of a pattern for any case are charged.
func TestFolded(t *testing.T) {
	for pattern, want := range map[string]int{
		"[B-\U0001e942]": 0, "(?i)[B-\U0001e942]": 0x1e942, "(?i)[a-z0-9-]": 0, "(?i)[a-c-Ϩ]": 1000, `(?i)[a-\x{3e8}]`: 1000, `(?i)[a-\-é]`: 0, `(?i)[\]a-Ϩ]`: 1000, "(?i)[]a-Ϩ]": 1000, "(?i)[[:alpha:]a-Ϩ]": 1000, "(?i)[^]a-Ϩ]": 1000, `(?i)[a-\x{ffffffff}]`: 0x10ffff,
	} {
		if got := texts.Folded(pattern); got != want {
			t.Errorf("%s: %d characters, want %d", pattern, got, want)
		}
	}
}
