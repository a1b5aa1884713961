package convert

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/texts"
)

// engineRego is the name of the engine of templates in Rego.
const engineRego = "Rego"

// regoSource is the code of a template in Rego. Its version is v0 unless it says v1.
type regoSource struct {
	Version string   `json:"version,omitempty"`
	Rego    string   `json:"rego"`
	Libs    []string `json:"libs,omitempty"`
}

// regoSource returns the code of a template in Rego; nil if it has none.
func (s *templateSpec) regoSource() (*regoSource, error) {
	for i := range s.Targets {
		target := &s.Targets[i]
		for _, code := range target.Code {
			if code.Engine != engineRego {
				continue
			}
			source := &regoSource{}
			if _, err := decodeValue(code.Source, source); err != nil {
				return nil, err
			}
			return source, nil
		}
		if target.Rego != "" {
			return &regoSource{Rego: target.Rego, Libs: target.Libs}, nil
		}
	}
	return nil, nil
}

// regoTemplate writes the module of a template. The error says what has no equivalent.
func (o *original) regoTemplate(template *templateSpec, constraint *unstructured.Unstructured, spec *constraintSpec) error {
	source, err := template.regoSource()
	if err != nil {
		return err
	}
	if source == nil {
		return errors.New("it has no code")
	}
	o.templateOperations(template)
	t := &regoTranslation{o: o, pods: o.pods, names: map[string]string{}, taken: map[string]bool{}, removes: o.matches(policyv1alpha1.PolicyDelete)}
	if o.module, err = t.module(source); err != nil {
		return err
	}
	if strings.ContainsFunc(o.module, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) }) {
		return errors.New("it has control characters, which YAML cannot have: write them as escapes, such as \\u007f")
	}
	o.action(spec)
	parameters := template.parametersOf(spec)
	modules, err := resolved(source) // the others were translated in place
	if err != nil {
		return err
	}
	if names := fallible(modules); len(names) > 0 {
		o.differs("spec.rego.module", strings.Join(names, ", ")+": a value that a function cannot read is an error, which denies; in the original, the rule has no result")
	}
	var reads *regoReads
	if o.written, reads = o.writtenModule(modules, parameters, spec); o.pods {
		check := &regoPods{regoReads: reads, given: parameters}
		if err := check.check(modules); err != nil {
			return err
		}
		if check.unread {
			o.differs("spec.rego.module", partsUnread)
		}
		if check.named {
			o.differs("spec.rego.module", "the name of the pod is random: messages have its prefix, generateName")
		}
		if check.everyKey {
			o.differs("spec.rego.module", everyKeyRead)
		}
	}
	if !t.readsParams {
		return nil
	}
	if o.values = parameters; o.values == nil {
		o.values = map[string]any{}
	}
	o.differs("spec.params", "copied from the constraint "+constraint.GetName()+": change the parameters here")
	return nil
}

// guardedFunctions are functions that have an error for some values, each as a function of a module that has no result for these, as in
// Gatekeeper, with the number of its arguments.
func guardedFunctions() map[string]guardedFunction {
	return map[string]guardedFunction{
		ast.ToNumber.Name: {1, `%s(x) := to_number(x) if {
	is_string(x)
	regex.match("` + readNumber + `", x)
} else := to_number(x) if {
	type_name(x) in {"boolean", "null", "number"}
}`},
		ast.Substring.Name: {3, `%s(x, from, length) := substring(x, from, length) if {
	is_string(x)
	is_number(from)
	is_number(length)
	from >= 0
	from == floor(from)
	length == floor(length)
}`},
		ast.Divide.Name: {2, `%s(x, y) := x / y if {
	is_number(x)
	is_number(y)
	y != 0
}`},
		ast.Rem.Name: {2, `%s(x, y) := x %% y if {
	is_number(x)
	is_number(y)
	x == floor(x)
	y == floor(y)
	y != 0
}`},
	}
}

// guardedFunction is a function of guardedFunctions.
type guardedFunction struct {
	arguments int
	text      string
}

// guard replaces calls of guardedFunctions, also those with an argument for the result.
func (t *regoTranslation) guard(m *ast.Module) {
	guarded := guardedFunctions()
	walkCalls(m, func(terms []*ast.Term) {
		name := terms[0].String()
		of, ok := guarded[name]
		if !ok || len(terms) <= of.arguments || readsAll(name, terms[1:of.arguments+1]) {
			return
		}
		terms[0] = &ast.Term{Value: ast.Ref{&ast.Term{Value: ast.Var(t.helper(name)), Location: terms[0].Location}}, Location: terms[0].Location}
	})
}

// replacesChanged is an error if a module replaces, by "with", a function that has another name or another form in the policy.
func replacesChanged(m *ast.Module) (err error) {
	changed := slices.Collect(maps.Keys(guardedFunctions()))
	for from, to := range renamedFunctions() {
		changed = append(changed, from, to.String())
	}
	ast.WalkWiths(m, func(with *ast.With) bool {
		if name := with.Target.String(); slices.Contains(changed, name) {
			err = fmt.Errorf("it replaces the function %s by \"with\", which has no equivalent", name)
		}
		return false
	})
	return err
}

// readsAll reports whether a call of one of guardedFunctions has no error: its arguments are literals that it reads.
func readsAll(name string, arguments []*ast.Term) bool {
	whole := func(i int) (int64, bool) {
		number, _ := arguments[i].Value.(ast.Number)
		return number.Int64()
	}
	switch name {
	case ast.Divide.Name:
		_, number := arguments[0].Value.(ast.Number)
		n, ok := whole(1)
		return number && ok && n != 0
	case ast.Rem.Name:
		_, integer := whole(0)
		n, ok := whole(1)
		return integer && ok && n != 0
	case ast.Substring.Name:
		_, text := arguments[0].Value.(ast.String)
		from, ok := whole(1)
		_, integer := whole(2)
		return text && ok && from >= 0 && integer
	}
	return false
}

// matches reports whether an operation is matched.
func (o *original) matches(operation policyv1alpha1.PolicyOperation) bool {
	for c := range o.matched {
		if c.operation == operation {
			return true
		}
	}
	return false
}

// The rules of Gatekeeper and of Virtward, and the rule for the object at deletions.
const (
	violationRule = "violation"
	denyRule      = "deny"
	objectRule    = "review_object"
)

// reservedRules are names that a converted rule cannot have. A rule with the name of a function of OPA, or with its first part, replaces the
// function in the whole module: in libraries and in guardedFunctions, too.
func reservedRules() map[string]bool {
	reserved := map[string]bool{denyRule: true, "warn": true, objectRule: true, "input": true, "data": true}
	for function := range ast.BuiltinMap {
		name, _, _ := strings.Cut(function, ".")
		reserved[name] = true
	}
	return reserved
}

// regoTranslation translates the modules of a template into one.
type regoTranslation struct {
	o *original
	// names are the new names of rules, by their paths, such as data.lib.images.allowed.
	names map[string]string
	// taken are the names that variables and rules have.
	taken map[string]bool
	// removes reports whether deletions are matched: Gatekeeper has the old object in the place of the object then.
	removes bool
	// renames reports whether each element of violation is written in its rule, so that the rule becomes deny.
	renames bool
	// details reports whether a violation has more than its message.
	details, readsParams, readsObject bool
	// pods reports whether the object is a pod of a virtual machine.
	pods bool
	// review is the name of the rule with the whole review; empty if nothing reads it.
	review string
	// helpers are the names of functions of the module in place of others, by the names of these.
	helpers map[string]string
}

// module returns the text of one module for the code of a template. OPA's printer panics on some code that its parser reads.
func (t *regoTranslation) module(source *regoSource) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("it cannot be written in Rego v1: %s", texts.Shorten(texts.OneLine(fmt.Sprint(r)), 2*maxQuoted))
		}
	}()
	modules, err := resolved(source)
	if err != nil {
		return "", err
	}
	main := modules[0]
	if t.renames, err = t.violations(main); err != nil {
		return "", err
	}
	t.nameAll(modules)
	parts := make([]string, 0, len(modules)+2)
	for i, m := range modules {
		if err := t.translate(m, i == 0); err != nil {
			return "", err
		}
		text, err := written(m)
		if err != nil {
			return "", err
		}
		if i > 0 {
			text = "# From " + strings.TrimPrefix(m.Package.Path.String(), "data.") + ".\n" + strings.TrimSpace(withoutPackage(text))
		}
		parts = append(parts, strings.TrimSpace(text))
	}
	if !t.renames {
		parts = append(parts, "deny contains {\"msg\": v.msg} if some v in "+t.names[main.Package.Path.String()+"."+violationRule])
	}
	if t.review != "" {
		t.readsObject = !t.pods
		parts = append(parts, t.wholeReview())
	}
	for _, name := range slices.Sorted(maps.Keys(t.helpers)) {
		text := cmp.Or(removedFunctions()[name], guardedFunctions()[name].text)
		parts = append(parts, fmt.Sprintf(text, t.helpers[name]))
	}
	if t.removes && t.readsObject {
		parts = append(parts, "# At deletions, Gatekeeper has the old object here.\n"+
			objectRule+" := input.oldObject if {\n\tinput.request.operation == \"DELETE\"\n} else := input.object")
	}
	if t.details {
		t.o.differs("spec.rego.module", "the details of violations are left out: a finding has a message and a field")
	}
	text, err = tidied(strings.Join(parts, "\n\n") + "\n")
	return indented(text), err
}

// indented indents lines by spaces: YAML has no block of text with tabs. A text that goes over lines is left.
func indented(text string) string {
	if strings.Contains(text, "`") {
		return text
	}
	return tabs.ReplaceAllStringFunc(text, func(all string) string { return strings.Repeat("    ", len(all)) })
}

var tabs = regexp.MustCompile(`(?m)^\t+`)

// errTooLarge is the error of code beyond the bound of a module.
var errTooLarge = fmt.Errorf("its code has more than %d bytes", rego.MaxModuleBytes)

// resolved parses the code, the main module first. Each reference to a rule or an import has its whole path then.
func resolved(source *regoSource) ([]*ast.Module, error) {
	version, size := ast.RegoV0, len(source.Rego)
	switch source.Version {
	case "", "v0":
	case "v1":
		version = ast.RegoV1
	default:
		return nil, fmt.Errorf("the version %s of Rego is unknown", texts.Shorten(source.Version, maxQuoted))
	}
	named := make(map[string]*ast.Module, 1+len(source.Libs))
	var order []string
	for i, text := range append([]string{source.Rego}, source.Libs...) {
		if size += len(text); size > rego.MaxModuleBytes {
			return nil, errTooLarge
		}
		name := fmt.Sprintf("module-%03d", i)
		m, err := ast.ParseModuleWithOpts(name, text, ast.ParserOptions{RegoVersion: version})
		switch {
		case err != nil:
			return nil, fmt.Errorf("it cannot be read: %s", texts.Shorten(texts.OneLine(err.Error()), 2*maxQuoted))
		case m == nil:
			return nil, errors.New("a module is empty")
		case i > 0 && !m.Package.Path.HasPrefix(libraries):
			return nil, fmt.Errorf("a library has the package %s, which does not begin with lib", texts.Shorten(m.Package.Path.String(), maxQuoted))
		}
		named[name], order = m, append(order, name)
	}
	modules := make([]*ast.Module, len(order))
	done := ast.NewError(ast.CompileErr, nil, "resolved")
	compiler := ast.NewCompiler().WithDefaultRegoVersion(version).WithStageAfterID(ast.StageResolveRefs, ast.CompilerStageDefinition{
		Name: "Virtward", Stage: func(c *ast.Compiler) *ast.Error {
			for i, name := range order {
				modules[i] = c.Modules[name].Copy()
			}
			return done
		},
	})
	compiler.Compile(named)
	if modules[0] == nil {
		return nil, fmt.Errorf("it cannot be compiled: %s", texts.Shorten(texts.OneLine(compiler.Errors.Error()), 2*maxQuoted))
	}
	for _, m := range modules {
		readParameters(m)
	}
	return modules, nil
}

// libraries is the package of libraries.
var libraries = ast.MustParseRef("data.lib")

// violations checks the rules of violation, and reports whether each can become one of deny.
func (t *regoTranslation) violations(main *ast.Module) (renames bool, err error) {
	path := main.Package.Path.Append(ast.StringTerm(violationRule))
	found := false
	renames = true
	for _, rule := range main.Rules {
		if nameOfRule(rule) != violationRule {
			continue
		}
		found = true
		if rule.Head.RuleKind() != ast.MultiValue || rule.Head.Key == nil || len(rule.Head.Args) > 0 {
			return false, errors.New("violation is not a set")
		}
		element, ok := rule.Head.Key.Value.(ast.Object)
		if !ok {
			renames = false
			continue
		}
		if element.Get(ast.StringTerm("msg")) == nil {
			return false, errors.New("a violation has no msg")
		}
	}
	if !found {
		return false, errors.New("it has no rule named violation")
	}
	ast.WalkRefs(main, func(ref ast.Ref) bool {
		renames = renames && !ref.HasPrefix(path)
		return false
	})
	return renames, nil
}

func nameOfRule(rule *ast.Rule) string {
	ref := rule.Head.Ref()
	if len(ref) == 0 {
		return ""
	}
	name, _ := ref[0].Value.(ast.Var)
	return string(name)
}

// nameAll chooses the names of all rules. Those of libraries begin with the name of their library.
func (t *regoTranslation) nameAll(modules []*ast.Module) {
	reserved := reservedRules()
	maps.Copy(t.taken, reserved)
	for _, m := range modules {
		ast.WalkVars(m, func(v ast.Var) bool { t.taken[string(v)] = true; return false })
	}
	for i, m := range modules {
		for _, rule := range m.Rules {
			name := nameOfRule(rule)
			path := m.Package.Path.String() + "." + name
			if t.names[path] != "" {
				continue
			}
			switch {
			case i == 0 && name == violationRule && t.renames:
				t.names[path] = denyRule
			case i == 0 && !reserved[name]:
				t.names[path] = name
			default:
				last, _ := m.Package.Path[len(m.Package.Path)-1].Value.(ast.String)
				t.names[path] = t.free(strings.Map(letters, string(last)) + "_" + name)
			}
		}
	}
}

// letters replaces what a name cannot have.
func letters(r rune) rune {
	if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '_'
}

// free returns a name that nothing has.
func (t *regoTranslation) free(name string) string {
	found := name
	for n := 2; t.taken[found]; n++ {
		found = fmt.Sprintf("%s_%d", name, n)
	}
	t.taken[found] = true
	return found
}

// translate changes a module in place.
func (t *regoTranslation) translate(m *ast.Module, main bool) error {
	failed := replacesChanged(m)
	visit := func(term *ast.Term) bool {
		ref, ok := term.Value.(ast.Ref)
		if !ok || failed != nil {
			return failed != nil
		}
		changed, err := t.reference(ref)
		if err != nil {
			failed = err
			return true
		}
		term.Value = changed
		return false
	}
	for _, rule := range m.Rules {
		name := t.names[m.Package.Path.String()+"."+nameOfRule(rule)]
		if main && name == denyRule {
			t.simplify(rule)
		}
		rename(rule, name)
	}
	m.Imports = nil
	ast.WalkTerms(m, visit)
	t.guard(m)
	return failed
}

// readParameters replaces object.get(input, "parameters", …) by the parameters: a module that reads the whole input reads all documents.
// Gatekeeper always has parameters.
func readParameters(m *ast.Module) {
	ast.WalkTerms(m, func(term *ast.Term) bool {
		get, ok := term.Value.(ast.Call)
		if !ok || len(get) != 4 || get[0].String() != ast.ObjectGet.Name || !get[1].Equal(ast.NewTerm(ast.InputRootRef)) {
			return false
		}
		keys := keysIn(get[2])
		if len(keys) == 0 || !keys[0].Equal(ast.StringTerm("parameters")) {
			return false
		}
		at := get[1].Location
		params := &ast.Term{Location: at, Value: ast.Ref{
			&ast.Term{Value: ast.InputRootDocument.Value, Location: at}, &ast.Term{Value: ast.String("parameters"), Location: at},
		}}
		if len(keys) == 1 {
			term.Value = params.Value
			return false
		}
		get[1], get[2] = params, &ast.Term{Value: ast.NewArray(keys[1:]...), Location: get[1].Location}
		return false
	})
}

// rename gives a rule another name, and its branches.
func rename(rule *ast.Rule, name string) {
	for r := rule; r != nil; r = r.Else {
		if len(r.Head.Reference) > 0 {
			r.Head.Reference = slices.Clone(r.Head.Reference)
			r.Head.Reference[0] = &ast.Term{Value: ast.Var(name), Location: r.Head.Reference[0].Location}
		}
		if r.Head.Name != "" {
			r.Head.Name = ast.Var(name)
		}
	}
}

// simplify leaves only the message of a violation.
func (t *regoTranslation) simplify(rule *ast.Rule) {
	element, ok := rule.Head.Key.Value.(ast.Object)
	if !ok || element.Len() == 1 {
		return
	}
	key := ast.StringTerm("msg")
	key.Location = rule.Head.Key.Location
	rule.Head.Key = &ast.Term{Value: ast.NewObject([2]*ast.Term{key, element.Get(ast.StringTerm("msg"))}), Location: rule.Head.Key.Location}
	t.details = true
}

// renamedFunctions are functions that Rego v1 has under another name.
func renamedFunctions() map[string]ast.Ref {
	return map[string]ast.Ref{"re_match": ast.RegexMatch.Ref(), "set_diff": ast.Minus.Ref()}
}

// removedFunctions are functions that Rego v1 does not have, each as a function of a module.
func removedFunctions() map[string]string {
	return map[string]string{
		"all": "%s(values) if {\n\tevery value in values { value == true }\n} else := false",
		"any": "%s(values) if {\n\tsome value in values\n\tvalue == true\n} else := false",
	}
}

// helper is the name of a function in place of one that Rego v1 does not have, or of one of guardedFunctions.
func (t *regoTranslation) helper(function string) string {
	if t.helpers == nil {
		t.helpers = map[string]string{}
	}
	if t.helpers[function] == "" {
		suffix := "_true"
		if guardedFunctions()[function].text != "" {
			suffix = "_if_valid"
		}
		t.helpers[function] = t.free(function + suffix)
	}
	return t.helpers[function]
}

// wholeReview are rules for the review, as far as a policy has it: a field that is missing leaves the others.
func (t *regoTranslation) wholeReview() string {
	var fields []string
	if t.pods {
		for _, name := range slices.Sorted(maps.Keys(podReviewFields())) {
			fields = append(fields, fmt.Sprintf("%s.%s := %s", t.review, name, podReviewFields()[name]))
		}
		return strings.Join(fields, "\n\n")
	}
	for _, name := range slices.Sorted(maps.Keys(reviewFields())) {
		value := "input." + strings.Join(reviewFields()[name], ".")
		if name == "object" && t.removes {
			value = objectRule
		}
		fields = append(fields, fmt.Sprintf("%s.%s := %s", t.review, name, value))
	}
	return strings.Join(fields, "\n\n")
}

// reference is what a reference becomes.
func (t *regoTranslation) reference(ref ast.Ref) (ast.Ref, error) {
	switch {
	case ref[0].Equal(ast.InputRootDocument):
		return t.input(ref)
	case ref[0].Equal(ast.DefaultRootDocument):
		return t.data(ref)
	}
	if name, ok := ref[0].Value.(ast.Var); ok && len(ref) == 1 {
		switch {
		case renamedFunctions()[string(name)] != nil:
			return renamedFunctions()[string(name)], nil
		case removedFunctions()[string(name)] != "":
			return ast.Ref{&ast.Term{Value: ast.Var(t.helper(string(name))), Location: ref[0].Location}}, nil
		}
	}
	return ref, nil
}

// data is what a reference to a rule becomes.
func (t *regoTranslation) data(ref ast.Ref) (ast.Ref, error) {
	for n := len(ref); n > 1; n-- {
		if name := t.names[ref[:n].String()]; name != "" {
			return append(ast.Ref{&ast.Term{Value: ast.Var(name), Location: ref[0].Location}}, ref[n:]...), nil
		}
	}
	if len(ref) > 1 && ref[1].Equal(ast.StringTerm("inventory")) {
		return nil, errors.New("it reads data.inventory: a policy reads only the objects that the virtual machine refers to, in input.references")
	}
	return nil, fmt.Errorf("it reads %s, which is no rule of it", texts.Shorten(ref.String(), maxQuoted))
}

// reviewFields are the fields of a review that have another place.
func reviewFields() map[string][]string {
	request := func(name string) []string { return []string{"request", name} }
	return map[string][]string{
		"object": {"object"}, "oldObject": {"oldObject"}, "operation": request("operation"), "userInfo": request("userInfo"), "kind": request("kind"),
		"namespace": request("namespace"), "name": request("name"), "dryRun": request("dryRun"), "options": request("options"),
	}
}

// input is what a reference to the input becomes.
func (t *regoTranslation) input(ref ast.Ref) (ast.Ref, error) {
	text := func(i int) string {
		if i >= len(ref) {
			return ""
		}
		s, _ := ref[i].Value.(ast.String)
		return string(s)
	}
	below := func(path []string, rest ast.Ref) ast.Ref {
		made := ast.Ref{ref[0]}
		for _, name := range path {
			made = append(made, &ast.Term{Value: ast.String(name), Location: ref[0].Location})
		}
		return append(made, rest...)
	}
	switch text(1) {
	case "parameters":
		t.readsParams = true
		return below([]string{"params"}, ref[2:]), nil
	case "review":
		if t.pods && text(2) != "_unstable" {
			return t.ofPod(ref, text(2), below)
		}
		if text(2) == "object" && t.removes {
			t.readsObject = true
			return append(ast.Ref{&ast.Term{Value: ast.Var(objectRule), Location: ref[0].Location}}, ref[3:]...), nil
		}
		if len(ref) == 2 {
			return t.reviewRule(ref), nil
		}
		if path := reviewFields()[text(2)]; path != nil {
			return below(path, ref[3:]), nil
		}
		if text(2) == "_unstable" && text(3) == "namespace" {
			return below([]string{"namespaceObject"}, ref[4:]), nil
		}
		return nil, fmt.Errorf("it reads %s, which has no equivalent", texts.Shorten(ref.String(), maxQuoted))
	}
	return nil, fmt.Errorf("it reads %s: only input.review and input.parameters have an equivalent", texts.Shorten(ref.String(), maxQuoted))
}

// reviewRule is the rule with the whole review, in place of the first part of a reference.
func (t *regoTranslation) reviewRule(ref ast.Ref) ast.Ref {
	if t.review == "" {
		t.review = t.free("review")
	}
	return ast.Ref{&ast.Term{Value: ast.Var(t.review), Location: ref[0].Location}}
}

// written returns the text of a module in Rego v1.
func written(m *ast.Module) (string, error) {
	var failed error
	for _, plain := range []bool{false, true} { // the places of comments confuse the printer where a rule is in one line
		if plain {
			m.Comments = nil
		}
		text, err := format.AstWithOpts(m, format.Opts{RegoVersion: ast.RegoV1, IgnoreLocations: plain})
		if err == nil {
			_, err = ast.ParseModuleWithOpts("policy", string(text), ast.ParserOptions{RegoVersion: ast.RegoV1})
		}
		if err == nil {
			return string(text), nil
		}
		failed = err
	}
	return "", fmt.Errorf("it cannot be written in Rego v1: %s", texts.Shorten(texts.OneLine(failed.Error()), 2*maxQuoted))
}

// withoutPackage removes the first line with a package.
func withoutPackage(text string) string {
	lines := strings.Split(text, "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "package ") })
	return strings.Join(slices.Delete(lines, i, i+1), "\n")
}

// unused are the messages of the compiler about what Rego v1 does not permit to be left unused.
var unused = regexp.MustCompile(`^(assigned var|declared var|unused argument) ([A-Za-z_][A-Za-z0-9_]*)`)

// maxUnused bounds the variables that are removed from a module.
const maxUnused = 100

// tidied replaces variables that nothing reads with _, because policies are compiled strictly.
func tidied(text string) (string, error) {
	for range maxUnused {
		_, problems := rego.Compile("policy", text)
		changed := false
		m, err := ast.ParseModuleWithOpts("policy", text, ast.ParserOptions{RegoVersion: ast.RegoV1})
		if err != nil {
			return "", fmt.Errorf("it cannot be written in Rego v1: %s", texts.Shorten(texts.OneLine(err.Error()), 2*maxQuoted))
		}
		for _, p := range problems {
			if found := unused.FindStringSubmatch(p.Message); found != nil {
				changed = forget(m, ast.Var(found[2]), p.Line) || changed
			}
		}
		if !changed {
			return text, nil
		}
		if text, err = written(m); err != nil {
			return "", err
		}
	}
	return text, nil
}

// forget replaces a variable of the rule at a line with _ where it gets its value.
func forget(m *ast.Module, name ast.Var, line int) (changed bool) {
	wildcard := func(term *ast.Term) {
		if v, ok := term.Value.(ast.Var); ok && v == name {
			term.Value, changed = ast.Var("_"), true
		}
	}
	ast.WalkRules(m, func(rule *ast.Rule) bool {
		if rule.Head.Location != nil && rule.Head.Location.Row == line {
			for _, arg := range rule.Head.Args {
				ast.WalkTerms(arg, func(term *ast.Term) bool { wildcard(term); return false })
			}
		}
		return false
	})
	if changed {
		return true
	}
	ast.WalkExprs(m, func(e *ast.Expr) bool {
		if e.Location != nil && e.Location.Row == line && e.IsAssignment() {
			ast.WalkTerms(e.Operand(0), func(term *ast.Term) bool { wildcard(term); return false })
		}
		return false
	})
	return changed
}
