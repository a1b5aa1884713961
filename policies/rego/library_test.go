package rego_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/test/corpus"
)

// TestScreenOfLibrary holds that the policies of the library have the same violations, steps and bytes with and without a screen, for
// varied instances.
func TestScreenOfLibrary(t *testing.T) {
	samples, err := corpus.Samples(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range library.All() {
		if entry.Language != library.Rego {
			continue
		}
		t.Run(entry.Name, func(t *testing.T) {
			spec := &entry.Policy.Spec
			module, problems := rego.Compile(entry.Name, spec.Rego.Module)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			decided, found := 0, 0
			for i := range samples {
				if samples[i].Kind == apikinds.VirtualMachine {
					continue
				}
				var vmi v1.VirtualMachineInstance
				if err := json.Unmarshal(samples[i].Object, &vmi); err != nil {
					t.Fatal(err)
				}
				documents := map[string]any{"object": &vmi, "vm": &vmi, "requester": "alice"}
				if spec.Params != nil && spec.Params.Values != nil {
					documents["params"] = spec.Params.Values
				}
				in, err := rego.NewInput(documents)
				if err != nil {
					t.Fatal(err)
				}
				got, spent, err := module.Measure(in, rego.Limits{})
				want, wanted, wantErr := module.Unscreened().Measure(in, rego.Limits{})
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil || wantErr != nil {
					t.Errorf("%s (-OPA, +screen), %v, %v:\n%s", samples[i].Name, wantErr, err, diff)
				}
				if spent != wanted {
					t.Errorf("%s: %+v with a screen, %+v without", samples[i].Name, spent, wanted)
				}
				if found += len(want); module.Screened(in) {
					decided++
				}
			}
			t.Logf("%d of %d by the screen, %d violations", decided, len(samples), found)
		})
	}
}
