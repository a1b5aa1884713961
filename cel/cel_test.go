package cel_test

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/test/build"
)

// environment is made once: it is immutable.
var environment = sync.OnceValues(cel.NewEnvironment)

// scope is one in which everything must be valid.
func scope(tb testing.TB, o cel.ScopeOptions) *cel.Scope {
	tb.Helper()
	e, err := environment()
	if err != nil {
		tb.Fatal(err)
	}
	s, issues := e.Scope(o)
	if len(issues) > 0 {
		tb.Fatalf("the scope has issues: %v", issues)
	}
	return s
}

// program compiles what must be valid.
func program(tb testing.TB, s *cel.Scope, expression string, want cel.Result) *cel.Program {
	tb.Helper()
	p, issues := s.Compile(expression, want)
	if len(issues) > 0 {
		tb.Fatalf("%s has issues: %v", expression, issues)
	}
	return p
}

// evaluate is the result of an expression about documents.
func evaluate(tb testing.TB, s *cel.Scope, d *cel.Documents, expression string) (any, error) {
	tb.Helper()
	return program(tb, s, expression, cel.Any).Eval(s.Activation(d), cel.NewBudget())
}

// documents are those of the create of a VM that says a little of everything.
func documents() *cel.Documents {
	vmi := build.Typical("db").
		Limit(corev1.ResourceMemory, "4096Mi").
		With(func(s *v1.VirtualMachineInstanceSpec) {
			s.Domain.CPU.DedicatedCPUPlacement = true
			s.Architecture = "arm64"
		}).Obj()
	vm := build.VMOf(build.Typical("db")).Obj()
	vm.Labels = map[string]string{"app.kubernetes.io/name": "db", "tier": "gold"}
	vm.Annotations = map[string]string{"policy.example.com/owner": "alice"}
	guest := resource.MustParse("16Gi")
	return &cel.Documents{
		Kind: apikinds.VirtualMachine, Object: vm, VM: vmi,
		Request: cel.Request{
			Operation: "CREATE", Name: "db", Namespace: "default",
			Kind:     metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"},
			Resource: metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"},
		},
		Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"env": "prod"}}},
		Instancetype: &instancetypev1beta1.VirtualMachineInstancetypeSpec{
			CPU:    instancetypev1beta1.CPUInstancetype{Guest: 8},
			Memory: instancetypev1beta1.MemoryInstancetype{Guest: guest},
		},
		Preference: &instancetypev1beta1.VirtualMachinePreferenceSpec{
			Machine: &instancetypev1beta1.MachinePreferences{PreferredMachineType: "q35"},
		},
		Provenance: []provenance.Change{
			{Path: "spec.domain.machine.type", Value: "q35", Layer: "base"},
			{Path: "spec.domain.devices.disks[1].disk.bus", Value: "virtio", Layer: "preference/linux"},
			{Path: "spec.domain.machine.type", Value: "virt", Layer: "arm64"},
		},
		Facts:     platform.Defaults(platform.Settings{}),
		Requester: "alice",
		Params:    map[string]any{"max": 4.0, "ratio": 2.0, "names": []any{"a", "b"}, "by-team": map[string]any{"x": "y"}},
	}
}
