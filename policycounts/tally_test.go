package policycounts

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/policies"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func failure(field, reason string) policies.Failure {
	return policies.Failure{Field: field, Reason: reason}
}

func TestTally(t *testing.T) {
	first, second := "spec.validations[0].expression", "spec.validations[1].expression"
	for name, c := range map[string]struct {
		outcomes []policies.Outcome
		want     Policy
	}{
		"no evaluation": {nil, Policy{}},
		"evaluations without failures": {
			[]policies.Outcome{{Namespace: "a"}, {Namespace: "b"}, {Namespace: "a"}},
			Policy{Evaluations: 3, Namespaces: 2},
		},
		"failures by field and reason, with their times": {
			[]policies.Outcome{
				{At: noon.Add(time.Minute), Namespace: "a", Failures: []policies.Failure{failure(second, policies.ReasonFailed), failure(first, policies.ReasonLimit)}, Overrun: true},
				{At: noon, Namespace: "b", Failures: []policies.Failure{failure(first, policies.ReasonFailed)}},
				{At: noon.Add(2 * time.Minute), Namespace: "a", Failures: []policies.Failure{failure(first, policies.ReasonLimit)}, Overrun: true},
			},
			Policy{Evaluations: 3, Overruns: 2, Namespaces: 2, OverrunNamespaces: 1, Failures: []Failure{
				{first, policies.ReasonFailed, 1, noon.Unix(), noon.Unix()},
				{first, policies.ReasonLimit, 2, noon.Unix() + 60, noon.Unix() + 120},
				{second, policies.ReasonFailed, 1, noon.Unix() + 60, noon.Unix() + 60},
			}},
		},
		"a policy that is skipped is not evaluated": {
			[]policies.Outcome{{At: noon, Namespace: "a", Failures: []policies.Failure{failure("spec", policies.ReasonSkipped)}}, {Namespace: "b"}},
			Policy{Evaluations: 1, Namespaces: 1, Failures: []Failure{{"spec", policies.ReasonSkipped, 1, noon.Unix(), noon.Unix()}}},
		},
		"large objects count as failures only": {
			[]policies.Outcome{{At: noon, Namespace: "a", Large: true, Failures: []policies.Failure{failure(first, policies.ReasonLimit)}, Overrun: true}},
			Policy{Failures: []Failure{{first, policies.ReasonLimit, 1, noon.Unix(), noon.Unix()}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tally := NewTally()
			for _, o := range c.outcomes {
				tally.Record(o)
			}
			if diff := cmp.Diff(c.want, tally.Counts()); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

// Denials are counted beside failures, also if many expressions fail.
func TestDenied(t *testing.T) {
	tally := failing(2 * MaxFailures)
	tally.Denied(noon.Add(time.Minute))
	tally.Denied(noon)
	counts := tally.Counts()
	want := Failure{"spec", Denied, 2, noon.Unix(), noon.Unix() + 60}
	if got := counts.Failures[0]; got != want || len(counts.Failures) > MaxFailures || counts.Evaluations != 2*MaxFailures {
		t.Errorf("%d evaluations, %d failures, the first %+v, want %+v", counts.Evaluations, len(counts.Failures), got, want)
	}
	for _, reason := range policies.FailureReasons() {
		tally.Record(policies.Outcome{At: noon, Failures: []policies.Failure{failure("spec.variables[0].expression", reason)}})
	}
	if n := len(tally.Counts().Failures); n > MaxFailures {
		t.Errorf("%d failures", n)
	}
}

// A policy has up to 64 conditions and 64 validations, and objects are in any number of namespaces.
func TestTallyIsBounded(t *testing.T) {
	tally := NewTally()
	const rounds = 1000
	for i := range rounds {
		var failures []policies.Failure
		for j, reason := range policies.FailureReasons() {
			failures = append(failures, failure(fmt.Sprintf("spec.validations[%d].expression", (i+j)%128), reason))
		}
		tally.Record(policies.Outcome{At: noon, Namespace: fmt.Sprint(i), Failures: failures, Overrun: true})
	}
	got := tally.Counts()
	total := int64(0)
	for _, f := range got.Failures {
		total += f.Count
	}
	if len(got.Failures) > MaxFailures || total != rounds*int64(len(policies.FailureReasons())) {
		t.Errorf("%d failures, %d in all", len(got.Failures), total)
	}
	if got.Namespaces != MaxNamespaces || got.OverrunNamespaces != MaxNamespaces || got.Evaluations != rounds || got.Overruns != rounds {
		t.Errorf("counts %+v", got)
	}
	if cap(tally.failures)*72+8*(cap(tally.evaluated)+cap(tally.overrun)) > TallyBytes {
		t.Errorf("room for %d failures and %d + %d namespaces exceeds %d bytes", cap(tally.failures), cap(tally.evaluated), cap(tally.overrun), TallyBytes)
	}
}

func TestTallyInParallel(t *testing.T) {
	tally := NewTally()
	const writers, each = 8, 500
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				tally.Record(policies.Outcome{At: noon, Namespace: fmt.Sprint(w), Failures: []policies.Failure{failure("spec", policies.ReasonFailed)}})
				if i%100 == 0 {
					tally.Counts()
				}
			}
		})
	}
	group.Wait()
	want := Policy{Evaluations: writers * each, Namespaces: writers, Failures: []Failure{{"spec", policies.ReasonFailed, writers * each, noon.Unix(), noon.Unix()}}}
	if diff := cmp.Diff(want, tally.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}
