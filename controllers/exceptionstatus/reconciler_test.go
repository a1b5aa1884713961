package exceptionstatus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/policies"
)

const day = 24 * time.Hour

var (
	noon    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	guarded = policies.ExceptionTerms{GuardedSince: noon.Add(-2 * day), MaxDuration: 90 * day}
)

// excepted is an exception of two policies until a time.
func excepted(until time.Time) *policyv1alpha1.VirtualMachinePolicyException {
	return &policyv1alpha1.VirtualMachinePolicyException{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1alpha1.GroupVersion.String(), Kind: apikinds.VirtualMachinePolicyException},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "reports", UID: "u-1", Generation: 2, CreationTimestamp: metav1.NewTime(noon.Add(-day))},
		Spec: policyv1alpha1.VirtualMachinePolicyExceptionSpec{
			Policies: []string{"caps", "limits"}, VirtualMachines: []string{"legacy"}, Reason: "year's end", Expires: metav1.NewTime(until),
		},
	}
}

// bench is a reconciler over a fake API server.
type bench struct {
	*Reconciler

	client client.Client
	clock  *clocktesting.FakeClock
	// terms and all are the exceptions that the watch has.
	terms  policies.ExceptionTerms
	all    []*policyv1alpha1.VirtualMachinePolicyException
	events []string
	// audits counts the audits that were requested, and writes the attempts to write a status.
	audits, writes int
	// before and after are the answers to the next write: before it has an effect, and after it had one.
	before, after error
}

func newBench(t *testing.T, stored ...*policyv1alpha1.VirtualMachinePolicyException) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := policyv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &bench{clock: clocktesting.NewFakeClock(noon), terms: guarded}
	objects := make([]client.Object, len(stored))
	for i := range stored {
		objects[i], b.all = stored[i], append(b.all, stored[i])
	}
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&policyv1alpha1.VirtualMachinePolicyException{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceApply: b.apply}).Build()
	b.restart()
	return b
}

// restart replaces the reconciler by one that knows nothing, as another leader does.
func (b *bench) restart() {
	b.Reconciler = New(Options{
		Client: b.client, Clock: b.clock, Changed: func() { b.audits++ },
		Exceptions: func() *policies.Exceptions { return policies.NewExceptions(b.terms, b.all...) },
		Tell: func(on *policyv1alpha1.VirtualMachinePolicyException, e events.Event) {
			b.events = append(b.events, on.Name+" "+e.String())
		},
	})
}

// apply is the answer of the API server to an apply of a status.
func (b *bench) apply(ctx context.Context, c client.Client, subresource string, applied runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	b.writes++
	if err := b.before; err != nil {
		b.before = nil
		return err
	}
	o := &client.SubResourceApplyOptions{}
	o.ApplyOpts(options)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(applied)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: fields}
	current := &policyv1alpha1.VirtualMachinePolicyException{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), current); err != nil {
		return err
	}
	if _, hasSpec := object.Object["spec"]; subresource != "status" || o.FieldManager != Owner || hasSpec || object.GetUID() != current.UID {
		return fmt.Errorf("%v is written to %q by %q", object, subresource, o.FieldManager)
	}
	err = errors.Join(c.SubResource(subresource).Apply(ctx, applied, options...), b.after)
	b.after = nil
	return err
}

// pass reconciles every key, and returns the shortest time after which a key is reconciled again.
func (b *bench) pass(t *testing.T) (time.Duration, error) {
	t.Helper()
	again := 2 * idle
	for _, key := range b.keys() {
		result, err := b.Reconcile(t.Context(), key)
		if err != nil {
			return 0, err
		}
		if result.RequeueAfter > 0 {
			again = min(again, result.RequeueAfter)
		}
	}
	return again, nil
}

// status returns the stored status in a line.
func (b *bench) status(t *testing.T) string {
	t.Helper()
	e := &policyv1alpha1.VirtualMachinePolicyException{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "reports"}, e); err != nil {
		t.Fatal(err)
	}
	if len(e.Status.Conditions) != 1 {
		return fmt.Sprintf("%d conditions", len(e.Status.Conditions))
	}
	c := e.Status.Conditions[0]
	return fmt.Sprintf("%s %s %s since %s, generation %d, %s", c.Type, c.Status, c.Reason, c.LastTransitionTime.UTC().Format(time.DateTime), c.ObservedGeneration, e.Status.Policies)
}

// The end of an exception takes effect by itself, and users are warned once before it, also by another leader.
func TestLifeOfAnException(t *testing.T) {
	b := newBench(t, excepted(noon.Add(8*day)))
	for _, step := range []struct {
		name    string
		wait    time.Duration
		restart bool
		status  string
		again   time.Duration
		events  []string
	}{
		{name: "new", status: "Active True Active since 2026-11-21 12:00:00, generation 2, caps and 1 more", again: idle},
		{name: "a moment later", wait: time.Minute, status: "Active True Active since 2026-11-21 12:00:00, generation 2, caps and 1 more", again: idle},
		{name: "another leader", restart: true, status: "Active True Active since 2026-11-21 12:00:00, generation 2, caps and 1 more", again: idle},
		{
			name: "a week before the end", wait: day, again: idle,
			status: "Active True Expiring since 2026-11-21 12:00:00, generation 2, caps and 1 more",
			events: []string{"reports Warning Expiring: ends at 2026-11-29T12:00:00Z; a restart afterwards is denied"},
		},
		{name: "another leader does not warn again", wait: time.Hour, restart: true, status: "Active True Expiring since 2026-11-21 12:00:00, generation 2, caps and 1 more", again: idle},
		{name: "minutes before the end", wait: 7*day - time.Hour - 2*time.Minute, status: "Active True Expiring since 2026-11-21 12:00:00, generation 2, caps and 1 more", again: time.Minute + time.Second},
		{
			name: "the end", wait: time.Minute + time.Second, again: idle,
			status: "Active False Expired since 2026-11-29 12:00:01, generation 2, caps and 1 more",
			events: []string{"reports Warning Expired: expired at 2026-11-29T12:00:00Z"},
		},
		{name: "another leader after the end", wait: day, restart: true, status: "Active False Expired since 2026-11-29 12:00:01, generation 2, caps and 1 more", again: idle},
	} {
		b.clock.Step(step.wait)
		b.events = nil
		audits := b.audits
		if step.restart {
			b.restart()
		}
		again, err := b.pass(t)
		if err != nil || again != step.again {
			t.Errorf("%s: reconciled again after %s, %v; want %s", step.name, again, err, step.again)
		}
		if diff := cmp.Diff(step.events, b.events); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", step.name, diff)
		}
		if b.audits-audits != len(step.events) {
			t.Errorf("%s: %d audits", step.name, b.audits-audits)
		}
		if got := b.status(t); got != step.status {
			t.Errorf("%s: the status is %s", step.name, got)
		}
	}
	if b.writes != 3 {
		t.Errorf("%d writes", b.writes)
	}
}

// Killed right before or right after each write, the next leader completes the work.
func TestKilledAtEachWrite(t *testing.T) {
	for _, killed := range []string{"before", "after"} {
		t.Run(killed, func(t *testing.T) {
			b := newBench(t, excepted(noon.Add(8*day)))
			for _, step := range []struct {
				wait   time.Duration
				status string
			}{
				{0, "Active True Active since 2026-11-21 12:00:00, generation 2, caps and 1 more"},
				{day, "Active True Expiring since 2026-11-21 12:00:00, generation 2, caps and 1 more"},
				{7 * day, "Active False Expired since 2026-11-29 12:00:00, generation 2, caps and 1 more"},
			} {
				b.clock.Step(step.wait)
				if killed == "before" {
					b.before = errors.New("killed")
				} else {
					b.after = errors.New("killed")
				}
				if _, err := b.pass(t); err == nil || !strings.HasPrefix(err.Error(), "the status of VirtualMachinePolicyException shop/reports: ") || !strings.HasSuffix(err.Error(), "killed") {
					t.Fatalf("the error is %v", err)
				}
				b.restart()
				if _, err := b.pass(t); err != nil || b.status(t) != step.status {
					t.Errorf("%v, the status is %s, want %s", err, b.status(t), step.status)
				}
			}
			if want := map[string]int{"before": 6, "after": 3}[killed]; b.writes != want {
				t.Errorf("%d writes, want %d", b.writes, want)
			}
		})
	}
}

func TestExceptionsThatAreNotActive(t *testing.T) {
	for name, tc := range map[string]struct {
		terms       policies.ExceptionTerms
		until       time.Time
		want, event string
	}{
		"without a guard": {policies.ExceptionTerms{}, noon.Add(day), "Active False NotPermitted since 2026-11-21 12:00:00, generation 2, caps and 1 more", "NotPermitted: the guard of exceptions is missing"},
		"too long":        {guarded, noon.Add(91 * day), "Active False TooLong since 2026-11-21 12:00:00, generation 2, caps and 1 more", "TooLong: spec.expires is more than 90 days in the future"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, excepted(tc.until))
			b.terms = tc.terms
			if _, err := b.pass(t); err != nil || b.status(t) != tc.want {
				t.Errorf("%v, the status is %s", err, b.status(t))
			}
			if len(b.events) != 1 || !strings.HasPrefix(b.events[0], "reports Warning "+tc.event) {
				t.Errorf("events %q", b.events)
			}
		})
	}
}

// A status is about the object that the watch has: nothing is written of one that is gone, or newer.
func TestOtherObjects(t *testing.T) {
	b := newBench(t, excepted(noon.Add(8*day)))
	for name, change := range map[string]func(*policyv1alpha1.VirtualMachinePolicyException){
		"created again":    func(e *policyv1alpha1.VirtualMachinePolicyException) { e.UID = "u-2" },
		"a new generation": func(e *policyv1alpha1.VirtualMachinePolicyException) { e.Generation = 3 },
		"gone":             func(e *policyv1alpha1.VirtualMachinePolicyException) { e.Name = "gone" },
	} {
		e := excepted(noon.Add(8 * day))
		change(e)
		b.all = []*policyv1alpha1.VirtualMachinePolicyException{e}
		if _, err := b.pass(t); err != nil || b.writes != 0 || len(b.events) != 0 {
			t.Errorf("%s: %v, %d writes, events %q", name, err, b.writes, b.events)
		}
	}
	b.all = []*policyv1alpha1.VirtualMachinePolicyException{excepted(noon.Add(8 * day))}
	if _, err := b.pass(t); err != nil || len(b.store.Keys()) != 1 {
		t.Errorf("%v, remembered %v", err, b.store.Keys())
	}
	b.all = nil
	if _, err := b.pass(t); err != nil || len(b.store.Keys()) != 0 {
		t.Errorf("%v, remembered after the deletion: %v", err, b.store.Keys())
	}
}

func TestMetrics(t *testing.T) {
	var current *policies.Exceptions
	measured := Metrics(func() *policies.Exceptions { return current }, clocktesting.NewFakeClock(noon))
	if n := testutil.CollectAndCount(measured); n != 0 {
		t.Errorf("%d values before the exceptions are read", n)
	}
	var all []*policyv1alpha1.VirtualMachinePolicyException
	for i, until := range []time.Time{noon, noon.Add(day), noon.Add(30 * day), noon.Add(30 * day), noon.Add(100 * day)} {
		e := excepted(until)
		e.Name, e.Namespace = fmt.Sprintf("e%d", i), fmt.Sprintf("n%d", i)
		all = append(all, e)
	}
	current = policies.NewExceptions(guarded, all...)
	const want = `
# HELP virtward_policy_exceptions VirtualMachinePolicyExceptions, by state: the reason of the condition Active.
# TYPE virtward_policy_exceptions gauge
virtward_policy_exceptions{state="Active"} 2
virtward_policy_exceptions{state="Expired"} 1
virtward_policy_exceptions{state="Expiring"} 1
virtward_policy_exceptions{state="Invalid"} 0
virtward_policy_exceptions{state="NotPermitted"} 0
virtward_policy_exceptions{state="TooLong"} 1
virtward_policy_exceptions{state="TooMany"} 0
`
	if err := testutil.CollectAndCompare(measured, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
