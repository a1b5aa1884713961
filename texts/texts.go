// Package texts prepares what programs print: texts of users on one line and within a bound, and JSON.
//
// Its input is any text, valid UTF-8 or not, or any value. Its output can be printed.
package texts

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "…"

// OneLine replaces everything that cannot be printed by spaces, and runs of spaces by one.
func OneLine(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)), " ")
}

// Printable removes what controls a terminal from a text, and keeps its lines.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return -1
	}, text)
}

// Shorten cuts a text to a number of bytes, between characters and with an ellipsis at the end. The result is valid
// UTF-8.
func Shorten(text string, bytes int) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= bytes {
		return text
	}
	end := max(0, bytes-len(ellipsis))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// ShortenCharacters cuts a text to a number of characters, with an ellipsis as the last one.
func ShortenCharacters(text string, characters int) string {
	if utf8.RuneCountInString(text) <= characters {
		return text
	}
	return strings.TrimSpace(string([]rune(text)[:max(0, characters-1)])) + ellipsis
}
