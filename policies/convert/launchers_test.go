package convert_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies/convert"
)

// TestLaunchers names the fields of virtual machines for those that rules read of their pods.
func TestLaunchers(t *testing.T) {
	const none = "it matches no VirtualMachine, VirtualMachineInstance or VirtualMachinePool"
	launcher := map[string]any{"matchLabels": map[string]any{"kubevirt.io": "virt-launcher"}}
	pods := []any{"Pod"}
	for _, c := range []struct {
		name     string
		kinds    []any
		selector any
		validate map[string]any
		want     string
	}{
		{
			"all have a source", pods, launcher,
			map[string]any{"pattern": map[string]any{"metadata": map[string]any{"=(labels)": map[string]any{"team": "?*"}}, "spec": map[string]any{"nodeSelector": map[string]any{"zone": "a"}}}},
			none + "; it selects pods of virtual machines: write it for VirtualMachines, with spec.template.metadata.labels for metadata.labels, spec.template.spec.nodeSelector for spec.nodeSelector",
		},
		{"one has none", []any{"v1/Pod"}, launcher, map[string]any{"deny": map[string]any{"conditions": []any{
			map[string]any{"key": "{{ request.object.spec.priorityClassName || '' }}", "operator": "Equals", "value": ""},
			map[string]any{"key": "{{ request.object.spec.containers[].image }}", "operator": "AnyIn", "value": []any{"x"}},
		}}}, none + "; it selects pods of virtual machines: write it for VirtualMachines, with spec.template.spec.priorityClassName for spec.priorityClassName; without an equal field: spec.containers"},
		{"the namespace", pods, launcher, map[string]any{"pattern": map[string]any{"metadata": map[string]any{"namespace": "vm-*"}}}, none + "; it selects pods of virtual machines: write it for VirtualMachines"},
		{"all pods", pods, nil, map[string]any{"pattern": map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "?*"}}}}, none},
		{"other kinds, too", []any{"Pod", "Service"}, launcher, map[string]any{"pattern": map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "?*"}}}}, none},
	} {
		object := clusterPolicy(t, c.validate)
		resources := map[string]any{"kinds": c.kinds}
		if c.selector != nil {
			resources["selector"] = c.selector
		}
		object.Object["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)["match"] = map[string]any{"any": []any{map[string]any{"resources": resources}}}
		results := convert.Convert(environment(t), []*unstructured.Unstructured{object}, effective.AlwaysSet())
		if n := results[0].Notes[0]; results[0].Policy != nil || n.Reason != convert.NoVirtualMachine || n.Message != c.want {
			t.Errorf("%s: %q", c.name, n.Message)
		}
		rules := object.Object["spec"].(map[string]any)["rules"].([]any)
		object.Object["spec"].(map[string]any)["rules"] = append(rules, map[string]any{"name": "other", "match": map[string]any{"any": []any{map[string]any{"resources": map[string]any{"kinds": pods}}}}, "validate": c.validate})
		results = convert.Convert(environment(t), []*unstructured.Unstructured{object}, effective.AlwaysSet())
		if n := results[0].Notes[0]; results[0].Policy != nil || n.Reason != convert.NoVirtualMachine || n.Message != strings.Replace(c.want, "; it selects", "; the rule r selects", 1) {
			t.Errorf("%s: with another rule: %q", c.name, n.Message)
		}
	}
}
