package effective_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// TestOnlyWrittenValuesAreReported: KubeVirt ignores maxSockets on arm64. The author of the VM is warned of a value in the VM, and
// not of one of an instancetype or a controller. The completion adds none.
func TestOnlyWrittenValuesAreReported(t *testing.T) {
	pipeline := pipeline(t)
	facts := platform.Defaults(platform.Settings{})
	bound := uint32(8)
	shared := &instancetypes.Instancetype{
		Kind: apikinds.VirtualMachineClusterInstancetype, Name: "shared",
		Spec: read[instancetypev1beta1.VirtualMachineInstancetypeSpec](t, `{cpu: {guest: 2, maxSockets: 8}, memory: {guest: 1Gi}}`),
	}
	owner := []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "a", UID: "1", Controller: new(bool)}}
	*owner[0].Controller = true
	spec := func(architecture string, maxSockets uint32) v1.VirtualMachineInstanceSpec {
		return v1.VirtualMachineInstanceSpec{Architecture: architecture, Domain: v1.DomainSpec{CPU: &v1.CPU{Sockets: 2, MaxSockets: maxSockets}, Memory: &v1.Memory{}}}
	}
	vm := func(architecture string, maxSockets uint32) *v1.VirtualMachine {
		return &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: spec(architecture, maxSockets)}}}
	}
	expanded := vm(architectures.ARM64, 0)
	expanded.Spec.Template.Spec.Domain.CPU, expanded.Spec.Template.Spec.Domain.Memory = nil, nil
	expanded.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "shared", Kind: apikinds.VirtualMachineClusterInstancetype}
	for name, test := range map[string]struct {
		in   effective.Input
		want string
	}{
		"a VM with a maximum":          {effective.Input{VM: vm(architectures.ARM64, bound)}, "spec.template.spec.domain.cpu.maxSockets"},
		"a VM without one":             {effective.Input{VM: vm(architectures.ARM64, 0)}, ""},
		"a VM of another architecture": {effective.Input{VM: vm(architectures.AMD64, bound)}, ""},
		"an instancetype":              {effective.Input{VM: expanded, References: effective.References{Instancetype: shared}}, ""},
		"an instance":                  {effective.Input{VMI: &v1.VirtualMachineInstance{Spec: spec(architectures.ARM64, bound)}}, "spec.domain.cpu.maxSockets"},
		"an instance of a VM":          {effective.Input{VMI: &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owner}, Spec: spec(architectures.ARM64, bound)}}, ""},
	} {
		test.in.Facts = facts
		verdict, err := pipeline.Decide(test.in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := ""
		if i := slices.IndexFunc(verdict.Findings, func(f validators.Finding) bool { return f.Rule == "arm64-cpu-hotplug" }); i >= 0 {
			f := verdict.Findings[i]
			if got = f.Error.Field; f.Severity != validators.Warn {
				t.Errorf("%s: %s", name, f.Severity)
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
