package convert_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
)

// TestFoldedTexts compares to_lower() and to_upper() with Go's functions, which Kyverno calls, for characters whose cases are no pairs.
func TestFoldedTexts(t *testing.T) {
	characters := []string{"k", "K", "\u212a", "i", "I", "\u0130", "\u0131", "s", "S", "\u017f", "ß", "\u1e9e", "σ", "ς", "Σ", "\u01c4", "\u01c5", "\u01c6", "µ", "μ", "Μ", "é", "É", "-", "["}
	var requests []map[string]any
	for _, text := range characters {
		requests = append(requests, map[string]any{
			"operation": "CREATE", "namespace": "team-a", "userInfo": map[string]any{"username": "alice", "groups": []any{}},
			"object": map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "x", "annotations": map[string]any{"note": text + "x"}}},
		})
	}
	subjects := requestsOf(t, requests)
	for name, of := range map[string]func(string) string{"to_lower": strings.ToLower, "to_upper": strings.ToUpper} {
		some := 0
		for _, character := range characters {
			operand := character + of("x")
			rule := &denial{Conditions: []any{map[string]any{"key": "{{ " + name + "(request.object.metadata.annotations.note) }}", "operator": "Equals", "value": operand}}}
			results := convert.Convert(environment(t), []*unstructured.Unstructured{denyPolicy(t, rule, "Fail", "CREATE")}, effective.AlwaysSet())
			if results[0].Policy == nil {
				t.Fatalf("%s: %v", operand, results[0].Notes)
			}
			compiled, problems := policies.Compile(environment(t), results[0].Policy, nil)
			if compiled.Broken() != "" {
				t.Fatal(problems)
			}
			set := policies.NewSet("virtward-system", compiled)
			for i, text := range characters {
				want := of(text+"x") == operand
				if denied(set, subjects[i]) != want {
					t.Errorf("%s(%q) is %q: %v: %s", name, text+"x", operand, !want, texts(results[0]))
				}
				if want {
					some++
				}
			}
		}
		if some < 10 {
			t.Errorf("%s: %d are equal", name, some)
		}
	}
}

// TestFunctions explains functions that do not mean the same.
func TestFunctions(t *testing.T) {
	for key, want := range map[string]string{
		"starts_with(request.object.metadata.name)":                                         "starts_with() must have a path and a text",
		"starts_with('x', request.object.metadata.name)":                                    "must have a path and a text",
		"starts_with(request.object.metadata.name, `1`)":                                    "the argument of starts_with() must be a text",
		"regex_match('(', request.object.metadata.name)":                                    "missing closing )",
		"regex_match(request.object.metadata.name, 'x')":                                    "must have a path and a text",
		"length(to_lower(request.object.metadata.name))":                                    "length() of another function is not converted",
		"to_lower(length(request.object.metadata.name))":                                    "to_lower() of another function is not converted",
		"contains(request.object.spec.template.spec.volumes[].name, 'x')":                   "contains() is converted for texts only",
		"to_lower(request.object.spec.template.spec.domain.memory.guest)":                   "to_lower() is converted for texts only",
		"trim(request.object.metadata.name, 'x')":                                           "has a part of JMESPath that is not converted",
		"ends_with(request.object.metadata.labels.app || `false`, 'x')":                     "the default of the variable has another form than the field",
		"length(request.object.metadata.labels)":                                            "length() is converted for lists and texts only",
		"to_lower(request.object.metadata.name)":                                            "is compared with texts without wildcards",
		"add(request.object.spec.template.spec.domain.cpu.cores, `1`)":                      "has a part of JMESPath that is not converted",
		"starts_with(request.object.metadata.name, 'x\\')":                                  "the argument of starts_with() must be a text",
		"pattern_match('x*', request.object.spec.template.spec.domain.cpu.cores || `\"\"`)": "pattern_match() is converted for texts only",
	} {
		rule := &denial{Conditions: []any{map[string]any{"key": "{{ " + key + " }}", "operator": "Equals", "value": "w*"}}}
		results := convert.Convert(environment(t), []*unstructured.Unstructured{denyPolicy(t, rule, "Fail", "CREATE")}, effective.AlwaysSet())
		if results[0].Policy != nil || !strings.Contains(results[0].Notes[0].Message, want) {
			t.Errorf("%s: %v", key, results[0].Notes)
		}
	}
}
