package policystatus

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers/policycounts"
	"github.com/virtward/virtward/policies"
)

const (
	first  = "spec.validations[0].expression"
	second = "spec.validations[1].expression"
)

// ago is a time in seconds since 1970.
func ago(d time.Duration) int64 { return now.Add(-d).Unix() }

func at(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)).Rfc3339Copy() }

func counted(failures ...policycounts.Failure) Evaluations {
	return Evaluations{Known: true, Read: true, Count: policycounts.Count{Failures: failures}}
}

// inStatus is an error in a status: since an hour ago, last a minute ago.
func inStatus(field string, count int64) policyv1alpha1.PolicyEvaluationError {
	return policyv1alpha1.PolicyEvaluationError{Field: field, Reason: policies.ReasonFailed, Count: count, Since: at(time.Hour), Last: at(time.Minute)}
}

func statusWith(errors ...policyv1alpha1.PolicyEvaluationError) *policyv1alpha1.VirtualMachinePolicyStatus {
	s := &policyv1alpha1.VirtualMachinePolicyStatus{ObservedGeneration: 3, Errors: errors, EvaluationErrors: ptr.To(int64(0))}
	for i := range errors {
		*s.EvaluationErrors += errors[i].Count
	}
	return s
}

func failedOf(field string, counted, reported int64) policycounts.Failure {
	return policycounts.Failure{Field: field, Reason: policies.ReasonFailed, Counted: counted, Reported: reported, First: ago(2 * time.Minute), Last: ago(0)}
}

func TestErrors(t *testing.T) {
	// brief is an error without its times.
	type brief struct {
		Field string
		Count int64
	}
	many := make([]policycounts.Failure, 0, 20)
	for i := range 20 {
		many = append(many, failedOf(fmt.Sprintf("spec.validations[%d].expression", i), int64(i+1), 0))
	}
	based := func(base policyv1alpha1.PolicyEvaluationError, failures ...policycounts.Failure) Evaluations {
		e := counted(failures...)
		e.Base = []policyv1alpha1.PolicyEvaluationError{base}
		return e
	}
	old := inStatus(first, 7)
	old.Last = at(24 * time.Hour)
	settled := inStatus(first, 7)
	settled.Last = at(5 * time.Minute)
	earlier := statusWith(inStatus(first, 7))
	earlier.ObservedGeneration = 2
	for name, c := range map[string]struct {
		evaluations Evaluations
		before      *policyv1alpha1.VirtualMachinePolicyStatus
		total       *int64
		want        []brief
	}{
		"nothing is known yet":         {Evaluations{}, &policyv1alpha1.VirtualMachinePolicyStatus{}, nil, nil},
		"a new leader knows nothing":   {Evaluations{}, statusWith(inStatus(first, 7)), ptr.To(int64(7)), []brief{{first, 7}}},
		"no errors":                    {counted(), &policyv1alpha1.VirtualMachinePolicyStatus{}, ptr.To(int64(0)), nil},
		"the first errors":             {counted(failedOf(first, 2, 3), failedOf(second, 5, 1)), statusWith(), ptr.To(int64(8)), []brief{{second, 5}, {first, 3}}},
		"what another leader counted":  {based(inStatus(first, 7), failedOf(first, 8, 1)), statusWith(inStatus(first, 7)), ptr.To(int64(15)), []brief{{first, 15}}},
		"what no leader counted":       {based(inStatus(first, 7), failedOf(first, 0, 20)), statusWith(inStatus(first, 7)), ptr.To(int64(20)), []brief{{first, 20}}},
		"few more are written later":   {based(inStatus(first, 7), failedOf(first, 6, 0)), statusWith(inStatus(first, 7)), ptr.To(int64(7)), []brief{{first, 7}}},
		"few more, after five minutes": {based(settled, failedOf(first, 6, 0)), statusWith(settled), ptr.To(int64(13)), []brief{{first, 13}}},
		"another expression, at once":  {based(inStatus(first, 7), failedOf(second, 1, 1)), statusWith(inStatus(first, 7)), ptr.To(int64(8)), []brief{{first, 7}, {second, 1}}},
		"webhooks that started again":  {based(inStatus(first, 7), failedOf(first, 0, 1)), statusWith(inStatus(first, 7)), ptr.To(int64(7)), []brief{{first, 7}}},
		"none for a day":               {counted(), statusWith(old), ptr.To(int64(0)), nil},
		"one of two for a day":         {counted(), statusWith(old, inStatus(second, 2)), ptr.To(int64(2)), []brief{{second, 2}}},
		"those of an earlier spec":     {counted(), earlier, ptr.To(int64(0)), nil},
		"the first 8, and all together": {counted(many...), statusWith(), ptr.To(int64(210)), []brief{
			{many[19].Field, 20}, {many[18].Field, 19}, {many[17].Field, 18}, {many[16].Field, 17}, {many[15].Field, 16}, {many[14].Field, 15}, {many[13].Field, 14}, {many[12].Field, 13},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := compile(t, "enforcement: Warn, "+inOrder)
			s := Plan(&compiled, Counted{}, c.evaluations, c.before, now)
			var got []brief
			for _, e := range s.Errors {
				got = append(got, brief{e.Field, e.Count})
				if e.Reason != policies.ReasonFailed || e.Last.Before(&e.Since) || e.Since.IsZero() {
					t.Errorf("error %+v", e)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.total, s.EvaluationErrors); diff != "" {
				t.Errorf("evaluationErrors (-want +got):\n%s", diff)
			}
			if again := Plan(&compiled, Counted{}, c.evaluations, s, now); !cmp.Equal(s, again) {
				t.Errorf("a second plan differs:\n%s", cmp.Diff(s, again))
			}
		})
	}
}

func TestDenials(t *testing.T) {
	denied := func(base int64, f policycounts.Failure) Evaluations {
		f.Field, f.Reason = "spec", "denied"
		e := counted()
		e.Denials = &f
		if base > 0 {
			e.BaseDenials = &policyv1alpha1.PolicyDenials{Count: base}
		}
		return e
	}
	in := func(count int64, last time.Duration) *policyv1alpha1.VirtualMachinePolicyStatus {
		s := statusWith()
		s.Denials = &policyv1alpha1.PolicyDenials{Count: count, Since: at(48 * time.Hour), Last: at(last)}
		return s
	}
	earlier := in(7, time.Minute)
	earlier.ObservedGeneration = 2
	for name, c := range map[string]struct {
		evaluations Evaluations
		before      *policyv1alpha1.VirtualMachinePolicyStatus
		want        int64
		last        time.Duration
	}{
		"none":                         {counted(), statusWith(), 0, 0},
		"the first":                    {denied(0, failedOf("", 1, 1)), statusWith(), 1, 0},
		"a new leader knows nothing":   {Evaluations{}, in(7, time.Minute), 7, time.Minute},
		"few more are written later":   {denied(7, failedOf("", 3, 3)), in(7, time.Minute), 7, time.Minute},
		"few more, after five minutes": {denied(7, failedOf("", 3, 3)), in(7, 5*time.Minute), 10, 0},
		"twice as many, at once":       {denied(7, failedOf("", 7, 7)), in(7, time.Minute), 14, 0},
		"what no leader counted":       {denied(7, failedOf("", 0, 20)), in(7, time.Minute), 20, 0},
		"those of an earlier spec":     {denied(0, failedOf("", 2, 2)), earlier, 2, 0},
		"none for a day":               {counted(), in(7, 24*time.Hour), 0, 0},
		"webhooks that started again":  {counted(), in(7, 6*time.Minute), 7, 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := compile(t, "enforcement: Deny, "+inOrder)
			s := Plan(&compiled, Counted{}, c.evaluations, c.before, now)
			got := ptr.Deref(s.Denials, policyv1alpha1.PolicyDenials{})
			if got.Count != c.want || c.want > 0 && !got.Last.Equal(new(at(c.last))) || c.want > 0 && got.Last.Before(&got.Since) {
				t.Errorf("denials %+v, want %d, the last %s ago", got, c.want, c.last)
			}
			if len(s.Errors) > 0 || c.evaluations.Known && ptr.Deref(s.EvaluationErrors, -1) != 0 {
				t.Errorf("denials are errors: %+v", s.Errors)
			}
			if again := Plan(&compiled, Counted{}, c.evaluations, s, now); !cmp.Equal(s, again) {
				t.Errorf("a second plan differs:\n%s", cmp.Diff(s, again))
			}
		})
	}
}

// found is a condition in a line.
func found(s *policyv1alpha1.VirtualMachinePolicyStatus, kind string) string {
	c := meta.FindStatusCondition(s.Conditions, kind)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s %d: %s", c.Status, c.Reason, c.ObservedGeneration, c.Message)
}

func TestEvaluated(t *testing.T) {
	const succeeded = "True NoErrors 3: no evaluation failed in the last 24 hours"
	const unknown = "Unknown NoCounts 3: no webhook has reported its evaluations yet"
	before := func(generation int64) *policyv1alpha1.VirtualMachinePolicyStatus {
		return &policyv1alpha1.VirtualMachinePolicyStatus{ObservedGeneration: generation, Conditions: []metav1.Condition{
			{Type: policyv1alpha1.PolicyEvaluated, Status: metav1.ConditionTrue, ObservedGeneration: generation},
		}}
	}
	for name, c := range map[string]struct {
		evaluations Evaluations
		before      *policyv1alpha1.VirtualMachinePolicyStatus
		want        string
	}{
		"nothing is known yet":           {Evaluations{}, statusWith(), unknown},
		"a new leader knows nothing":     {Evaluations{}, before(3), succeeded},
		"nothing is known of a new spec": {Evaluations{}, before(2), unknown},
		"no webhook could be read":       {Evaluations{Known: true}, statusWith(), unknown},
		"the webhooks do not answer now": {Evaluations{Known: true}, before(3), succeeded},
		"no errors":                      {counted(), statusWith(), succeeded},
		"errors, sorted by field": {counted(failedOf(second, 9, 0), failedOf(first, 1, 0)), before(3), "False EvaluationErrors 3: evaluations failed: " + first + " (failed), " + second +
			" (failed): status.errors has the counts; kubectl virtward explain --from-cluster shows the error for one virtual machine"},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := compile(t, "enforcement: Warn, "+inOrder)
			if got := found(Plan(&compiled, Counted{}, c.evaluations, c.before, now), policyv1alpha1.PolicyEvaluated); got != c.want {
				t.Errorf("Evaluated is %q, want %q", got, c.want)
			}
		})
	}
}

func TestSuspended(t *testing.T) {
	const is = "True ExceedsLimits 3: the policy exceeded its limits in most evaluations and is no longer evaluated: make its expressions cheaper; a change of the spec resumes it"
	const isNot = "False WithinLimits 3: the policy is not suspended"
	suspended := func(generation int64) *policyv1alpha1.VirtualMachinePolicyStatus {
		return &policyv1alpha1.VirtualMachinePolicyStatus{ObservedGeneration: generation, Violations: ptr.To(int64(4)), Conditions: []metav1.Condition{
			{Type: policyv1alpha1.PolicySuspended, Status: metav1.ConditionTrue, ObservedGeneration: generation},
		}}
	}
	for name, c := range map[string]struct {
		enforcement string
		exceeds     bool
		before      *policyv1alpha1.VirtualMachinePolicyStatus
		want        string
	}{
		"within its limits":                     {"Audit", false, statusWith(), isNot},
		"Audit":                                 {"Audit", true, statusWith(), is},
		"Warn":                                  {"Warn", true, statusWith(), is},
		"a policy that denies is not suspended": {"Deny", true, statusWith(), isNot},
		"it stays suspended":                    {"Audit", false, suspended(3), is},
		"another spec resumes it":               {"Audit", false, suspended(2), isNot},
		"a status that suspends a policy that denies": {"Deny", false, suspended(3), isNot},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := compile(t, "enforcement: "+c.enforcement+", "+inOrder)
			evaluations := counted()
			evaluations.Exceeds = c.exceeds
			s := Plan(&compiled, Counted{Violations: map[string]int{"p": 2}, At: now}, evaluations, c.before, now)
			if got := found(s, policyv1alpha1.PolicySuspended); got != c.want {
				t.Errorf("Suspended is %q, want %q", got, c.want)
			}
			ready := "True Ready 3: the policy is active"
			if c.want == is {
				ready = "False Suspended 3: the policy is not evaluated: see the condition Suspended"
			}
			if got := found(s, policyv1alpha1.PolicyReady); got != ready {
				t.Errorf("Ready is %q, want %q", got, ready)
			}
			if gone := s.Violations == nil && s.LastAudit == nil && len(s.EnforcedBy) == 0; gone != (c.want == is) && c.enforcement != "Audit" {
				t.Errorf("violations %v, enforced by %v", s.Violations, s.EnforcedBy)
			}
		})
	}
}

// A suspended policy is not evaluated, so its errors stay.
func TestErrorsOfASuspendedPolicy(t *testing.T) {
	old := inStatus(first, 7)
	old.Last = at(48 * time.Hour)
	before := statusWith(old)
	before.Conditions = []metav1.Condition{{Type: policyv1alpha1.PolicySuspended, Status: metav1.ConditionTrue, ObservedGeneration: 3}}
	compiled := compile(t, "enforcement: Audit, "+inOrder)
	if s := Plan(&compiled, Counted{}, counted(), before, now); len(s.Errors) != 1 || *s.EvaluationErrors != 7 {
		t.Errorf("errors %+v", s.Errors)
	}
}

func counts(c policycounts.Count) policycounts.Counts {
	return policycounts.Counts{Read: true, Policies: map[policycounts.Key]policycounts.Count{{UID: "u-1", Generation: 3}: c}}
}

// status is what the API server has.
func (b *bench) status(t *testing.T) *policyv1alpha1.VirtualMachinePolicyStatus {
	t.Helper()
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Name: "p"}, policy); err != nil {
		t.Fatal(err)
	}
	return &policy.Status
}

// Killed right before or right after any write, another leader completes the work: no error is counted twice or lost, the
// policy is suspended, and stays so.
func TestKilledWhileItCounts(t *testing.T) {
	steps := []policycounts.Count{
		{Failures: []policycounts.Failure{failedOf(first, 3, 3)}},
		{Failures: []policycounts.Failure{failedOf(first, 7, 7)}},
		{Failures: []policycounts.Failure{failedOf(first, 20, 20)}, Exceeds: true},
		{Failures: []policycounts.Failure{failedOf(first, 20, 20)}},
	}
	for step := range steps {
		for name, written := range map[string]bool{"before": false, "after": true} {
			t.Run(fmt.Sprintf("%s write %d", name, step), func(t *testing.T) {
				b := newBench(t, nil)
				b.all = []configcache.Compiled{compile(t, "enforcement: Audit, "+inOrder)}
				leader := -1 // the step at which the leader began: it counts what is new since then
				for i, c := range steps {
					c.Failures = []policycounts.Failure{failedOf(first, c.Failures[0].Reported, c.Failures[0].Reported)}
					if leader >= 0 {
						c.Failures[0].Counted -= steps[leader].Failures[0].Reported
					}
					if i == step && written {
						b.lose = errors.New("killed")
					} else if i == step {
						b.reject = errors.New("killed")
					}
					b.Counted(counts(c))
					_, err := b.pass(t)
					if err == nil {
						continue
					}
					b.reject, b.lose = nil, nil
					b.Reconciler, leader = New(b.Options), i
					c.Failures[0].Counted = 0
					b.Counted(counts(c))
					if _, err := b.pass(t); err != nil {
						t.Fatal(err)
					}
				}
				s := b.status(t)
				if ptr.Deref(s.EvaluationErrors, -1) != 20 || len(s.Errors) != 1 || !meta.IsStatusConditionTrue(s.Conditions, policyv1alpha1.PolicySuspended) {
					t.Errorf("status %+v", s)
				}
				suspensions := 0
				for _, e := range b.events {
					if strings.Contains(e, "ExceedsLimits") {
						suspensions++
					}
				}
				if suspensions > 1 {
					t.Errorf("events %q", b.events)
				}
			})
		}
	}
}

// Another leader wrote its counts between the first read and the first write: the counts of this one are added to these.
func TestConflictBeforeTheFirstWrite(t *testing.T) {
	b := newBench(t, statusWith(inStatus(first, 10)))
	b.all = []configcache.Compiled{compile(t, "enforcement: Audit, "+inOrder)}
	b.Counted(counts(policycounts.Count{Failures: []policycounts.Failure{failedOf(first, 50, 50)}}))
	b.reject = apierrors.NewConflict(resource.GroupResource(), "p", errors.New("it changed"))
	if again, err := b.pass(t); err != nil || again != behind {
		t.Fatalf("again after %s, %v", again, err)
	}
	b.reject = nil
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Name: "p"}, policy); err != nil {
		t.Fatal(err)
	}
	policy.Status = *statusWith(inStatus(first, 40))
	if err := b.client.Status().Update(t.Context(), policy, client.FieldOwner(Owner)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pass(t); err != nil {
		t.Fatal(err)
	}
	if got := ptr.Deref(b.status(t).EvaluationErrors, -1); got != 90 {
		t.Errorf("%d errors, want 40 and 50", got)
	}
	// Later conflicts change nothing: what this process wrote has its counts already.
	b.Counted(counts(policycounts.Count{Failures: []policycounts.Failure{failedOf(first, 200, 200)}}))
	b.reject = apierrors.NewConflict(resource.GroupResource(), "p", errors.New("it changed"))
	if again, err := b.pass(t); err != nil || again != behind {
		t.Fatalf("again after %s, %v", again, err)
	}
	b.reject = nil
	if _, err := b.pass(t); err != nil {
		t.Fatal(err)
	}
	if got := ptr.Deref(b.status(t).EvaluationErrors, -1); got != 240 {
		t.Errorf("%d errors, want 40 and 200", got)
	}
}

func TestEventsOfEvaluations(t *testing.T) {
	b := newBench(t, nil)
	b.all = []configcache.Compiled{compile(t, "enforcement: Audit, "+inOrder)}
	for i, step := range []struct {
		count policycounts.Count
		want  string
	}{
		{policycounts.Count{}, ""},
		{policycounts.Count{Failures: []policycounts.Failure{failedOf(first, 3, 3)}}, "p Warning EvaluationErrors: evaluations failed: " + first},
		{policycounts.Count{Failures: []policycounts.Failure{failedOf(first, 30, 30)}}, ""},
		{policycounts.Count{Failures: []policycounts.Failure{failedOf(first, 30, 30)}, Exceeds: true}, "p Warning ExceedsLimits: the policy exceeded its limits"},
		{policycounts.Count{Failures: []policycounts.Failure{failedOf(first, 30, 30)}, Exceeds: true}, ""},
	} {
		b.events = nil
		b.Counted(counts(step.count))
		if _, err := b.pass(t); err != nil {
			t.Error(err)
		}
		got := strings.Join(b.events, "|")
		if (step.want == "") != (got == "") || !strings.HasPrefix(got, step.want) || len(b.events) > 1 {
			t.Errorf("step %d: events %q, want %q", i, got, step.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	suspended := compile(t, "enforcement: Audit, "+inOrder)
	suspended.Suspended = true
	all := []configcache.Compiled{compile(t, "enforcement: Audit, "+inOrder), suspended}
	const want = `
# HELP virtward_policy_suspended 1 for a policy that is suspended, because it exceeded its limits again and again.
# TYPE virtward_policy_suspended gauge
virtward_policy_suspended{policy="p"} 1
`
	if err := testutil.CollectAndCompare(Metrics(func() []configcache.Compiled { return all }), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
