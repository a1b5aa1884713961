package simulators

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/simulators/liveupdates"
)

// update applies to a running VMI what its VM changes, and sets the condition RestartRequired of the VM.
func (r *vmReconciler) update(ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) error {
	if !r.filled(ctx, vm) {
		return nil
	}
	configuration, err := configurationOf(ctx, r.client)
	if err != nil {
		return err
	}
	if err := r.plugRequested(ctx, vm); err != nil {
		return err
	}
	if err := r.recordKinds(ctx, vm); err != nil {
		return err
	}
	wanted, err := r.templateOf(ctx, vm)
	if err != nil {
		return fmt.Errorf("expanding VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	started, err := r.startOf(ctx, vm, vmi)
	if err != nil {
		return err
	}
	result := liveupdates.Sync(liveupdates.Input{
		Started: started, Wanted: wanted, VM: vm, Instance: vmi, Configuration: configuration,
		Exists: func(v *kubevirtv1.Volume) bool { return r.exists(ctx, vm.Namespace, v) },
	})
	if result.RestartRequired != "" {
		setCondition(vm, kubevirtv1.VirtualMachineRestartRequired, true, result.RestartRequired)
	} else {
		removeCondition(vm, kubevirtv1.VirtualMachineRestartRequired)
	}
	if !equality.Semantic.DeepEqual(vmi, result.Instance) {
		if err := r.client.Update(ctx, result.Instance); err != nil {
			return err
		}
		*vmi = *result.Instance
	}
	if len(result.Unplugged) > 0 {
		if err := r.forget(ctx, vm, result.Unplugged); err != nil {
			return err
		}
	}
	if result.Failure != nil {
		return errors.New(result.Failure.Message)
	}
	return nil
}

// configurationOf reads the configuration of KubeVirt; it is empty without the resource.
func configurationOf(ctx context.Context, reader client.Reader) (*kubevirtv1.KubeVirtConfiguration, error) {
	kubevirt := &kubevirtv1.KubeVirt{}
	if err := reader.Get(ctx, Name, kubevirt); err != nil {
		return &kubevirtv1.KubeVirtConfiguration{}, client.IgnoreNotFound(err)
	}
	return &kubevirt.Spec.Configuration, nil
}

// startOf is the template that a VMI was started with; nil if it cannot be expanded any more.
func (r *vmReconciler) startOf(ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (*kubevirtv1.VirtualMachineInstanceTemplateSpec, error) {
	spec, err := r.starts.read(ctx, vmi)
	if spec == nil || err != nil {
		return nil, err
	}
	started := &kubevirtv1.VirtualMachine{ObjectMeta: vm.ObjectMeta, Spec: *spec}
	template, err := r.templateOf(ctx, started)
	if err != nil {
		return nil, nil //nolint:nilerr // virt-controller then compares with nothing
	}
	return template, nil
}

// forget removes unplugged interfaces from the VM, as virt-controller does.
func (r *vmReconciler) forget(ctx context.Context, vm *kubevirtv1.VirtualMachine, names []string) error {
	base := vm.DeepCopy()
	spec := &vm.Spec.Template.Spec
	spec.Domain.Devices.Interfaces = slices.DeleteFunc(spec.Domain.Devices.Interfaces, func(i kubevirtv1.Interface) bool {
		return slices.Contains(names, i.Name) && i.State == kubevirtv1.InterfaceStateAbsent
	})
	spec.Networks = slices.DeleteFunc(spec.Networks, func(n kubevirtv1.Network) bool {
		return slices.Contains(names, n.Name) && !slices.ContainsFunc(spec.Domain.Devices.Interfaces, func(i kubevirtv1.Interface) bool { return i.Name == n.Name })
	})
	if equality.Semantic.DeepEqual(base.Spec, vm.Spec) {
		return nil
	}
	return r.client.Patch(ctx, vm, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

// exists reports whether the claim or the DataVolume of a volume exists.
func (r *vmReconciler) exists(ctx context.Context, namespace string, v *kubevirtv1.Volume) bool {
	switch {
	case v.DataVolume != nil:
		return r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v.DataVolume.Name}, &cdiv1beta1.DataVolume{}) == nil
	case v.PersistentVolumeClaim != nil:
		return r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v.PersistentVolumeClaim.ClaimName}, &corev1.PersistentVolumeClaim{}) == nil
	}
	return true
}

// filled reports whether the DataVolumes of the templates of a VM are filled. Until then, virt-controller changes nothing.
func (r *vmReconciler) filled(ctx context.Context, vm *kubevirtv1.VirtualMachine) bool {
	for i := range vm.Spec.DataVolumeTemplates {
		key, volume := client.ObjectKey{Namespace: vm.Namespace, Name: vm.Spec.DataVolumeTemplates[i].Name}, &cdiv1beta1.DataVolume{}
		if r.live.Get(ctx, key, volume) != nil {
			if r.live.Get(ctx, key, &corev1.PersistentVolumeClaim{}) != nil {
				return false
			}
			continue
		}
		switch volume.Status.Phase {
		case cdiv1beta1.Succeeded, cdiv1beta1.WaitForFirstConsumer, cdiv1beta1.PendingPopulation:
		default:
			return false
		}
	}
	return true
}

// plugRequested writes the volumes that the subresource addvolume requests into a VM, as virt-controller does.
func (r *vmReconciler) plugRequested(ctx context.Context, vm *kubevirtv1.VirtualMachine) error {
	if _, held := requested(vm, HoldVolumeRequests); held || len(vm.Status.VolumeRequests) == 0 {
		return nil
	}
	base, spec, status := vm.DeepCopy(), &vm.Spec.Template.Spec, vm.Status.DeepCopy()
	for i := range status.VolumeRequests {
		add := status.VolumeRequests[i].AddVolumeOptions
		if add == nil || add.Disk == nil || add.VolumeSource == nil || add.VolumeSource.PersistentVolumeClaim == nil {
			continue
		}
		claim, disk := add.VolumeSource.PersistentVolumeClaim.DeepCopy(), add.Disk.DeepCopy()
		claim.Hotpluggable, disk.Name = true, add.Name
		spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: add.Name, VolumeSource: kubevirtv1.VolumeSource{PersistentVolumeClaim: claim}})
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, *disk)
	}
	if err := r.client.Patch(ctx, vm, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	vm.Status = *status
	vm.Status.VolumeRequests = nil
	return nil
}
