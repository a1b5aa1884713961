package lsp

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli/lsp/fields"
	"github.com/virtward/virtward/cli/lsp/outline"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/lsp/text"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/hypervisors"
)

// maxItems is the number of completions of one position.
const maxItems = 500

// word is a completion.
type word struct {
	label, insert, detail, doc string
	kind                       protocol.CompletionKind
}

// complete returns what can be typed at a position: fields, values, names, and in expressions variables and their fields.
func complete(s *server, d *document, p *protocol.TextDocumentParams) any {
	offset := d.Offset(p.Position, s.encoding)
	cursor := outline.CursorAt(d.String(), offset)
	o := outline.Parse(d.String())
	c := &completion{outline: o, document: o.DocumentAt(offset), cursor: cursor, catalogue: s.catalogueOf(d)}
	if d.result != nil {
		for i := range d.result.Objects {
			c.objects = append(c.objects, d.result.Objects[i].Object)
		}
	}
	words, from := c.words()
	list := protocol.CompletionList{Items: []protocol.CompletionItem{}}
	replaced := text.Range{Start: d.Position(from, s.encoding), End: p.Position}
	typed := d.String()[from:offset]
	for _, w := range words {
		if !strings.HasPrefix(strings.ToLower(w.label), strings.ToLower(typed)) {
			continue
		}
		if len(list.Items) >= maxItems {
			list.IsIncomplete = true
			break
		}
		item := protocol.CompletionItem{Label: w.label, Kind: w.kind, Detail: w.detail, TextEdit: protocol.TextEdit{Range: replaced, NewText: w.insert}}
		if w.doc != "" {
			doc := protocol.PlainText(w.doc)
			item.Documentation = &doc
		}
		list.Items = append(list.Items, item)
	}
	return list
}

// completion is a position, and what is around it.
type completion struct {
	outline   *outline.Outline
	document  int
	cursor    outline.Cursor
	catalogue *fields.Catalogue
	objects   []*unstructured.Unstructured
}

// words returns the completions, and where the typed word begins.
func (c *completion) words() (words []word, from int) {
	kind := kindOf(c.outline, c.document)
	if !c.cursor.Value && !c.cursor.Element {
		return c.keys(c.cursor.Path), c.cursor.From
	}
	if kind.Kind == apikinds.VirtualMachinePolicy && isExpression(c.cursor.Path) {
		return c.expression()
	}
	if names := c.names(kind.Kind); names != nil {
		return names, c.cursor.From
	}
	f, ok := c.catalogue.Find(kind, c.cursor.Path)
	if !ok {
		return nil, c.cursor.From
	}
	if !c.cursor.Value && len(f.Fields) > 0 {
		return c.keys(c.cursor.Path), c.cursor.From
	}
	for _, value := range f.Enum {
		if unquoted, err := strconv.Unquote(value); err == nil {
			value = unquoted
		}
		words = append(words, word{label: value, insert: value, kind: protocol.CompletionValue})
	}
	return words, c.cursor.From
}

// keys returns the fields of an object that are not written yet. A list has those of its elements, behind a dash.
func (c *completion) keys(path string) (words []word) {
	kind := kindOf(c.outline, c.document)
	if path == "" && kind.Kind == "" {
		return []word{fieldWord("apiVersion", ""), fieldWord("kind", "")}
	}
	f, ok := c.catalogue.Find(kind, path)
	if !ok {
		return nil
	}
	names, written, dash := f.Fields, c.outline.Below(c.document, path), ""
	if path == "" {
		names = append([]string{"apiVersion", "kind", "metadata"}, names...)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	if f.List {
		written, dash = nil, "- "
	}
	for _, name := range names {
		if slices.Contains(written, name) && name != c.cursor.Prefix || name == "status" && path == "" {
			continue
		}
		below := fieldpath.Joined(path, name)
		if f.List {
			below = fieldpath.Indexed(path, 0, name)
		}
		w := fieldWord(name, dash)
		if c.cursor.Named {
			w.insert = dash + name
		}
		if of, ok := c.catalogue.Find(kind, below); ok {
			w.detail, w.doc = of.Type, of.Doc
		}
		words = append(words, w)
	}
	return words
}

func fieldWord(name, dash string) word {
	return word{label: name, insert: dash + name + ": ", kind: protocol.CompletionField}
}

// named are the fields with names of other objects, and the kinds of the objects. The path has no indices.
func named(kind, path string) []string {
	switch path = strings.TrimPrefix(fieldpath.Fields(path), "spec.virtualMachine."); {
	case kind == apikinds.VirtualMachineDefaults:
		return nil
	case kind == apikinds.VirtualMachinePolicyException && path == "spec.policies":
		return []string{apikinds.VirtualMachinePolicy}
	case path == "spec.instancetype.name" || path == "spec.virtualMachineTemplate.spec.instancetype.name":
		return []string{apikinds.VirtualMachineClusterInstancetype, apikinds.VirtualMachineInstancetype}
	case kind == apikinds.VirtualMachineTemplateExport && path == "spec.templateRef.name":
		return []string{apikinds.VirtualMachineTemplate}
	case path == "spec.preference.name" || path == "spec.virtualMachineTemplate.spec.preference.name":
		return []string{apikinds.VirtualMachineClusterPreference, apikinds.VirtualMachinePreference}
	}
	return nil
}

// kindBeside returns the kinds that a name can have. A field kind beside the name selects one.
func kindBeside(o *outline.Outline, document int, path string, kinds []string) []string {
	before, isName := strings.CutSuffix(path, ".name")
	if !isName || len(kinds) < 2 {
		return kinds
	}
	f, ok := o.Find(document, before+".kind")
	if !ok {
		return kinds[:1]
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return !strings.EqualFold(k, o.Text(f)) })
}

// names returns the names that a value can have; nil if it is no name.
func (c *completion) names(kind string) (words []word) {
	path := c.cursor.Path
	if kind == apikinds.RuleSettings && fieldpath.Fields(path) == "spec.rules.rule" {
		registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
		if err != nil {
			return nil
		}
		for _, rule := range registry.Rules() {
			words = append(words, word{label: rule.ID, insert: rule.ID, detail: rule.Title, kind: protocol.CompletionReference})
		}
		slices.SortFunc(words, func(a, b word) int { return strings.Compare(a.label, b.label) })
		return words
	}
	for _, of := range kindBeside(c.outline, c.document, path, named(kind, path)) {
		for _, object := range c.objects {
			if object.GetKind() == of {
				words = append(words, word{label: object.GetName(), insert: object.GetName(), detail: of, kind: protocol.CompletionReference})
			}
		}
	}
	return words
}

// isExpression reports whether a field of a policy is an expression.
func isExpression(path string) bool {
	path = strings.ToLower(path)
	return strings.HasPrefix(path, "spec.") && strings.HasSuffix(path, "expression")
}

// dotted is a variable with fields, indices and keys behind it.
const dotted = `([a-zA-Z_]\w*)((?:\s*\.\s*\??\s*\w+|\[\s*\d+\s*\]|\[\s*'[^']*'\s*\]|\[\s*"[^"]*"\s*\])*?)`

var (
	// chain is the path at the end of an expression, and the field of it that is being typed.
	chain = regexp.MustCompile(dotted + `(?:\s*\.\s*\??(\w*))?$`)
	// loop is the beginning of a macro over the elements of a list, which names one element.
	loop = regexp.MustCompile(dotted + `\s*\.\s*(?:all|exists|exists_one|existsOne|filter|map)\s*\(\s*([a-zA-Z_]\w*)\s*,`)
	// key is a key of a map.
	key = regexp.MustCompile(`\[\s*(?:'[^']*'|"[^"]*")\s*\]`)
)

const (
	// maxLoops is the number of loops around a variable that are looked at.
	maxLoops = 8
	// maxExpression is the part of an expression before the cursor that is looked at, in bytes.
	maxExpression = 64 << 10
)

// stepsOf returns the steps behind a variable. A key is one step, whatever it contains.
func stepsOf(written string) []string {
	return strings.FieldsFunc(key.ReplaceAllString(written, ".key"), func(r rune) bool { return strings.ContainsRune(". ?[]\n\r\t", r) })
}

// resolved returns the path of a variable that the loops of an expression name, from a variable that all expressions know.
func resolved(expression, root string, steps []string) (string, []string) {
	loops := loop.FindAllStringSubmatchIndex(expression, -1)
	for range maxLoops {
		i := len(loops) - 1
		for i >= 0 && expression[loops[i][6]:loops[i][7]] != root {
			i--
		}
		if i < 0 {
			break
		}
		m := loops[i]
		of := stepsOf(expression[m[4]:m[5]])
		root, steps, loops = expression[m[2]:m[3]], append(append(of, "0"), steps...), loops[:i]
	}
	return root, steps
}

// expression returns variables, or the fields of a variable.
func (c *completion) expression() (words []word, from int) {
	end := c.cursor.From + len(c.cursor.Prefix)
	typed := c.cursor.Prefix[max(0, len(c.cursor.Prefix)-maxExpression):]
	m := chain.FindStringSubmatchIndex(typed)
	if m == nil {
		m = []int{0, 0, 0, 0, 0, 0, -1, -1}
	}
	if m[6] < 0 { // a variable
		name := typed[m[2]:m[3]]
		for _, known := range cel.Names() {
			words = append(words, word{label: known, insert: known, kind: protocol.CompletionVariable})
		}
		return words, end - len(name)
	}
	last := typed[m[6]:m[7]]
	root, steps := resolved(typed[:m[0]], typed[m[2]:m[3]], stepsOf(typed[m[4]:m[5]]))
	from = end - len(last)
	if len(steps) == 0 && (root == "variables" || root == "params") {
		return c.declared(root), from
	}
	f, ok := fields.OfVariable(root, steps)
	if !ok || f.List {
		return nil, from
	}
	for _, name := range f.Fields {
		w := word{label: name, insert: name, kind: protocol.CompletionField}
		if of, ok := fields.OfVariable(root, append(slices.Clip(steps), name)); ok {
			w.detail, w.doc = of.Type, of.Doc
		}
		words = append(words, w)
	}
	return words, from
}

// declared returns the variables or the parameters of the policy.
func (c *completion) declared(root string) (words []word) {
	for _, f := range c.outline.Fields {
		if f.Document != c.document {
			continue
		}
		var name, detail string
		switch steps := fieldpath.Split(f.Path); {
		case root == "variables" && fieldpath.Fields(f.Path) == "spec.variables.name":
			name = c.outline.Text(f)
		case root == "params" && len(steps) == 4 && strings.HasPrefix(f.Path, "spec.params.values."):
			name, detail = steps[3], c.outline.Text(f)
		default:
			continue
		}
		words = append(words, word{label: name, insert: name, detail: detail, kind: protocol.CompletionVariable})
	}
	return words
}
