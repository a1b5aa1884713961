package explanation

import (
	"strings"
	"unicode"
)

// headlines say what the explanation is about, and what its reader must know but for findings, one line each. first
// tells that nothing has said yet what holds for the whole cluster.
func (e *Explanation) headlines(first bool) []string {
	lines := []string{e.Object.String() + " on " + e.platform(), "facts: " + e.Facts.Source, "read from: " + e.Source}
	warnings := e.Warnings
	if !first {
		warnings = e.OwnWarnings()
	}
	for _, w := range warnings {
		lines = append(lines, "warning: "+w)
	}
	if first {
		for _, n := range e.Notes {
			lines = append(lines, "note: "+n)
		}
	}
	for j := range lines {
		lines[j] = Printable(lines[j])
	}
	return lines
}

func (e *Explanation) platform() string {
	if e.Architecture == "" {
		return e.Hypervisor
	}
	return e.Hypervisor + "/" + e.Architecture
}

// Printable keeps a text that someone else wrote on one line.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
