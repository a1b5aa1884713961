package lsp

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/lsp/analysis"
	"github.com/virtward/virtward/cli/lsp/outline"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/fieldpath"
)

// quickFixes are the corrections of the problems at a range.
func quickFixes(s *server, d *document, p *protocol.TextDocumentParams) any {
	actions := []protocol.CodeAction{}
	o := outline.Parse(d.String())
	for _, fix := range d.result.Fixes {
		problem := diagnosticOf(d.Text, s.encoding, analysis.Problem{Position: fix.Position})
		if problem.Range.End.Line < p.Range.Start.Line || problem.Range.Start.Line > p.Range.End.Line {
			continue
		}
		at := d.Offset(problem.Range.Start, s.encoding)
		f, ok := o.Find(o.DocumentAt(at), fix.Field)
		if !ok || !f.Key.Contains(at) && !f.Value.Contains(at) {
			continue // the value is that of a layer
		}
		var found []protocol.Diagnostic
		for _, other := range d.result.Problems {
			if other.Position == fix.Position && other.Rule == fix.Rule {
				found = append(found, diagnosticOf(d.Text, s.encoding, other))
			}
		}
		add := func(title string, span outline.Span, replacement string) {
			actions = append(actions, protocol.CodeAction{
				Title: title, Kind: protocol.QuickFix, Diagnostics: found,
				Edit: protocol.WorkspaceEdit{Changes: map[string][]protocol.TextEdit{d.uri: {{Range: s.rangeOf(d.Text, span), NewText: replacement}}}},
			})
		}
		if span, ok := wordAt(d.String(), at, fix.Word); ok {
			add("Replace "+fix.Word+" with "+fix.Name, span, fix.Name)
			continue
		}
		if fix.Name != "" && fix.Word == "" && f.Key.To > f.Key.From {
			add("Rename the field to "+fix.Name, f.Key, fix.Name)
		}
		if hasWrongValue(o, f, &fix) {
			for _, value := range valuesOf(&fix) {
				add("Set the value to "+value.title, f.Value, value.inYAML)
			}
		}
		if span, left, ok := without(o, d.String(), f); fix.Remove && ok {
			add("Remove the field", span, left)
		}
	}
	return actions
}

// hasWrongValue reports whether a fix is about the value of a field. It can be about that of a field below.
func hasWrongValue(o *outline.Outline, f outline.Field, fix *analysis.Fix) bool {
	return f.Value.To > f.Value.From && !f.Block && (len(fix.Values) == 0 || o.Text(f) == fix.Wrong)
}

// scalar is a value that a field can have.
type scalar struct{ title, inYAML string }

// valuesOf are the values that a fix offers.
func valuesOf(fix *analysis.Fix) (all []scalar) {
	for _, value := range fix.Values {
		all = append(all, scalar{value, inYAML(value)})
	}
	if fix.Literal != "" {
		all = append(all, scalar{fix.Literal, fix.Literal})
	}
	return all
}

// maxBefore bounds what can be between the position of an error and the word that it is about, such as .? before a field, in bytes.
const maxBefore = 8

// wordAt returns the place of a word at or behind a position, before which there are only a dot, a question mark and spaces.
func wordAt(content string, at int, word string) (span outline.Span, ok bool) {
	if word == "" {
		return span, false
	}
	rest := content[at:]
	from := min(len(rest), maxBefore)
	from -= len(strings.TrimLeft(rest[:from], ".? "))
	after, ok := strings.CutPrefix(rest[from:], word)
	if !ok || wordBegins.MatchString(after) {
		return span, false
	}
	return outline.Span{From: at + from, To: at + from + len(word)}, true
}

// wordBegins is for a text that begins with a part of a word.
var wordBegins = regexp.MustCompile(`^[A-Za-z0-9_]`)

// without returns what is replaced to remove a field. An object without another field is left as {}: without a value, it would be null.
func without(o *outline.Outline, content string, f outline.Field) (span outline.Span, left string, ok bool) {
	lines, ok := linesOf(content, f)
	if !ok {
		return span, "", false
	}
	steps := fieldpath.Split(f.Path)
	around := fieldpath.Prefix(f.Path, len(steps)-1)
	if len(o.Below(f.Document, around)) > 1 {
		return lines, "", true
	}
	parent, ok := o.Find(f.Document, around)
	if !ok || parent.Key.To == parent.Key.From || parent.Value.To > parent.Value.From || content[parent.Key.To] != ':' {
		return span, "", false
	}
	return outline.Span{From: parent.Key.To + 1, To: lines.To}, " {}\n", true
}

// linesOf returns the lines of a field in block style. It is false for a field that shares its line with others.
func linesOf(content string, f outline.Field) (lines outline.Span, ok bool) {
	lines.From = strings.LastIndexByte(content[:f.Key.From], '\n') + 1
	column := f.Key.From - lines.From
	if f.Key.To == f.Key.From || strings.Trim(content[lines.From:f.Key.From], " ") != "" {
		return lines, false
	}
	isEnd := func(line string) bool { // of the field, whose list can be in its own column
		at := len(line) - len(strings.TrimLeft(line, " "))
		return at < column || at == column && line[at] != '-' || strings.HasPrefix(line, "---")
	}
	end := lines.From
	for at := lines.From; at < len(content); {
		line, _, _ := strings.Cut(content[at:], "\n")
		next := min(at+len(line)+1, len(content))
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#' && isEnd(line): // it belongs to what follows
		case at > lines.From && isEnd(line):
			lines.To = end
			return lines, text[0] != '}' && text[0] != ']'
		default:
			end = next
		}
		at = next
	}
	lines.To = end
	return lines, true
}

// plainWord is a text that YAML reads as a string without quotes.
var plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)

// inYAML returns a string as a scalar of YAML.
func inYAML(value string) string {
	switch strings.ToLower(value) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null":
		return strconv.Quote(value)
	}
	if plainWord.MatchString(value) {
		return value
	}
	return strconv.Quote(value)
}

var (
	// parameter is a name of a parameter of a template.
	parameter = regexp.MustCompile(`^[a-zA-Z0-9_]{1,253}$`)
	// parameterUse is the use of a parameter in a template, as a text or as a value.
	parameterUse = regexp.MustCompile(`\$\{\{?([a-zA-Z0-9_]+)\}\}?`)
)

// maxRenamed is the number of places at which a parameter is renamed. Each costs the time of its line.
const maxRenamed = 1000

// rename renames a parameter of a template, where it is defined and everywhere where it is used.
func rename(s *server, d *document, p *protocol.TextDocumentParams) any {
	content := d.String()
	offset := d.Offset(p.Position, s.encoding)
	o := outline.Parse(content)
	document := o.DocumentAt(offset)
	if kindOf(o, document).Kind != apikinds.VirtualMachineTemplate || !parameter.MatchString(p.NewName) {
		return nil
	}
	var spans []outline.Span
	var names []string
	for _, f := range o.Fields {
		if f.Document == document && fieldpath.Fields(f.Path) == "spec.parameters.name" {
			span := f.Value
			if written := content[span.From:span.To]; written != o.Text(f) {
				span = outline.Span{From: span.From + 1, To: span.To - 1}
			}
			spans, names = append(spans, span), append(names, o.Text(f))
		}
	}
	for _, m := range parameterUse.FindAllStringSubmatchIndex(content, -1) {
		if o.DocumentAt(m[0]) == document {
			spans, names = append(spans, outline.Span{From: m[2], To: m[3]}), append(names, content[m[2]:m[3]])
		}
	}
	old := ""
	for i, span := range spans {
		if span.Contains(offset) {
			old = names[i]
		}
	}
	if old == "" {
		return nil
	}
	if len(spans) > maxRenamed {
		return nil
	}
	edits := []protocol.TextEdit{}
	for i, span := range spans {
		if names[i] == p.NewName {
			return nil // two parameters would have the same name
		}
		if names[i] == old {
			edits = append(edits, protocol.TextEdit{Range: s.rangeOf(d.Text, span), NewText: p.NewName})
		}
	}
	return protocol.WorkspaceEdit{Changes: map[string][]protocol.TextEdit{d.uri: edits}}
}
