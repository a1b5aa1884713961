package printers

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Formats of commands: values of --output.
const (
	Table    = "table"
	Wide     = "wide"
	YAML     = "yaml"
	JSON     = "json"
	Name     = "name"
	JUnit    = "junit"
	SARIF    = "sarif"
	Markdown = "markdown"
	GitHub   = "github"
)

// Printer prints values of one kind.
type Printer[T any] struct {
	// Columns are the titles of the columns. Row has a cell for each.
	Columns []string
	Row     func(*T) []string
	// Wide is how many of the last columns only the format wide has.
	Wide int
	// Namespaced tables have the first column only if AllNamespaces is true.
	Namespaced, AllNamespaces bool
	Spacing                   Spacing
	// Name is the resource and the name of a value: virtualimage.kupenstack.io/fedora. Without it, there is no format name.
	Name func(*T) string
	// Document is what JSON and YAML have. Without it, there are no such formats.
	Document func([]T) any
}

// Formats are the values of --output.
func (p *Printer[T]) Formats() []string {
	formats := []string{Table}
	if p.Wide > 0 {
		formats = append(formats, Wide)
	}
	if p.Document != nil {
		formats = append(formats, YAML, JSON)
	}
	if p.Name != nil {
		formats = append(formats, Name)
	}
	return formats
}

// Print writes the values in one of the formats. Another format is an error.
func (p *Printer[T]) Print(w io.Writer, format string, values []T) error {
	if formats := p.Formats(); !slices.Contains(formats, format) {
		return fmt.Errorf("the output has no format %q: use one of %s", format, strings.Join(formats, ", "))
	}
	switch format {
	case JSON, YAML:
		return Document(w, format, p.Document(values))
	case Name:
		var out bytes.Buffer
		for i := range values {
			fmt.Fprintln(&out, p.Name(&values[i]))
		}
		_, err := w.Write(out.Bytes())
		return err
	}
	return p.Table(w, format, values)
}

// Table writes the titles and a row for each value, in the format table or wide.
func (p *Printer[T]) Table(w io.Writer, format string, values []T) error {
	rows := make([][]string, 0, len(values)+1)
	rows = append(rows, p.shown(format, p.Columns))
	for i := range values {
		rows = append(rows, p.shown(format, p.Row(&values[i])))
	}
	return Rows(w, p.Spacing, rows)
}

// shown are the cells of a row that the format has.
func (p *Printer[T]) shown(format string, cells []string) []string {
	if format != Wide {
		cells = cells[:len(cells)-p.Wide]
	}
	if p.Namespaced && !p.AllNamespaces {
		cells = cells[1:]
	}
	return cells
}

// List is a Document: an object with the values in a field. It is never null.
func List[T any](field string) func([]T) any {
	return func(values []T) any {
		return map[string]any{field: append([]T{}, values...)}
	}
}

// Itself is a Document: the values.
func Itself[T any](values []T) any { return values }

// Spacing is the distance between columns.
type Spacing int

const (
	// Kubectl is the spacing of kubectl.
	Kubectl Spacing = iota
	// Narrow is for tables with long texts.
	Narrow
)

// narrow is the distance between columns of a table with the spacing Narrow.
const narrow = 2

// Rows writes rows with aligned cells.
func Rows(w io.Writer, spacing Spacing, rows [][]string) error {
	var out bytes.Buffer
	columns := tabwriter.NewWriter(&out, 6, 4, 3, ' ', 0) // as kubectl
	if spacing == Narrow {
		columns.Init(&out, 0, 0, narrow, ' ', 0)
	}
	for _, row := range rows {
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	_, err := w.Write(out.Bytes())
	return err
}
