package templates

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/virtward/virtward/texts"
)

// The bounds of patterns. The time to match a text is the product of its length and of the pattern's size.
const (
	maxPatternSize = 1000
	maxMatched     = 20_000_000
	// maxFolded are the characters of ranges for any case, which the parser looks up one by one.
	maxFolded = 200_000
)

// compilePattern compiles a pattern for whole texts. The size is the number of its elements, with repetitions written
// out: a{1000} has a thousand.
func compilePattern(pattern string) (compiled *regexp.Regexp, size int, err error) {
	if texts.Folded(pattern) > maxFolded {
		return nil, 0, fmt.Errorf("the ranges for any case have more than %d characters: write shorter ranges", maxFolded)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, 0, errors.New("it is no regular expression in RE2's syntax")
	}
	if size = sizeOf(parsed); size > maxPatternSize {
		return nil, size, fmt.Errorf("it has more than %d elements, with repetitions written out", maxPatternSize)
	}
	if compiled, err = regexp.Compile(`\A(?:` + pattern + `)\z`); err != nil {
		return nil, size, errors.New("it is no regular expression in RE2's syntax")
	}
	return compiled, size, nil
}

// sizeOf counts the elements of a pattern, up to a little more than the bound.
func sizeOf(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		if size += sizeOf(sub); size > maxPatternSize {
			return maxPatternSize + 1
		}
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return min(size, maxPatternSize+1)
}
