package cel_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/cel"
)

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
