package evaluator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

// keep denies deletions of VMs with the label keep.
const keep = `{enforcement: Deny, match: {kinds: [VirtualMachine], operations: [DELETE]}, validations: [
  {expression: "object == null && oldObject.metadata.?labels.orValue({})[?'keep'].orValue('') != 'true'", message: it is kept, fieldPath: "metadata.labels[keep]"}]}`

const keepByRego = `
enforcement: Deny
match: {kinds: [VirtualMachine], operations: [DELETE]}
rego:
  module: |
    package keep

    deny contains {"msg": "it is kept", "field": "metadata.labels[keep]"} if {
      not input.object
      input.request.operation == "DELETE"
      input.vm.spec.domain.memory.guest
      input.oldObject.metadata.labels.keep == "true"
    }
`

func kept(name string) *v1.VirtualMachine {
	vm := build.VMOf(build.VMI(name).Namespace("default")).Obj()
	vm.Labels = map[string]string{"keep": "true"}
	return vm
}

// deleting makes a request the deletion of its object.
func deleting(r *Request) {
	r.Operation, r.Stage, r.Object, r.OldObject = admissionv1.Delete, Admitted, nil, r.Object
}

func from(user string) func(*Request) {
	return func(r *Request) { r.User = authenticationv1.UserInfo{Username: user} }
}

const denied = "Deny policy/keep metadata.labels[keep]"

func TestDeletion(t *testing.T) {
	free := kept("free")
	free.Labels = nil
	going := kept("going")
	going.DeletionTimestamp = new(metav1.Now())
	unstartable := kept("unstartable") // no rule keeps it
	unstartable.Spec.Template.Spec.Domain.Memory = nil
	for _, c := range []struct {
		name    string
		policy  string
		request Request
		want    []string
	}{
		{"of a protected VM", keep, of(t, VirtualMachine, kept("db"), deleting, from("alice")), []string{denied}},
		{"of a protected VM that could not start", keep, of(t, VirtualMachine, unstartable, deleting, from("alice")), []string{denied}},
		{"of another VM", keep, of(t, VirtualMachine, free, deleting, from("alice")), nil},
		{"of a VM that is being deleted", keep, of(t, VirtualMachine, going, deleting, from("alice")), nil},
		{"by the garbage collector", keep, of(t, VirtualMachine, kept("db"), deleting, from("system:serviceaccount:kube-system:generic-garbage-collector")), nil},
		{"with the namespace", keep, of(t, VirtualMachine, kept("db"), deleting, from("system:serviceaccount:kube-system:namespace-controller")), nil},
		{"by a kube-controller-manager with one account", keep, of(t, VirtualMachine, kept("db"), deleting, from("system:kube-controller-manager")), nil},
		{"by a collector of another namespace", keep, of(t, VirtualMachine, kept("db"), deleting, from("system:serviceaccount:mine:generic-garbage-collector")), []string{denied}},
		{"by KubeVirt", keep, of(t, VirtualMachine, kept("db"), deleting, from("system:serviceaccount:kubevirt:kubevirt-controller")), nil},
		{"of another kind", keep, of(t, VirtualMachineInstance, build.VMI("db").Label("keep", "true").Obj(), deleting, from("alice")), nil},
		{"for a policy without DELETE", strings.Replace(keep, "DELETE", "UPDATE", 1), of(t, VirtualMachine, kept("db"), deleting, from("alice")), nil},
		{"that an object selector does not select", strings.Replace(keep, "operations:", "objectSelector: {matchLabels: {app: web}}, operations:", 1), of(t, VirtualMachine, kept("db"), deleting, from("alice")), nil},
		{"that an object selector selects by a missing label", strings.Replace(keep, "operations:", "objectSelector: {matchExpressions: [{key: keep, operator: DoesNotExist}]}, operations:", 1), of(t, VirtualMachine, kept("db"), deleting, from("alice")), nil},
		{
			"with options", `{enforcement: Deny, match: {kinds: [VirtualMachine], operations: [DELETE]}, validations: [{expression: "request.options.?propagationPolicy.orValue('') != 'Orphan'", message: no orphans}]}`,
			of(t, VirtualMachine, kept("db"), deleting, func(r *Request) { r.Options = []byte(`{"propagationPolicy": "Orphan"}`) }),
			[]string{"Deny policy/keep spec"},
		},
		{"for Rego", keepByRego, of(t, VirtualMachine, kept("db"), deleting, from("alice")), []string{denied}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.policy(t, "keep", c.policy)
			result := f.evaluate(t, c.request)
			if diff := cmp.Diff(c.want, rules(result)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if !result.Allowed() != slices.Contains(c.want, denied) && c.policy == keep {
				t.Errorf("allowed: %v", result.Allowed())
			}
		})
	}
}

// A pool is deleted with its virtual machines, so a policy can match it too.
func TestDeletionOfPool(t *testing.T) {
	f := newFixture(t)
	f.policy(t, "keep", strings.Replace(keep, "[VirtualMachine]", "[VirtualMachine, VirtualMachinePool]", 1))
	pool := &poolv1beta1.VirtualMachinePool{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default", Labels: map[string]string{"keep": "true"}},
		Spec:       poolv1beta1.VirtualMachinePoolSpec{VirtualMachineTemplate: &poolv1beta1.VirtualMachineTemplateSpec{Spec: build.VMOf(build.VMI("db")).Obj().Spec}},
	}
	if diff := cmp.Diff([]string{denied}, rules(f.evaluate(t, of(t, Pool, pool, deleting, from("alice"))))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// The effective VM of a deletion has the fields of its instancetype.
func TestDeletionExpands(t *testing.T) {
	f := newFixture(t, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterInstancetype", "metadata": map[string]any{"name": "u1.large"},
		"spec": map[string]any{"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": "8Gi"}},
	}})
	f.policy(t, "keep", `{enforcement: Deny, match: {kinds: [VirtualMachine], operations: [DELETE]}, validations: [{expression: "vm.spec.domain.memory.guest != '8Gi'", message: large ones are kept}]}`)
	vm := build.VMOf(build.VMI("db").Namespace("default")).Instancetype("u1.large").Obj()
	vm.Spec.Template.Spec.Domain.Memory = nil
	if result := f.evaluate(t, of(t, VirtualMachine, vm, deleting, from("alice"))); result.Allowed() {
		t.Errorf("it is allowed: %v %v", rules(result), result.Warnings)
	}
}

// A protected object that cannot be read can be deleted only if no policy denies what it cannot evaluate.
func TestDeletionOfUnreadable(t *testing.T) {
	vm := kept("db")
	broken := []byte(strings.Replace(string(encoded(t, vm)), `"template":{`, `"template":{"spec":{"domain":{"memory":{"guest":{}}}},`, 1))
	for _, c := range []struct {
		policy string
		want   []string
	}{
		{keep, []string{"Deny object-readable spec"}},
		{strings.Replace(keep, "enforcement: Deny", "enforcement: Deny, failurePolicy: Ignore", 1), []string{"Warn object-readable spec"}},
		{strings.Replace(keep, "enforcement: Deny", "enforcement: Warn", 1), []string{"Warn object-readable spec"}},
		{strings.Replace(keep, "DELETE", "CREATE", 1), nil},
	} {
		f := newFixture(t)
		f.policy(t, "keep", c.policy)
		r := of(t, VirtualMachine, vm, deleting, from("alice"))
		r.OldObject = broken
		if diff := cmp.Diff(c.want, rules(f.evaluate(t, r))); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s", c.policy, diff)
		}
		owned := of(t, VirtualMachine, vm, at(Admitted), by(admissionv1.Update), from("alice"))
		owned.Object, owned.OldObject = []byte(strings.Replace(string(broken), `"metadata":{`, `"metadata":{"ownerReferences":[{"uid":"a"}],`, 1)), broken
		if allowed := f.evaluate(t, owned).Allowed(); allowed == (len(c.want) > 0 && strings.HasPrefix(c.want[0], "Deny")) {
			t.Errorf("%s: an update of the owners is allowed: %v", c.policy, allowed)
		}
		mended := *vm.DeepCopy()
		mended.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "a"}}
		both := of(t, VirtualMachine, &mended, at(Admitted), by(admissionv1.Update), from("alice"), func(r *Request) { r.OldObject = broken })
		if allowed := f.evaluate(t, both).Allowed(); allowed == (len(c.want) > 0 && strings.HasPrefix(c.want[0], "Deny")) {
			t.Errorf("%s: an update that mends the object and adds an owner is allowed: %v", c.policy, allowed)
		}
	}
}

// The garbage collector deletes an object with its owners, so a user who could not delete it cannot change them.
func TestOwners(t *testing.T) {
	owner := func(uid, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID(uid)}
	}
	a, b := owner("a", "one"), owner("b", "two")
	var many []metav1.OwnerReference // more than are decoded
	for i := range 200 {
		many = append(many, owner(fmt.Sprintf("uid-%d", i), "one"))
	}
	blocking := a
	blocking.BlockOwnerDeletion = new(true)
	finding := []string{"Deny policy/keep metadata.ownerReferences"}
	for _, c := range []struct {
		name     string
		was, now []metav1.OwnerReference
		user     string
		change   func(old, vm *v1.VirtualMachine)
		want     []string
	}{
		{name: "the first owner", now: []metav1.OwnerReference{a}, want: finding},
		{name: "one more owner", was: []metav1.OwnerReference{a}, now: []metav1.OwnerReference{a, b}, want: finding},
		{name: "another name, which does not exist", was: []metav1.OwnerReference{a}, now: []metav1.OwnerReference{owner("a", "gone")}, want: finding},
		{name: "one of two owners is removed", was: []metav1.OwnerReference{a, b}, now: []metav1.OwnerReference{b}, want: finding},
		{name: "very many owners", now: many, want: finding},
		{name: "one of very many owners", was: many, now: many[:199], want: finding},
		{name: "all owners are removed", was: []metav1.OwnerReference{a, b}},
		{name: "the order changes", was: []metav1.OwnerReference{a, b}, now: []metav1.OwnerReference{b, a}},
		{name: "a flag changes", was: []metav1.OwnerReference{a}, now: []metav1.OwnerReference{blocking}},
		{name: "the garbage collector", was: []metav1.OwnerReference{a, b}, now: []metav1.OwnerReference{b}, user: "system:serviceaccount:kube-system:generic-garbage-collector"},
		{name: "KubeVirt", now: []metav1.OwnerReference{a}, user: "system:serviceaccount:kubevirt:kubevirt-controller"},
		{name: "the label is removed in the same update", now: []metav1.OwnerReference{a}, change: func(_, vm *v1.VirtualMachine) { vm.Labels = nil }, want: finding},
		{name: "the VM is not protected", now: []metav1.OwnerReference{a}, change: func(old, vm *v1.VirtualMachine) { old.Labels, vm.Labels = nil, nil }},
		{name: "the spec changes too", now: []metav1.OwnerReference{a}, change: func(_, vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "other" }, want: finding},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.policy(t, "keep", keep)
			old, vm := kept("db"), kept("db")
			old.OwnerReferences, vm.OwnerReferences = c.was, c.now
			if c.change != nil {
				c.change(old, vm)
			}
			user := c.user
			if user == "" {
				user = "alice"
			}
			r := of(t, VirtualMachine, vm, at(Admitted), by(admissionv1.Update), from(user), func(r *Request) { r.OldObject = encoded(t, old) })
			result := f.evaluate(t, r)
			if diff := cmp.Diff(c.want, rules(result)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if len(c.want) > 0 && !strings.Contains(result.Findings[0].Message(), "the garbage collector deletes the object together with its owners: it is kept") {
				t.Errorf("the message is %q", result.Findings[0].Message())
			}
		})
	}
}

// An update of nothing but the owners is evaluated only as a deletion: policies that deny updates do not apply, as for
// finalizers.
func TestOnlyOwners(t *testing.T) {
	f := newFixture(t)
	f.policy(t, "never", `{enforcement: Deny, match: {operations: [UPDATE]}, validations: [{expression: "has(oldObject.metadata.ownerReferences)", message: never}]}`)
	old, vm := kept("db"), kept("db")
	vm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "one", UID: "a"}}
	r := of(t, VirtualMachine, vm, at(Admitted), by(admissionv1.Update), from("alice"), func(r *Request) { r.OldObject = encoded(t, old) })
	if result := f.evaluate(t, r); len(result.Findings) > 0 {
		t.Errorf("findings: %v", rules(result))
	}
}

// Without a policy for deletions, nothing is read.
func TestDeletable(t *testing.T) {
	f := newFixture(t)
	f.live.GetFacts = nil
	if !f.Deletable("VirtualMachine", "alice") {
		t.Error("it is not deletable without policies")
	}
	f.policy(t, "keep", keep)
	if f.Deletable("VirtualMachine", "alice") || !f.Deletable("VirtualMachineInstance", "alice") || !f.Deletable("VirtualMachine", policies.SystemDeleters()[0]) {
		t.Error("policies for deletions do not decide")
	}
	if len(f.objects.reads) > 0 {
		t.Errorf("reads: %v", f.objects.reads)
	}
}
