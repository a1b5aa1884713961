package policies_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/policies/rego/coverage"
	"github.com/virtward/virtward/test/build"
)

// observe evaluates a VM of 16Gi, and returns the steps of each evaluated policy.
func observe(t *testing.T, spec string, parts bool, trace *rego.Trace) []string {
	t.Helper()
	var got []string
	set := policies.NewSet("", compile(t, "p", spec)).Observed(func(p *policies.Policy, d *cel.Documents) {
		got = append(got, "asked "+p.Name())
		for _, step := range p.Observe(d, parts, nil, trace) {
			got = append(got, fmt.Sprintf("%s: %v %v", step.Field, step.Value, step.Err))
			for _, part := range step.Parts {
				got = append(got, fmt.Sprintf("  %s = %v", part.Expression, part.Value))
			}
		}
	})
	set.Evaluate(vm(t, build.VMI("db").Memory("16Gi")), noon)
	return got
}

func TestObserved(t *testing.T) {
	const validations = `
enforcement: Deny
params: {values: {max: 8Gi}}
match: {matchConditions: [{name: a, expression: "%s"}]}
validations:
- {expression: "vm.spec.domain.memory.guest == params.max", messageExpression: "'not ' + params.max"}
- {expression: "true", messageExpression: "'never'"}
- {expression: "int(vm.metadata.name) > 0", message: m}
`
	for _, c := range []struct {
		name, spec string
		parts      bool
		want       []string
	}{
		{"what is evaluated", fmt.Sprintf(validations, "true"), false, []string{
			"asked p", "spec.match.matchConditions[0].expression: true <nil>", "spec.validations[0].expression: false <nil>",
			"spec.validations[0].messageExpression: not 8Gi <nil>", "spec.validations[1].expression: true <nil>",
			"spec.validations[2].expression: <nil> 1:4: type conversion error from 'string' to 'int'",
		}},
		{"what does not apply", fmt.Sprintf(validations, "vm.metadata.name == 'x'"), true, []string{
			"asked p", "spec.match.matchConditions[0].expression: false <nil>", "  vm.metadata.name = db",
		}},
		{"what does not match", "match: {excludedUsers: [alice]}\n" + never, true, nil},
		{"a module that fails", "enforcement: Deny\nrego: {module: 'package p\n\n  deny contains \"x\" if to_number(input.vm.metadata.name) > 0'}", false, []string{
			"asked p", "spec.rego.module: <nil> the Rego of p, line 2, column 22: to_number: strconv.ParseFloat: parsing \"db\": invalid syntax",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, observe(t, c.spec, c.parts, nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestObservedModule: a module has no steps, but lines and a trace.
func TestObservedModule(t *testing.T) {
	var lines *coverage.Coverage
	trace := &rego.Trace{}
	set := policies.NewSet("", compile(t, "p", memoryInRego)).Observed(func(p *policies.Policy, d *cel.Documents) {
		lines = coverage.New(p.Module())
		if steps := p.Observe(d, true, lines, trace); len(steps) > 0 {
			t.Errorf("steps %v", steps)
		}
	})
	if found := set.Evaluate(vm(t, build.VMI("db").Memory("16Gi")), noon); len(found) != 2 {
		t.Errorf("findings %q", said(found))
	}
	if reached, missed := lines.Lines(); !cmp.Equal(reached, []int{2, 3, 4, 5, 7}) || len(missed) > 0 {
		t.Errorf("reached %v, missed %v", reached, missed)
	}
	if text := trace.String(); !strings.Contains(text, `Unify guest = input.vm.spec.domain.memory.guest`) {
		t.Errorf("the trace is\n%s", text)
	}
}
