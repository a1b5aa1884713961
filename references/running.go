package references

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/platform"
)

var instance = apikinds.VirtualMachineInstances.GroupVersionKind

// Running finds the VMI that runs from a VM, if the VM has volume requests. It is nil if there is none. The error means
// that the cluster could not be read.
func Running(ctx context.Context, objects Objects, vm *v1.VirtualMachine) (*v1.VirtualMachineInstance, error) {
	if !vm.Status.Ready || len(vm.Status.VolumeRequests) == 0 {
		return nil, nil
	}
	obj, err := objects.Get(ctx, instance, vm.Namespace, vm.Name)
	if absent(err) || errors.Is(err, platform.ErrTooLarge) { // what is plugged in is evaluated again in the instance
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the VirtualMachineInstance %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, vmi); err != nil {
		return nil, fmt.Errorf("reading the VirtualMachineInstance %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	return vmi, nil
}
