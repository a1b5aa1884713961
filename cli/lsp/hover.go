package lsp

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/lsp/analysis"
	"github.com/virtward/virtward/cli/lsp/fields"
	"github.com/virtward/virtward/cli/lsp/outline"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/lsp/text"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/schemas"
)

const (
	// maxShown is the number of filled fields in a text.
	maxShown = 20
	// maxHints is the number of inlay hints of a document.
	maxHints = 500
)

// kindOf returns the kind of a document of a text.
func kindOf(o *outline.Outline, document int) schema.GroupVersionKind {
	value := func(name string) string {
		f, _ := o.Find(document, name)
		return o.Text(f)
	}
	return schema.FromAPIVersionAndKind(value("apiVersion"), value("kind"))
}

// catalogueOf returns the fields of the version of KubeVirt of a document.
func (s *server) catalogueOf(d *document) *fields.Catalogue {
	minor := schemas.Newest()
	if d.result != nil && d.result.Minor != "" {
		minor = d.result.Minor
	}
	if s.catalogue == nil || s.minor != minor {
		s.catalogue, s.minor = fields.New(minor), minor
	}
	return s.catalogue
}

// rangeOf returns the range of a span.
func (s *server) rangeOf(of *text.Text, span outline.Span) text.Range {
	return text.Range{Start: of.Position(span.From, s.encoding), End: of.Position(span.To, s.encoding)}
}

// hover describes the field at a position: its type, its documentation, and what layers fill in it.
func hover(s *server, d *document, p *protocol.TextDocumentParams) any {
	o := outline.Parse(d.String())
	offset := d.Offset(p.Position, s.encoding)
	f, ok := o.At(offset)
	if !ok {
		return nil
	}
	lines := []string{f.Path}
	if described, known := s.catalogueOf(d).Find(kindOf(o, f.Document), f.Path); known {
		lines = append(lines, describe(described)...)
	}
	if m := machineAt(d, o, f.Document); m != nil {
		lines = append(lines, filledLines(m, f.Path)...)
	}
	if len(lines) == 1 {
		return nil
	}
	span := f.Key
	if f.Key.To == 0 {
		span = f.Value
	}
	return protocol.Hover{Contents: protocol.PlainText(strings.Join(lines, "\n")), Range: s.rangeOf(d.Text, span)}
}

// describe returns the lines about a field: its type, default and values, and its documentation.
func describe(f *fields.Field) []string {
	about := "Type: " + f.Type
	if f.Default != "" {
		about += ", default " + f.Default
	}
	lines := []string{about}
	if len(f.Enum) > 0 {
		lines = append(lines, "Values: "+strings.Join(f.Enum, ", "))
	}
	if len(f.Required) > 0 {
		lines = append(lines, "Required fields: "+strings.Join(f.Required, ", "))
	}
	if f.Doc != "" {
		lines = append(lines, "", f.Doc)
	}
	return lines
}

// machineAt returns the evaluated virtual machine of a document of the text, or nil.
func machineAt(d *document, o *outline.Outline, document int) *analysis.Machine {
	for i := range d.result.Machines {
		m := &d.result.Machines[i]
		if documentOf(d, o, m) == document {
			return m
		}
	}
	return nil
}

// documentOf returns the number of the document of a virtual machine.
func documentOf(d *document, o *outline.Outline, m *analysis.Machine) int {
	return o.DocumentAt(d.Offset(text.Position{Line: m.Kind.Line - 1}, text.UTF32))
}

// filledLines returns the lines about what layers fill in a field.
func filledLines(m *analysis.Machine, path string) (lines []string) {
	var filled []explanation.Filled
	for _, f := range m.Filled {
		if fieldpath.Within(f.Path, path) {
			filled = append(filled, f)
		}
	}
	if len(filled) == 0 {
		return nil
	}
	lines = []string{"", "Filled in:"}
	for _, f := range filled[:min(len(filled), maxShown)] {
		lines = append(lines, fmt.Sprintf("%s: %s (from %s)", strings.TrimPrefix(strings.TrimPrefix(f.Path, path), "."), explanation.Printable(f.Value), f.Layer))
	}
	if more := len(filled) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// inlayHints show behind each written field what layers fill in it, and name the layers.
func inlayHints(s *server, d *document, p *protocol.TextDocumentParams) any {
	hints := []protocol.InlayHint{}
	o := outline.Parse(d.String())
	for i := range d.result.Machines {
		m := &d.result.Machines[i]
		document := documentOf(d, o, m)
		byField := map[string][]explanation.Filled{}
		for _, f := range m.Filled {
			around := nearest(o, document, f.Path)
			byField[around] = append(byField[around], f)
		}
		for _, f := range o.Fields {
			filled := byField[f.Path]
			if f.Document != document || len(filled) == 0 || len(hints) >= maxHints {
				continue
			}
			line := d.Position(max(f.Key.From, f.Value.From), s.encoding).Line
			if f.Key.To > 0 {
				line = d.Position(f.Key.From, s.encoding).Line
			}
			if p.Range.End.Line > 0 && (line < p.Range.Start.Line || line > p.Range.End.Line) {
				continue
			}
			delete(byField, f.Path)
			hints = append(hints, hintOf(f.Path, filled, s.lineEnd(d.Text, line)))
		}
	}
	return hints
}

// lineEnd returns the end of a line.
func (s *server) lineEnd(of *text.Text, line int) text.Position {
	start := of.Offset(text.Position{Line: line}, s.encoding)
	return of.Position(start+len(of.Line(line)), s.encoding)
}

// nearest returns the path of the written field that a field is in.
func nearest(o *outline.Outline, document int, path string) string {
	for n := len(fieldpath.Split(path)); n > 0; n-- {
		around := fieldpath.Prefix(path, n)
		if f, ok := o.Find(document, around); ok && f.Key.To > 0 {
			return around
		}
	}
	return ""
}

// hintOf returns the hint at the end of a line. Its tooltip has every field.
func hintOf(path string, filled []explanation.Filled, at text.Position) protocol.InlayHint {
	const most = 2
	var parts, all []string
	for i, f := range filled {
		part := strings.TrimPrefix(strings.TrimPrefix(f.Path, path), ".") + ": " + explanation.Printable(f.Value) + " (" + f.Layer + ")"
		if i < most {
			parts = append(parts, part)
		}
		if i < maxShown {
			all = append(all, part)
		}
	}
	label := strings.Join(parts, ", ")
	if more := len(filled) - most; more > 0 {
		label += fmt.Sprintf(", and %d more", more)
	}
	return protocol.InlayHint{Position: at, Label: label, Tooltip: strings.Join(all, "\n"), PaddingLeft: true}
}
