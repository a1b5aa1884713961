package export

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/environment"
)

// NamesThatDiffer are the names that the notes go by.
func NamesThatDiffer() map[string][]string {
	return map[string][]string{"quantities": quantities, "optionals": optionals}
}

// language is that of the newest API server, in which every name has any type.
var language = sync.OnceValues(func() (*celgo.Env, error) {
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.StoredExpressions)
	if err != nil {
		return nil, err
	}
	var variables []celgo.EnvOption
	for _, name := range native {
		variables = append(variables, celgo.Variable(name, celgo.DynType))
	}
	return env.Extend(variables...)
})

var (
	withParams = substitution{names: map[string]replacement{nameParams: {"variables.p", nameVariables}}}
	ofBefore   = substitution{
		names:   map[string]replacement{nameParams: {"variables.p", nameVariables}, nameObject: {nameOldObject, nameOldObject}},
		members: map[string]string{"v": "w"},
	}
)

func TestRewrite(t *testing.T) {
	tests := []struct{ text, now, before string }{
		{"params.a", "variables.p.a", "variables.p.a"},
		{"params", "variables.p", "variables.p"},
		{"'params' + object.params", "'params' + object.params", "'params' + oldObject.params"},
		{"object.a.object == params['object']", "object.a.object == variables.p['object']", "oldObject.a.object == variables.p['object']"},
		{"{'params': params}.params", "{'params': variables.p}.params", "{'params': variables.p}.params"},
		{"[object].all(object, object.a)", "[object].all(object, object.a)", "[oldObject].all(object, object.a)"},
		{"[1].exists(params, params == 1) && params", "[1].exists(params, params == 1) && variables.p", "[1].exists(params, params == 1) && variables.p"},
		{"[1].map(x, [2].map(params, x + params) + params)", "[1].map(x, [2].map(params, x + params) + variables.p)", "[1].map(x, [2].map(params, x + params) + variables.p)"},
		{"[1].map(params, params > 0, object)", "[1].map(params, params > 0, object)", "[1].map(params, params > 0, oldObject)"},
		{"[params].exists_one(params, params)", "[variables.p].exists_one(params, params)", "[variables.p].exists_one(params, params)"},
		{"object.?a.optMap(object, object + params).orValue(object)", "object.?a.optMap(object, object + variables.p).orValue(object)", "oldObject.?a.optMap(object, object + variables.p).orValue(oldObject)"},
		{"{'a': 1}.all(object, params, object != params)", "{'a': 1}.all(object, params, object != params)", "{'a': 1}.all(object, params, object != params)"},
		{"{'a': 1}.transformMap(k, object, object + params)", "{'a': 1}.transformMap(k, object, object + variables.p)", "{'a': 1}.transformMap(k, object, object + variables.p)"},
		{"has(object.a) && has(params.object)", "has(object.a) && has(variables.p.object)", "has(oldObject.a) && has(variables.p.object)"},
		{"oldObject == null || oldObject.a != object.a", "oldObject == null || oldObject.a != object.a", "oldObject == null || oldObject.a != oldObject.a"},
		{"variables.v + variables . v + variables.vv + variables\n .v", "variables.v + variables . v + variables.vv + variables\n .v", "variables.w + variables . w + variables.vv + variables\n .w"},
		{"has(variables.v)", "has(variables.v)", "has(variables.w)"},
		{"[1].all(variables, variables.v)", "[1].all(variables, variables.v)", "[1].all(variables, variables.v)"},
		{"'ä🙂' + params.ä", "", ""},
		{"'ä🙂' == params.a // ünd params\n && object.b", "'ä🙂' == variables.p.a // ünd params\n && object.b", "'ä🙂' == variables.p.a // ünd params\n && oldObject.b"},
		{"// params\r\n\tobject", "// params\r\n\tobject", "// params\r\n\toldObject"},
		{".params.a + .object", ".variables.p.a + .object", ".variables.p.a + .oldObject"},
		{"sets.contains(params, ['a']) && quantity(object.a).isInteger()", "sets.contains(variables.p, ['a']) && quantity(object.a).isInteger()", "sets.contains(variables.p, ['a']) && quantity(oldObject.a).isInteger()"},
		{"r'params' + b'params'", "r'params' + b'params'", "r'params' + b'params'"},
		{"\"\"\"params\n\"\"\" + params", "\"\"\"params\n\"\"\" + variables.p", "\"\"\"params\n\"\"\" + variables.p"},
	}
	env, err := language()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		e, err := parse(env, test.text)
		if test.now == "" {
			if err == nil {
				t.Errorf("%q is no CEL, and was read", test.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
			continue
		}
		for _, want := range []struct {
			text string
			by   substitution
		}{{test.now, withParams}, {test.before, ofBefore}} {
			if got, err := e.rewritten(want.by); err != nil || got != want.text {
				t.Errorf("%q becomes %q, %v; not %q", test.text, got, err, want.text)
			}
		}
	}
}

func TestLiteral(t *testing.T) {
	env, err := language()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`null`, `true`, `1`, `-9223372036854775808`, `1.5`, `1e300`, `-0.25`, `""`, `"it's \"quoted\"\n\u0001\u007f\u2028 \\ ä🙂"`, `[]`, `{}`,
		`[1, "a", [2.5, null], {"b": {}}]`, `{"a-b": 1, "": "x", "c": [true, {"d": null}]}`,
	} {
		var value any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		value = numbers(value)
		written, err := literal(value)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := evaluate(env, written, nil)
		if err != nil {
			t.Errorf("%s is written as %s: %v", text, written, err)
			continue
		}
		if want := types.DefaultTypeAdapter.NativeToValue(value); !same(got, want) || got.Type() != want.Type() {
			t.Errorf("%s is written as %s, which is %v", text, written, got)
		}
	}
	if _, err := literal(map[string]any{"a": []any{struct{}{}}}); err == nil || err.Error() != "a value of the Go type struct {} has no form in CEL" {
		t.Errorf("what is no JSON: %v", err)
	}
}

// numbers are those of JSON as policies have them.
func numbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	}
	return value
}

func evaluate(env *celgo.Env, text string, variables map[string]any) (ref.Val, error) {
	compiled, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	program, err := env.Program(compiled)
	if err != nil {
		return nil, err
	}
	if variables == nil {
		variables = map[string]any{}
	}
	value, _, err := program.Eval(variables)
	return value, err
}

// same compares values; of those that cannot be compared, their texts.
func same(a, b ref.Val) bool {
	return a.Equal(b) == types.True || fmt.Sprint(a.Value()) == fmt.Sprint(b.Value())
}

// FuzzRewrite: what is rewritten means what it meant before, for any expression: with the parameters as a variable,
// and about the object before.
func FuzzRewrite(f *testing.F) {
	for _, text := range []string{
		"params.a > object.b", "[object].all(object, object == params)", "variables.v.map(params, params + variables.v[0])",
		"object.?c.optMap(params, params).orValue(params.a) == oldObject", "has(object.b) ? params : {'params': params}",
		"[1, 2].exists(x, [x].all(params, params == object.b)) // params", "'ä' + string(params.a) + \"\"\"\nparams\"\"\"",
		"{'a': object}.all(k, params, params == object)", ".object.b + [1].map(y, y + .params.a)[0]", "params.a.params.object", "variables.v + [params].filter(object, object.a == 1)",
		"object.all(variables, variables.v == params)", "cel.bind(object, params, object)",
	} {
		f.Add(text, `{"a": 1}`, `{"b": 2, "c": [3]}`, `{"b": 1}`)
	}
	f.Fuzz(func(t *testing.T, text, params, object, old string) {
		env, err := language()
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 1000 {
			return
		}
		values := map[string]any{nameRequest: map[string]any{}, nameNamespaceObject: nil, nameAuthorizer: nil}
		for name, from := range map[string]string{nameParams: params, nameObject: object, nameOldObject: old} {
			var value any
			if json.Unmarshal([]byte(from), &value) != nil {
				return
			}
			values[name] = value
		}
		with := func(object any, v string) map[string]any {
			all := map[string]any{nameVariables: map[string]any{"p": values[nameParams], "v": v, "w": "before"}}
			maps.Copy(all, values)
			all[nameObject] = object
			return all
		}
		compare(t, env, text, withParams, with(values[nameObject], "now"), with(values[nameObject], "now"))
		compare(t, env, text, ofBefore, with(values[nameOldObject], "before"), with(values[nameObject], "now"))
	})
}

// compare evaluates a text, and what becomes of it with other variables: that is the same.
func compare(t *testing.T, env *celgo.Env, text string, s substitution, variables, others map[string]any) {
	t.Helper()
	e, err := parse(env, text)
	if err != nil {
		return
	}
	rewritten, err := e.rewritten(s)
	if err != nil {
		return
	}
	for _, r := range e.reads {
		if r.name == nameVariables && r.member == "" { // not exported
			return
		}
	}
	if _, issues := env.Compile(text); issues.Err() != nil {
		return
	}
	if _, issues := env.Compile(rewritten); issues.Err() != nil {
		t.Fatalf("%q compiles, and %q does not: %v", text, rewritten, issues.Err())
	}
	want, failed := evaluate(env, text, variables)
	got, failedToo := evaluate(env, rewritten, others)
	if (failed == nil) != (failedToo == nil) {
		t.Fatalf("%q: %v, %v\n%q: %v, %v", text, want, failed, rewritten, got, failedToo)
	}
	if failed == nil && !same(want, got) {
		t.Fatalf("%q is %v\n%q is %v", text, want, rewritten, got)
	}
}
