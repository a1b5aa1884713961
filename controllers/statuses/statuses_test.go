package statuses_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/conditions"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/statuses"
)

type (
	exception = policyv1alpha1.VirtualMachinePolicyException
	status    = policyv1alpha1.VirtualMachinePolicyExceptionStatus
)

const owner = "test-owner"

var (
	noon      = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	errFailed = errors.New("not now")
	key       = client.ObjectKey{Namespace: "shop", Name: "reports"}
)

// server is an API server with one object. It fails as a test says.
type server struct {
	client.Client

	// before and after are the answers to the next writes: before one has an effect, and after it had one.
	before, after []error
	// sent are the writes that arrived: verb, owner and what identifies the version.
	sent   []string
	events []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := policyv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &server{}
	stored := &exception{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "u-1", Generation: 2}}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, object client.Object, options ...client.SubResourceUpdateOption) error {
			o := &client.SubResourceUpdateOptions{}
			o.ApplyOptions(options)
			return s.answer(fmt.Sprintf("update by %s with version %t", o.FieldManager, object.GetResourceVersion() != ""), func() error { return c.Status().Update(ctx, object, options...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, _ string, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
			o := &client.SubResourceApplyOptions{}
			o.ApplyOpts(options)
			applied, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				return err
			}
			u := &unstructured.Unstructured{Object: applied}
			return s.answer(fmt.Sprintf("apply by %s, forced %t, uid %s, with version %t", o.FieldManager, *o.Force, u.GetUID(), u.GetResourceVersion() != ""), func() error {
				return c.Status().Apply(ctx, object, options...)
			})
		},
	}).Build()
	return s
}

func (s *server) answer(request string, write func() error) error {
	s.sent = append(s.sent, request)
	if len(s.before) > 0 {
		err := s.before[0]
		s.before = s.before[1:]
		if err != nil {
			return err
		}
	}
	err := write()
	if len(s.after) > 0 {
		err = errors.Join(err, s.after[0])
		s.after = s.after[1:]
	}
	return err
}

func (s *server) read(t *testing.T) *exception {
	t.Helper()
	object := &exception{}
	if err := s.Get(t.Context(), key, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// change writes the object as another process does.
func (s *server) change(t *testing.T) {
	t.Helper()
	object := s.read(t)
	object.Labels = map[string]string{"changed": fmt.Sprint(len(object.Labels["changed"]))}
	object.Annotations = map[string]string{"at": fmt.Sprint(time.Now().UnixNano())}
	if err := s.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func (s *server) tell(object *exception, e events.Event) {
	s.events = append(s.events, object.Name+" "+e.String())
}

func (s *server) memory() *statuses.Memory[*exception, status] {
	return &statuses.Memory[*exception, status]{Client: s, Owner: owner, Status: statusOf, Tell: s.tell}
}

func (s *server) report() *statuses.Report[*exception, status] {
	return &statuses.Report[*exception, status]{Client: s, Owner: owner, Status: statusOf, Tell: s.tell, Own: func(s *status) *status { return s.DeepCopy() }}
}

func statusOf(e *exception) *status { return &e.Status }

// active is a status with the condition Active.
func active(before *status, value metav1.ConditionStatus, reason string, now time.Time) *status {
	next := before.DeepCopy()
	next.ObservedGeneration = 2
	conditions.Set(&next.Conditions, metav1.Condition{Type: policyv1alpha1.ExceptionActive, Status: value, Reason: reason, Message: "m"}, 2, metav1.NewTime(now))
	return next
}

// transition is an event for another reason.
func transition(before, after *status) []events.Event {
	was, is := meta.FindStatusCondition(before.Conditions, policyv1alpha1.ExceptionActive), meta.FindStatusCondition(after.Conditions, policyv1alpha1.ExceptionActive)
	if was != nil && was.Reason == is.Reason {
		return nil
	}
	return []events.Event{{Type: "Normal", Reason: is.Reason, Message: is.Message}}
}

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "virtualmachinepolicyexceptions"}, key.Name, errFailed)
}

func check(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// write is the write of a helper.
type write func(t *testing.T, s *server, object *exception, next *status) (bool, error)

var helpers = map[string]struct {
	write write
	sent  string
}{
	"memory": {func(t *testing.T, s *server, object *exception, next *status) (bool, error) {
		t.Helper()
		return s.memory().Write(t.Context(), object, next, transition)
	}, "update by test-owner with version true"},
	"report": {func(t *testing.T, s *server, object *exception, next *status) (bool, error) {
		t.Helper()
		return s.report().Write(t.Context(), object, next, transition)
	}, "apply by test-owner, forced true, uid u-1, with version true"},
}

// Both helpers write only what changed, keep the times of conditions, and tell each transition once, after the write.
func TestWrite(t *testing.T) {
	for name, h := range helpers {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			for i, step := range []struct {
				value   metav1.ConditionStatus
				reason  string
				written bool
				since   time.Time
				events  []string
			}{
				{metav1.ConditionTrue, "Active", true, noon, []string{"reports Normal Active: m"}},
				{metav1.ConditionTrue, "Active", false, noon, nil},
				{metav1.ConditionTrue, "Expiring", true, noon, []string{"reports Normal Expiring: m"}},
				{metav1.ConditionFalse, "Expired", true, noon.Add(3 * time.Hour), []string{"reports Normal Expired: m"}},
			} {
				s.sent, s.events = nil, nil
				object := s.read(t)
				next := active(&object.Status, step.value, step.reason, noon.Add(time.Duration(i)*time.Hour))
				written, err := h.write(t, s, object, next)
				if err != nil || written != step.written {
					t.Fatalf("step %d: written %t, %v", i, written, err)
				}
				var sent []string
				if step.written {
					sent = []string{h.sent}
				}
				check(t, fmt.Sprintf("step %d: writes", i), sent, s.sent)
				check(t, fmt.Sprintf("step %d: events", i), step.events, s.events)
				c := s.read(t).Status.Conditions[0]
				if c.Status != step.value || c.Reason != step.reason || c.ObservedGeneration != 2 || !c.LastTransitionTime.Time.Equal(step.since) {
					t.Errorf("step %d: %+v", i, c)
				}
			}
		})
	}
}

// Killed before or after the write, the next process reads again and completes: one status, and no event before its status.
func TestKilled(t *testing.T) {
	for name, h := range helpers {
		for when, c := range map[string]struct {
			before, after []error
			// written and told tell what the second process does.
			written, told int
		}{
			"before the write": {before: []error{errFailed}, written: 1, told: 1},
			"after the write":  {after: []error{errFailed}, written: 0, told: 0},
		} {
			t.Run(name+"/"+when, func(t *testing.T) {
				s := newServer(t)
				s.before, s.after = c.before, c.after
				object := s.read(t)
				if _, err := h.write(t, s, object, active(&object.Status, metav1.ConditionTrue, "Active", noon)); !errors.Is(err, errFailed) || err.Error() != "writing the status: not now" {
					t.Errorf("the error is %v", err)
				}
				if len(s.events) > 0 {
					t.Errorf("events %q without a status", s.events)
				}
				s.sent = nil
				object = s.read(t)
				if _, err := h.write(t, s, object, active(&object.Status, metav1.ConditionTrue, "Active", noon.Add(time.Hour))); err != nil {
					t.Fatal(err)
				}
				if len(s.sent) != c.written || len(s.events) != c.told {
					t.Errorf("then %q, events %q", s.sent, s.events)
				}
				if got := s.read(t).Status.Conditions; len(got) != 1 || got[0].Reason != "Active" {
					t.Errorf("conditions %+v", got)
				}
			})
		}
	}
}

// Of two processes that read the same version, only one remembers. The other one has the status that it read, tells nothing, and
// reads again after a moment.
func TestMemoryConflict(t *testing.T) {
	s := newServer(t)
	first, second := s.read(t), s.read(t)
	if written, err := s.memory().Write(t.Context(), first, active(&first.Status, metav1.ConditionTrue, "Active", noon), transition); !written || err != nil {
		t.Fatalf("written %t, %v", written, err)
	}
	written, err := s.memory().Write(t.Context(), second, active(&second.Status, metav1.ConditionFalse, "Expired", noon), transition)
	if written || !apierrors.IsConflict(err) {
		t.Errorf("written %t, %v", written, err)
	}
	if got := s.read(t).Status.Conditions[0].Reason; got != "Active" || len(second.Status.Conditions) != 0 {
		t.Errorf("stored %s, the object has %+v", got, second.Status)
	}
	check(t, "events", []string{"reports Normal Active: m"}, s.events)
	// The first one continues with the version of its write.
	if written, err := s.memory().Write(t.Context(), first, active(&first.Status, metav1.ConditionFalse, "Expired", noon), transition); !written || err != nil {
		t.Errorf("written %t, %v", written, err)
	}
}

func TestRequeue(t *testing.T) {
	done := reconcile.Result{RequeueAfter: time.Hour}
	for name, c := range map[string]struct {
		err, want error
		after     time.Duration
	}{
		"nothing failed":    {nil, nil, time.Hour},
		"a conflict":        {fmt.Errorf("writing the status: %w", conflict()), nil, time.Second},
		"a joined conflict": {errors.Join(errFailed, conflict()), nil, time.Second},
		"another failure":   {errFailed, errFailed, time.Hour},
	} {
		if result, err := statuses.Requeue(time.Second, done, c.err); !errors.Is(err, c.want) || result.RequeueAfter != c.after {
			t.Errorf("%s: %v, %v", name, result, err)
		}
	}
}

// Nothing more is done for an object that was deleted before its status is written.
func TestMemoryOfDeleted(t *testing.T) {
	s := newServer(t)
	object := s.read(t)
	if err := s.Delete(t.Context(), s.read(t)); err != nil {
		t.Fatal(err)
	}
	written, err := s.memory().Write(t.Context(), object, active(&object.Status, metav1.ConditionTrue, "Active", noon), transition)
	if written || !statuses.Stale(err) || apierrors.IsNotFound(err) || len(s.events) > 0 {
		t.Errorf("written %t, %v, events %q", written, err, s.events)
	}
	for name, err := range map[string]error{"gone": err, "gone, and another failure": errors.Join(errFailed, err)} {
		if result, err := statuses.Requeue(time.Second, reconcile.Result{RequeueAfter: time.Hour}, err); err != nil || result != (reconcile.Result{}) {
			t.Errorf("%s: %v, %v", name, result, err)
		}
	}
	if statuses.Stale(errFailed) || statuses.Stale(nil) || !statuses.Stale(fmt.Errorf("writing: %w", conflict())) {
		t.Error("another error is stale, or a conflict is not")
	}
}

// A report is repeated after a conflict, also if others have written in between. It is not repeated forever.
func TestReportConflict(t *testing.T) {
	s := newServer(t)
	object := s.read(t)
	s.change(t)
	s.before = []error{conflict(), conflict()}
	if written, err := s.report().Write(t.Context(), object, active(&object.Status, metav1.ConditionTrue, "Active", noon), transition); !written || err != nil || len(s.sent) != 3 {
		t.Errorf("written %t, %v, after %d attempts", written, err, len(s.sent))
	}
	check(t, "events", []string{"reports Normal Active: m"}, s.events)
	for range 20 {
		s.before = append(s.before, conflict())
	}
	object = s.read(t)
	if written, err := s.report().Write(t.Context(), object, active(&object.Status, metav1.ConditionFalse, "Expired", noon), transition); written || !apierrors.IsConflict(err) || len(s.events) != 1 {
		t.Errorf("written %t, %v, events %q", written, err, s.events)
	}
}

// An object that changed after it was read gets the report with its current version.
func TestReportOfChanged(t *testing.T) {
	s := newServer(t)
	object := s.read(t)
	s.change(t)
	if written, err := s.report().Write(t.Context(), object, active(&object.Status, metav1.ConditionTrue, "Active", noon), transition); !written || err != nil || len(s.sent) != 2 {
		t.Errorf("written %t, %v, after %d attempts", written, err, len(s.sent))
	}
	if got := s.read(t); got.Labels["changed"] == "" || len(got.Status.Conditions) != 1 {
		t.Errorf("labels %v, conditions %+v", got.Labels, got.Status.Conditions)
	}
}

// An object that was deleted and created again between the read and the write gets no report of the earlier one.
func TestReportOfCreatedAgain(t *testing.T) {
	s := newServer(t)
	object := s.read(t)
	if err := s.Delete(t.Context(), s.read(t)); err != nil {
		t.Fatal(err)
	}
	again := &exception{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "u-2", Generation: 1}}
	if err := s.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	written, err := s.report().Write(t.Context(), object, active(&object.Status, metav1.ConditionTrue, "Active", noon), transition)
	if written || err != nil || len(s.sent) != 1 || len(s.events) > 0 {
		t.Errorf("written %t, %v, after %d attempts, events %q", written, err, len(s.sent), s.events)
	}
	if got := s.read(t); got.UID != "u-2" || len(got.Status.Conditions) > 0 {
		t.Errorf("the object %s has %+v", got.UID, got.Status.Conditions)
	}
}

// A deleted object needs no report.
func TestReportOfDeleted(t *testing.T) {
	s := newServer(t)
	object := s.read(t)
	s.before = []error{apierrors.NewNotFound(schema.GroupResource{}, key.Name)}
	if written, err := s.report().Write(t.Context(), object, active(&object.Status, metav1.ConditionTrue, "Active", noon), transition); written || err != nil || len(s.events) > 0 {
		t.Errorf("written %t, %v, events %q", written, err, s.events)
	}
}

// After an observation that failed, a report says so: evidence of the same generation stays with its time, and other evidence does
// not. The same failure is reported once.
func TestUnobserved(t *testing.T) {
	fails := func(s *server, generation int64, failure string) (bool, error) {
		object := s.read(t)
		next := object.Status.DeepCopy()
		c := statuses.Unobserved(object.Status.Conditions, policyv1alpha1.ExceptionActive, "NotObserved", generation, failure)
		conditions.Set(&next.Conditions, c, generation, metav1.NewTime(noon.Add(time.Hour)))
		return s.report().Write(t.Context(), object, next, transition)
	}
	s := newServer(t)
	for i, step := range []struct {
		do      func() (bool, error)
		written bool
		want    string
	}{
		{func() (bool, error) { return fails(s, 2, "no answer") }, true, "Unknown NotObserved no answer 2026-11-21 13:00:00"},
		{func() (bool, error) { return fails(s, 2, "no answer") }, false, "Unknown NotObserved no answer 2026-11-21 13:00:00"},
		{func() (bool, error) {
			object := s.read(t)
			return s.report().Write(t.Context(), object, active(&object.Status, metav1.ConditionTrue, "Active", noon), transition)
		}, true, "True Active m 2026-11-21 12:00:00"},
		{func() (bool, error) { return fails(s, 2, "no answer") }, true, "True Active m; this can be out of date: no answer 2026-11-21 12:00:00"},
		{func() (bool, error) { return fails(s, 2, "no answer") }, false, "True Active m; this can be out of date: no answer 2026-11-21 12:00:00"},
		{func() (bool, error) { return fails(s, 2, "timeout") }, true, "True Active m; this can be out of date: timeout 2026-11-21 12:00:00"},
		{func() (bool, error) { return fails(s, 3, "timeout") }, true, "Unknown NotObserved timeout 2026-11-21 13:00:00"},
	} {
		written, err := step.do()
		c := s.read(t).Status.Conditions[0]
		got := fmt.Sprintf("%s %s %s %s", c.Status, c.Reason, c.Message, c.LastTransitionTime.UTC().Format(time.DateTime))
		if err != nil || written != step.written || got != step.want {
			t.Errorf("step %d: written %t, %v: %s, want %s", i, written, err, got, step.want)
		}
	}
	check(t, "events", []string{"reports Normal NotObserved: no answer", "reports Normal Active: m", "reports Normal NotObserved: timeout"}, s.events)
}

// A message has at most 1024 bytes of whole characters: at most 512 of the failure, and then what was observed.
func TestUnobservedIsBounded(t *testing.T) {
	known := func(message string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: message, ObservedGeneration: 2}}
	}
	long := strings.Repeat("é", 1000)
	for name, c := range map[string]struct {
		known         []metav1.Condition
		failure       string
		most, failing int
	}{
		"nothing known":            {nil, long, 512, 512},
		"both are long":            {known(long), long, 1024, 512},
		"a short failure":          {known(long), "no answer", 1024, len("no answer")},
		"a short observation":      {known("m"), long, 1 + len("; this can be out of date: ") + 512, 512},
		"what was shortened again": {known(statuses.Unobserved(known(long), "Ready", "NotObserved", 2, long).Message), long, 1024, 512},
	} {
		got := statuses.Unobserved(c.known, "Ready", "NotObserved", 2, c.failure).Message
		_, failing, found := strings.Cut(got, "; this can be out of date: ")
		if !found {
			failing = got
		}
		if len(got) > c.most || len(got) < c.most-8 || len(failing) > c.failing || len(failing) < c.failing-4 || !utf8.ValidString(got) || found != (c.known != nil) {
			t.Errorf("%s: %d bytes, %d of the failure: %s", name, len(got), len(failing), got)
		}
	}
}

// A failure has no part that changes at each attempt, and names nothing.
func TestFailure(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("reading: %w", errFailed):                            "it could not be read; the log of the controller has the error",
		fmt.Errorf("reading: %w", apierrors.NewServiceUnavailable("n")): "it could not be read; the log of the controller has the error ServiceUnavailable",
	} {
		if got := statuses.Failure("it could not be read", err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// A Store reads and writes nothing while the plan of an object has the same result, and nothing of another object of its name.
func TestStore(t *testing.T) {
	s := newServer(t)
	reads := 0
	counting := interceptor.NewClient(s.Client.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		reads++
		return c.Get(ctx, key, object, options...)
	}})
	store := statuses.NewStore(counting, statusOf, s.report(), transition)
	cached := &exception{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "u-1", Generation: 2}}
	keep := func(object *exception, reason string) error {
		return store.Keep(t.Context(), object, func(before *status) *status { return active(before, metav1.ConditionTrue, reason, noon) })
	}
	another, newer, missing := cached.DeepCopy(), cached.DeepCopy(), cached.DeepCopy()
	another.UID, newer.Generation, missing.Name = "u-2", 3, "missing"
	s.before = []error{errFailed}
	for i, step := range []struct {
		object       *exception
		reason       string
		err          error
		reads, sends int
	}{
		{cached, "Active", errFailed, 1, 1}, // and nothing is remembered
		{cached, "Active", nil, 1, 1},
		{cached, "Active", nil, 0, 0},
		{cached, "Expiring", nil, 1, 1},
		{another, "Active", nil, 1, 0},
		{newer, "Active", nil, 1, 0},
		{missing, "Active", nil, 1, 0},
	} {
		reads, s.sent = 0, nil
		if err := keep(step.object, step.reason); !errors.Is(err, step.err) || reads != step.reads || len(s.sent) != step.sends {
			t.Errorf("step %d: %v, %d reads, %d writes", i, err, reads, len(s.sent))
		}
	}
	check(t, "keys", []client.ObjectKey{key}, store.Keys())
	store.Forget(key)
	check(t, "keys", 0, len(store.Keys()))
}
