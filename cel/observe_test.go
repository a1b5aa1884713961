package cel_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cel"
)

func TestObserve(t *testing.T) {
	observed := scope(t, cel.ScopeOptions{Variables: []cel.Expression{{Name: "max", Expression: "params.max + 1"}}})
	for _, c := range []struct {
		expression string
		params     map[string]any
		want       []string
	}{
		{"params.a.b == 'x' && size(params.c) > 1", map[string]any{"a": map[string]any{"b": "x"}, "c": []any{"y"}}, []string{
			`params.a.b == "x" = true`, "params.a.b = x", "size(params.c) > 1 = false", "size(params.c) = 1", "params.c = [y]",
		}},
		{"has(params.a) && params.a == 1", map[string]any{}, []string{"has(params.a) = false"}},
		{"params.list.all(x, x < params.max) || variables.max == 2", map[string]any{"list": []any{int64(3)}, "max": int64(1)}, []string{
			"params.list = [3]", "variables.max == 2 = true", "variables.max = 2",
		}},
		{"params.a[0].matches('x')", map[string]any{"a": []any{"y"}}, []string{"params.a[0] = y", "params.a = [y]"}},
		{"[params.a, params.b].exists(x, x)", map[string]any{"a": false, "b": true}, []string{"params.a = false", "params.b = true"}},
		{"int(params.a) == 1", map[string]any{"a": "x"}, []string{"int(params.a): type conversion error from 'string' to 'int'", "params.a = x"}},
	} {
		t.Run(c.expression, func(t *testing.T) {
			var got []string
			for _, part := range program(t, observed, c.expression, cel.Bool).Observe(observed.Activation(&cel.Documents{Params: c.params})) {
				if part.Err != nil {
					got = append(got, fmt.Sprintf("%s: %v", part.Expression, part.Err))
				} else {
					got = append(got, fmt.Sprintf("%s = %v", part.Expression, part.Value))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestObserveBounds: an expression that may not cost what it would is ended while it is observed too, and what is large
// is not shown.
func TestObserveBounds(t *testing.T) {
	observed := scope(t, cel.ScopeOptions{})
	many := make([]any, 1000)
	for i := range many {
		many[i] = "x"
	}
	expensive := program(t, observed, "params.a.all(x, params.a.all(y, params.a.all(z, z == y)))", cel.Bool)
	documents := &cel.Documents{Params: map[string]any{"a": many}}
	if _, err := expensive.Eval(observed.Activation(documents), cel.NewBudget()); !errors.Is(err, cel.ErrExpensive) {
		t.Fatalf("it is not expensive: %v", err)
	}
	if parts := expensive.Observe(observed.Activation(documents)); len(parts) > 0 {
		t.Errorf("of what is too expensive, %d parts are shown", len(parts))
	}
	parts := program(t, observed, "size(params.a) > 1", cel.Bool).Observe(observed.Activation(documents))
	if want := []cel.Part{{Expression: "size(params.a)", Value: int64(1000)}, {Expression: "params.a", Large: true, Depth: 1}}; !cmp.Equal(want, parts) {
		t.Errorf("the parts are %v", parts)
	}
}
