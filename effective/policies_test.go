package effective_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

// active compiles policies, given by their specs; the first is called a, the second b and so on.
func active(t testing.TB, specs ...string) *policies.Set {
	t.Helper()
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	var compiled []*policies.Policy
	for i, spec := range specs {
		object := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))}}
		if err := yaml.UnmarshalStrict([]byte(spec), &object.Spec); err != nil {
			t.Fatal(err)
		}
		policy, problems := policies.Compile(env, object, nil)
		if diagnostics.Broken(problems) {
			t.Fatal(problems)
		}
		compiled = append(compiled, policy)
	}
	return policies.NewSet("virtward-system", compiled...)
}

// capped is a policy about the memory that will be there.
const capped = `
enforcement: Deny
match: {kinds: [VirtualMachine, VirtualMachineInstance, VirtualMachinePool]}
validations:
- expression: quantity(vm.spec.domain.memory.guest).compareTo(quantity('8Gi')) <= 0
  messageExpression: "'a VM may have 8Gi, and this one gets ' + string(vm.spec.domain.memory.guest)"
  fieldPath: spec.domain.memory.guest
`

func create(user string) cel.Request {
	return cel.Request{Operation: "CREATE", UserInfo: authenticationv1.UserInfo{Username: user}}
}

func instancetypeOf(memory string) *instancetypes.Instancetype {
	return &instancetypes.Instancetype{
		Kind: apikinds.VirtualMachineClusterInstancetype, Name: "large",
		Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
			CPU: instancetypev1beta1.CPUInstancetype{Guest: 2}, Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse(memory)},
		},
	}
}

func choosing(instancetype string) *v1.VirtualMachine {
	vm := build.VMOf(build.VMI("db").With(func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Memory = nil })).Obj()
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: instancetype}
	return vm
}

func poolOf(vm *v1.VirtualMachine) *poolv1beta1.VirtualMachinePool {
	return &poolv1beta1.VirtualMachinePool{
		ObjectMeta: metav1.ObjectMeta{Name: "pool", Namespace: vm.Namespace},
		Spec: poolv1beta1.VirtualMachinePoolSpec{
			Replicas:               ptr.To[int32](7),
			VirtualMachineTemplate: &poolv1beta1.VirtualMachineTemplateSpec{ObjectMeta: vm.ObjectMeta, Spec: vm.Spec},
		},
	}
}

func within(pool *poolv1beta1.VirtualMachinePool) *effective.Container {
	return &effective.Container{Kind: "VirtualMachinePool", Object: pool, Template: field.NewPath("spec", "virtualMachineTemplate")}
}

func TestPoliciesEvaluateWhatWillRun(t *testing.T) {
	written := build.VMOf(build.VMI("db").Memory("16Gi")).Obj()
	for name, tc := range map[string]struct {
		policies []string
		in       effective.Input
		want     []string
	}{
		"what the author wrote": {
			policies: []string{capped}, in: effective.Input{VM: written, Request: create("jane")},
			want: []string{"Deny policy/a spec.template.spec.domain.memory.guest"},
		},
		"what the instancetype gives": {
			policies: []string{capped},
			in:       effective.Input{VM: choosing("large"), References: effective.References{Instancetype: instancetypeOf("16Gi")}, Request: create("jane")},
			want:     []string{"Deny policy/a spec.instancetype.name ← spec.template.spec.domain.memory.guest by instancetype/large"},
		},
		"an instancetype that gives less": {
			policies: []string{capped},
			in:       effective.Input{VM: choosing("large"), References: effective.References{Instancetype: instancetypeOf("4Gi")}, Request: create("jane")},
		},
		"what a layer fills": {
			policies: []string{`
enforcement: Warn
validations: [{expression: "vm.spec.domain.machine.type == 'q35-7'", message: "pin it", fieldPath: spec.domain.machine.type}]`},
			in:   effective.Input{VM: build.VMOf(build.VMI("db")).Obj(), Request: create("jane")},
			want: []string{"Warn policy/a spec.template.spec.domain.machine.type by amd64"},
		},
		"a field of which the instancetype gives a part, and layers fill the rest": {
			policies: []string{`
enforcement: Deny
validations: [{expression: "vm.spec.domain.cpu.sockets < 2", message: "too many", fieldPath: spec.domain.cpu}]`},
			in:   effective.Input{VM: choosing("large"), References: effective.References{Instancetype: instancetypeOf("1Gi")}, Request: create("jane")},
			want: []string{"Deny policy/a spec.instancetype.name ← spec.template.spec.domain.cpu by instancetype/large"},
		},
		"an instance as it arrived": {
			policies: []string{capped, `
enforcement: Deny
validations: [{expression: "size(provenance) == 0 && object.spec.domain.memory == vm.spec.domain.memory && vm.spec.terminationGracePeriodSeconds == 30", message: no}]`},
			in:   effective.Input{VMI: complete(t, build.VMI("db").Memory("9Gi").Obj()), PostMutation: true, Request: create("jane")},
			want: []string{"Deny policy/a spec.domain.memory.guest"},
		},
		"an instance that is complete": {
			policies: []string{`
enforcement: Deny
validations: [{expression: "provenance['spec.domain.machine.type'] == 'amd64'", message: no}]`},
			in: effective.Input{VMI: build.VMI("db").Obj(), Request: create("jane")},
		},
		"provenance, platform, annotations and the request": {
			policies: []string{`
enforcement: Deny
variables: [{name: layer, expression: "provenance['spec.domain.memory.guest']"}]
validations:
- {expression: "variables.layer == 'instancetype/large' && instancetype.cpu.guest == 2 && preference == null", message: 1}
- {expression: "platform.hypervisor == 'kvm' && requester == 'jane' && request.operation == 'CREATE'", message: 2}
- {expression: "vm.metadata.name == 'db' && vm.metadata.annotations.drawer == 'top' && vm.metadata.labels.tier == 'web'", message: 3}
- {expression: "namespaceObject == null && oldObject == null", message: 4}`},
			in: func() effective.Input {
				vm, large := choosing("large"), instancetypeOf("4Gi")
				large.Spec.Annotations = map[string]string{"drawer": "top"}
				vm.Spec.Template.ObjectMeta.Labels = map[string]string{"tier": "web"}
				return effective.Input{VM: vm, References: effective.References{Instancetype: large}, Request: create("jane"), Requester: "jane"}
			}(),
		},
		"no request": {
			policies: []string{capped, `
enforcement: Deny
validations: [{expression: "request.userInfo.username == 'root'", message: only root}]`},
			in:   effective.Input{VM: written},
			want: []string{"Deny policy/a spec.template.spec.domain.memory.guest"},
		},
		"what says that it is being deleted": {
			policies: []string{capped},
			in: func() effective.Input {
				vm := written.DeepCopy()
				vm.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
				return effective.Input{VM: vm, Request: create("jane")}
			}(),
			want: []string{"Deny policy/a spec.template.spec.domain.memory.guest"},
		},
		"without a template": {
			policies: []string{capped}, in: effective.Input{VM: &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{RunStrategy: ptr.To(v1.RunStrategyHalted)}}, Request: create("jane")},
			want: []string{"Deny vm-template-required spec.template"},
		},
		"in a pool, what its template makes and what is its own": {
			policies: []string{capped, `
enforcement: Deny
match: {kinds: [VirtualMachinePool]}
validations: [{expression: "object.spec.replicas < 5", message: four at most, fieldPath: spec.replicas}]`},
			in: effective.Input{
				VM: choosing("large"), References: effective.References{Instancetype: instancetypeOf("16Gi")},
				Container: within(poolOf(choosing("large"))), Request: create("jane"),
			},
			want: []string{
				"Deny policy/b spec.replicas",
				"Deny policy/a spec.virtualMachineTemplate.spec.instancetype.name ← spec.virtualMachineTemplate.spec.template.spec.domain.memory.guest by instancetype/large",
			},
		},
		"an exception that has expired": {
			policies: []string{capped + "\nexceptions: [{names: [db], reason: moving, expires: '2026-01-01T00:00:00Z'}]"},
			in:       effective.Input{VM: written, Request: create("jane"), Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
			want:     []string{"Deny policy/a spec.template.spec.domain.memory.guest"},
		},
		"an exception active": {
			policies: []string{capped + "\nexceptions: [{names: [db], reason: moving, expires: '2026-01-01T00:00:00Z'}]"},
			in:       effective.Input{VM: written, Request: create("jane"), Now: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.Facts, tc.in.Policies = platform.Defaults(platform.Settings{}), active(t, tc.policies...)
			verdict, err := pipeline(t).Decide(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, said(verdict.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%v", diff, verdict.Findings)
			}
		})
	}
}

// What to do about a violation is the admin's to say, wherever the value comes from.
func TestThePolicyKnowsTheRemedy(t *testing.T) {
	for want, spec := range map[string]string{
		"Ask Jane.": capped + "remedy: Ask Jane.",
		"Choose another instancetype: it determines domain.memory.guest.": capped,
	} {
		verdict, err := pipeline(t).Decide(effective.Input{
			VM: choosing("large"), References: effective.References{Instancetype: instancetypeOf("16Gi")},
			Facts: platform.Defaults(platform.Settings{}), Policies: active(t, spec), Request: create("jane"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(verdict.Findings) != 1 || verdict.Findings[0].Remedy != want {
			t.Errorf("want the remedy %q, got %+v", want, verdict.Findings)
		}
	}
}

// complete is a VMI as the mutator leaves it.
func complete(t testing.TB, vmi *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	t.Helper()
	verdict, err := pipeline(t).Complete(effective.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{})})
	if err != nil {
		t.Fatal(err)
	}
	return verdict.VMI
}

func TestWhatPoliciesRejectedBeforeOnlyWarns(t *testing.T) {
	const frozen = `
enforcement: Deny
match: {operations: [UPDATE]}
validations: [{expression: "object.spec.runStrategy == oldObject.spec.runStrategy", message: it stays, fieldPath: spec.runStrategy}]`
	const broken = `
enforcement: Deny
validations: [{expression: "vm.metadata.labels.none == ''", message: never decided}]`
	of := func(memory string, strategy v1.VirtualMachineRunStrategy) *v1.VirtualMachine {
		vm := build.VMOf(build.VMI("db").Memory(memory)).Obj()
		vm.Spec.RunStrategy = &strategy
		return vm
	}
	for name, tc := range map[string]struct {
		policy   string
		old, now *v1.VirtualMachine
		want     validators.Severity
	}{
		"a violation that stays":         {capped, of("16Gi", v1.RunStrategyAlways), of("16Gi", v1.RunStrategyHalted), validators.Warn},
		"a violation that grows":         {capped, of("16Gi", v1.RunStrategyAlways), of("32Gi", v1.RunStrategyAlways), validators.Deny},
		"a new violation":                {capped, of("8Gi", v1.RunStrategyAlways), of("9Gi", v1.RunStrategyAlways), validators.Deny},
		"a change that is not allowed":   {frozen, of("1Gi", v1.RunStrategyAlways), of("1Gi", v1.RunStrategyHalted), validators.Deny},
		"nothing decided, nothing new":   {broken, of("1Gi", v1.RunStrategyAlways), of("1Gi", v1.RunStrategyHalted), validators.Warn},
		"nothing decided, something new": {broken, of("1Gi", v1.RunStrategyAlways), of("2Gi", v1.RunStrategyAlways), validators.Deny},
	} {
		t.Run(name, func(t *testing.T) {
			in := effective.Input{VM: tc.now, OldVM: tc.old, Facts: platform.Defaults(platform.Settings{}), Policies: active(t, tc.policy), Request: cel.Request{Operation: "UPDATE"}}
			verdict, err := pipeline(t).DecideUpdate(in, func() (effective.Input, error) {
				before := in
				before.VM, before.OldVM = tc.old, nil
				return before, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(verdict.Findings) != 1 || verdict.Findings[0].Severity != tc.want || verdict.Findings[0].PreExisting != (tc.want == validators.Warn) {
				t.Errorf("want one finding that is a %s, got %v", tc.want, verdict.Findings)
			}
		})
	}
}

// The disks of a template in a pool are identified by their names, as those of a VM are.
func TestKnownViolationsInAPoolMove(t *testing.T) {
	const virtio = `
enforcement: Deny
match: {kinds: [VirtualMachinePool]}
validations:
- expression: vm.spec.domain.devices.disks[1].disk.bus == 'virtio'
  message: virtio it is
  fieldPath: spec.domain.devices.disks[1].disk.bus
- expression: vm.spec.domain.devices.disks[0].disk.bus == 'virtio'
  message: virtio it is
  fieldPath: spec.domain.devices.disks[0].disk.bus`
	of := func(first, second string) effective.Input {
		vm := build.VMOf(build.VMI("db").Disk(first, busOf(first)).Disk(second, busOf(second))).Obj()
		return effective.Input{
			VM: vm, Container: within(poolOf(vm)), Facts: platform.Defaults(platform.Settings{}), Policies: active(t, virtio), Request: cel.Request{Operation: "UPDATE"},
		}
	}
	verdict, err := pipeline(t).DecideUpdate(of("slow", "fast"), func() (effective.Input, error) { return of("fast", "slow"), nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Warn policy/a spec.virtualMachineTemplate.spec.template.spec.domain.devices.disks[0].disk.bus"}
	if diff := cmp.Diff(want, said(verdict.Findings)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func busOf(disk string) v1.DiskBus {
	if disk == "fast" {
		return v1.DiskBusVirtio
	}
	return v1.DiskBusSATA
}
