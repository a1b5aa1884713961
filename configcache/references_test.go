package configcache

import (
	"strings"
	"testing"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/diagnostics"
)

// A policy that reads objects which Virtward may not read is invalid, in both languages.
func TestPoliciesWithoutReferences(t *testing.T) {
	const cel = `{enforcement: Deny, variables: [{name: all, expression: references.storageClasses}], validations: [{expression: "variables.all.size() + references.configMaps.size() == 0", message: none}]}`
	const rego = "{enforcement: Deny, rego: {module: \"package a\\ndeny contains \\\"m\\\" if count(input.references.storageClasses) > 0\"}}"
	const whole = "{enforcement: Deny, rego: {module: \"package a\\ndeny contains \\\"m\\\" if count(input.references) > 0\"}}"
	for name, c := range map[string]struct {
		spec    string
		enabled []string
		want    string
	}{
		"CEL":                   {cel, nil, "the policy reads references.configMaps and references.storageClasses, which are not enabled: add configmaps, storageclasses to the chart's value policies.references"},
		"CEL, partly enabled":   {cel, []string{"storageclasses"}, "the policy reads references.configMaps, which are not enabled: add configmaps to the chart's value policies.references"},
		"CEL, enabled":          {cel, []string{"configmaps", "storageclasses"}, ""},
		"Rego":                  {rego, []string{"configmaps"}, "the policy reads references.storageClasses, which are not enabled: add storageclasses to the chart's value policies.references"},
		"Rego, enabled":         {rego, []string{"storageclasses"}, ""},
		"Rego, all, not enough": {whole, []string{"storageclasses"}, "the policy reads references.configMaps and references.dataSources and "},
	} {
		t.Run(name, func(t *testing.T) {
			options := policiesOptions(t)
			options.References = c.enabled
			p := &Policies{options: options}
			read := readPolicy(policyObject(t, "p", c.spec).Object)
			compiled, problems := p.compileAlone(read, parameters{})
			if broken := diagnostics.Broken(problems); broken != (c.want != "") || broken != (compiled.Broken() != "") {
				t.Fatalf("problems: %v", problems)
			}
			if c.want != "" && (problems[0].Field != "spec" || !strings.HasPrefix(problems[0].Message, c.want)) {
				t.Errorf("problems: %v", problems)
			}
			if len(problems) > policyv1alpha1.MaxPolicyProblems {
				t.Errorf("%d problems", len(problems))
			}
		})
	}
}
