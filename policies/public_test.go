package policies_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

// TestPublicTexts holds that what is stored outside of an object, where others read it, has no values: neither of the object, nor of
// anything else that expressions read. Only what the author of the policy wrote is stored.
func TestPublicTexts(t *testing.T) {
	const value = "s3cret"
	for name, c := range map[string]struct{ spec, field, want string }{
		"a message":                      {"validations: [{expression: 'false', message: too much}]", "spec", "Forbidden: too much"},
		"a message at a field":           {"validations: [{expression: 'false', message: too much, fieldPath: metadata.labels}]", "metadata.labels", "Invalid value: too much"},
		"a message at the value":         {"validations: [{expression: 'false', message: too much, fieldPath: metadata.labels.a}]", "metadata.labels.a", "Invalid value: too much"},
		"a computed message":             {"validations: [{expression: 'false', messageExpression: \"'it is ' + object.metadata.labels['a']\"}]", "spec", "Forbidden: the object violates the policy (the message has values: kubectl virtward audit shows it)"},
		"a computed message, a title":    {"title: Labels are short\nvalidations: [{expression: 'false', messageExpression: \"'it is ' + object.metadata.labels['a']\"}]", "spec", "Forbidden: the object violates the policy: Labels are short (the message has values: kubectl virtward audit shows it)"},
		"both messages":                  {"validations: [{expression: 'false', message: too long, messageExpression: \"'it is ' + object.metadata.labels['a']\"}]", "spec", "Forbidden: too long"},
		"an error with a value":          {"validations: [{expression: \"quantity(object.metadata.labels['a']).isInteger()\", message: m}]", "spec", "Internal error: the policy cannot be evaluated: spec.validations[0].expression (the error has values: kubectl virtward audit shows it)"},
		"an error with a key":            {"validations: [{expression: \"{'a': true}[object.metadata.labels['a']]\", message: m}]", "spec", "Internal error: the policy cannot be evaluated: spec.validations[0].expression (the error has values: kubectl virtward audit shows it)"},
		"an error of a condition":        {"match: {matchConditions: [{name: a, expression: \"{'a': true}[object.metadata.labels['a']]\"}]}\nvalidations: [{expression: 'false', message: m}]", "spec", "Internal error: the policy cannot be evaluated: spec.match.matchConditions[0].expression (the error has values: kubectl virtward audit shows it)"},
		"a module":                       {"title: Labels\nrego: {module: \"package virtward\\ndeny contains input.object.metadata.labels.a\"}", "spec", "Forbidden: the object violates the policy: Labels (the message has values: kubectl virtward audit shows it)"},
		"a module with a field":          {"rego: {module: \"package virtward\\ndeny contains {\\\"msg\\\": input.object.metadata.labels.a, \\\"field\\\": \\\"metadata.labels\\\"}\"}", "metadata.labels", "Invalid value: the object violates the policy (the message has values: kubectl virtward audit shows it)"},
		"a module with a value as field": {"rego: {module: \"package virtward\\ndeny contains {\\\"msg\\\": \\\"m\\\", \\\"field\\\": input.object.metadata.labels.a}\"}", "spec", "Required value: the object violates the policy (the message has values: kubectl virtward audit shows it)"},
	} {
		t.Run(name, func(t *testing.T) {
			d := vm(t, build.VMI("db"))
			machine := build.VMOf(build.VMI("db")).Obj()
			machine.Labels = map[string]string{"a": value}
			d.Object = machine
			set := policies.NewSet("virtward-system", compile(t, "p", "enforcement: Audit\n"+c.spec))
			findings := set.Evaluate(d, noon)
			if len(findings) != 1 {
				t.Fatalf("%d findings: %q", len(findings), said(findings))
			}
			f := &findings[0]
			if diff := cmp.Diff([]string{c.field, c.want}, []string{f.PublicField(), f.PublicText()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(f.PublicField()+f.PublicText(), value) {
				t.Errorf("%s: %s has the value", f.PublicField(), f.PublicText())
			}
		})
	}
}

// TestValuesOfConfigMapsArePrivate holds that readers of policies do not read ConfigMaps in the problems of policies.
func TestValuesOfConfigMapsArePrivate(t *testing.T) {
	const value = "s3cret"
	for name, c := range map[string]struct{ schema, data string }{
		"another type":      {"{type: integer}", value},
		"a pattern":         {"{type: string, pattern: '^[0-9]+$'}", value},
		"a format":          {"{type: string, format: date}", value},
		"an enumeration":    {"{type: string, enum: [a, b]}", value},
		"no YAML":           {"{type: integer}", "[" + value + ": a b"},
		"a name in a value": {"{type: object, properties: {a: {type: integer}}}", "{" + value + ": 1}"},
		"too large":         {"{type: string}", strings.Repeat(value, 20_000)},
	} {
		t.Run(name, func(t *testing.T) {
			policy := read(t, "p", fmt.Sprintf("enforcement: Audit\nparams: {configMap: {namespace: a, name: b}, schema: {type: object, properties: {k: %s}}}\nvalidations: [{expression: 'true', message: m, fieldPath: spec.domain}]", c.schema))
			compiled, problems := policies.Compile(env(t), policy, func(string, string) (map[string]string, bool) { return map[string]string{"k": c.data}, true })
			if !diagnostics.Broken(problems) {
				t.Fatalf("problems %v", problems)
			}
			public := diagnostics.Public(problems)
			if text := fmt.Sprint(public, compiled.Broken(), compiled.Unauditable()); strings.Contains(text, value) || len(public) != 1 || public[0].Field != "spec.params.configMap" {
				t.Errorf("public: %s", text)
			}
		})
	}
}

func TestPublicError(t *testing.T) {
	for text, want := range map[string]string{
		"connection refused": "connection refused",
		"spec.domain: Invalid value: 5: at most 4 [virtward/cpu-cores] Choose less":                           "spec.domain: Invalid value: 5: at most 4 [virtward/cpu-cores] Choose less",
		"denied: s3cret [virtward/policy/b-1], s3cret [virtward/policy/a.b] and s3cret [virtward/policy/b-1]": "denied by policy/a.b, policy/b-1 (the messages have values: kubectl virtward audit shows them)",
	} {
		if got := policies.PublicError(errors.New(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
