package export

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
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

// An answer of the API server is the outcome of a policy that asks to be exported; anything else is none.
func TestOutcomeOfFailures(t *testing.T) {
	asks, silent := compiled(t, "enforcement: Deny\n"+head+never), compiled(t, "enforcement: Deny\nmatch: {kinds: [VirtualMachine]}\n"+never)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "validatingadmissionpolicies"}, "p", errors.New("not you"))
	planned := &outcome{wanted: true}
	for name, c := range map[string]struct {
		policy *configcache.Compiled
		err    error
		want   *outcome
	}{
		"no error":                           {asks, nil, planned},
		"rejected":                           {asks, forbidden, &outcome{wanted: true, reason: "Rejected", message: `validatingadmissionpolicies "p" is forbidden: not you`}},
		"rejected, but not requested":        {silent, forbidden, nil},
		"nobody answers":                     {asks, errors.New("connection refused"), nil},
		"nobody answers, and it was removed": {silent, errors.New("connection refused"), nil},
	} {
		if diff := cmp.Diff(c.want, planned.failed(c.policy, c.err), cmp.AllowUnexported(outcome{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
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
