package rego

import (
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

// TestHoldsNone holds that modules whose rules are passed by have the same steps and violations as when they are queried.
func TestHoldsNone(t *testing.T) {
	documents := map[string]any{"vm": map[string]any{"spec": map[string]any{"architecture": "amd64"}}, "object": map[string]any{"none": nil, "off": false}, "requester": "alice"}
	for name, test := range map[string]struct {
		module string
		none   bool
	}{
		"a field that there is none of":     {`deny contains "x" if input.vm.spec.priorityClassName`, true},
		"a field of a field":                {`deny contains "x" if input.vm.spec.domain.firmware.bootloader`, true},
		"another value":                     {`deny contains "x" if input.vm.spec.architecture == "arm64"`, true},
		"another document":                  {`deny contains "x" if input.params.on`, true},
		"in both sets":                      {"deny contains \"x\" if input.requester == \"bob\"\nwarn contains \"y\" if input.params.on", true},
		"in one of them":                    {"deny contains \"x\" if input.requester == \"bob\"\nwarn contains \"y\" if input.vm.spec.architecture", false},
		"in one rule":                       {"deny contains \"x\" if input.params.on\ndeny contains \"y\" if input.requester", false},
		"a field that is there":             {`deny contains "x" if input.vm.spec.architecture == "amd64"`, false},
		"null":                              {`deny contains "x" if input.object.none == null`, false},
		"false":                             {`deny contains "x" if input.object.off == false`, false},
		"negation of a field there is none": {`deny contains "x" if not input.vm.spec.priorityClassName`, false},
		"a rule that depends on another":    {"deny contains \"x\" if found\nfound if input.params.on", false},
		"no condition":                      {`deny contains "x"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, "package p\n"+test.module)
			queried := *module
			queried.indexes = []ast.RuleIndex{nil} // without which the query is always made
			in := input(t, documents)
			term, size, err := in.term(module.documents)
			if err != nil {
				t.Fatal(err)
			}
			if none, err := module.holdsNone(term, newBudget(Limits{}.withDefaults(0), size)); none != test.none || err != nil {
				t.Errorf("none: %v, %v", none, err)
			}
			for steps := 1; steps < 70; steps++ {
				got, spent, err := module.Measure(in, Limits{Steps: steps})
				want, wanted, wantErr := queried.Measure(in, Limits{Steps: steps})
				if spent != wanted || len(got) != len(want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
					t.Fatalf("with %d steps: %v, %v, %v; queried: %v, %v, %v", steps, got, spent, err, want, wanted, wantErr)
				}
			}
		})
	}
}
