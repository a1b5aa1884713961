package evaluator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

// counted counts the reads by kind.
type counted struct {
	references.Objects

	reads map[string]int
}

func (c *counted) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	c.reads[kind.Kind]++
	return c.Objects.Get(ctx, kind, namespace, name)
}

// fixture is an evaluator for kvm on amd64, and its sources.
type fixture struct {
	*Evaluator

	live    *Live
	objects *counted
}

func newFixture(t testing.TB, objects ...*unstructured.Unstructured) *fixture {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := references.NewMemory("default", objects...)
	if err != nil {
		t.Fatal(err)
	}
	facts := platform.Defaults(platform.Settings{})
	f := &fixture{live: &Live{GetFacts: func() *platform.Facts { return facts }}, objects: &counted{Objects: memory, reads: map[string]int{}}}
	f.Evaluator = New(effective.NewPipeline(registry), f.objects, f.live)
	return f
}

// policy makes one policy active, with a spec in YAML.
func (f *fixture) policy(t testing.TB, name, spec string) {
	t.Helper()
	f.policies(t, map[string]string{name: spec})
}

// policies makes policies active, by their names, each with a spec in YAML.
func (f *fixture) policies(t testing.TB, specs map[string]string) {
	t.Helper()
	environment, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	var all []*policies.Policy
	for name, spec := range specs {
		object := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := yaml.UnmarshalStrict([]byte(spec), &object.Spec); err != nil {
			t.Fatal(err)
		}
		compiled, problems := policies.Compile(environment, object, nil)
		if diagnostics.Broken(problems) {
			t.Fatal(problems)
		}
		all = append(all, compiled)
	}
	set := policies.NewSet("", all...)
	f.live.GetPolicies = func() *policies.Set { return set }
}

func (f *fixture) snapshot(t testing.TB) *Snapshot {
	t.Helper()
	s, err := f.Snapshot(time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *fixture) evaluate(t testing.TB, r Request) *Result {
	t.Helper()
	result, err := f.snapshot(t).Evaluate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func encoded(t testing.TB, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// of returns a request for an object of a kind.
func of(t testing.TB, kind schema.GroupKind, object any, change ...func(*Request)) Request {
	t.Helper()
	info, known := Info(kind)
	if !known {
		t.Fatalf("%s is not evaluated", kind)
	}
	r := Request{Object: encoded(t, object), Kind: metav1.GroupVersionKind(info.GroupVersionKind), Resource: metav1.GroupVersionResource(info.Resource)}
	if info.Namespaced {
		r.Namespace = "default"
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func at(stage Stage) func(*Request) { return func(r *Request) { r.Stage = stage } }

func by(operation admissionv1.Operation) func(*Request) {
	return func(r *Request) { r.Operation = operation }
}

func rules(result *Result) []string {
	var all []string
	for i := range result.Findings {
		all = append(all, fmt.Sprintf("%s %s %s", result.Findings[i].Severity, result.Findings[i].Rule, result.Findings[i].Error.Field))
	}
	return all
}

func TestSnapshotNeedsFacts(t *testing.T) {
	f := newFixture(t)
	f.live.GetFacts = nil
	if _, err := f.Snapshot(time.Now()); !errors.Is(err, ErrNoFacts) {
		t.Errorf("the error is %v", err)
	}
}

// A snapshot does not include later changes.
func TestSnapshotIsFrozen(t *testing.T) {
	f := newFixture(t)
	s := f.snapshot(t)
	f.policy(t, "never", `{enforcement: Deny, validations: [{expression: "false", message: never}]}`)
	vm := of(t, VirtualMachine, build.VMOf(build.VMI("db")).Obj(), at(Admitted), by(admissionv1.Create))
	before, err := s.Evaluate(t.Context(), vm)
	if err != nil || !before.Allowed() {
		t.Errorf("%v, %v", rules(before), err)
	}
	if after := f.evaluate(t, vm); after.Allowed() {
		t.Errorf("a new snapshot has findings %v", rules(after))
	}
}

// The stage decides whether a missing field is filled, is a finding, or neither.
func TestStages(t *testing.T) {
	f := newFixture(t)
	bare := build.VMI("db").Obj()
	for _, c := range []struct {
		name       string
		request    Request
		completed  bool
		incomplete bool
	}{
		{"written, and nothing is requested", of(t, VirtualMachineInstance, bare), true, false},
		{"written, and created", of(t, VirtualMachineInstance, bare, by(admissionv1.Create)), true, false},
		{"admitted", of(t, VirtualMachineInstance, bare, at(Admitted), by(admissionv1.Create)), true, true},
		{"stored", of(t, VirtualMachineInstance, bare, at(Stored)), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			result := f.evaluate(t, c.request)
			got := slices.ContainsFunc(result.Findings, func(f validators.Finding) bool { return f.Rule == validators.RuleComplete })
			if got != c.incomplete {
				t.Errorf("incomplete: %v, want %v: %v", got, c.incomplete, rules(result))
			}
			if result.Verdict == nil || result.Verdict.Spec.Architecture == "" != !c.completed {
				t.Errorf("the verdict is %+v", result.Verdict)
			}
		})
	}
}

func TestSkipped(t *testing.T) {
	f := newFixture(t)
	deleting := build.VMOf(build.VMI("db")).Obj()
	deleting.DeletionTimestamp, deleting.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"x/y"}
	ended := build.VMI("db").Obj()
	ended.Status.Phase = v1.Succeeded
	update := func(r *Request) { r.Operation, r.OldObject = admissionv1.Update, r.Object }
	for want, r := range map[string]Request{
		"objects of its kind are not evaluated":             {Object: []byte(`{}`), Kind: metav1.GroupVersionKind{Kind: "Pod", Version: "v1"}},
		"it is being deleted":                               of(t, VirtualMachine, deleting, at(Stored)),
		"it has ended":                                      of(t, VirtualMachineInstance, ended, at(Stored)),
		"it is being deleted, and its spec does not change": of(t, VirtualMachine, deleting, at(Admitted), update),
	} {
		if got := f.evaluate(t, r); got.Skipped != want || len(got.Findings) > 0 {
			t.Errorf("it is skipped for %q, want %q; findings %v", got.Skipped, want, rules(got))
		}
	}
	if got := f.evaluate(t, of(t, VirtualMachine, deleting, at(Admitted), by(admissionv1.Create))); got.Skipped != "" {
		t.Errorf("a new object with a deletion timestamp is skipped: %s", got.Skipped)
	}
}

// Complete reads neither policies, severities nor running instances.
func TestCompleteReadsNothingElse(t *testing.T) {
	f := newFixture(t)
	f.policy(t, "never", `{enforcement: Deny, validations: [{expression: "false", message: never}]}`)
	vm := build.VMOf(build.VMI("db")).Obj()
	vm.Status.Ready = true
	vm.Status.VolumeRequests = []v1.VirtualMachineVolumeRequest{{}}
	request := of(t, VirtualMachine, vm)
	result, err := f.snapshot(t).Complete(t.Context(), request)
	if err != nil || result.Verdict == nil || len(result.Findings) > 0 || len(result.Verdict.Findings) > 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if n := f.objects.reads["VirtualMachineInstance"]; n > 0 {
		t.Errorf("%d running instances are read", n)
	}
	f.evaluate(t, request)
	if n := f.objects.reads["VirtualMachineInstance"]; n != 1 {
		t.Errorf("%d running instances are read to evaluate a VM", n)
	}
}

func TestCompleteSkips(t *testing.T) {
	s := newFixture(t).snapshot(t)
	for want, r := range map[string]Request{
		"objects of its kind are not completed": of(t, Pool, map[string]any{}),
		"it has no template":                    of(t, VirtualMachine, map[string]any{}),
	} {
		if got, err := s.Complete(t.Context(), r); err != nil || got.Skipped != want {
			t.Errorf("skipped %q, %v; want %q", got.Skipped, err, want)
		}
	}
	if got, err := s.Complete(t.Context(), Request{Object: []byte(`[]`), Kind: metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"}}); err != nil || got.Unreadable == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// An object that cannot be read is a finding. It is a warning if an update changes no evaluated field.
func TestUnreadable(t *testing.T) {
	f := newFixture(t)
	const odd = `{"metadata":{"name":"a"%s},"spec":{"template":{"spec":{"domain":{"memory":{"guest":"1e99999999"}}}}}}`
	request := func(user string, operation admissionv1.Operation, more string) Request {
		r := of(t, VirtualMachine, nil, at(Admitted), by(operation))
		r.Object, r.User.Username = fmt.Appendf(nil, odd, more), user
		if operation == admissionv1.Update {
			r.OldObject = fmt.Appendf(nil, odd, "")
		}
		return r
	}
	const field, label = " spec.template.spec.domain.memory.guest", `,"labels":{"a":"b"}`
	controller := "system:serviceaccount:kubevirt:kubevirt-controller"
	for name, c := range map[string]struct {
		request Request
		want    string
	}{
		"created":                   {request("eve", admissionv1.Create, ""), "Deny object-readable" + field},
		"unchanged":                 {request("eve", admissionv1.Update, `,"finalizers":["a/b"]`), "Warn object-readable" + field},
		"a label by a user":         {request("eve", admissionv1.Update, label), "Deny object-readable" + field},
		"a label by KubeVirt":       {request(controller, admissionv1.Update, label), "Warn object-readable" + field},
		"a label by another's name": {request("kubevirt-controller", admissionv1.Update, label), "Deny object-readable" + field},
	} {
		got := f.evaluate(t, c.request)
		if diff := cmp.Diff([]string{c.want}, rules(got)); diff != "" || got.Unreadable == nil {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, got.Unreadable)
		}
	}
}

func TestReferences(t *testing.T) {
	small := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": "1Gi"}}}}
	small.SetAPIVersion("instancetype.kubevirt.io/v1beta1")
	small.SetKind("VirtualMachineInstancetype")
	small.SetNamespace("default")
	small.SetName("small")
	f := newFixture(t, small)
	vm := build.VMOf(build.VMI("db")).Obj()
	vm.Spec.Template.Spec.Domain.Memory = nil
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Kind: "VirtualMachineInstancetype", Name: "small"}
	vm.Spec.Preference = &v1.PreferenceMatcher{Name: "absent"}
	got := f.evaluate(t, of(t, VirtualMachine, vm))
	want := []effective.Reference{
		{Field: "spec.instancetype", Kind: "VirtualMachineInstancetype", Name: "small", State: effective.Found},
		{Field: "spec.preference", Kind: "VirtualMachineClusterPreference", Name: "absent", State: effective.Missing},
	}
	if diff := cmp.Diff(want, got.References); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], "spec.preference: ") {
		t.Errorf("warnings %q", got.Warnings)
	}
}

// An unknown namespace is an error, or a warning for an UnknownNamespaceError.
func TestUnknownNamespace(t *testing.T) {
	f := newFixture(t)
	f.policy(t, "labelled", `{enforcement: Deny, match: {namespaceSelector: {matchLabels: {tier: lab}}}, validations: [{expression: "false", message: never}]}`)
	failure := errors.New("no connection")
	request := of(t, VirtualMachine, build.VMOf(build.VMI("db")).Obj(), at(Admitted), by(admissionv1.Create))
	f.live.GetNamespace = func(context.Context, string) (*corev1.Namespace, error) { return nil, failure }
	if _, err := f.snapshot(t).Evaluate(t.Context(), request); err == nil || err.Error() != "reading namespace default: no connection" {
		t.Errorf("the error is %v", err)
	}
	f.live.GetNamespace = func(context.Context, string) (*corev1.Namespace, error) {
		return nil, &UnknownNamespaceError{Err: failure}
	}
	if got := f.evaluate(t, request); !got.Allowed() || !slices.Contains(got.Warnings, "no connection") {
		t.Errorf("findings %v, warnings %q", rules(got), got.Warnings)
	}
	calls := 0
	f.live.GetNamespace = func(_ context.Context, name string) (*corev1.Namespace, error) {
		calls++
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: k8slabels.Set{"tier": "lab"}}}, nil
	}
	s := f.snapshot(t)
	for range 3 {
		got, err := s.Evaluate(t.Context(), request)
		if err != nil || got.Allowed() {
			t.Errorf("%v, %v", rules(got), err)
		}
	}
	if calls != 1 {
		t.Errorf("a snapshot reads a namespace %d times", calls)
	}
}

// Policies that read the request are skipped without a request. A policy on VMs that reads the request is also evaluated
// for pools of users.
func TestRequesters(t *testing.T) {
	f := newFixture(t)
	f.policy(t, "not-eve", `{enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [{expression: "request.userInfo.username != 'eve'", message: not you}]}`)
	machine := build.VMOf(build.VMI("db")).Obj()
	pool := map[string]any{"metadata": map[string]any{"name": "p"}, "spec": map[string]any{
		"selector":               map[string]any{"matchLabels": map[string]any{"app": "a"}},
		"virtualMachineTemplate": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "a"}}, "spec": machine.Spec},
	}}
	user := func(name string) func(*Request) {
		return func(r *Request) { r.User = authenticationv1.UserInfo{Username: name} }
	}
	controller := "system:serviceaccount:kubevirt:kubevirt-controller"
	for name, c := range map[string]struct {
		request Request
		denied  bool
	}{
		"eve's VM":                    {of(t, VirtualMachine, machine, at(Admitted), by(admissionv1.Create), user("eve")), true},
		"alice's VM":                  {of(t, VirtualMachine, machine, at(Admitted), by(admissionv1.Create), user("alice")), false},
		"a VM that exists":            {of(t, VirtualMachine, machine, at(Stored), user("eve")), false},
		"eve's pool":                  {of(t, Pool, pool, at(Admitted), by(admissionv1.Create), user("eve")), true},
		"alice's pool":                {of(t, Pool, pool, at(Admitted), by(admissionv1.Create), user("alice")), false},
		"a pool that KubeVirt writes": {of(t, Pool, pool, at(Admitted), by(admissionv1.Create), user(controller)), false},
	} {
		if got := f.evaluate(t, c.request); got.Allowed() == c.denied {
			t.Errorf("%s: findings %v", name, rules(got))
		}
	}
}

// Every kind is decoded into its type, and no input panics.
func FuzzEvaluate(f *testing.F) {
	for i, info := range Kinds() {
		f.Add(i, []byte(`{"metadata":{"name":"a"},"spec":{"template":{"spec":{"domain":{}}}}}`), []byte(`{"spec":{}}`), info.Namespaced)
	}
	fixture := newFixture(f)
	fixture.policy(f, "memory", `{enforcement: Deny, validations: [{expression: "vm.spec.domain.memory.guest != ''", message: none}]}`)
	f.Fuzz(func(t *testing.T, kind int, object, old []byte, update bool) {
		info := Kinds()[uint(kind)%uint(len(kinds))]
		r := Request{Object: object, Kind: metav1.GroupVersionKind(info.GroupVersionKind), Namespace: "default", Operation: admissionv1.Create, Stage: Admitted}
		if update {
			r.Operation, r.OldObject = admissionv1.Update, old
		}
		for _, stage := range []Stage{Written, Admitted, Stored} {
			r.Stage = stage
			if _, err := fixture.snapshot(t).Evaluate(t.Context(), r); err != nil && !strings.Contains(err.Error(), "VirtualMachineInstancePreset") {
				t.Error(err)
			}
		}
	})
}
