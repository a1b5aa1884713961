package coverage_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/policies/rego/coverage"
)

const observed = `package test

# A comment.
limit := 8

deny contains msg if {
	input.params.cores > limit
	print("cores", input.params.cores)
	msg := sprintf("%d cores", [input.params.cores])
}

deny contains "no name" if {
	input.params.name == ""
	count(input.params.other) > 0
}

big if input.params.cores > 100

warn contains "big" if big
`

func TestCoverage(t *testing.T) {
	module, problems := rego.Compile("test.rego", observed)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	lines := coverage.New(module)
	if reached, missed := lines.Lines(); len(reached) != 0 || !cmp.Equal(missed, []int{4, 6, 7, 8, 9, 12, 13, 14, 17, 19}) {
		t.Errorf("before anything is evaluated: %v, %v", reached, missed)
	}
	for _, step := range []struct {
		params          map[string]any
		reached, missed []int
	}{
		{map[string]any{"cores": 4, "name": "a"}, []int{4, 7, 13}, []int{6, 8, 9, 12, 14, 17, 19}},
		{map[string]any{"cores": 16, "name": "a"}, []int{4, 6, 7, 8, 9, 13}, []int{12, 14, 17, 19}},
		{map[string]any{"cores": 116, "name": "", "other": []int{1}}, []int{4, 6, 7, 8, 9, 12, 13, 14, 17, 19}, nil},
	} {
		in, err := rego.NewInput(map[string]any{"params": step.params})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := module.EvalWith(in, rego.Limits{}, lines, nil); err != nil {
			t.Fatal(err)
		}
		reached, missed := lines.Lines()
		if diff := cmp.Diff(step.reached, reached); diff != "" {
			t.Error(step.params, "reached", diff)
		}
		if diff := cmp.Diff(step.missed, missed); diff != "" {
			t.Error(step.params, "missed", diff)
		}
	}
}
