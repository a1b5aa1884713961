package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/rollouts/fleet"
	"github.com/virtward/virtward/texts"
)

// subresources is the API group of KubeVirt's subresources.
const subresources = "subresources.kubevirt.io"

// Restarter restarts virtual machines.
type Restarter interface {
	// Restart requests a restart. The error is Conflict if it is requested already, or if nothing runs.
	Restart(ctx context.Context, namespace, name string) error
}

// Subresources calls the subresources of KubeVirt.
type Subresources struct{ Client rest.Interface }

// Restart implements Restarter.
func (s Subresources) Restart(ctx context.Context, namespace, name string) error {
	return s.Client.Put().AbsPath("/apis", subresources, "v1", "namespaces", namespace, "virtualmachines", name, "restart").
		SetHeader("Content-Type", "application/json").Body([]byte("{}")).Do(ctx).Error()
}

// apply executes the actions. After an error, the other actions of the same virtual machine are left out.
func (r *Reconciler) apply(ctx context.Context, o *observed, actions []fleet.Action) error {
	var errs []error
	failed := map[string]bool{}
	for i := range actions {
		a := &actions[i]
		if failed[a.Machine] || ctx.Err() != nil {
			continue
		}
		if err := r.act(ctx, o, a); err != nil {
			failed[a.Machine] = true
			errs = append(errs, fmt.Errorf("%s %s: %w", a.Verb, a.Machine, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) act(ctx context.Context, o *observed, a *fleet.Action) error {
	rollout := o.input.Rollout
	switch a.Verb {
	case fleet.DeleteRollout:
		uid := rollout.UID
		return client.IgnoreNotFound(r.Client.Delete(ctx, rollout, client.Preconditions{UID: &uid, ResourceVersion: &rollout.ResourceVersion}))
	case fleet.RemoveMigration:
		migration := &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{Namespace: rollout.Namespace, Name: a.Migration}}
		return client.IgnoreNotFound(r.Client.Delete(ctx, migration))
	}
	denied, err := r.Authorizer.Authorize(ctx, o.requester, permissionFor(a.Verb, rollout.Namespace, a.Machine))
	switch {
	case err != nil:
		return err
	case denied != "":
		return errors.New(denied)
	}
	switch a.Verb {
	case fleet.Change:
		return r.change(ctx, o, a)
	case fleet.Restart:
		return r.restart(ctx, o, a)
	case fleet.Migrate:
		return r.migrate(ctx, rollout, a)
	}
	return fmt.Errorf("unknown action %s", a.Verb)
}

// change writes the patch and the mark, if the virtual machine is still the one that was planned.
func (r *Reconciler) change(ctx context.Context, o *observed, a *fleet.Action) error {
	rollout := o.input.Rollout
	record, outcome := o.find(a.Machine)
	if record == nil {
		return nil
	}
	mark := v1alpha1.Mark{Rollout: rollout.Name, UID: rollout.UID, Change: fleet.Digest(&rollout.Spec), Generation: record.generation}
	patch := map[string]any{}
	if rollout.Spec.Patch != nil && !outcome.Patched {
		patch["spec"] = json.RawMessage(rollout.Spec.Patch.Raw)
		mark.Generation++
	}
	patch["metadata"] = map[string]any{"uid": record.uid, "resourceVersion": record.version, "annotations": map[string]string{v1alpha1.AnnotationRollout: mark.String()}}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	vm := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: rollout.Namespace, Name: a.Machine}}
	vm.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	err = r.Client.Patch(ctx, vm, client.RawPatch(types.MergePatchType, data), client.FieldOwner(Owner), client.FieldValidation(metav1.FieldValidationStrict))
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsUnsupportedMediaType(err):
		r.reject(rollout, record, err)
		return err
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return errChanged // the next reconciliation plans again
	}
	return err
}

// errChanged is the error for a virtual machine that changed after it was read.
var errChanged = errors.New("it changed meanwhile")

// reject remembers that the API server rejects the change, as if the evaluation had denied it.
func (r *Reconciler) reject(rollout *v1alpha1.VirtualMachineRollout, record *vmRecord, err error) {
	o := r.outcomesOf(rollout)
	k, ok := o.known[record.name]
	if !ok {
		return
	}
	k.outcome.Denied = []v1alpha1.Finding{{VirtualMachine: record.name, Message: texts.Shorten(err.Error(), 512)}}
	o.known[record.name] = k
}

// restart requests a restart, if the instance is still the one that was planned. A conflict means that it is requested.
func (r *Reconciler) restart(ctx context.Context, o *observed, a *fleet.Action) error {
	rollout := o.input.Rollout
	key := client.ObjectKey{Namespace: rollout.Namespace, Name: a.Machine}
	vm, vmi := &kubevirtv1.VirtualMachine{}, &metav1.PartialObjectMetadata{}
	vmi.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	if err := errors.Join(r.Client.Get(ctx, key, vm), r.Client.Get(ctx, key, vmi)); err != nil {
		return err
	}
	m := o.machine(a.Machine)
	if vm.UID != a.UID || m == nil || vmi.UID != m.Instance.UID || vmi.DeletionTimestamp != nil || fleet.RestartRequested(vm, vmi.UID) {
		return errChanged
	}
	err := r.Restarter.Restart(ctx, rollout.Namespace, a.Machine)
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// migrate creates a migration. One of the same name is that of the same attempt.
func (r *Reconciler) migrate(ctx context.Context, rollout *v1alpha1.VirtualMachineRollout, a *fleet.Action) error {
	owner := *metav1.NewControllerRef(rollout, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	owner.BlockOwnerDeletion = nil // this would need a permission on the finalizers of rollouts
	err := r.Client.Create(ctx, &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rollout.Namespace, Name: a.Migration, Labels: map[string]string{v1alpha1.LabelRollout: string(rollout.UID)},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: a.Machine},
	}, client.FieldOwner(Owner))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// find returns a virtual machine with its outcome; nil if it is not observed.
func (o *observed) find(name string) (*vmRecord, *fleet.Outcome) {
	for i, vm := range o.vms {
		if vm.name == name {
			return vm, &o.input.Machines[i].Outcome
		}
	}
	return nil, nil
}

func (o *observed) machine(name string) *fleet.Machine {
	for i := range o.input.Machines {
		if o.input.Machines[i].Name == name {
			return &o.input.Machines[i]
		}
	}
	return nil
}
