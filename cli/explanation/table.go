package explanation

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/virtward/virtward/texts"
)

// maxCell bounds the values in a table, in characters; JSON shows them whole.
const maxCell = 60

// templateSpec is where nearly every field of a VirtualMachine is that a layer fills. The table leaves it out.
const templateSpec = "spec.template.spec."

// table is one row for each field that a layer filled, in the order in which it happened, and then one for each finding.
// A value that has fields of its own is a row for each of them. What holds for the whole cluster stands above the first
// table only.
func (e *Explanation) table(first bool) ([]byte, error) {
	var out bytes.Buffer
	err := e.rows(&out, e.headlines(first))
	return out.Bytes(), err
}

func (e *Explanation) rows(w io.Writer, head []string) error {
	rows, err := rowsOf(e.Changes)
	if err != nil {
		return fmt.Errorf("the fields of %s cannot be shown: %w", e.Object, err)
	}
	found := make([]string, len(e.Findings))
	paths := make([]*string, 0, len(rows)+len(found))
	for i := range rows {
		paths = append(paths, &rows[i].path)
	}
	for i := range found {
		found[i] = e.Findings[i].Error.Field
		paths = append(paths, &found[i])
	}
	if note := shorten(paths); note != "" {
		head = append(head, note)
	}
	for _, line := range head {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if err := fieldTable(w, rows); err != nil {
		return err
	}
	return e.findingTable(w, found)
}

func fieldTable(w io.Writer, rows []row) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "No field was filled.")
		return err
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "FIELD\tVALUE\tLAYER")
	for _, r := range rows {
		fmt.Fprintf(columns, "%s\t%s\t%s\n", Printable(r.path), cell(r.value), Printable(r.layer))
	}
	return columns.Flush()
}

// findingTable writes a row for each finding, with the remedy below the message; the fields are named as given.
func (e *Explanation) findingTable(w io.Writer, fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "\nFIELD\tRULE\tSEVERITY\tMESSAGE")
	for i := range fields {
		f := e.Findings[i]
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\n", Printable(fields[i]), f.Rule, f.Severity, f.Short())
		if f.Remedy != "" {
			fmt.Fprintf(columns, "\t\t\t%s\n", Printable(f.Remedy))
		}
	}
	return columns.Flush()
}

// shorten writes paths in the spec of a template relative to it, and all others as absolute ones, and returns
// the line that says so. Where there is none of the former, it changes nothing.
func shorten(paths []*string) string {
	below := 0
	for _, p := range paths {
		if strings.HasPrefix(*p, templateSpec) {
			below++
		}
	}
	if below == 0 {
		return ""
	}
	for _, p := range paths {
		if short, ok := strings.CutPrefix(*p, templateSpec); ok {
			*p = short
		} else {
			*p = "/" + *p
		}
	}
	note := "fields: below " + strings.TrimSuffix(templateSpec, ".")
	if below < len(paths) {
		note += ", except those that begin with a slash"
	}
	return note
}

// cell cuts a value that is too long.
func cell(value string) string { return texts.ShortenCharacters(Printable(value), maxCell) }
