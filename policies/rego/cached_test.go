package rego

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/virtward/virtward/test/isolated"
)

// TestCachedPatterns holds that the patterns that OPA keeps for all evaluations take no more memory than the processes count with.
func TestCachedPatterns(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	const cached = 100 // in OPA's v1/topdown/regex.go
	for name, part := range map[string]string{"classes": `\pL`, "texts": "a", "negated classes": `[^\pL]`, "any case": `(?i)k`, "ranges": `[a-cx-z]`, "repetitions": "(?:a|b)", "starts": "(a)*"} {
		before := isolated.Heap()
		kept := make([]*regexp.Regexp, 0, cached)
		for i := range cached {
			pattern := fmt.Sprint(i)
			for states(pattern+part) <= maxStates {
				pattern += part
			}
			compiled, err := regexp.Compile(pattern)
			if err != nil {
				t.Fatal(err)
			}
			compiled.MatchString(strings.Repeat("ab", 50))
			kept = append(kept, compiled)
		}
		took := isolated.Heap() - before
		runtime.KeepAlive(kept)
		t.Logf("%s: %d", name, took)
		if took > MaxCachedBytes {
			t.Errorf("%d patterns of %s take %d bytes: at most %d", len(kept), name, took, MaxCachedBytes)
		}
	}
}
