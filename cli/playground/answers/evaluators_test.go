package answers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func jsonOf(t *testing.T, a *Answerer, q *Question) string {
	t.Helper()
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	answer, err := a.Answer(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(answer, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// An evaluator is used again after changes of virtual machines only, for some minutes, and their number is bounded. The answers are
// those of a new one.
func TestKept(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a := New(func() time.Time { return now })
	base := NewStart().Files
	ask := func(want int, file, from, to string) {
		t.Helper()
		q := &Question{Files: slices.Clone(base), Platforms: []Platform{{Hypervisor: "kvm"}}, Trace: true}
		for i, f := range q.Files {
			if f.Name == file {
				if q.Files[i].Text = strings.ReplaceAll(f.Text, from, to); q.Files[i].Text == f.Text {
					t.Fatalf("%s lacks %s", file, from)
				}
			}
		}
		if diff := cmp.Diff(jsonOf(t, New(time.Now), q), jsonOf(t, a, q)); diff != "" {
			t.Errorf("%s: -new +kept:\n%s", to, diff)
		}
		if len(a.evaluators.kept) != want {
			t.Errorf("%s: %d evaluators are kept, want %d", to, len(a.evaluators.kept), want)
		}
	}
	ask(1, "vm.yaml", "analytics", "other")
	ask(1, "vm.yaml", "m1.large", "u1.medium")
	ask(2, "vm.yaml", "metadata:", "metadata: [") // without a virtual machine, other versions matter
	ask(2, "suite.yaml", "denied", "allowed")
	ask(3, "policy.yaml", "8Gi", "32Gi")
	ask(4, "objects.yaml", "16Gi", "1Gi")
	ask(5, "vm.yaml", "# A VM with", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n#")
	ask(5, "vm.yaml", "analytics", "another")
	for range 2 { // versions that are not served are not kept
		ask(5, "vm.yaml", "kubevirt.io/v1", "kubevirt.io/v9")
		ask(5, "objects.yaml", "v1beta1", "v9beta9")
	}
	now = now.Add(maxAge)
	made := a.evaluators.kept
	before := map[string]time.Time{}
	for key, k := range made {
		before[key] = k.made
	}
	ask(5, "vm.yaml", "analytics", "later")
	renewed := 0
	for key, k := range a.evaluators.kept {
		if !k.made.Equal(before[key]) {
			renewed++
		}
	}
	if renewed != 1 {
		t.Errorf("%d evaluators were made again, want 1", renewed)
	}
	for i := range 2 * maxKept {
		q := &Question{Files: []File{{Name: "a.yaml", Text: fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\n", i)}}, Platforms: []Platform{{}}}
		jsonOf(t, a, q)
	}
	if len(a.evaluators.kept) != maxKept {
		t.Errorf("%d evaluators are kept, want %d", len(a.evaluators.kept), maxKept)
	}
}

// A trace has the steps of each policy with the values of their parts, and says which policies do not apply.
func TestTrace(t *testing.T) {
	t.Parallel()
	q := &Question{Files: NewStart().Files, Platforms: []Platform{{}}, Trace: true}
	q.Files = append(slices.Clone(q.Files), File{Name: "more.yaml", Text: `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: elsewhere}
spec:
  enforcement: Deny
  match: {namespaceSelector: {matchLabels: {tier: gold}}}
  validations: [{expression: "false", message: never}]
`})
	answer, err := New(time.Now).Answer(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	traces := answer.Platforms[0].Machines[0].Traces
	if len(traces) != 2 || traces[0].Policy != "elsewhere" || traces[0].Evaluated || traces[1].Policy != "memory-limit" || !traces[1].Evaluated {
		t.Fatalf("%+v", traces)
	}
	values := map[string]string{}
	for _, step := range traces[1].Steps {
		for _, part := range step.Parts {
			values[part.Expression] = string(part.Value)
		}
	}
	if values["params.limit"] != `"8Gi"` || values["variables.memory"] != `"16Gi"` {
		t.Errorf("the values of the parts are %v", values)
	}
	if cases := answer.Tests.Suites[0].Tests[0].Cases; len(cases[0].Traces) == 0 {
		t.Error("cases have no traces")
	}
}
