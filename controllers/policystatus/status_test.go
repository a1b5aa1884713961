package policystatus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
)

var (
	environment = sync.OnceValues(cel.NewEnvironment)
	now         = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
)

const inOrder = `validations: [{expression: "vm.spec.domain.cpu.cores < 8u", message: many, fieldPath: spec.domain.cpu.cores}]`

const notEnabled = "the policy reads references.configMaps, which are not enabled: add configmaps to the chart's value policies.references"

func reading(kind string) string {
	return `validations: [{expression: "references.` + kind + `.size() == 0", message: none, messageExpression: "'none'"}]`
}

func compile(t *testing.T, spec string) configcache.Compiled {
	t.Helper()
	env, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	c := configcache.Compiled{Object: &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u-1", Generation: 3}}}
	if err := yaml.UnmarshalStrict([]byte("{"+spec+"}"), &c.Object.Spec); err != nil {
		t.Fatal(err)
	}
	c.Policy, c.Problems = policies.Compile(env, c.Object, nil)
	c.Policy, c.Problems = policies.WithReferences(c.Policy, []string{"storageclasses"}, c.Problems)
	return c
}

// said is a status in a few lines, for tables, without its evaluations: see evaluations_test.go.
func said(s *policyv1alpha1.VirtualMachinePolicyStatus) []string {
	var lines []string
	for _, c := range s.Conditions {
		if c.Type == policyv1alpha1.PolicyEvaluated || c.Type == policyv1alpha1.PolicySuspended {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %d: %s", c.Type, c.Status, c.Reason, c.ObservedGeneration, c.Message))
	}
	for _, p := range s.Problems {
		kind := "problem"
		if p.Warning {
			kind = "warning"
		}
		lines = append(lines, fmt.Sprintf("%s %s:%d:%d %s", kind, p.Field, p.Line, p.Column, p.Message))
	}
	for _, why := range s.NotAuditable {
		lines = append(lines, "not audited: "+why)
	}
	return append(lines, fmt.Sprintf("by %v", s.EnforcedBy))
}

func TestPlan(t *testing.T) {
	const compiledWell, active = "Compiled True Compiled 3: the policy is valid", "Ready True Ready 3: the policy is active"
	broken := `validations: [{expression: "vm.spec.\n  cores < 8", message: many}, {expression: "1", message: x}]`
	const undefined = "spec.validations[0].expression:1:8: undefined field 'cores'"
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"in order":                 {`enforcement: Deny, ` + inOrder, []string{compiledWell, active, "by [Webhook]"}},
		"one that only is audited": {`enforcement: Audit, ` + inOrder, []string{compiledWell, active, "by []"}},
		"exceptions that have expired, and not": {
			`enforcement: Warn, exceptions: [{names: [a], reason: r, expires: "2026-03-04T05:06:07Z"}, {names: [b], reason: r, expires: "2026-03-04T05:06:08Z"}, {names: [c], reason: r}], ` + inOrder,
			[]string{
				compiledWell, active,
				"warning spec.exceptions[0].expires:0:0 the exception expired at 2026-03-04T05:06:07Z: remove it", "by [Webhook]",
			},
		},
		"one that reads the request": {`enforcement: Deny, validations: [{expression: "request.userInfo.username != ''", message: m, messageExpression: "'m'"}]`, []string{
			compiledWell, active, "not audited: spec.validations[0].expression reads the request", "by [Webhook]",
		}},
		"one for updates": {`enforcement: Deny, match: {operations: [UPDATE]}, ` + inOrder, []string{
			compiledWell, active, "not audited: spec.match.operations: the audit evaluates objects as if they were created", "by [Webhook]",
		}},
		"without its parameters": {`enforcement: Deny, params: {configMap: {namespace: site, name: caps}}, ` + inOrder, []string{
			compiledWell, "Ready False ParamsMissing 3: there is no ConfigMap site/caps: every matching request is denied (failurePolicy: Fail)", "by [Webhook]",
		}},
		"skipped without its parameters": {`enforcement: Deny, params: {parameterNotFoundAction: Allow, configMap: {namespace: site, name: caps}}, ` + inOrder, []string{
			compiledWell, "Ready False ParamsMissing 3: there is no ConfigMap site/caps: the policy is skipped (parameterNotFoundAction: Allow)", "by [Webhook]",
		}},
		"with references that are enabled": {`enforcement: Audit, ` + reading("storageClasses"), []string{compiledWell, active, "by []"}},
		"with references that are not enabled": {`enforcement: Deny, ` + reading("configMaps"), []string{
			compiledWell, "Ready False ReferencesNotEnabled 3: " + notEnabled + ": every matching request is denied (failurePolicy: Fail)",
			"problem spec:0:0 " + notEnabled, "not audited: the policy is invalid: spec: " + notEnabled, "by [Webhook]",
		}},
		"broken": {`enforcement: Deny, ` + broken, []string{
			"Compiled False CompileFailed 3: " + undefined, "Ready False CompileFailed 3: the policy cannot be evaluated: every matching request is denied (failurePolicy: Fail)", "by [Webhook]",
		}},
		"broken, and lenient": {`enforcement: Deny, failurePolicy: Ignore, ` + broken, []string{
			"Compiled False CompileFailed 3: " + undefined, "Ready False CompileFailed 3: the policy cannot be evaluated: every matching request gets a warning", "by [Webhook]",
		}},
		"broken, and audited": {`enforcement: Audit, ` + broken, []string{
			"Compiled False CompileFailed 3: " + undefined, "Ready False CompileFailed 3: the policy cannot be evaluated: it reports no violations", "by []",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := compile(t, c.spec)
			s := Plan(&compiled, Counted{}, Evaluations{}, &policyv1alpha1.VirtualMachinePolicyStatus{}, now)
			got := said(s)
			if strings.HasPrefix(name, "broken") { // what is wrong in words is the compiler's
				if len(s.Problems) < 2 || s.Problems[0].Field != "spec.validations[0].expression" || s.Problems[0].Line != 1 || s.Problems[0].Column != 8 {
					t.Errorf("problems %+v", s.Problems)
				}
				got = []string{got[0][:min(len(got[0]), len(c.want[0]))], got[1], got[len(got)-1]}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := len(s.NotAuditable) == 0; s.Auditable == nil || *s.Auditable != want || s.ObservedGeneration != 3 {
				t.Errorf("auditable %v, generation %d", s.Auditable, s.ObservedGeneration)
			}
		})
	}
}

func TestProblemsAreBounded(t *testing.T) {
	compiled := compile(t, `enforcement: Deny, `+inOrder)
	for i := range 60 {
		compiled.Problems = append(compiled.Problems, diagnostics.Problem{Field: "spec", Message: fmt.Sprint(i), Warning: i < 59})
	}
	got := Plan(&compiled, Counted{}, Evaluations{}, &policyv1alpha1.VirtualMachinePolicyStatus{}, now).Problems
	if len(got) != policyv1alpha1.MaxPolicyProblems || got[0].Message != "59" || got[0].Warning || got[1].Message != "0" {
		t.Errorf("%d problems, the first %+v and %+v", len(got), got[0], got[1])
	}
}

func TestCounts(t *testing.T) {
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	status := func(n int64, minutes int) *policyv1alpha1.VirtualMachinePolicyStatus {
		return &policyv1alpha1.VirtualMachinePolicyStatus{Violations: ptr.To(n), LastAudit: ptr.To(metav1.NewTime(at(minutes)))}
	}
	none := &policyv1alpha1.VirtualMachinePolicyStatus{}
	counted := func(n, minutes int) Counted { return Counted{Violations: map[string]int{"p": n}, At: at(minutes)} }
	request := `validations: [{expression: "request.userInfo.username != ''", message: m, messageExpression: "'m'"}]`
	for name, c := range map[string]struct {
		spec    string
		counted Counted
		before  *policyv1alpha1.VirtualMachinePolicyStatus
		want    *policyv1alpha1.VirtualMachinePolicyStatus
	}{
		"the first":                          {inOrder, counted(2, 0), none, status(2, 0)},
		"no audit yet, by this replica":      {inOrder, Counted{}, status(2, 0), status(2, 0)},
		"no change, a moment later":          {inOrder, counted(2, 9), status(2, 0), status(2, 0)},
		"no change, later":                   {inOrder, counted(2, 10), status(2, 0), status(2, 10)},
		"a change":                           {inOrder, counted(3, 1), status(2, 0), status(3, 1)},
		"a clock that went back":             {inOrder, counted(2, -1), status(2, 0), status(2, -1)},
		"the policy is newer than the audit": {inOrder, Counted{At: at(1)}, none, none},
		"the policy cannot be audited":       {request, Counted{At: at(1)}, status(2, 0), none},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := compile(t, "enforcement: Deny, "+c.spec)
			got := Plan(&compiled, c.counted, Evaluations{}, c.before, now)
			if diff := cmp.Diff([]any{c.want.Violations, c.want.LastAudit}, []any{got.Violations, got.LastAudit}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

var resource = policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies")

// bench is a reconciler over a fake API server.
type bench struct {
	*Reconciler

	client client.Client
	clock  *clocktesting.FakeClock
	all    []configcache.Compiled
	events []string
	// written are the policies as they were sent.
	written []*policyv1alpha1.VirtualMachinePolicy
	// reject is the answer to every write, which has no effect; lose is the answer to one that has.
	reject, lose error
}

func newBench(t *testing.T, status *policyv1alpha1.VirtualMachinePolicyStatus) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := policyv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &bench{clock: clocktesting.NewFakeClock(now)}
	stored := &policyv1alpha1.VirtualMachinePolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1alpha1.GroupVersion.String(), Kind: "VirtualMachinePolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u-1", Generation: 3},
	}
	if status != nil {
		stored.Status = *status
	}
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, subresource string, object client.Object, options ...client.SubResourceUpdateOption) error {
			if b.reject != nil {
				return b.reject
			}
			o := &client.SubResourceUpdateOptions{}
			o.ApplyOptions(options)
			policy, isPolicy := object.DeepCopyObject().(*policyv1alpha1.VirtualMachinePolicy)
			if !isPolicy || subresource != "status" || o.FieldManager != Owner || object.GetResourceVersion() == "" {
				return fmt.Errorf("%T of version %q is written to %q by %q", object, object.GetResourceVersion(), subresource, o.FieldManager)
			}
			b.written = append(b.written, policy)
			return errors.Join(c.SubResource(subresource).Update(ctx, object, options...), b.lose)
		},
	}).Build()
	b.Reconciler = New(Options{
		Client: b.client, Policies: func() []configcache.Compiled { return b.all }, Clock: b.clock,
		Tell: func(p *policyv1alpha1.VirtualMachinePolicy, e events.Event) {
			b.events = append(b.events, p.Name+" "+e.String())
		},
	})
	return b
}

// pass reconciles every key, and returns the shortest time after which a key is reconciled again.
func (b *bench) pass(t *testing.T) (time.Duration, error) {
	t.Helper()
	again := idle
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

func TestStatusIsWrittenWhenItChanges(t *testing.T) {
	b := newBench(t, nil)
	b.all = []configcache.Compiled{compile(t, "enforcement: Deny, "+inOrder)}
	wrote := func(what string, want int) {
		t.Helper()
		if _, err := b.pass(t); err != nil {
			t.Error(err)
		}
		if len(b.written) != want {
			t.Errorf("%s: written %d times, not %d", what, len(b.written), want)
		}
		b.written = nil
	}
	wrote("at first", 1)
	wrote("nothing changed", 0)
	b.Audited(map[string]int{"p": 2}, now)
	wrote("an audit", 1)
	b.Audited(map[string]int{"p": 2}, now.Add(time.Minute))
	wrote("another audit that says the same", 0)
	b.Reconciler = New(b.Options)
	wrote("another replica, which knows nothing yet", 0)
	b.all[0].Object = b.all[0].Object.DeepCopy()
	b.all[0].Object.Generation = 4
	wrote("the stored policy is older than the one active", 0)
	b.all = nil
	wrote("the policy is gone", 0)
	if names := b.store.Keys(); len(names) > 0 {
		t.Errorf("it remembers %q, which are gone", names)
	}
}

// Conditions and fields of others stay as they were read; times of conditions change with their status.
func TestOthersAndTransitions(t *testing.T) {
	before := metav1.NewTime(now.Add(-time.Hour)).Rfc3339Copy()
	b := newBench(t, &policyv1alpha1.VirtualMachinePolicyStatus{
		Conditions: []metav1.Condition{
			{Type: "Exported", Status: "True", Reason: "Exported", LastTransitionTime: before},
			{Type: "Compiled", Status: "True", Reason: "Compiled", LastTransitionTime: before},
			{Type: "Ready", Status: "False", Reason: "CompileFailed", LastTransitionTime: before},
		},
		EnforcedBy: []policyv1alpha1.PolicyEnforcer{"APIServer"}, ExportNotes: []string{"a note"},
	})
	b.all = []configcache.Compiled{compile(t, "enforcement: Deny, "+inOrder)}
	if _, err := b.pass(t); err != nil || len(b.written) != 1 {
		t.Fatalf("written %d times, %v", len(b.written), err)
	}
	written := b.written[0]
	if exported := meta.FindStatusCondition(written.Status.Conditions, "Exported"); exported == nil || !exported.LastTransitionTime.Equal(&before) {
		t.Errorf("the condition of another controller is %+v", exported)
	}
	if diff := cmp.Diff([]policyv1alpha1.PolicyEnforcer{"APIServer", "Webhook"}, written.Status.EnforcedBy); diff != "" {
		t.Errorf("enforced by (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a note"}, written.Status.ExportNotes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	for kind, want := range map[string]time.Time{"Compiled": before.Time, "Ready": now} {
		if got := meta.FindStatusCondition(written.Status.Conditions, kind); got == nil || !got.LastTransitionTime.Time.Equal(want) {
			t.Errorf("%s is %+v, since %s is wanted", kind, got, want)
		}
	}
}

// Another process writes the status between the read and the write: nothing is lost, and no event is written. The next attempt reads
// again.
func TestConflict(t *testing.T) {
	b := newBench(t, nil)
	b.all = []configcache.Compiled{compile(t, `enforcement: Deny, validations: [{expression: "nothing", message: x}]`)}
	b.reject = apierrors.NewConflict(resource.GroupResource(), "p", errors.New("it changed"))
	if again, err := b.pass(t); err != nil || again != behind || len(b.events) > 0 {
		t.Errorf("again after %s, %v, events %q", again, err, b.events)
	}
	b.reject = nil
	if again, err := b.pass(t); err != nil || again != idle || len(b.events) != 1 || len(b.written) != 1 {
		t.Errorf("again after %s, %v, events %q, %d writes", again, err, b.events, len(b.written))
	}
}

func TestEventsOnTransitions(t *testing.T) {
	b := newBench(t, nil)
	good, bad := compile(t, "enforcement: Deny, "+inOrder), compile(t, `enforcement: Deny, validations: [{expression: "nothing", message: x}]`)
	off := compile(t, "enforcement: Deny, "+reading("configMaps"))
	for i, step := range []struct {
		policy configcache.Compiled
		want   string
	}{
		{good, ""},
		{bad, "p Warning CompileFailed: spec.validations[0].expression:1:1:"},
		{bad, ""},
		{good, "p Normal Compiled: the policy is valid"},
		{off, "p Warning ReferencesNotEnabled: " + notEnabled},
		{off, ""},
		{good, "p Normal Ready: the policy is active"},
	} {
		b.all, b.events = []configcache.Compiled{step.policy}, nil
		b.Reconciler = New(b.Options) // as if another replica led
		if _, err := b.pass(t); err != nil {
			t.Error(err)
		}
		got := strings.Join(b.events, "|")
		if (step.want == "") != (got == "") || !strings.HasPrefix(got, step.want) || len(b.events) > 1 {
			t.Errorf("step %d: events %q, want %q", i, got, step.want)
		}
	}
}

func TestAFailureIsTriedAgainAndNoEventIsTold(t *testing.T) {
	b := newBench(t, nil)
	b.all = []configcache.Compiled{compile(t, `enforcement: Deny, validations: [{expression: "nothing", message: x}]`)}
	b.reject = apierrors.NewServiceUnavailable("not now")
	if _, err := b.pass(t); err == nil || err.Error() != "the status of VirtualMachinePolicy p: writing the status: not now" || len(b.events) != 0 {
		t.Errorf("the error is %v, events %q", err, b.events)
	}
	b.reject = nil
	if again, err := b.pass(t); err != nil || again != idle || len(b.events) != 1 || len(b.written) != 1 {
		t.Errorf("reconciled again after %s, %v, events %q, written %d times", again, err, b.events, len(b.written))
	}
}

// Killed right before or right after the write, another replica completes the work: one status, and one event.
func TestKilledAtTheWrite(t *testing.T) {
	for name, written := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.all = []configcache.Compiled{compile(t, "enforcement: Deny, "+inOrder)}
			if written {
				b.lose = errors.New("killed")
			} else {
				b.reject = errors.New("killed")
			}
			if _, err := b.pass(t); err == nil || !strings.HasSuffix(err.Error(), "killed") {
				t.Fatalf("the error is %v", err)
			}
			b.reject, b.lose = nil, nil
			b.Reconciler = New(b.Options)
			if _, err := b.pass(t); err != nil || len(b.written) != 1 || len(b.events) != 0 {
				t.Errorf("%v, written %d times, events %q", err, len(b.written), b.events)
			}
		})
	}
}

func TestItIsReconciledWhenAnExceptionEnds(t *testing.T) {
	b := newBench(t, nil)
	b.all = []configcache.Compiled{compile(t, `enforcement: Warn, exceptions: [{names: [a], reason: r, expires: "2026-03-04T05:07:07Z"}], `+inOrder)}
	again, err := b.pass(t)
	if err != nil || again != 61*time.Second {
		t.Fatalf("reconciled again after %s, %v", again, err)
	}
	b.clock.Step(again)
	if again, err := b.pass(t); err != nil || again != idle {
		t.Errorf("reconciled again after %s, %v", again, err)
	}
	if len(b.written) != 2 {
		t.Fatalf("written %d times, not once before and once after", len(b.written))
	}
	if problems := b.written[1].Status.Problems; len(problems) != 1 {
		t.Errorf("problems %v", problems)
	}
}
