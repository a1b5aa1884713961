package templates

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// engineRun is a case with Virtward's answer.
type engineRun struct {
	*EngineCase

	spec     *v1beta1.VirtualMachineTemplateSpec
	rendered *templates.Rendered
	findings []validators.Finding
}

// engineClass is a known fault of virt-template.
type engineClass struct {
	name string
	// of reports by the input whether a case shows the fault.
	of func(*engineRun) bool
	// right reports whether Virtward gives the right answer.
	right func(*engineRun) bool
}

// engineClasses are the known faults, each with what is right. docs/internals/conformance.md explains them.
var engineClasses = []engineClass{
	{"values are scanned again", (*engineRun).hasReferenceInValue, (*engineRun).isSinglePass},
	{"fields below spec.template.spec are not strict", (*engineRun).hasUnknownFieldInSpec, (*engineRun).namesUnknownFields},
	{"integers beyond 2^53 lose digits", (*engineRun).hasLongInteger, (*engineRun).isSinglePass},
	{"of two equal keys any one wins", (*engineRun).hasEqualKeys, only(templates.RuleKeyCollision)},
	{"a generated leading zero fails now and then", (*engineRun).mayDrawLeadingZero, func(x *engineRun) bool { return x.rendered != nil }},
	{"a namespace of ${{NAME}} is dropped", (*engineRun).hasNamespaceOfJSON, (*engineRun).isSinglePass},
	{"fields of the API server are kept", (*engineRun).hasServerFields, (*engineRun).isWithoutServerFields},
	{"a given empty text counts as not given", (*engineRun).isGivenEmpty, (*engineRun).keepsGivenEmpty},
	{"an undefined reference in the message has the wrong field", (*engineRun).hasUndefinedInMessage, (*engineRun).namesMessage},
	{"generated text is expanded again", (*engineRun).hasNestedClass, (*engineRun).isExpandedOnce},
	{"only the first fault is reported", (*engineRun).hasFault, (*engineRun).namesMore},
	{"given values that add fields or lines pass silently", (*engineRun).addsFieldsOrLines, (*engineRun).warnsOfGiven},
}

var (
	anyReference   = regexp.MustCompile(`\$\{([a-zA-Z0-9_]+)\}`)
	jsonReference  = regexp.MustCompile(`^\$\{\{([a-zA-Z0-9_]+)\}\}$`)
	generatorClass = regexp.MustCompile(`\[([a-zA-Z0-9\\-]+)\]\{(\w+)\}`)
	longInteger    = regexp.MustCompile(`\b\d{16,}\b`)
)

// texts are all values that the input has.
func (x *engineRun) texts() []string {
	texts := slices.Collect(maps.Values(x.Parameters))
	for i := range x.spec.Parameters {
		texts = append(texts, x.spec.Parameters[i].Value, x.spec.Parameters[i].From)
	}
	return texts
}

func (x *engineRun) hasReferenceInValue() bool {
	return slices.ContainsFunc(x.texts(), func(text string) bool { return strings.Contains(text, "${") })
}

func (x *engineRun) hasLongInteger() bool {
	return longInteger.Match(x.spec.VirtualMachine.Raw) || slices.ContainsFunc(x.texts(), longInteger.MatchString)
}

// tree is the input's VirtualMachine.
func (x *engineRun) tree() map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(x.spec.VirtualMachine.Raw))
	decoder.UseNumber()
	var tree map[string]any
	if decoder.Decode(&tree) != nil {
		return nil
	}
	return tree
}

// substituted is the tree with each string replaced in one pass, by a way of its own.
func (x *engineRun) substituted(values map[string]string) any {
	replace := func(text string) any {
		if m := jsonReference.FindStringSubmatch(text); m != nil {
			decoder := json.NewDecoder(strings.NewReader(values[m[1]]))
			decoder.UseNumber()
			var parsed any
			if decoder.Decode(&parsed) == nil && !decoder.More() {
				return parsed
			}
			return values[m[1]]
		}
		return anyReference.ReplaceAllStringFunc(text, func(match string) string { return values[match[2:len(match)-1]] })
	}
	var walk func(any) any
	walk = func(node any) any {
		switch n := node.(type) {
		case map[string]any:
			replaced := map[string]any{}
			for key, child := range n {
				if text, ok := replace(key).(string); ok {
					replaced[text] = walk(child)
				}
			}
			return replaced
		case []any:
			replaced := make([]any, len(n))
			for i := range n {
				replaced[i] = walk(n[i])
			}
			return replaced
		case string:
			return replace(n)
		}
		return node
	}
	tree := x.tree()
	if metadata, ok := tree["metadata"].(map[string]any); ok {
		if text, ok := metadata["namespace"].(string); ok && !anyReference.MatchString(text) && !jsonReference.MatchString(text) {
			delete(metadata, "namespace")
		}
	}
	return walk(tree)
}

// isSinglePass compares with one pass over the template.
func (x *engineRun) isSinglePass() bool {
	if x.rendered == nil {
		return false
	}
	want, err := json.Marshal(x.substituted(x.rendered.Values))
	if err != nil {
		return false
	}
	message := anyReference.ReplaceAllStringFunc(x.spec.Message, func(match string) string { return x.rendered.Values[match[2:len(match)-1]] })
	if m := jsonReference.FindStringSubmatch(x.spec.Message); m != nil { // a message has the value as text
		message = x.rendered.Values[m[1]]
	}
	return differentVM(withKind(want), x.rendered.VirtualMachine) == "" && message == x.rendered.Message
}

// withKind is a VirtualMachine in JSON with its kind.
func withKind(data []byte) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil {
		return data
	}
	object["apiVersion"], object["kind"] = json.RawMessage(`"kubevirt.io/v1"`), json.RawMessage(`"VirtualMachine"`)
	with, err := json.Marshal(object)
	if err != nil {
		return data
	}
	return with
}

// instanceSpec decodes strictly, which KubeVirt's own type does not.
type instanceSpec kubevirtv1.VirtualMachineInstanceSpec

func (x *engineRun) hasUnknownFieldInSpec() bool {
	values := map[string]string{}
	for i := range x.spec.Parameters {
		values[x.spec.Parameters[i].Name] = x.spec.Parameters[i].Value
	}
	maps.Copy(values, x.Parameters)
	node := x.substituted(values)
	for _, name := range []string{"spec", "template", "spec"} {
		object, ok := node.(map[string]any)
		if !ok {
			return false
		}
		node = object[name]
	}
	data, err := json.Marshal(node)
	if err != nil {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&instanceSpec{})
	return err != nil && strings.Contains(err.Error(), "unknown field")
}

func (x *engineRun) namesUnknownFields() bool {
	denied := ofSeverity(x.findings, validators.Deny)
	return len(denied) > 0 && !slices.ContainsFunc(denied, func(c Cause) bool {
		return c.Class != "unknown-field" || !strings.HasPrefix(c.Field, "spec.virtualMachine.spec.template.spec.")
	})
}

// hasEqualKeys reports whether two keys of an object become one.
func (x *engineRun) hasEqualKeys() bool {
	var before, after int
	var count func(any, *int)
	count = func(node any, n *int) {
		switch v := node.(type) {
		case map[string]any:
			*n += len(v)
			for _, child := range v {
				count(child, n)
			}
		case []any:
			for _, child := range v {
				count(child, n)
			}
		}
	}
	values := map[string]string{}
	for i := range x.spec.Parameters {
		values[x.spec.Parameters[i].Name] = x.spec.Parameters[i].Value
	}
	maps.Copy(values, x.Parameters)
	count(x.tree(), &before)
	count(x.substituted(values), &after)
	return after < before
}

// only reports whether Virtward denies for one rule only.
func only(rule string) func(*engineRun) bool {
	return func(x *engineRun) bool {
		denied := ofSeverity(x.findings, validators.Deny)
		return len(denied) > 0 && !slices.ContainsFunc(denied, func(c Cause) bool { return "template-"+c.Class != rule })
	}
}

func (x *engineRun) mayDrawLeadingZero() bool {
	for i := range x.spec.Parameters {
		p := &x.spec.Parameters[i]
		if first := generatorClass.FindString(p.From); strings.HasPrefix(p.From, "[") && (strings.Contains(first, "0") || strings.Contains(first, `\d`)) &&
			strings.Contains(string(x.spec.VirtualMachine.Raw), "${{"+p.Name+"}}") {
			return true
		}
	}
	return false
}

// metadata is the input's metadata.
func (x *engineRun) metadata() map[string]any {
	metadata, _ := x.tree()["metadata"].(map[string]any)
	return metadata
}

func (x *engineRun) hasNamespaceOfJSON() bool {
	text, _ := x.metadata()["namespace"].(string)
	return jsonReference.MatchString(text)
}

// serverFields are those of metadata that the API server sets.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid",
}

func (x *engineRun) hasServerFields() bool {
	metadata := x.metadata()
	return x.tree()["status"] != nil || slices.ContainsFunc(serverFields, func(name string) bool { return metadata[name] != nil })
}

func (x *engineRun) isWithoutServerFields() bool {
	if x.rendered == nil || x.Expect.Stage != "" {
		return false
	}
	vm, message, err := x.drawn(x.rendered.Values)
	var recorded map[string]any
	if err != nil || message != x.rendered.Message || json.Unmarshal(vm, &recorded) != nil {
		return false
	}
	withoutServerFields(recorded)
	want, err := json.Marshal(recorded)
	return err == nil && differentVM(want, x.rendered.VirtualMachine) == "" && unequal(x.Expect.Warnings, ofSeverity(x.findings, validators.Warn)) == ""
}

// withoutServerFields removes what the API server sets from a VirtualMachine. It reports whether there was something.
func withoutServerFields(vm map[string]any) (found bool) {
	status, _ := vm["status"].(map[string]any)
	found = len(status) > 0
	delete(vm, "status")
	if metadata, ok := vm["metadata"].(map[string]any); ok {
		for _, name := range serverFields {
			found = found || metadata[name] != nil
			delete(metadata, name)
		}
	}
	return found
}

func (x *engineRun) isGivenEmpty() bool {
	return slices.ContainsFunc(x.spec.Parameters, func(p v1beta1.Parameter) bool {
		given, ok := x.Parameters[p.Name]
		return ok && given == ""
	})
}

func (x *engineRun) keepsGivenEmpty() bool {
	for i := range x.spec.Parameters {
		if given, ok := x.Parameters[x.spec.Parameters[i].Name]; ok && given == "" && x.rendered != nil && x.rendered.Values[x.spec.Parameters[i].Name] != "" {
			return false
		}
	}
	return x.isSinglePass()
}

func (x *engineRun) hasUndefinedInMessage() bool {
	return slices.ContainsFunc(namesIn(x.spec.Message), func(name string) bool {
		return !slices.ContainsFunc(x.spec.Parameters, func(p v1beta1.Parameter) bool { return p.Name == name })
	})
}

// namesIn are the names that a message refers to.
func namesIn(message string) (names []string) {
	for _, m := range append(anyReference.FindAllStringSubmatch(message, -1), jsonReference.FindAllStringSubmatch(message, -1)...) {
		names = append(names, m[1])
	}
	return names
}

func (x *engineRun) namesMessage() bool {
	return slices.Contains(ofSeverity(x.findings, validators.Deny), Cause{"undefined-parameter", "spec.message"})
}

func (x *engineRun) hasNestedClass() bool {
	return slices.ContainsFunc(x.spec.Parameters, func(p v1beta1.Parameter) bool {
		return generatorClass.MatchString(generatorClass.ReplaceAllString(p.From, "x"))
	})
}

func (x *engineRun) isExpandedOnce() bool {
	for i := range x.spec.Parameters {
		p := &x.spec.Parameters[i]
		literals := generatorClass.Split(p.From, -1)
		for i := range literals {
			literals[i] = regexp.QuoteMeta(literals[i])
		}
		if x.rendered == nil || !regexp.MustCompile("^"+strings.Join(literals, ".+")+"$").MatchString(x.rendered.Values[p.Name]) {
			return false
		}
	}
	return true
}

func (x *engineRun) hasFault() bool { return x.Expect.Stage != "" }

// namesMore reports whether Virtward names what is recorded and more faults.
func (x *engineRun) namesMore() bool {
	denied := ofSeverity(x.findings, validators.Deny)
	more := slices.DeleteFunc(slices.Clone(denied), func(c Cause) bool { return unequal(x.Expect.Causes, []Cause{c}) == "" })
	recorded := slices.DeleteFunc(slices.Clone(denied), func(c Cause) bool { return slices.Contains(more, c) })
	return x.rendered == nil && len(more) > 0 && unequal(x.Expect.Causes, recorded) == "" &&
		!slices.ContainsFunc(more, func(c Cause) bool {
			return slices.Contains(recorded, c)
		})
}

func (x *engineRun) addsFieldsOrLines() bool {
	for _, given := range x.Parameters {
		if strings.ContainsAny(given, "\n\r") || strings.HasPrefix(strings.TrimSpace(given), "{") || strings.HasPrefix(strings.TrimSpace(given), "[") {
			return true
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(x.Parameters)), func(name string) bool {
		return regexp.MustCompile(`\$\{\{?` + regexp.QuoteMeta(name) + `\}\}?[^"]*":`).Match(x.spec.VirtualMachine.Raw)
	})
}

func (x *engineRun) warnsOfGiven() bool {
	findings := slices.DeleteFunc(slices.Clone(x.findings), func(f validators.Finding) bool {
		return f.Rule == templates.RuleAddsFields || f.Rule == templates.RuleLineBreak
	})
	return len(findings) < len(x.findings) && x.difference(x.rendered, findings) == ""
}
