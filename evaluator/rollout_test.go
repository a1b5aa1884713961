package evaluator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
)

// runs is a VM that runs as it was started, and the objects of the cluster: its instance and the revision of its start.
func runs(t *testing.T) (*v1.VirtualMachine, *v1.VirtualMachineInstance, *appsv1.ControllerRevision) {
	t.Helper()
	f := newFixture(t)
	template := build.Typical("db").Topology(1, 4, 1).With(func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Domain.Firmware = &v1.Firmware{UUID: "11111111-2222-4333-8444-555555555555"} // KubeVirt writes one into each VM
	})
	verdict, err := f.Pipeline.Complete(effective.Input{VM: build.VMOf(template).RunStrategy(v1.RunStrategyAlways).Obj(), Facts: f.live.Facts()})
	if err != nil {
		t.Fatal(err)
	}
	vm := verdict.VM
	vm.Namespace, vm.UID, vm.ResourceVersion, vm.Status.Created = "default", "vm-1", "1", true
	vmi := &v1.VirtualMachineInstance{
		TypeMeta: metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "db", Namespace: "default", Labels: vm.Spec.Template.ObjectMeta.Labels, Annotations: vm.Spec.Template.ObjectMeta.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "db", UID: "vm-1", Controller: ptr.To(true)}},
		},
		Spec: *verdict.Spec,
		Status: v1.VirtualMachineInstanceStatus{
			Phase: v1.Running, VirtualMachineRevisionName: "start",
			Conditions: []v1.VirtualMachineInstanceCondition{{Type: v1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue}},
			Memory:     &v1.MemoryStatus{GuestAtBoot: verdict.Spec.Domain.Memory.Guest, GuestCurrent: verdict.Spec.Domain.Memory.Guest},
		},
	}
	start := &appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{Name: "start", Namespace: "default"},
		Data:       runtime.RawExtension{Raw: encoded(t, map[string]any{"spec": vm.Spec})},
	}
	return vm, vmi, start
}

func untyped(t *testing.T, object any) *unstructured.Unstructured {
	t.Helper()
	found := &unstructured.Unstructured{}
	if err := found.UnmarshalJSON(encoded(t, object)); err != nil {
		t.Fatal(err)
	}
	return found
}

// failing is a cluster whose instances cannot be read.
type failing struct{ references.Objects }

func (f failing) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if kind.Kind == VirtualMachineInstance.Kind {
		return nil, errors.New("out of order")
	}
	return f.Objects.Get(ctx, kind, namespace, name)
}

func TestWarningsOfUpdates(t *testing.T) {
	const onlyAtStart = "KubeVirt applies this field only when the VM starts."
	migrate := []v1.WorkloadUpdateMethod{v1.WorkloadUpdateMethodLiveMigrate}
	hostname := func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "other" }
	for _, c := range []struct {
		name   string
		before func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, start *appsv1.ControllerRevision)
		change func(*v1.VirtualMachine)
		facts  func(*platform.Facts)
		user   string
		broken bool
		want   []string
		denied bool
		unread bool
	}{
		{name: "a restart", change: hostname, want: []string{"spec.template.spec.hostname: takes effect when the VM restarts. " + onlyAtStart}},
		{name: "several fields with one reason", change: func(vm *v1.VirtualMachine) {
			hostname(vm)
			vm.Spec.Template.Spec.Subdomain, vm.Spec.Template.Spec.Domain.Chassis = "sub", &v1.Chassis{Manufacturer: "m"}
		}, want: []string{"spec.template.spec.domain.chassis: takes effect when the VM restarts. " + onlyAtStart + " 2 more fields need the same restart."}},
		{name: "a migration", change: func(vm *v1.VirtualMachine) {
			vm.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"}
		}, want: []string{"spec.template.spec.nodeSelector[zone]: takes effect with a live migration. The guest gets the change with the next live migration. KubeVirt does not start one. Migrate the VM: virtctl migrate NAME."}},
		{name: "a stopped VM", before: func(vm *v1.VirtualMachine, _ *v1.VirtualMachineInstance, _ *appsv1.ControllerRevision) {
			vm.Status.Created, vm.Spec.RunStrategy = false, ptr.To(v1.RunStrategyHalted)
		}, change: hostname, unread: true},
		{name: "a status that does not show the instance yet", before: func(vm *v1.VirtualMachine, _ *v1.VirtualMachineInstance, _ *appsv1.ControllerRevision) {
			vm.Status = v1.VirtualMachineStatus{}
		}, change: hostname, want: []string{"spec.template.spec.hostname: takes effect when the VM restarts. " + onlyAtStart}},
		{name: "only metadata", change: func(vm *v1.VirtualMachine) { vm.Labels = map[string]string{"a": "b"} }, unread: true},
		{name: "the generation of an API server", before: func(vm *v1.VirtualMachine, _ *v1.VirtualMachineInstance, _ *appsv1.ControllerRevision) {
			vm.Generation = 1
		}, change: func(vm *v1.VirtualMachine) {
			vm.Generation = 2
			hostname(vm)
		}, want: []string{"spec.template.spec.hostname: takes effect when the VM restarts. " + onlyAtStart}},
		{name: "live", change: func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = ptr.To(v1.RunStrategyRerunOnFailure) }},
		{name: "pending before", before: func(vm *v1.VirtualMachine, _ *v1.VirtualMachineInstance, _ *appsv1.ControllerRevision) { hostname(vm) }, change: func(vm *v1.VirtualMachine) {
			vm.Spec.Template.Spec.Subdomain = "sub"
		}, want: []string{"spec.template.spec.subdomain: takes effect when the VM restarts. " + onlyAtStart}},
		{name: "reverted", before: func(vm *v1.VirtualMachine, _ *v1.VirtualMachineInstance, _ *appsv1.ControllerRevision) { hostname(vm) }, change: func(vm *v1.VirtualMachine) {
			vm.Spec.Template.Spec.Hostname = ""
		}},
		{name: "Stage", change: hostname, facts: func(f *platform.Facts) { f.LiveUpdate = false }, want: []string{
			"The rollout strategy of the cluster is Stage. These changes take effect when the VM restarts: spec.template.spec.hostname.",
		}},
		{name: "no instance", before: func(_ *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, _ *appsv1.ControllerRevision) {
			vmi.Name = "another"
		}, change: hostname},
		{name: "an instance of another VM", before: func(_ *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, _ *appsv1.ControllerRevision) {
			vmi.OwnerReferences = nil
		}, change: hostname},
		{name: "no start", before: func(_ *v1.VirtualMachine, _ *v1.VirtualMachineInstance, start *appsv1.ControllerRevision) {
			start.Name = "another"
		}, change: hostname},
		{name: "the cluster cannot be read", change: hostname, broken: true},
		{name: "an account of KubeVirt", change: hostname, user: "system:serviceaccount:kubevirt:kubevirt-controller", unread: true},
		{name: "denied", change: func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "not a name" }, denied: true},
		{name: "sockets under LiveMigrate", facts: func(f *platform.Facts) { f.WorkloadUpdateMethods = migrate }, change: func(vm *v1.VirtualMachine) {
			vm.Spec.Template.Spec.Domain.CPU.Sockets++
		}, want: []string{"spec.template.spec.domain.cpu.sockets: takes effect with a live migration. KubeVirt migrates the VM, and the guest gets the change with the migration. Check the value first: KubeVirt cannot revert it until the migration has ended."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, vmi, start := runs(t)
			if c.before != nil {
				c.before(old, vmi, start)
			}
			f := newFixture(t, untyped(t, vmi), untyped(t, start))
			if c.facts != nil {
				c.facts(f.live.Facts())
			}
			if c.broken {
				f.References = failing{f.objects}
			}
			changed := old.DeepCopy()
			c.change(changed)
			result := f.evaluate(t, of(t, VirtualMachine, changed, at(Admitted), by(admissionv1.Update), func(r *Request) {
				r.OldObject, r.User.Username = encoded(t, old), c.user
			}))
			if result.Allowed() == c.denied {
				t.Errorf("findings %v", rules(result))
			}
			if diff := cmp.Diff(c.want, result.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if n := f.objects.reads[VirtualMachineInstance.Kind]; c.unread && n > 0 {
				t.Errorf("%d reads of the instance", n)
			}
		})
	}
}

// A creation reads no instance.
func TestCreationsReadNoInstance(t *testing.T) {
	vm, vmi, start := runs(t)
	f := newFixture(t, untyped(t, vmi), untyped(t, start))
	result := f.evaluate(t, of(t, VirtualMachine, vm, at(Admitted), by(admissionv1.Create)))
	if result.Rollout != nil || f.objects.reads[VirtualMachineInstance.Kind] != 0 || strings.Join(result.Warnings, "") != "" {
		t.Errorf("%+v, reads %v", result, f.objects.reads)
	}
}

// Policies read the fields that an update changes, and that they are not known.
func TestPoliciesReadRollouts(t *testing.T) {
	const policy = `{enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [{expression: "rollout.restart.size() == 0 && rollout.migration.size() == 0 && rollout.never.size() == 0 && !rollout.unknown",
		messageExpression: "(rollout.unknown ? 'unknown ' : '') + 'restart ' + rollout.restart.join(',') + ' migration ' + rollout.migration.join(',') + ' never ' + rollout.never.join(',')", message: m}]}`
	const rego = `
enforcement: Deny
match: {kinds: [VirtualMachine]}
rego:
  module: |
    package p

    deny contains {"msg": msg} if {
        count(input.rollout.restart) + count(input.rollout.migration) + count(input.rollout.never) > 0
        msg := sprintf("restart %s migration %s never %s", [concat(",", input.rollout.restart), concat(",", input.rollout.migration), concat(",", input.rollout.never)])
    }

    deny contains {"msg": "unknown"} if input.rollout.unknown
`
	for _, c := range []struct {
		name   string
		before func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, start *appsv1.ControllerRevision)
		change func(*v1.VirtualMachine)
		want   string
	}{
		{name: "live", change: func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = ptr.To(v1.RunStrategyRerunOnFailure) }},
		{name: "a restart", change: func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "other" }, want: "restart spec.template.spec.hostname migration never"},
		{name: "a migration", change: func(vm *v1.VirtualMachine) {
			vm.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"}
		}, want: "restart migration spec.template.spec.nodeSelector[zone] never"},
		{name: "no instance", before: func(_ *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, _ *appsv1.ControllerRevision) {
			vmi.Name = "another"
		}, change: func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "other" }},
		{name: "no start", before: func(_ *v1.VirtualMachine, _ *v1.VirtualMachineInstance, start *appsv1.ControllerRevision) {
			start.Name = "another"
		}, change: func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "other" }, want: "unknown"},
		{name: "more changes than a plan has", change: func(vm *v1.VirtualMachine) {
			for i := range 200 {
				metav1.SetMetaDataLabel(&vm.Spec.Template.ObjectMeta, fmt.Sprintf("l%d", i), "x")
			}
		}, want: "unknown"},
	} {
		for language, spec := range map[string]string{"CEL": policy, "Rego": rego} {
			t.Run(c.name+" in "+language, func(t *testing.T) {
				old, vmi, start := runs(t)
				if c.before != nil {
					c.before(old, vmi, start)
				}
				f := newFixture(t, untyped(t, vmi), untyped(t, start))
				f.policy(t, "p", spec)
				changed := old.DeepCopy()
				c.change(changed)
				result := f.evaluate(t, of(t, VirtualMachine, changed, at(Admitted), by(admissionv1.Update), func(r *Request) { r.OldObject = encoded(t, old) }))
				var got string
				for i := range result.Findings {
					got += result.Findings[i].Error.Detail
				}
				if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
					t.Errorf("findings %q, want %q", got, c.want)
				}
			})
		}
	}
}
