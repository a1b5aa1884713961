package policies

import (
	"fmt"
	"strings"
	"testing"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
)

// TestPatternsTogether holds that many small patterns of a policy cannot take much memory together.
func TestPatternsTogether(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	for count, valid := range map[int]bool{4: true, 40: false} {
		for _, in := range []string{"spec.validations", "spec.match.matchConditions"} {
			policy := &policyv1alpha1.VirtualMachinePolicy{}
			policy.Name, policy.Spec.Enforcement = "patterns", policyv1alpha1.PolicyDeny
			for i := range count {
				expression := fmt.Sprintf("vm.metadata.name.matches('^%d(abcdefghijk){200}')", i)
				if in == "spec.validations" {
					policy.Spec.Validations = append(policy.Spec.Validations, policyv1alpha1.PolicyValidation{Expression: expression, Message: "no"})
					continue
				}
				policy.Spec.Match.MatchConditions = append(policy.Spec.Match.MatchConditions, policyv1alpha1.PolicyCondition{Name: fmt.Sprintf("c%d", i), Expression: expression})
			}
			if in != "spec.validations" {
				policy.Spec.Validations = []policyv1alpha1.PolicyValidation{{Expression: "true", Message: "no"}}
			}
			_, problems := Compile(env, policy, nil)
			if diagnostics.Broken(problems) == valid {
				t.Errorf("%d in %s: %v", count, in, problems)
			}
			if !valid && !strings.Contains(fmt.Sprint(problems), "together when they are compiled") {
				t.Errorf("%d in %s: %v", count, in, problems)
			}
		}
	}
}
