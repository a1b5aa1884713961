package cel_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/cel"
)

// TestFolded holds which ranges of a pattern for any case are charged.
func TestFolded(t *testing.T) {
	for pattern, want := range map[string]int{
		"[B-\U0001e942]": 0, "(?i)[B-\U0001e942]": 0x1e942, "(?i)[a-z0-9-]": 0, "(?i)[a-c-Ϩ]": 1000, `(?i)[a-\x{3e8}]`: 1000, `(?i)[a-\-é]`: 0, `(?i)[\]a-Ϩ]`: 1000, "(?i)[]a-Ϩ]": 1000, "(?i)[[:alpha:]a-Ϩ]": 1000, "(?i)[^]a-Ϩ]": 1000, `(?i)[a-\x{ffffffff}]`: 0x10ffff,
	} {
		if got := cel.Folded(pattern); got != want {
			t.Errorf("%s: %d characters, want %d", pattern, got, want)
		}
	}
}

// TestFoldedExpressions holds that an expression has no patterns that take seconds to compile.
func TestFoldedExpressions(t *testing.T) {
	for count, want := range map[int]string{1: "", 20: "the ranges of regular expressions for any case have too many characters: write shorter ranges"} {
		_, problems := scope(t, cel.ScopeOptions{}).Compile("params.text.matches('(?i)"+strings.Repeat("[B-\U0001e942]", count)+"')", cel.Bool)
		got := ""
		for _, problem := range problems {
			got += problem.Message
		}
		if got != want {
			t.Errorf("%d ranges: %q, want %q", count, got, want)
		}
	}
}
