package explanation

import (
	"slices"
	"strings"
	"unicode"
)

// headlines say what one of the explanations is about, and what its reader must know but for findings, one line
// each. What holds for the whole cluster stands above the first explanation only, and again where it differs.
func headlines(explanations []*Explanation, i int) []string {
	e := explanations[i]
	lines := []string{e.Object.String() + " on " + e.platform(), "facts: " + e.Facts.Source, "read from: " + e.Source}
	told := i > 0 && slices.Equal(e.FactsWarnings(), explanations[i-1].FactsWarnings()) && slices.Equal(e.Notes, explanations[i-1].Notes)
	warnings := e.Warnings
	if told {
		warnings = e.OwnWarnings()
	}
	for _, w := range warnings {
		lines = append(lines, "warning: "+w)
	}
	if !told {
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
