package simulators

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CreateVolumes makes the DataVolumes of the dataVolumeTemplates of VMs from now on, as virt-controller does. Without it, tests
// make the volumes that they need.
func (v *VirtController) CreateVolumes() { v.volumes.Store(true) }

// createVolumes creates the DataVolumes of a VM that do not exist.
func (r *vmReconciler) createVolumes(ctx context.Context, vm *kubevirtv1.VirtualMachine) error {
	if r.volumes == nil || !r.volumes.Load() {
		return nil
	}
	for i := range vm.Spec.DataVolumeTemplates {
		template := &vm.Spec.DataVolumeTemplates[i]
		volume := &cdiv1beta1.DataVolume{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: vm.Namespace, Name: template.Name, Labels: template.Labels, Annotations: template.Annotations,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)},
			},
			Spec: template.Spec,
		}
		if err := r.client.Create(ctx, volume); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating the DataVolume %s of VM %s/%s: %w", template.Name, vm.Namespace, vm.Name, err)
		}
	}
	return nil
}
