package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies/inspect"
)

// shown returns a result in one line for the value, and one for each part.
func shown(r *inspect.Result) []string {
	lines := []string{fmt.Sprintf("%s %s undefined=%v", r.Value, r.Type, r.Undefined)}
	for _, p := range r.Problems {
		lines = append(lines, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Message))
	}
	for _, p := range r.Parts {
		lines = append(lines, fmt.Sprintf("%s%s = %s%s", strings.Repeat(" ", p.Depth), p.Expression, p.Value, p.Error))
	}
	return lines
}

// TestInspect evaluates the same questions in both languages.
func TestInspect(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	in, problems := inspect.New(env, inspect.Options{
		Kind: "VirtualMachine", Params: map[string]any{"limit": int64(2)},
		Variables: []policyv1alpha1.PolicyVariable{{Name: "name", Expression: "object.metadata.name"}},
	})
	if in == nil {
		t.Fatal(problems)
	}
	documents := func() *cel.Documents {
		return &cel.Documents{Kind: "VirtualMachine", Object: &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "db"}}}
	}
	for _, c := range []struct {
		language, expression string
		want                 []string
	}{
		{inspect.CEL, "variables.name + 'x' == 'dbx'", []string{"true bool undefined=false", `variables.name + "x" = "dbx"`, ` variables.name = "db"`}},
		{inspect.CEL, "oldObject == null", []string{"true bool undefined=false"}},
		{inspect.CEL, "1 +", []string{"  undefined=false", "1:4 Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"}},
		{inspect.Rego, "input.params.limit + 1", []string{"3 number undefined=false", "input.params.limit = 2"}},
		{inspect.Rego, "input.oldObject", []string{"  undefined=true"}},
		{inspect.Rego, "not input.object.spec.running", []string{"true boolean undefined=false"}},
		{inspect.Rego, `regex.match("(", input.object.metadata.name)`, []string{"  undefined=false", "1:1 regex.match: error parsing regexp: missing closing ): `(`", `input.object.metadata.name = "db"`}},
		{inspect.Rego, "1 +", nil},
		{inspect.Rego, "http.send({})", nil},
	} {
		evaluate := in.CEL
		if c.language == inspect.Rego {
			evaluate = in.Rego
		}
		r := evaluate(c.expression, documents())
		if c.want == nil {
			if len(r.Problems) == 0 || r.Value != nil || r.Undefined {
				t.Errorf("%s: %v", c.expression, shown(r))
			}
			continue
		}
		if diff := cmp.Diff(c.want, shown(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.expression, diff)
		}
	}
	if made, problems := inspect.New(env, inspect.Options{Kind: "VirtualMachine", Variables: []policyv1alpha1.PolicyVariable{{Name: "a", Expression: "nothing"}}}); made != nil || len(problems) == 0 {
		t.Error("a wrong variable is accepted")
	}
}

// TestBudget: a Rego expression has the budget of a module.
func TestBudget(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	in, _ := inspect.New(env, inspect.Options{Kind: "VirtualMachine"})
	r := in.Rego("count([x | x := numbers.range(1, 100000)[_]; y := numbers.range(1, 100000)[_]; x == y])", &cel.Documents{Kind: "VirtualMachine"})
	if len(r.Problems) == 0 {
		t.Errorf("it is evaluated: %v", shown(r))
	}
}
