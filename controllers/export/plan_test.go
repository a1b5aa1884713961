package export

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/export"
)

// compiled is the policy p with a spec.
func compiled(t *testing.T, spec string) *configcache.Compiled {
	t.Helper()
	environment, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	c := &configcache.Compiled{Object: &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u-1", Generation: 3}}}
	if err := yaml.UnmarshalStrict([]byte(spec), &c.Object.Spec); err != nil {
		t.Fatal(err)
	}
	c.Policy, c.Problems = policies.Compile(environment, c.Object, nil)
	return c
}

// made is what a Reconciler would remember of a policy.
func made(c *configcache.Compiled) *memo {
	m := &memo{policy: c.Policy, cluster: export.Cluster{Namespace: "virtward-system", KubeVirt: platform.Defaults(platform.Settings{}).KubeVirtUsers()}}
	if wanted(c) {
		m.native, m.problems = export.Export(c.Policy, m.cluster, time.Time{})
	}
	return m
}

func TestPlan(t *testing.T) {
	asks := compiled(t, "enforcement: Deny\n"+head+never)
	current := func() observed { // as the API server holds it after a first plan
		steps, _ := plan(asks, made(asks), observed{})
		policy := steps[0].object.(*admissionregistrationv1.ValidatingAdmissionPolicy)
		binding := steps[1].object.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
		policy.UID, policy.ResourceVersion, binding.UID, binding.ResourceVersion = "n-1", "1", "n-2", "2"
		return observed{policy, binding}
	}
	foreign := []metav1.OwnerReference{{Kind: "VirtualMachinePolicy", Name: "p", UID: "another", Controller: ptr.To(true)}}
	for name, c := range map[string]struct {
		spec   string
		there  func(there *observed)
		steps  []string
		reason string
	}{
		"new":     {"", func(o *observed) { *o = observed{} }, []string{"creating ValidatingAdmissionPolicy", "creating ValidatingAdmissionPolicyBinding"}, "Exported"},
		"current": {"", func(*observed) {}, nil, "Exported"},
		"half made": {"", func(o *observed) { o.binding = nil }, []string{
			"creating ValidatingAdmissionPolicyBinding",
		}, "Exported"},
		"changed by hand":    {"", func(o *observed) { o.policy.Spec.Validations[0].Expression = "true" }, []string{"updating ValidatingAdmissionPolicy"}, "Exported"},
		"an annotation less": {"", func(o *observed) { o.binding.Annotations = nil }, []string{"updating ValidatingAdmissionPolicyBinding"}, "Exported"},
		"a label of another": {"", func(o *observed) { o.policy.Labels["example.com/team"] = "a" }, nil, "Exported"},
		"another enforcement": {"enforcement: Warn\n" + head + never, func(*observed) {}, []string{
			"updating ValidatingAdmissionPolicyBinding",
		}, "Exported"},
		"the policy's name is taken": {"", func(o *observed) { o.policy.OwnerReferences = foreign }, []string{"deleting ValidatingAdmissionPolicyBinding"}, "NameTaken"},
		"the binding's name is taken": {"", func(o *observed) { o.binding.OwnerReferences = nil }, []string{
			"deleting ValidatingAdmissionPolicy",
		}, "NameTaken"},
		"not requested": {"enforcement: Deny\nmatch: {kinds: [VirtualMachine]}\n" + never, func(*observed) {}, []string{
			"deleting ValidatingAdmissionPolicyBinding", "deleting ValidatingAdmissionPolicy",
		}, ""},
		"not requested, and being deleted": {"enforcement: Deny\nmatch: {kinds: [VirtualMachine]}\n" + never, func(o *observed) {
			o.binding.DeletionTimestamp, o.policy.DeletionTimestamp = ptr.To(metav1.Now()), ptr.To(metav1.Now())
		}, nil, ""},
		"not requested, and of another owner": {"enforcement: Deny\nmatch: {kinds: [VirtualMachine]}\n" + never, func(o *observed) {
			o.binding.OwnerReferences, o.policy.OwnerReferences = foreign, foreign
		}, nil, ""},
		"not exportable": {"enforcement: Deny\n" + head + "validations: [{expression: \"vm.spec.architecture == 'amd64'\", message: m}]", func(*observed) {}, []string{
			"deleting ValidatingAdmissionPolicyBinding", "deleting ValidatingAdmissionPolicy",
		}, "NotExportable"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := asks
			if c.spec != "" {
				policy = compiled(t, c.spec)
			}
			there := current()
			c.there(&there)
			before := observed{there.policy.DeepCopy(), there.binding.DeepCopy()}
			steps, o := plan(policy, made(policy), there)
			var got []string
			for _, s := range steps {
				got = append(got, string(s.verb)+" "+kindOf(s.object))
				if s.verb != create && s.object.GetResourceVersion() == "" {
					t.Errorf("%s %s without the version that was read", s.verb, kindOf(s.object))
				}
			}
			if diff := cmp.Diff(c.steps, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			reason := ""
			if status := o.status(policy, &policyv1alpha1.VirtualMachinePolicyStatus{}, time.Time{}); len(status.Conditions) > 0 {
				reason = status.Conditions[0].Reason
			}
			if reason != c.reason {
				t.Errorf("the reason is %q, not %q", reason, c.reason)
			}
			if diff := cmp.Diff(before, there, cmp.AllowUnexported(observed{})); diff != "" {
				t.Errorf("the plan changed what is there (-before +after):\n%s", diff)
			}
		})
	}
}

// What the API server rejects is the outcome of a policy with exportTo. After other errors, the outcome is not known.
func TestOutcomeOfFailures(t *testing.T) {
	asks, silent := compiled(t, "enforcement: Deny\n"+head+never), compiled(t, "enforcement: Deny\nmatch: {kinds: [VirtualMachine]}\n"+never)
	native := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "virtward-policy-p"}}
	writing := func(err error) error { return &writeError{step: step{create, native}, err: err} }
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "validatingadmissionpolicies"}, "p", errors.New("not you"))
	unreachable := errors.New("dial tcp 10.0.0.1:443: i/o timeout")
	unread := &outcome{wanted: true, failure: "the exported policy could not be read; the log of the controller has the error"}
	unwritten := &outcome{wanted: true, failure: "the exported policy could not be written; the log of the controller has the error"}
	planned := &outcome{wanted: true}
	for name, c := range map[string]struct {
		policy *configcache.Compiled
		err    error
		want   *outcome
	}{
		"no error":                               {asks, nil, planned},
		"rejected":                               {asks, writing(forbidden), &outcome{wanted: true, reason: "Rejected", message: `creating ValidatingAdmissionPolicy virtward-policy-p: validatingadmissionpolicies "p" is forbidden: not you`}},
		"rejected, but not requested":            {silent, writing(forbidden), nil},
		"unavailable":                            {asks, writing(apierrors.NewServiceUnavailable("10.0.0.1")), &outcome{wanted: true, failure: unwritten.failure + " ServiceUnavailable"}},
		"it may not be read":                     {asks, forbidden, &outcome{wanted: true, failure: unread.failure + " Forbidden"}},
		"the API server does not answer a read":  {asks, unreachable, unread},
		"the API server does not answer a write": {asks, writing(unreachable), unwritten},
		"the API server does not answer, and it was removed": {silent, unreachable, nil},
	} {
		if diff := cmp.Diff(c.want, planned.failed(c.policy, c.err), cmp.AllowUnexported(outcome{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// After a read that failed, what was observed of the same generation stays. Without it, the condition is Unknown.
func TestNotObserved(t *testing.T) {
	c := compiled(t, "enforcement: Deny\n"+head+never)
	fails := (*outcome)(nil).failed(c, errors.New("i/o timeout"))
	const why = "the exported policy could not be read; the log of the controller has the error"
	known := func(generation int64) *policyv1alpha1.VirtualMachinePolicyStatus {
		return &policyv1alpha1.VirtualMachinePolicyStatus{
			Conditions: []metav1.Condition{{Type: "Exported", Status: metav1.ConditionTrue, Reason: "Exported", Message: "m", ObservedGeneration: generation}, {Type: "Ready", Status: metav1.ConditionTrue}},
			EnforcedBy: []policyv1alpha1.PolicyEnforcer{"Webhook", "APIServer"}, ExportNotes: []string{"a note"},
		}
	}
	for name, test := range map[string]struct {
		before   *policyv1alpha1.VirtualMachinePolicyStatus
		want     string
		enforced int
	}{
		"the same generation":     {known(3), "True Exported m; this can be out of date: " + why, 1},
		"an earlier generation":   {known(2), "Unknown NotObserved " + why, 1},
		"nothing known":           {&policyv1alpha1.VirtualMachinePolicyStatus{}, "Unknown NotObserved " + why, 0},
		"not observed, as before": {fails.status(c, known(3), time.Time{}), "True Exported m; this can be out of date: " + why, 1},
	} {
		s := fails.status(c, test.before, time.Time{})
		if len(s.Conditions) != 1 || len(s.EnforcedBy) != test.enforced || len(s.ExportNotes) != test.enforced || s.Conditions[0].ObservedGeneration != 3 {
			t.Errorf("%s: %+v", name, s)
		}
		if is := s.Conditions[0]; string(is.Status)+" "+is.Reason+" "+is.Message != test.want {
			t.Errorf("%s: %+v", name, is)
		}
	}
}

// A policy whose exported policy cannot be read says so, once, and the read is repeated.
func TestReadFails(t *testing.T) {
	c := compiled(t, "enforcement: Deny\n"+head+never)
	scheme := schemeOf(t)
	stored := c.Object.DeepCopy()
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).Build()
	fails, writes := true, 0
	api := interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, native := object.(*admissionregistrationv1.ValidatingAdmissionPolicy); native && fails {
				return fmt.Errorf("dial tcp 10.0.0.1:443: i/o timeout at %s", time.Now())
			}
			return to.Get(ctx, key, object, options...)
		},
		SubResourceApply: func(ctx context.Context, to client.Client, name string, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
			writes++
			return to.SubResource(name).Apply(ctx, object, options...)
		},
	})
	r := New(Options{
		Client: api, Live: api, Statuses: api, Namespace: "virtward-system", Clock: clock.RealClock{}, Ready: func() error { return nil },
		Policies: func() []configcache.Compiled { return []configcache.Compiled{*c} },
		Facts:    func() *platform.Facts { return platform.Defaults(platform.Settings{}) },
	})
	says := func(want string) {
		t.Helper()
		policy := &policyv1alpha1.VirtualMachinePolicy{}
		if err := server.Get(t.Context(), client.ObjectKey{Name: "p"}, policy); err != nil {
			t.Fatal(err)
		}
		if is := meta.FindStatusCondition(policy.Status.Conditions, "Exported"); is == nil || string(is.Status)+" "+is.Reason+" "+is.Message != want {
			t.Errorf("the condition is %+v, want %s", is, want)
		}
	}
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "p"}}
	for range 2 {
		if _, err := r.Reconcile(t.Context(), request); err == nil || !strings.Contains(err.Error(), "i/o timeout") {
			t.Errorf("the error is %v", err)
		}
		says("Unknown NotObserved the exported policy could not be read; the log of the controller has the error")
	}
	if writes != 1 {
		t.Errorf("the same failure is written %d times", writes)
	}
	fails = false
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	says("True Exported the API server enforces the ValidatingAdmissionPolicy virtward-policy-p")
}

// The name of an object decides which policy it belongs to.
func TestPolicyOf(t *testing.T) {
	for name, want := range map[string]string{"virtward-policy-p": "p", "virtward-accounts": "", "virtward-policy-": ""} {
		object := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("u")}}
		got := ""
		if keys := policyOf(t.Context(), object); len(keys) > 0 {
			got = keys[0].Name
		}
		if got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
}
