package convert_test

import (
	"encoding/json"
	"errors"
	"hash/fnv"
	"maps"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
)

// The bounds of what a rule becomes: bytes of an expression, and evaluations and bytes of its derived requests.
const (
	mostExpression  = 8192
	mostEvaluations = 2000
	mostDerived     = 2 << 20
)

// bounded verifies what any originals become: what is converted compiles, its expressions are short, and its tests are few and small.
func bounded(t *testing.T, originals []*unstructured.Unstructured) {
	t.Helper()
	for _, r := range convert.Convert(environment(t), originals, effective.AlwaysSet()) {
		again(t, &r)
		if r.Policy == nil || !r.Complete() {
			continue
		}
		if compiled, problems := policies.Compile(environment(t), r.Policy, nil); compiled.Broken() != "" {
			t.Errorf("%v: %s", problems, printed(t, []convert.Result{r}))
		}
		for _, v := range r.Policy.Spec.Validations {
			if len(v.Expression) > mostExpression {
				t.Errorf("an expression of %d bytes", len(v.Expression))
			}
		}
		if r.Written == nil {
			continue
		}
		evaluations := 0
		cases, err := r.Written.Cases(func(c convert.Case) (bool, error) { // any answer, but the same for the same request
			evaluations++
			content, err := json.Marshal(c)
			hash := fnv.New32()
			hash.Write(content)
			return hash.Sum32()%64 == 0, err
		})
		if err != nil && !errors.Is(err, convert.ErrTooLarge) {
			t.Errorf("deriving tests: %v", err)
		}
		content, err := json.Marshal(cases)
		if err != nil || evaluations > mostEvaluations || len(content) > mostDerived+len(cases)*1024 {
			t.Errorf("%d cases with %d bytes after %d evaluations, %v", len(cases), len(content), evaluations, err)
		}
		names := map[string]bool{}
		for _, c := range cases {
			if names[c.Name] || !utf8.ValidString(c.Name) {
				t.Errorf("the name %q of a case is there twice, or is no text", c.Name)
			}
			names[c.Name] = true
		}
	}
}

// loopPolicy returns a policy with one loop.
func loopPolicy(t *testing.T, loop, context any, preconditions []any, failurePolicy string, operations ...any) *unstructured.Unstructured {
	t.Helper()
	object := clusterPolicy(t, map[string]any{"foreach": []any{loop}})
	spec := object.Object["spec"].(map[string]any)
	spec["failurePolicy"] = failurePolicy
	rule := spec["rules"].([]any)[0].(map[string]any)
	rule["match"] = map[string]any{"resources": map[string]any{"kinds": []any{"VirtualMachine"}, "operations": operations}}
	if context != nil {
		rule["context"] = context
	}
	if preconditions != nil {
		rule["preconditions"] = map[string]any{"all": preconditions}
	}
	return object
}

// FuzzLoops: no loop over any list, with any condition or pattern of its elements and any context, panics, or has no bounds.
func FuzzLoops(f *testing.F) {
	const template = "request.object.spec.template.spec."
	for _, list := range []string{template + "volumes", template + "volumes[].containerDisk", template + "domain.devices.disks[*]", template + "dnsConfig.nameservers", template + "volumes || `[]`", "mine", "element", "{{", template + "volumes[?name]"} {
		f.Add(list, "element.name", "Equals", `"root"`, "null", `[{"name": "mine", "variable": {"jmesPath": "request.object.spec.template.spec.volumes"}}]`, true)
		f.Add(list, "element", "AnyNotIn", `["a*", "{{ mine }}"]`, "null", `[{"name": "mine", "variable": {"value": ["x"]}}]`, false)
		f.Add(list, "", "", "null", `{"=(containerDisk)": {"image": "quay.io/* | !x"}, "X(hostDisk)": "null", "^(y)": [{"<(z)": 1}]}`, "[]", true)
	}
	f.Add(template+"volumes", "mine", "GreaterThan", `3`, "null", `[{"name": "mine", "variable": {"jmesPath": "length(request.object.spec.template.spec.volumes)", "default": 4}}, {"name": "mine", "configMap": {}}]`, true)
	f.Add(template+"networks[]", "element.multus.default || `false`", "Equals", `true`, "null", `[{"name": "element", "variable": {"value": 1}}, {"name": "request", "variable": {"jmesPath": "request"}}, 1]`, true)
	f.Fuzz(func(t *testing.T, list, key, operator, valueText, patternText, contextText string, fails bool) {
		var value, pattern, context any
		for text, into := range map[string]*any{valueText: &value, patternText: &pattern, contextText: &context} {
			if len(text) > 1<<13 || json.Unmarshal([]byte(text), into) != nil {
				return
			}
		}
		if !utf8.ValidString(list+key+operator) || len(list)+len(key)+len(operator) > 1<<13 {
			return
		}
		condition := []any{map[string]any{"key": "{{ " + key + " }}", "operator": operator, "value": value}}
		loop := map[string]any{"list": list, "context": context}
		if pattern != nil {
			loop["pattern"] = pattern
		} else {
			loop["deny"], loop["preconditions"] = map[string]any{"conditions": condition}, condition
		}
		failurePolicy, operations := "Ignore", []any{"CREATE"}
		if fails {
			failurePolicy, operations = "Fail", []any{"CREATE", "UPDATE", "DELETE"}
		}
		bounded(t, []*unstructured.Unstructured{loopPolicy(t, loop, nil, nil, failurePolicy, operations...)})
		outer := maps.Clone(loop)
		delete(outer, "context")
		bounded(t, []*unstructured.Unstructured{loopPolicy(t, outer, context, condition, failurePolicy, operations...)})
	})
}

// FuzzContext: no context of a rule with conditions panics, or has no bounds.
func FuzzContext(f *testing.F) {
	for _, variable := range []string{
		`{"value": ["a", "b*"]}`, `{"value": {"a": 1}}`, `{"value": "{{ request.object }}"}`, `{"jmesPath": "request.object.spec.template.spec.domain.cpu.cores", "default": 1}`, `{"jmesPath": "length(request.object.spec.template.spec.volumes || ` + "`[]`" + `)"}`,
		`{"jmesPath": "request.object.spec.template.spec.volumes[].name", "default": []}`, `{"jmesPath": "own"}`, `{"jmesPath": "request.object.metadata.labels", "default": {}}`, `{"jmesPath": "request.object.metadata.labels.\"a/b\"", "default": ""}`, `null`, `[]`,
	} {
		for _, key := range []string{"own", "own.app", "own[]", "own || ''", "length(own)"} {
			f.Add("own", variable, "null", key, "AnyIn", `["web", "{{ own }}"]`)
			f.Add("own", variable, `{"name": "x", "namespace": "y"}`, key, "Equals", `"{{ own }}"`)
		}
	}
	f.Fuzz(func(t *testing.T, name, variableText, sourceText, key, operator, valueText string) {
		var variable, source, value any
		for text, into := range map[string]*any{variableText: &variable, sourceText: &source, valueText: &value} {
			if len(text) > 1<<13 || json.Unmarshal([]byte(text), into) != nil {
				return
			}
		}
		if !utf8.ValidString(name+key+operator) || len(name)+len(key)+len(operator) > 1<<13 {
			return
		}
		entry := map[string]any{"name": name, "variable": variable}
		if source != nil {
			entry["configMap"] = source
		}
		conditions := []any{map[string]any{"key": "{{ " + key + " }}", "operator": operator, "value": value}}
		for _, entries := range []any{[]any{entry}, []any{map[string]any{"name": name, "apiCall": source}, entry, entry}} {
			object := denyPolicy(t, &denial{Conditions: conditions, Preconditions: conditions}, "Fail", "CREATE")
			object.Object["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)["context"] = entries
			bounded(t, []*unstructured.Unstructured{object})
		}
	})
}
