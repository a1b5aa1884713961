package audit

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
)

// Kind is a kind that is audited.
type Kind struct {
	schema.GroupVersionKind
	schema.GroupVersionResource

	// input is what the pipeline is told of an object as it is stored; ok is false for one that there is nothing to
	// judge of: it is on its way out, has ended, or has no virtual machine in it.
	input func(stored []byte) (in effective.Input, ok bool, err error)
}

// Kinds are those that are audited, in the order in which they are.
func Kinds() []Kind {
	return []Kind{
		kind(v1.GroupVersion.WithKind(string(policyv1alpha1.PolicyVirtualMachine)), "virtualmachines", virtualMachine),
		kind(v1.GroupVersion.WithKind(string(policyv1alpha1.PolicyVirtualMachineInstance)), "virtualmachineinstances", virtualMachineInstance),
		kind(poolv1beta1.SchemeGroupVersion.WithKind(string(policyv1alpha1.PolicyVirtualMachinePool)), "virtualmachinepools", pool),
	}
}

func kind(gvk schema.GroupVersionKind, resource string, input func([]byte) (effective.Input, bool, error)) Kind {
	// Of v1 and v1alpha3, clients are served the same objects.
	if gvk.Group == v1.GroupVersion.Group {
		gvk.Version = "v1"
	}
	return Kind{GroupVersionKind: gvk, GroupVersionResource: gvk.GroupVersion().WithResource(resource), input: input}
}

func virtualMachine(stored []byte) (in effective.Input, ok bool, err error) {
	vm := &v1.VirtualMachine{}
	if err := decode(stored, vm); err != nil {
		return in, false, err
	}
	in.VM, in.Arrived, in.Raw = vm, true, stored
	return in, vm.DeletionTimestamp == nil, nil
}

func virtualMachineInstance(stored []byte) (in effective.Input, ok bool, err error) {
	vmi := &v1.VirtualMachineInstance{}
	if err := decode(stored, vmi); err != nil {
		return in, false, err
	}
	in.VMI, in.Arrived, in.Raw = vmi, true, stored
	return in, vmi.DeletionTimestamp == nil && !vmi.IsFinal(), nil
}

func pool(stored []byte) (in effective.Input, ok bool, err error) {
	pool := &poolv1beta1.VirtualMachinePool{}
	if err := decode(stored, pool); err != nil {
		return in, false, err
	}
	if in.VM, in.Container = effective.OfPool(pool); in.VM == nil {
		return in, false, nil
	}
	return in, pool.DeletionTimestamp == nil, nil
}
