package pending

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/rollouts"
)

// Owner is the field manager of the annotations.
const Owner = "virtward-pending"

// Objects read VMs, and what they refer to.
type Objects interface {
	references.Objects
	references.Instances

	Machine(ctx context.Context, namespace, name string) (*kubevirtv1.VirtualMachine, error)
	ReserveReads(ctx context.Context, namespace string) (context.Context, func())
}

// Options configure a Reconciler.
type Options struct {
	// Objects read from the API server.
	Objects Objects
	// Client writes annotations.
	Client dynamic.Interface
	// Facts of the cluster.
	Facts func() *platform.Facts
	// Ready returns nil once the facts are known. Nothing is written before.
	Ready func() error
	// Tell creates an event on a VM.
	Tell func(*kubevirtv1.VirtualMachine, events.Event)
	// Resync is the time after which a running VM is compared again.
	Resync time.Duration
	Clock  clock.PassiveClock
}

// Reconciler reports the pending changes of VMs. Its keys are their names. Create it with New.
type Reconciler struct {
	Options

	trigger *controllers.Trigger
	objects *dependents.Index
	ledger  *ledger
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{Options: options, trigger: controllers.NewTrigger(), objects: dependents.New(maxObjects), ledger: newLedger()}
}

// Changed compares all running VMs again, because the configuration of KubeVirt changed.
func (r *Reconciler) Changed() { r.trigger.Fire() }

// behind is the time after which a VM is reconciled again while the facts are unknown.
const behind = time.Second

// Reconcile compares one VM: observe, plan, apply.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	if ready := r.Ready() == nil; !ready {
		return reconcile.Result{RequeueAfter: behind}, nil
	}
	reading, end := r.Objects.ReserveReads(ctx, key.Namespace)
	defer end()
	result, err := r.compare(reading, key, r.Facts())
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("VirtualMachine %s: %w", key, err)
	}
	r.ledger.compared(key)
	return result, nil
}

func (r *Reconciler) compare(ctx context.Context, key reconcile.Request, facts *platform.Facts) (reconcile.Result, error) {
	vm, err := r.Objects.Machine(ctx, key.Namespace, key.Name)
	switch {
	case apierrors.IsNotFound(err), errors.Is(err, platform.ErrTooLarge):
		r.forget(key)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	in, err := r.observe(ctx, vm, facts)
	switch {
	case errors.Is(err, errUnknown):
		r.forget(key)
		log.FromContext(ctx).V(1).Info("a virtual machine is not compared", "reason", err.Error())
		return r.later(), r.apply(ctx, vm, &decision{write: hasAnnotation(vm)})
	case err != nil:
		return reconcile.Result{}, err
	case in == nil:
		r.forget(key)
		return reconcile.Result{}, r.apply(ctx, vm, &decision{write: hasAnnotation(vm)})
	}
	r.objects.Set(key, dependsOn(vm))
	pending := rollouts.Pending(in)
	o := &observed{
		generation: vm.Generation, annotated: vm.Annotations[v1alpha1.AnnotationPending], has: hasAnnotation(vm),
		stamps: r.ledger.stamps(key), started: in.Running.CreationTimestamp.Time, result: pending, now: r.Clock.Now(),
	}
	d := plan(o)
	if err := r.apply(ctx, vm, &d); err != nil {
		return reconcile.Result{}, err
	}
	r.ledger.set(key, recordOf(in, &pending, d.stamps))
	return r.later(), nil
}

// later is the next comparison without a change. Those of many VMs are spread.
func (r *Reconciler) later() reconcile.Result {
	return reconcile.Result{RequeueAfter: r.Resync + time.Duration(rand.Int64N(int64(r.Resync)/5+1))} //nolint:gosec // a delay
}

// errUnknown is the error for a VM whose plan is not known.
var errUnknown = errors.New("what it was started with is not known")

// observe reads the instance and what the VM refers to; nil for a VM that does not run.
func (r *Reconciler) observe(ctx context.Context, vm *kubevirtv1.VirtualMachine, facts *platform.Facts) (*rollouts.Input, error) {
	if !isRunning(vm) {
		return nil, nil
	}
	running, err := references.RunningRollout(ctx, r.Objects, facts, vm)
	switch {
	case errors.Is(err, references.ErrNoStart), errors.Is(err, platform.ErrTooLarge):
		return nil, fmt.Errorf("%w: %w", errUnknown, err)
	case err != nil || running == nil:
		return nil, err
	}
	found, _, err := references.References(ctx, r.Objects, vm)
	if err != nil {
		return nil, err
	}
	return references.DesiredRollout(ctx, r.Objects, running, vm, references.KindsOf(found))
}

func (r *Reconciler) forget(key reconcile.Request) {
	r.objects.Set(key, nil)
	r.ledger.remove(key)
}

func hasAnnotation(vm *kubevirtv1.VirtualMachine) bool {
	_, has := vm.Annotations[v1alpha1.AnnotationPending]
	return has
}

// apply writes the annotation if it changed, and then creates the events. A VM that was replaced is not written.
func (r *Reconciler) apply(ctx context.Context, vm *kubevirtv1.VirtualMachine, d *decision) error {
	if d.write {
		patch, err := patchOf(vm.UID, d.annotation)
		if err != nil {
			return err
		}
		resource := r.Client.Resource(apikinds.VirtualMachines.GroupVersionResource()).Namespace(vm.Namespace)
		_, err = resource.Patch(ctx, vm.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: Owner})
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return nil // it is deleted or replaced, which requests the next reconciliation
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			log.FromContext(ctx).Info("the annotation of a virtual machine is denied", "reason", err.Error())
			return nil // another attempt follows with the next change, or after the interval
		case err != nil:
			return fmt.Errorf("writing the annotation: %w", err)
		}
	}
	for _, e := range d.events {
		r.Tell(vm, e)
	}
	return nil
}

// patchOf is the merge patch that writes the annotation, or removes it. It changes only the VM with this UID.
func patchOf(uid types.UID, annotation string) ([]byte, error) {
	value := &annotation
	if annotation == "" {
		value = nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": uid, "annotations": map[string]*string{v1alpha1.AnnotationPending: value},
	}})
}
