package advice_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies/advice"
)

// FuzzOf: no expression and no module makes a check panic, and each warning has a check and a field.
func FuzzOf(f *testing.F) {
	f.Add("vm.spec.domain.memory.guest <= '8Gi' && params.a.matches(params['b'])", `{"a": "("}`)
	f.Add("oldObject.spec == null || vm.spec.?volumes[0].name == variables.x", `{}`)
	f.Add("package x\ndeny contains \"m\" if not input.vm.spec.domain.cpu.cores > input.params.a\n", `{"a": 1}`)
	f.Add("package x\ndeny contains \"m\" if regex.match(input.params.a, input.vm.metadata.name)\n", `{"a": "["}`)
	f.Fuzz(func(t *testing.T, text, params string) {
		if len(text) > 1<<12 || len(params) > 1<<10 {
			return
		}
		values := &policyv1alpha1.PolicyParams{Values: &apiextensionsv1.JSON{Raw: []byte(params)}}
		for _, spec := range []*policyv1alpha1.VirtualMachinePolicySpec{
			{Params: values, Validations: []policyv1alpha1.PolicyValidation{{Expression: text}}},
			{Params: values, Variables: []policyv1alpha1.PolicyVariable{{Name: "x", Expression: text}}, Validations: []policyv1alpha1.PolicyValidation{{Expression: "variables.x < '8Gi'"}}},
			{Params: values, Rego: &policyv1alpha1.PolicyRego{Module: text}},
		} {
			for _, a := range advice.Of(spec, effective.AlwaysSet()) {
				if a.Check == "" || a.Field == "" || a.Message == "" {
					t.Errorf("a warning without a check, a field or a message: %+v", a)
				}
			}
		}
	})
}
