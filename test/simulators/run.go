package simulators

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/simulators/liveupdates"
)

// Run makes a VM one that runs, in a cluster without virt-controller: with the revision of its start, and an instance whose
// guest has booted. The creator creates the instance, so that admission completes it. The writer is one of KubeVirt's
// accounts, or is not subject to its admission.
func Run(ctx context.Context, creator, writer client.Client, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineInstance, error) {
	if err := writer.Get(ctx, client.ObjectKeyFromObject(vm), vm); err != nil {
		return nil, err
	}
	r := &vmReconciler{client: writer, live: writer, expand: expandFromCluster, starts: newStarts(writer)}
	template, err := r.templateOf(ctx, vm)
	if err != nil {
		return nil, fmt.Errorf("expanding VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	before := &kubevirtv1.VirtualMachine{}
	if err := r.recordKinds(ctx, vm); err != nil {
		return nil, err
	}
	revision, err := r.starts.store(ctx, writer, vm)
	if err != nil {
		return nil, err
	}
	vmi := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: vm.Namespace, Name: vm.Name, Labels: template.ObjectMeta.Labels, Annotations: template.ObjectMeta.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)},
		},
		Spec: template.Spec,
	}
	if err := creator.Create(ctx, vmi); err != nil {
		return nil, fmt.Errorf("creating the instance of VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { // another controller may write it too
		if err := writer.Get(ctx, client.ObjectKeyFromObject(vmi), vmi); err != nil {
			return err
		}
		vmi.Status.Phase, vmi.Status.NodeName, vmi.Status.VirtualMachineRevisionName = kubevirtv1.Running, sourceNode, revision
		liveupdates.Booted(vmi)
		setHealth(vm, vmi)
		return writer.Update(ctx, vmi)
	})
	if err != nil {
		return nil, err
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := writer.Get(ctx, client.ObjectKeyFromObject(vm), before); err != nil {
			return err
		}
		vm.ResourceVersion = before.ResourceVersion
		return r.writeStatus(ctx, before, vm, vmi, nil)
	})
	return vmi, err
}
