package explanation

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// maxCell bounds the values in a table, in characters; JSON shows them whole.
const maxCell = 100

// WriteTable writes one row for each field that a layer filled, in the order in which it happened.
func WriteTable(w io.Writer, explanations []*Explanation) error {
	for i, e := range explanations {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := e.table(w); err != nil {
			return err
		}
	}
	return nil
}

func (e *Explanation) table(w io.Writer) error {
	for _, line := range e.headlines() {
		if _, err := fmt.Fprintln(w, printable(line)); err != nil {
			return err
		}
	}
	if len(e.Changes) == 0 {
		_, err := fmt.Fprintln(w, "No field was filled.")
		return err
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "FIELD\tVALUE\tLAYER")
	for _, c := range e.Changes {
		value, err := cell(c.Value)
		if err != nil {
			return fmt.Errorf("%s of %s cannot be shown: %w", c.Path, e.Object, err)
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\n", printable(c.Path), value, printable(c.Layer))
	}
	return columns.Flush()
}

// cell shows a value as JSON, and a text as itself.
func cell(value any) (string, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	var text string
	if json.Unmarshal(data, &text) != nil || text == "" {
		text = string(data)
	}
	text = printable(text)
	if utf8.RuneCountInString(text) <= maxCell {
		return text, nil
	}
	return strings.TrimSpace(string([]rune(text)[:maxCell-1])) + "…", nil
}
