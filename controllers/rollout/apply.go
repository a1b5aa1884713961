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

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/limits/parallel"
	"github.com/virtward/virtward/policies"
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
	body, err := s.Client.Put().AbsPath("/apis", subresources, "v1", "namespaces", namespace, "virtualmachines", name, "restart").
		SetHeader("Content-Type", "application/json").Body([]byte("{}")).Do(ctx).Raw()
	if status := (metav1.Status{}); err != nil && json.Unmarshal(body, &status) == nil && status.Message != "" {
		return &restartError{message: texts.Shorten(status.Message, maxFailure), cause: err}
	}
	return err
}

// restartError is the error of KubeVirt. Its answers do not name their kind, so that the client does not read them.
type restartError struct {
	message string
	cause   error
}

// Error implements error.
func (e *restartError) Error() string { return e.message }

// Unwrap returns the error with the status code.
func (e *restartError) Unwrap() error { return e.cause }

// applying is the number of virtual machines to which a rollout writes at the same time. Each of them takes less memory than
// a third of one that is planned, and nothing is planned meanwhile.
const applying = 8

// apply executes the actions: those of one virtual machine in their order until one fails, and virtual machines in parallel.
func (r *Reconciler) apply(ctx context.Context, o *observed, actions []fleet.Action) error {
	machines := byMachine(actions)
	errs := make([]error, len(machines)+1)
	errs[len(machines)] = parallel.Bounded(ctx, applying, len(machines), func(i int) error {
		for _, a := range machines[i] {
			if err := r.act(ctx, o, a); err != nil {
				errs[i] = failedAction{action: a, cause: err}
				break
			}
		}
		return nil
	})
	r.remember(o.input.Rollout, errs)
	return errors.Join(errs...)
}

// failedAction is the error of an action.
type failedAction struct {
	action *fleet.Action
	cause  error
}

// Error implements error.
func (f failedAction) Error() string {
	return fmt.Sprintf("%s %s: %s", f.action.Verb, f.action.Machine, f.cause)
}

// Unwrap returns the cause.
func (f failedAction) Unwrap() error { return f.cause }

// maxFailure bounds the text of an error that is kept, in bytes.
const maxFailure = 256

// remember keeps why the last writes failed, so that the status shows it.
func (r *Reconciler) remember(rollout *v1alpha1.VirtualMachineRollout, errs []error) {
	failures := map[string]string{}
	for _, err := range errs {
		if f := (failedAction{}); errors.As(err, &f) && !errors.Is(f.cause, errChanged) {
			failures[f.action.Machine] = texts.Shorten(policies.PublicError(f.cause), maxFailure)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if planned := r.planned[rollout.UID]; planned != nil {
		planned.failures = failures
	}
}

// byMachine groups actions by their virtual machines, in the order of the first ones.
func byMachine(actions []fleet.Action) (groups [][]*fleet.Action) {
	index := make(map[string]int, len(actions))
	for i := range actions {
		at, known := index[actions[i].Machine]
		if !known {
			at, groups = len(groups), append(groups, nil)
			index[actions[i].Machine] = at
		}
		groups[at] = append(groups[at], &actions[i])
	}
	return groups
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
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.planned[rollout.UID]
	if o == nil {
		return
	}
	if k, ok := o.known[record.name]; ok {
		k.outcome.Denied = []v1alpha1.Finding{{VirtualMachine: record.name, Message: texts.Shorten(policies.PublicError(err), 512)}}
		o.known[record.name] = k
	}
}

// restart requests a restart, if the instance is still the one that was planned. A conflict means that it is requested.
func (r *Reconciler) restart(ctx context.Context, o *observed, a *fleet.Action) error {
	rollout := o.input.Rollout
	stored, err := r.Pages.Get(ctx, apikinds.VirtualMachines.GroupVersionResource(), rollout.Namespace, a.Machine)
	switch {
	case err != nil:
		return fmt.Errorf("reading the VM: %w", err)
	case stored == nil:
		return errChanged
	}
	vm, kept, err := readVM(stored)
	if err != nil {
		return fmt.Errorf("reading the VM: %w", err)
	}
	vmi := &metav1.PartialObjectMetadata{}
	vmi.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: rollout.Namespace, Name: a.Machine}, vmi); err != nil {
		return fmt.Errorf("reading the instance: %w", err)
	}
	m := o.machine(a.Machine)
	if !kept || vm.uid != a.UID || m == nil || vmi.UID != m.Instance.UID || vmi.DeletionTimestamp != nil || fleet.RestartRequested(vm.vm(), vmi.UID) {
		return errChanged
	}
	err = r.Restarter.Restart(ctx, rollout.Namespace, a.Machine)
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
