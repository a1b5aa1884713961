package templates

import (
	"strings"
	"testing"
)

// Users write patterns. The parser looks up the other case of each character of a range, also in a pattern that is too large.
func TestRangesForAnyCase(t *testing.T) {
	if _, _, err := compilePattern(strings.Repeat(`(?i)[\x{80}-\x{10ffff}]`, 20)); err == nil || !strings.Contains(err.Error(), "ranges for any case") {
		t.Error(err)
	}
	if _, _, err := compilePattern(`(?i)[a-z0-9äöü-]+`); err != nil {
		t.Error(err)
	}
}
