package explanation

import (
	"strings"
	"unicode"
)

// headlines returns lines about the object, the facts, the warnings and the notes. Only the first explanation has
// warnings and notes about the cluster.
func (e *Explanation) headlines(first bool) []string {
	lines := []string{e.Object.String() + " on " + e.platform(), "facts: " + e.Facts.Source, "read from: " + e.Source}
	warnings := e.Warnings
	if !first {
		warnings = e.OwnWarnings()
	}
	for _, w := range warnings {
		lines = append(lines, "warning: "+w)
	}
	for _, u := range e.Unknown {
		lines = append(lines, "unknown: "+u+" is not in the files")
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

// Printable puts a text of users on one line.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
