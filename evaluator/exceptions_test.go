package evaluator

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

// An instance is exempt with its virtual machine only if that exists: users choose the owners of instances that they create.
func TestOwnersOfExemptedInstances(t *testing.T) {
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
		"metadata": map[string]any{"name": "db", "namespace": "default", "uid": "1", "labels": map[string]any{"tier": "legacy"}},
	}}
	byName := policyv1alpha1.VirtualMachinePolicyExceptionSpec{VirtualMachines: []string{"db", "gone"}}
	byLabel := policyv1alpha1.VirtualMachinePolicyExceptionSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "legacy"}}}
	ofAll := policyv1alpha1.VirtualMachinePolicyExceptionSpec{Selector: &metav1.LabelSelector{}}
	for name, tc := range map[string]struct {
		spec            policyv1alpha1.VirtualMachinePolicyExceptionSpec
		vmi, owner, uid string
		want            bool
	}{
		"by name":                              {byName, "db", "db", "1", true},
		"by name, with another UID":            {byName, "db", "db", "2", false},
		"by name, of a VM that does not exist": {byName, "gone", "gone", "1", false},
		"by name, with another name":           {byName, "evil", "db", "1", false},
		"by label":                             {byLabel, "db", "db", "1", true},
		"by label, with another UID":           {byLabel, "db", "db", "2", false},
		"by label, with another name":          {byLabel, "evil", "db", "1", false},
		"all, with another UID":                {ofAll, "db", "db", "2", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, owner)
			f.policy(t, "never", `{enforcement: Deny, validations: [{expression: "false", message: never}]}`)
			tc.spec.Policies, tc.spec.Expires = []string{"never"}, metav1.NewTime(time.Unix(1, 0))
			exception := &policyv1alpha1.VirtualMachinePolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "granted"}, Spec: tc.spec}
			f.live.GetExceptions = func() *policies.Exceptions {
				return policies.NewExceptions(policies.ExceptionTerms{Trusted: true}, exception)
			}
			vmi := build.VMI(tc.vmi).Obj()
			vmi.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: v1.GroupVersion.String(), Kind: "VirtualMachine", Name: tc.owner, UID: types.UID(tc.uid), Controller: new(true),
			}}
			exempted := 0
			for _, found := range f.evaluate(t, of(t, VirtualMachineInstance, vmi, by(admissionv1.Create))).Findings {
				if found.Rule == "policy/never" && found.Exempted != nil {
					exempted++
				}
			}
			if exempted == 1 != tc.want {
				t.Errorf("exempted by %d exceptions", exempted)
			}
		})
	}

	f := newFixture(t, owner)
	f.policy(t, "never", `{enforcement: Deny, validations: [{expression: "false", message: never}]}`)
	vmi := build.VMI("db").Obj()
	vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.GroupVersion.String(), Kind: "VirtualMachine", Name: "db", UID: "1", Controller: new(true)}}
	if f.evaluate(t, of(t, VirtualMachineInstance, vmi, by(admissionv1.Create))); f.objects.reads["VirtualMachine"] != 0 {
		t.Error("the owner is read without exceptions")
	}
}
