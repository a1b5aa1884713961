package texts

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Folded returns how many characters the ranges of a pattern for any case have, because the compiler looks up the other case of
// each. ASCII is left out. What follows a minus is taken for the end of a range from zero.
func Folded(pattern string) int {
	if !strings.Contains(pattern, "(?") {
		return 0
	}
	total := 0
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '-':
			if end := rangeEnd(pattern[i+1:]); end >= utf8.RuneSelf {
				total = min(total+int(end), 1<<30)
			}
		}
	}
	return total
}

// rangeEnd is the character that a part of a pattern begins with.
func rangeEnd(rest string) rune {
	digits, escaped := strings.CutPrefix(rest, `\x{`)
	if !escaped {
		r, _ := utf8.DecodeRuneInString(rest)
		return r
	}
	digits, _, _ = strings.Cut(digits, "}")
	end, err := strconv.ParseUint(digits, 16, 32)
	if err != nil {
		return 0 // the pattern is wrong
	}
	return rune(min(end, utf8.MaxRune))
}
