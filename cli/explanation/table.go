package explanation

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
)

// maxCell is the length of values in a table, in characters. JSON has the whole values.
const maxCell = 60

// templateSpec is the prefix of most fields that layers fill in a VirtualMachine. The table omits it.
const templateSpec = "spec.template.spec."

// table has a row for each field that a layer filled, in the order of the changes, and then a row for each finding. A
// value with fields has a row for each of them. Only the first table has warnings and notes about the cluster.
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
	return fieldPrinter.Table(w, printers.Table, rows)
}

// fieldPrinter prints the fields that layers filled.
var fieldPrinter = printers.Printer[row]{
	Columns: []string{"FIELD", "VALUE", "LAYER"},
	Row:     func(r *row) []string { return []string{Printable(r.path), cell(r.value), Printable(r.layer)} },
	Spacing: printers.Narrow,
}

// findingTable writes a row for each finding, with the remedy below the message. The fields have the given names.
func (e *Explanation) findingTable(w io.Writer, fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	rows := [][]string{{""}, {"FIELD", "RULE", "SEVERITY", "MESSAGE"}}
	for i := range fields {
		f := e.Findings[i]
		severity := string(f.Severity)
		if f.Exempted != nil {
			severity = "Exempted"
		}
		rows = append(rows, []string{Printable(fields[i]), f.Rule, severity, f.Short()})
		if f.Remedy != "" {
			rows = append(rows, []string{"", "", "", Printable(f.Remedy)})
		}
	}
	return printers.Rows(w, printers.Narrow, rows)
}

// shorten makes paths in the spec of a template relative to it, and returns a line that explains it. If there are none,
// it changes nothing.
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

// cell shortens a value.
func cell(value string) string { return texts.ShortenCharacters(Printable(value), maxCell) }
