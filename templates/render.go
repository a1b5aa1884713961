package templates

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/decodelimits"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// The bounds of a rendered VirtualMachine. etcd takes 1.5 MiB.
const (
	maxRendered = 3 << 19
	maxDepth    = 200
	// maxPath bounds a path in a finding, and maxPathName each name in it, in bytes. Keys of Kubernetes have at most 317.
	maxPath     = 2 << 10
	maxPathName = 320
	// maxUnknown bounds the paths of what depends on values that are not known.
	maxUnknown = 5000
	// maxReplaced bounds the bytes of all replacements, also of those that are not written because a field takes no text.
	maxReplaced = 4 * maxRendered
)

// virtualMachineAt is where the VirtualMachine is in a template.
const virtualMachineAt = "spec.virtualMachine"

// Rendered is a VirtualMachine made of a template.
type Rendered struct {
	VirtualMachine *kubevirtv1.VirtualMachine
	Message        string
	// Values are those of all parameters, by their names.
	Values map[string]string
	// restricted are the findings that hold only where templates must be approved.
	restricted []validators.Finding
}

// Options of a render.
type Options struct {
	// Random draws generated values.
	Random Random
	// Approved: only approved templates may be used. So a given value must not add fields to the VirtualMachine, must not
	// change the structure of a text, and must be constrained in a text whose form is not known. Elsewhere the first two are
	// warnings.
	Approved bool
}

// Render makes a VirtualMachine of a template with values for its parameters. The findings are all that is wrong, sorted;
// the result is nil if one of them denies it.
func Render(spec *v1beta1.VirtualMachineTemplateSpec, given map[string]string, options Options) (*Rendered, []validators.Finding) {
	return (&renderer{report: &report{}, options: options}).run(spec, given, false)
}

// Check validates a template as it is: with its default values. What depends on the value of a required parameter
// without a default is not validated, and a finding says so.
func Check(spec *v1beta1.VirtualMachineTemplateSpec, random Random) []validators.Finding {
	_, findings := Preview(spec, nil, random)
	return findings
}

// run renders the template. In a partial run, required parameters may lack a value.
func (r *renderer) run(spec *v1beta1.VirtualMachineTemplateSpec, given map[string]string, partial bool) (*Rendered, []validators.Finding) {
	tree := r.parse(spec.VirtualMachine)
	w := newReferences(spec.Parameters)
	if tree != nil {
		w.walkAll(tree)
	}
	for _, name := range namesIn(spec.Message) { // a message has the text, also for ${{NAME}}
		w.asText[name] = true
	}
	r.values = (&resolver{report: r.report, given: given, random: r.options.Random, partial: partial, references: w}).resolve(spec.Parameters)
	r.checkReferences(w, spec)
	if tree != nil {
		r.object(tree, virtualMachineShape(), false)
	}
	message := r.message(spec.Message)
	var vm *kubevirtv1.VirtualMachine
	if !Denied(r.findings) {
		vm = r.decode()
	}
	findings := r.sorted()
	if vm == nil || Denied(findings) {
		return nil, findings
	}
	values := make(map[string]string, len(r.values))
	for name, v := range r.values {
		values[name] = v.text
	}
	return &Rendered{VirtualMachine: vm, Message: message, Values: values, restricted: r.restricted}, findings
}

// renderer writes the JSON of the VirtualMachine.
type renderer struct {
	*report

	options Options
	values  map[string]*value
	out     []byte
	path    []step
	tooLong bool
	// replaced counts the bytes of the values that were inserted, compared those of the texts that were parsed.
	replaced, compared int
	// restricted are the findings that hold only where templates must be approved.
	restricted []validators.Finding
	// unknown are the paths of what depends on values that are not known.
	unknown []string
}

// step is one step of a path: a field, a key or an index.
type step struct {
	name  string
	index int
	kind  stepKind
}

type stepKind int

const (
	fieldStep stepKind = iota
	keyStep
	indexStep
)

// at is the path of what is written, in the template.
func (r *renderer) at() string { return pathOf(r.path) }

// pathOf is a path as text. Users choose the names and the depth, so both are bounded.
func pathOf(path []step) string {
	var b strings.Builder
	b.WriteString(virtualMachineAt)
	for _, s := range path {
		name := texts.Shorten(s.name, maxPathName)
		if b.Len()+len(name) > maxPath {
			b.WriteString("…")
			break
		}
		switch s.kind {
		case fieldStep:
			b.WriteString("." + name)
		case keyStep:
			b.WriteString("[" + name + "]")
		case indexStep:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
	}
	return b.String()
}

// parse reads the template's VirtualMachine. Numbers keep their digits.
func (r *renderer) parse(raw *runtime.RawExtension) map[string]any {
	var data []byte
	if raw != nil {
		data = bytes.TrimSpace(raw.Raw)
	}
	if len(data) == 0 || string(data) == "null" {
		r.deny(RuleVirtualMachineMissing, invalid(virtualMachineAt, nil, "a template must have a VirtualMachine"))
		return nil
	}
	r.out = make([]byte, 0, 2*len(data))
	parsed, err := parseBounded(data)
	if tooMany, ok := errors.AsType[*field.Error](err); ok {
		r.deny(RuleTooLarge, &field.Error{Type: tooMany.Type, Field: virtualMachineAt, BadValue: tooMany.BadValue, Detail: tooMany.Detail})
		return nil
	}
	if err != nil {
		r.deny(RuleVirtualMachineNotObject, invalid(virtualMachineAt, texts.Shorten(string(data), maxShown), "it is not JSON"))
		return nil
	}
	tree, ok := parsed.(map[string]any)
	if !ok {
		r.deny(RuleVirtualMachineNotObject, invalid(virtualMachineAt, texts.Shorten(string(data), maxShown), "it must be an object"))
		return nil
	}
	return tree
}

// parseJSON reads one JSON value. Numbers keep their digits.
func parseJSON[T string | []byte](data T) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(data)))
	decoder.UseNumber()
	var parsed any
	if err := decoder.Decode(&parsed); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("text follows the value")
	}
	return parsed, nil
}

// parseBounded is parseJSON for text with a bounded number of values. The error is a *field.Error if there are too many:
// two bytes of JSON can become sixty in memory.
func parseBounded[T string | []byte](data T) (any, error) {
	text := []byte(data)
	if err := decodelimits.Object(text, reflect.TypeFor[any]()); err != nil {
		return nil, err
	}
	return parseJSON(text)
}

func isComposite(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// references walks a tree and notes what it refers to.
type references struct {
	// numbers are the parameters that a value of a field is with ${{NAME}}. decoded are those with ${{NAME}} in any place,
	// and asText those with ${NAME}.
	numbers, decoded, asText map[string]bool
	// declared are the names of the template's parameters, used those that it refers to.
	declared, used map[string]bool
	// undefined are the references to others.
	undefined map[use]bool
	path      []step
	// inOrder makes walk visit the members of objects in the order of their names.
	inOrder bool
}

func newReferences(parameters []v1beta1.Parameter) *references {
	w := &references{numbers: map[string]bool{}, decoded: map[string]bool{}, asText: map[string]bool{}, declared: make(map[string]bool, len(parameters)), used: map[string]bool{}, undefined: map[use]bool{}}
	for i := range parameters {
		w.declared[parameters[i].Name] = true
	}
	return w
}

// use is a reference to a parameter, and where it is.
type use struct{ name, at string }

// walkAll walks a whole tree. If it refers to too many parameters that do not exist, the first ones in the order of names are
// noted, so that the same template has the same findings.
func (w *references) walkAll(tree any) {
	if w.walk(tree); len(w.undefined) >= maxFindings {
		w.inOrder = true
		clear(w.undefined)
		w.walk(tree)
	}
}

func (w *references) walk(node any) {
	if len(w.path) > maxDepth {
		return
	}
	switch n := node.(type) {
	case map[string]any:
		if w.inOrder {
			for _, key := range slices.Sorted(maps.Keys(n)) {
				w.member(key, n[key])
			}
			return
		}
		for key, child := range n {
			w.member(key, child)
		}
	case []any:
		for i, child := range n {
			w.path = append(w.path, step{index: i, kind: indexStep})
			w.walk(child)
			w.path = w.path[:len(w.path)-1]
		}
	case string:
		if name, ok := wholeReference(n); ok {
			w.numbers[name] = true
		}
		w.text(n)
	}
}

func (w *references) member(key string, child any) {
	w.text(key)
	w.path = append(w.path, step{name: key})
	w.walk(child)
	w.path = w.path[:len(w.path)-1]
}

func (w *references) text(text string) {
	if !strings.Contains(text, "${") {
		return
	}
	names, asText := namesIn(text), w.asText
	if _, whole := wholeReference(text); whole {
		asText = w.decoded
	}
	for _, name := range names {
		w.used[name], asText[name] = true, true
		if !w.declared[name] && len(w.undefined) < maxFindings {
			w.undefined[use{name, pathOf(w.path)}] = true
		}
	}
}

// namesIn are the parameters that a text refers to.
func namesIn(text string) []string {
	if name, whole := wholeReference(text); whole {
		return []string{name}
	}
	var names []string
	for _, s := range split(text) {
		if s.reference {
			names = append(names, s.text)
		}
	}
	return names
}

// checkReferences reports references to parameters that do not exist, and parameters without a reference.
func (r *renderer) checkReferences(w *references, spec *v1beta1.VirtualMachineTemplateSpec) {
	for _, name := range namesIn(spec.Message) {
		w.used[name] = true
		if !w.declared[name] {
			w.undefined[use{name, "spec.message"}] = true
		}
	}
	for _, u := range slices.SortedFunc(maps.Keys(w.undefined), func(a, b use) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name))
	}) {
		name := texts.Shorten(u.name, maxShown)
		r.deny(RuleUndefinedParameter, invalid(u.at, "${"+name+"}", "the template has no parameter "+name))
	}
	for i := range spec.Parameters {
		name := spec.Parameters[i].Name
		if !w.used[name] {
			r.warn(RuleUnusedParameter, invalid(parameterAt(i, "name"), name, "the template does not refer to the parameter"))
		}
		if v := r.values[name]; v != nil && v.unknown && v.parameter == &spec.Parameters[i] {
			r.warn(RuleNotValidated, invalid(parameterAt(i, "value"), "", "what depends on the required parameter "+name+" is not validated, since it has no default"))
		}
	}
}

// write appends to the result, up to its bound.
func (r *renderer) write(data ...string) {
	for _, d := range data {
		if len(r.out)+len(d) > maxRendered {
			r.tooLarge()
			return
		}
		r.out = append(r.out, d...)
	}
}

func (r *renderer) tooLarge() {
	if !r.tooLong {
		r.tooLong = true
		r.deny(RuleTooLarge, &field.Error{Type: field.ErrorTypeTooLong, Field: virtualMachineAt, BadValue: "", Detail: fmt.Sprintf("the rendered VirtualMachine has more than %d bytes", maxRendered)})
	}
}

func (r *renderer) writeText(text string) {
	if len(r.out)+len(text) > maxRendered {
		r.tooLarge()
		return
	}
	r.out = appendText(r.out, text)
}

// appendText appends a string in JSON.
func appendText(out []byte, text string) []byte {
	for i := range len(text) {
		if b := text[i]; b < ' ' || b >= 0x7f || b == '"' || b == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil { // no string fails
				return append(out, '"', '"')
			}
			return append(out, quoted...)
		}
	}
	out = append(out, '"')
	out = append(out, text...)
	return append(out, '"')
}

// node writes a value of the tree. literal: it is of a parameter's value, in which nothing is replaced.
func (r *renderer) node(node any, s *shape, literal bool) {
	if r.tooLong || r.full() {
		return
	}
	if len(r.path) > maxDepth {
		r.mismatch(s, "it is nested too deeply")
		return
	}
	switch n := node.(type) {
	case nil:
		r.write("null")
	case map[string]any:
		if s.kind == itself {
			r.decodesItself(node, s)
			return
		}
		if s.kind != object && s.kind != dictionary && s.kind != anything {
			r.mismatch(s, "an object")
			return
		}
		r.object(n, s, literal)
	case []any:
		if s.kind != list && s.kind != anything {
			r.mismatch(s, "a list")
			return
		}
		r.list(n, s, literal)
	case string:
		r.string(n, s, literal)
	case json.Number:
		r.number(n, s)
	case bool:
		if s.kind != boolean && s.kind != anything {
			r.mismatch(s, strconv.FormatBool(n))
			return
		}
		r.write(strconv.FormatBool(n))
	}
}

// mismatch reports a value of another type than the field's.
func (r *renderer) mismatch(s *shape, found string) {
	r.deny(RuleDoesNotDecode, invalid(r.at(), texts.Shorten(found, maxShown), "it must be "+s.kind.String()))
}

func (r *renderer) list(elements []any, s *shape, literal bool) {
	element := s.element
	if element == nil {
		element = &shape{}
	}
	r.write("[")
	for i, e := range elements {
		if i > 0 {
			r.write(",")
		}
		r.path = append(r.path, step{index: i, kind: indexStep})
		r.node(e, element, literal)
		r.path = r.path[:len(r.path)-1]
	}
	r.write("]")
}

func (r *renderer) object(members map[string]any, s *shape, literal bool) {
	r.write("{")
	var taken map[string]bool
	first := true
	for _, name := range slices.Sorted(maps.Keys(members)) {
		key, replaced, ok := name, false, true
		if !literal {
			key, replaced, ok = r.key(name)
		}
		if !ok || !literal && r.isHardCodedNamespace(key, members[name]) {
			continue
		}
		if replaced {
			if taken == nil {
				taken = keysWithoutReferences(members)
			}
			if taken[key] {
				shown := texts.Shorten(key, maxShown)
				r.deny(RuleKeyCollision, &field.Error{Type: field.ErrorTypeDuplicate, Field: r.at() + "[" + shown + "]", BadValue: shown})
				continue
			}
			taken[key] = true
		}
		child, kind := r.member(key, s)
		if child == nil {
			continue
		}
		if !first {
			r.write(",")
		}
		first = false
		r.writeText(key)
		r.write(":")
		r.path = append(r.path, step{name: key, kind: kind})
		r.node(members[name], child, literal)
		r.path = r.path[:len(r.path)-1]
	}
	r.write("}")
}

// keysWithoutReferences are the keys of an object that stay as they are.
func keysWithoutReferences(members map[string]any) map[string]bool {
	keys := map[string]bool{}
	for key := range members {
		if !hasReference(key) {
			keys[key] = true
		}
	}
	return keys
}

// member is the shape of a member of an object; nil, and reported, if there is no such field.
func (r *renderer) member(key string, s *shape) (*shape, stepKind) {
	switch s.kind {
	case object:
		if child := s.fields[key]; child != nil {
			return child, fieldStep
		}
		r.deny(RuleUnknownField, invalid(r.at()+"."+texts.Shorten(key, maxShown), texts.Shorten(key, maxShown), "a VirtualMachine has no such field"))
		return nil, fieldStep
	case dictionary:
		return s.element, keyStep
	}
	return &shape{}, keyStep
}

// isHardCodedNamespace reports whether a member is the VirtualMachine's namespace without a reference, which is removed.
func (r *renderer) isHardCodedNamespace(key string, value any) bool {
	if key != "namespace" || len(r.path) != 1 || r.path[0].name != "metadata" {
		return false
	}
	text, isText := value.(string)
	if !isText {
		return value == nil
	}
	return !hasReference(text)
}

// key is a key of an object with its references replaced. ok is false if it has no value, which is reported.
func (r *renderer) key(written string) (key string, replaced, ok bool) {
	if name, whole := wholeReference(written); whole {
		v := r.values[name]
		if v == nil || v.unknown {
			r.isUnknown()
			return "", true, false
		}
		r.keyOf(v)
		parsed, err := v.parse()
		if err != nil {
			return v.text, true, true
		}
		text, isText := parsed.(string)
		if !isText {
			r.deny(RuleNotAssignable, invalid(v.at, texts.Shorten(v.text, maxShown), "a key must be a text"))
			return "", true, false
		}
		return text, true, true
	}
	segments := split(written)
	if len(segments) == 1 && !segments[0].reference {
		return written, false, true
	}
	text, known := r.join(segments, r.keyOf)
	if !known {
		r.isUnknown()
	}
	return text, true, known
}

// isUnknown notes that a value is not known of what is written. Of very many values, nothing is known of the rest.
func (r *renderer) isUnknown() {
	switch n := len(r.unknown); {
	case n < maxUnknown:
		r.unknown = append(r.unknown, r.at())
	case n == maxUnknown:
		r.unknown = append(r.unknown, virtualMachineAt+".metadata", virtualMachineAt+".spec")
	}
}

// keyOf reports a given value that decides the name of a field.
func (r *renderer) keyOf(v *value) {
	if v.isKey {
		return
	}
	v.isKey = true
	if v.given && v.parameter.Type != v1beta1.ParameterObject && len(v.parameter.Enum) == 0 {
		r.restrict(RuleAddsFields, v, "it decides the name of a field")
	}
}

// restrict denies a given value where templates must be approved, and warns of it elsewhere.
func (r *renderer) restrict(rule string, v *value, detail string) {
	for i := range r.findings {
		if f := &r.findings[i]; f.Rule == rule && f.Error.Field == v.at {
			return
		}
	}
	found := validators.Finding{Rule: rule, Severity: validators.Warn, Error: invalid(v.at, texts.Shorten(v.text, maxShown), detail), Remedy: remedies[rule]}
	switch {
	case r.options.Approved:
		r.deny(rule, found.Error)
	case rule != RuleNotConstrained:
		r.warn(rule, found.Error)
	case len(r.restricted) < maxFindings:
		r.restricted = append(r.restricted, found)
	}
}

// Restrict returns the findings of a render as they are with Options.Approved. So a template is rendered once if it becomes
// known after the render that the template must be approved.
func (r *Rendered) Restrict(findings []validators.Finding) []validators.Finding {
	findings = append(findings, r.restricted...)
	for i := range findings {
		switch findings[i].Rule {
		case RuleAddsFields, RuleLineBreak, RuleStructure, RuleNotConstrained:
			findings[i].Severity = validators.Deny
		}
	}
	validators.Sort(findings)
	return findings
}

// replace counts a replacement, and reports whether the bound allows it.
func (r *renderer) replace(v *value) bool {
	if r.replaced += len(v.text); r.replaced > maxReplaced {
		r.tooLarge()
		return false
	}
	return !r.tooLong
}

// join replaces the references of a text. known is false if a value is not known.
func (r *renderer) join(segments []segment, each func(*value)) (joined string, known bool) {
	size := 0
	known = true
	parts := make([]string, len(segments))
	for i, s := range segments {
		parts[i] = s.text
		if s.reference {
			v := r.values[s.text]
			if v == nil || v.unknown {
				known, parts[i] = false, ""
				continue
			}
			if !r.replace(v) {
				return "", false
			}
			each(v)
			parts[i] = v.text
		}
		if size += len(parts[i]); size > maxRendered {
			r.tooLarge()
			return "", false
		}
	}
	return strings.Join(parts, ""), known
}

// string writes a string of the tree.
func (r *renderer) string(written string, s *shape, literal bool) {
	if literal {
		r.text(written, s)
		return
	}
	if name, whole := wholeReference(written); whole {
		r.whole(name, s)
		return
	}
	segments := split(written)
	if len(segments) == 1 && !segments[0].reference {
		r.text(written, s)
		return
	}
	if joined, known := r.join(segments, r.lineOf); known {
		r.insert(segments, false, joined)
		r.text(joined, s)
	} else {
		r.isUnknown()
		r.write("null")
	}
}

// lineOf reports a given value that adds lines to a text.
func (r *renderer) lineOf(v *value) {
	if v.isLine {
		return
	}
	v.isLine = true
	r.breaksLine(v, v.text)
}

func (r *renderer) breaksLine(v *value, text string) {
	if v.given && !v.constrained() && strings.ContainsAny(text, "\n\r\u0085\u2028\u2029") {
		r.restrict(RuleLineBreak, v, "it has a line break")
	}
}

// decodedText writes the text of ${{NAME}}.
func (r *renderer) decodedText(v *value, text string, s *shape) {
	if !v.isDecodedLine {
		v.isDecodedLine = true
		r.breaksLine(v, text)
	}
	if v.isFree() {
		r.insert([]segment{{text: v.parameter.Name, reference: true}}, true, text)
	}
	r.text(text, s)
}

// whole writes the value of ${{NAME}}: as JSON, or as text if it is no JSON.
func (r *renderer) whole(name string, s *shape) {
	v := r.values[name]
	if v == nil || v.unknown {
		r.isUnknown()
		r.write("null")
		return
	}
	if !r.replace(v) {
		return
	}
	parsed, err := v.parse()
	if tooMany, ok := errors.AsType[*field.Error](err); ok && json.Valid([]byte(v.text)) {
		r.deny(RuleTooLarge, &field.Error{Type: tooMany.Type, Field: v.at, BadValue: tooMany.BadValue, Detail: tooMany.Detail})
		return
	}
	switch {
	case err != nil:
		r.decodedText(v, v.text, s)
		return
	case parsed == nil:
		r.deny(RuleNullValue, invalid(v.at, v.text, "null is no value: "+r.at()+" must have one"))
		return
	}
	if text, isText := parsed.(string); isText {
		r.decodedText(v, text, s)
		return
	}
	if isComposite(parsed) && v.given && v.parameter.Type != v1beta1.ParameterObject {
		r.restrict(RuleAddsFields, v, "it adds fields to the VirtualMachine")
	}
	r.node(parsed, s, true)
}

// text writes a string, for a field that takes one.
func (r *renderer) text(text string, s *shape) {
	switch s.kind {
	case itself:
		r.decodesItself(text, s)
	case textKind, anything:
		r.writeText(text)
	default:
		r.mismatch(s, text)
	}
}

// decodesItself writes a value for a type with a decoder of its own.
func (r *renderer) decodesItself(node any, s *shape) {
	if text, ok := node.(string); ok && !decodelimits.Parsable(text) && strings.Contains(s.of.String(), "Quantity") {
		r.mismatch(&shape{kind: itself}, text)
		return
	}
	data, err := json.Marshal(node)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(s.of).Interface())
	}
	if err != nil {
		r.deny(RuleDoesNotDecode, invalid(r.at(), texts.Shorten(strings.Trim(string(data), `"`), maxShown), "it must be a "+nameOf(s.of)))
		return
	}
	r.write(string(data))
}

// nameOf is what a type is called in messages.
func nameOf(t reflect.Type) string {
	switch t.Name() {
	case "Quantity":
		return "quantity such as 4Gi"
	case "Time", "MicroTime":
		return "time such as 2006-01-02T15:04:05Z"
	case "Duration":
		return "duration such as 30s"
	case "IntOrString":
		return "number or a string"
	case "":
		return "text in base64"
	}
	return t.Name()
}

// number writes a number, for a field that takes one.
func (r *renderer) number(n json.Number, s *shape) {
	switch s.kind {
	case anything, float:
		r.write(string(n))
	case itself:
		if !decodelimits.Parsable(string(n)) {
			r.mismatch(s, string(n))
			return
		}
		r.decodesItself(n, s)
	case integer, unsigned:
		digits, ok := integerOf(string(n), s)
		if !ok {
			r.deny(RuleDoesNotDecode, invalid(r.at(), texts.Shorten(string(n), maxShown), "it must be an integer of "+strconv.Itoa(s.of.Bits())+" bits"+unsignedNote(s)))
			return
		}
		r.write(digits)
	default:
		r.mismatch(s, string(n))
	}
}

func unsignedNote(s *shape) string {
	if s.kind == unsigned {
		return ", not negative"
	}
	return ""
}

// exactFloat bounds the integers that a float holds exactly.
const exactFloat = 1 << 53

// integerOf are the digits of an integer that fits the type. 4.0 and 1e3 are integers too.
func integerOf(n string, s *shape) (string, bool) {
	if strings.ContainsAny(n, ".eE") {
		f, err := strconv.ParseFloat(n, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > exactFloat {
			return "", false
		}
		n = strconv.FormatInt(int64(f), 10)
	}
	var err error
	if s.kind == unsigned {
		_, err = strconv.ParseUint(n, 10, s.of.Bits())
	} else {
		_, err = strconv.ParseInt(n, 10, s.of.Bits())
	}
	return n, err == nil
}

// message renders the template's message. ${{NAME}} is replaced with the text.
func (r *renderer) message(message string) string {
	if message == "" {
		return ""
	}
	r.path = nil
	segments := split(message)
	if name, whole := wholeReference(message); whole {
		segments = []segment{{text: name, reference: true}}
	}
	var b strings.Builder
	for _, s := range segments {
		part := s.text
		if s.reference {
			v := r.values[s.text]
			if v == nil {
				continue
			}
			part = v.text
		}
		if b.Len()+len(part) > maxRendered {
			r.deny(RuleTooLarge, &field.Error{Type: field.ErrorTypeTooLong, Field: "spec.message", BadValue: "", Detail: fmt.Sprintf("the rendered message has more than %d bytes", maxRendered)})
			return ""
		}
		b.WriteString(part)
	}
	return b.String()
}

// decode reads the VirtualMachine that was written. Fields that the API server sets are removed.
func (r *renderer) decode() *kubevirtv1.VirtualMachine {
	vm := &kubevirtv1.VirtualMachine{}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(r.out, vm); err != nil {
		if len(r.unknown) > 0 { // a type that decodes itself may not take null
			return nil
		}
		r.deny(RuleDoesNotDecode, invalid(virtualMachineAt, "", err.Error()))
		return nil
	}
	vm.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	vm.Status = kubevirtv1.VirtualMachineStatus{}
	kept := vm.ObjectMeta
	vm.ObjectMeta = metav1.ObjectMeta{
		Name: kept.Name, GenerateName: kept.GenerateName, Namespace: kept.Namespace, Labels: kept.Labels, Annotations: kept.Annotations, Finalizers: kept.Finalizers,
	}
	return vm
}
