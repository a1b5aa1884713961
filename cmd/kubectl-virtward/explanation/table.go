package explanation

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// maxCell bounds the values in a table, in characters; JSON shows them whole.
const maxCell = 60

// templateSpec is where nearly every field of a VirtualMachine is that a layer fills. The table leaves it out.
const templateSpec = "spec.template.spec."

// WriteTable writes one row for each field that a layer filled, in the order in which it happened. A value
// that has fields of its own is a row for each of them.
func WriteTable(w io.Writer, explanations []*Explanation) error {
	for i, e := range explanations {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := e.table(w, headlines(explanations, i)); err != nil {
			return err
		}
	}
	return nil
}

func (e *Explanation) table(w io.Writer, head []string) error {
	rows, err := rowsOf(e.Changes)
	if err != nil {
		return fmt.Errorf("the fields of %s cannot be shown: %w", e.Object, err)
	}
	if note := shorten(rows); note != "" {
		head = append(head, note)
	}
	for _, line := range head {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "No field was filled.")
		return err
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "FIELD\tVALUE\tLAYER")
	for _, r := range rows {
		fmt.Fprintf(columns, "%s\t%s\t%s\n", printable(r.path), cell(r.value), printable(r.layer))
	}
	return columns.Flush()
}

// shorten writes paths in the spec of a template relative to it, and all others as absolute ones, and returns
// the line that says so. Where there is none of the former, it changes nothing.
func shorten(rows []row) string {
	below := 0
	for _, r := range rows {
		if strings.HasPrefix(r.path, templateSpec) {
			below++
		}
	}
	if below == 0 {
		return ""
	}
	for i := range rows {
		if short, ok := strings.CutPrefix(rows[i].path, templateSpec); ok {
			rows[i].path = short
		} else {
			rows[i].path = "/" + rows[i].path
		}
	}
	note := "fields: below " + strings.TrimSuffix(templateSpec, ".")
	if below < len(rows) {
		note += ", except those that begin with a slash"
	}
	return note
}

// cell cuts a value that is too long.
func cell(value string) string {
	value = printable(value)
	if utf8.RuneCountInString(value) <= maxCell {
		return value
	}
	return strings.TrimSpace(string([]rune(value)[:maxCell-1])) + "…"
}
