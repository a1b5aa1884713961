package policytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// replaceParams sets parameters in every policy that has them.
func (s *Suite) replaceParams(field string, params map[string]any, read []written) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		var known []string
		taken := false
		for i := range read {
			names, open := paramsOf(read[i].policy)
			known = append(known, names...)
			if !open && !slices.Contains(names, name) {
				continue
			}
			taken = true
			if err := setParam(read[i].policy, name, params[name]); err != nil {
				return s.problem(field+"."+name, err.Error())
			}
		}
		if !taken {
			return s.problem(field+"."+name, "no policy of this test has this parameter"+suggestion(name, known))
		}
	}
	return nil
}

// paramsOf returns the names of the parameters of a policy. If open is true, the policy accepts any others too.
// Parameters of a ConfigMap cannot be replaced.
func paramsOf(policy *policyv1alpha1.VirtualMachinePolicy) (names []string, open bool) {
	p := policy.Spec.Params
	if p == nil || p.ConfigMap != nil {
		return nil, false
	}
	values, declared := map[string]any{}, struct {
		Properties map[string]any `json:"properties"`
	}{}
	if p.Values != nil {
		_ = json.Unmarshal(p.Values.Raw, &values) // compiling the policy reports the error
	}
	if p.Schema != nil {
		_ = json.Unmarshal(p.Schema.Raw, &declared)
	}
	names = slices.Concat(slices.Collect(maps.Keys(values)), slices.Collect(maps.Keys(declared.Properties)))
	slices.Sort(names)
	return slices.Compact(names), p.Schema == nil
}

func setParam(policy *policyv1alpha1.VirtualMachinePolicy, name string, value any) error {
	values := map[string]any{}
	if p := policy.Spec.Params; p.Values != nil {
		if err := unmarshal(p.Values.Raw, &values); err != nil {
			return fmt.Errorf("the policy %s: spec.params.values: %w", policy.Name, err)
		}
	}
	if values == nil { // null
		values = map[string]any{}
	}
	if value == nil {
		delete(values, name)
	} else {
		values[name] = value
	}
	data, err := json.Marshal(values)
	if err != nil {
		return err
	}
	policy.Spec.Params.Values = &apiextensionsv1.JSON{Raw: data}
	return nil
}
