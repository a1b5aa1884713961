package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/rollouts/fleet"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// fresh is how long an outcome is used if nothing that is watched changes, and retried how long after an error.
const fresh, retried = 10 * time.Minute, 10 * time.Second

// known is a planned outcome.
type known struct {
	// vm and instance are the versions of the objects.
	vm, instance string
	until        time.Time
	outcome      fleet.Outcome
}

// outcomes are those of one rollout, by the names of virtual machines. Only its reconciliation uses them.
type outcomes struct {
	digest string
	epoch  int64
	known  map[string]known
	// failures say why the last writes failed.
	failures map[string]string
}

// outcomesOf returns the outcomes of a rollout, without those of another patch or configuration.
func (r *Reconciler) outcomesOf(rollout *v1alpha1.VirtualMachineRollout) *outcomes {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := fleet.Digest(&rollout.Spec)
	o := r.planned[rollout.UID]
	if o == nil || o.digest != digest || o.epoch != r.epoch {
		o = &outcomes{digest: digest, epoch: r.epoch, known: map[string]known{}}
		r.planned[rollout.UID] = o
	}
	return o
}

// bound sets how long an outcome is used. One that can depend on other objects is planned again soon.
func (k *known) bound(now time.Time) {
	k.until = now.Add(fresh)
	if k.outcome.Unknown != "" || k.outcome.Needs == fleet.NeedsOther || len(k.outcome.Denied) > 0 {
		k.until = now.Add(retried)
	}
}

// needed returns whether the decision needs the outcome of a machine: not of one that is done, or that waits for another
// rollout after its evaluation.
func needed(rollout *v1alpha1.VirtualMachineRollout) func(*fleet.Machine) bool {
	recorded := map[string]bool{}
	for i := range rollout.Status.VirtualMachines {
		if s := &rollout.Status.VirtualMachines[i]; s.State != v1alpha1.StateDone && s.State != v1alpha1.StateSkipped {
			recorded[s.Name] = true
		}
	}
	evaluated := rollout.Status.Validation != nil && rollout.Status.Validation.Passed
	return func(m *fleet.Machine) bool {
		return (!m.Marked || recorded[m.Name]) && (m.WaitsFor == "" || !evaluated)
	}
}

// outcomes plans what the change does to each machine for which the decision needs it.
func (r *Reconciler) outcomes(ctx context.Context, o *observed, instances map[string]*vmiRecord) error {
	snapshot, err := r.Evaluator.Snapshot(o.input.Now)
	if err != nil {
		return err
	}
	before := r.outcomesOf(o.input.Rollout)
	needs := needed(o.input.Rollout)
	group, planning := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	planned := make([]known, len(o.vms))
	for i, vm := range o.vms {
		m := &o.input.Machines[i]
		if !needs(m) {
			continue
		}
		instance := ""
		if vmi := instances[vm.name]; vmi != nil {
			instance = vmi.version
		}
		if k, ok := before.known[vm.name]; ok && k.vm == vm.version && k.instance == instance && o.input.Now.Before(k.until) {
			planned[i] = k
			continue
		}
		group.Go(func() error {
			k := known{vm: vm.version, instance: instance}
			var err error
			if k.outcome, err = r.recovered(planning, snapshot, o, vm); err != nil {
				k.outcome = fleet.Outcome{Unknown: texts.Shorten(err.Error(), v1alpha1.MaxReason)}
			}
			k.bound(o.input.Now)
			planned[i] = k
			return planning.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	after := make(map[string]known, len(planned))
	for i, vm := range o.vms {
		o.input.Machines[i].Failure = before.failures[vm.name]
		if planned[i].vm != "" {
			o.input.Machines[i].Outcome = planned[i].outcome
			after[vm.name] = planned[i]
		}
	}
	r.keep(o.input.Rollout, before, after)
	return nil
}

// maxOutcomes bounds the outcomes that are kept of all rollouts. One takes about 500 bytes, and with findings 4 KiB.
const maxOutcomes = 20_000

// keep replaces the outcomes of a rollout, or drops them if too many are kept.
func (r *Reconciler) keep(rollout *v1alpha1.VirtualMachineRollout, of *outcomes, planned map[string]known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of.known = planned
	total := 0
	for _, each := range r.planned {
		total += len(each.known)
	}
	if total > maxOutcomes {
		delete(r.planned, rollout.UID)
	}
}

// recovered is outcome. One virtual machine never ends the process.
func (r *Reconciler) recovered(ctx context.Context, snapshot *evaluator.Snapshot, o *observed, record *vmRecord) (outcome fleet.Outcome, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("planning the change failed: %.200v", cause)
		}
	}()
	return r.outcome(ctx, snapshot, o, record)
}

// outcome plans what the change of a rollout does to one virtual machine, and whether it is permitted.
func (r *Reconciler) outcome(ctx context.Context, snapshot *evaluator.Snapshot, o *observed, record *vmRecord) (fleet.Outcome, error) {
	rollout := o.input.Rollout
	stored, err := r.Pages.Get(ctx, apikinds.VirtualMachines.GroupVersionResource(), rollout.Namespace, record.name)
	switch {
	case err != nil:
		return fleet.Outcome{}, fmt.Errorf("reading the VM: %w", err)
	case stored == nil:
		return fleet.Outcome{}, errors.New("it is being deleted")
	case stored.JSON == nil:
		return fleet.Outcome{}, errTooLarge
	}
	vm, desired, changed, err := r.changed(rollout, record, stored.JSON)
	if err != nil {
		return fleet.Outcome{}, err
	}
	ctx, end := r.Objects.ReserveReads(ctx, rollout.Namespace)
	defer end()
	objects, err := r.withInstance(ctx, rollout.Namespace, record.name)
	if err != nil {
		return fleet.Outcome{}, err
	}
	in, _, err := references.Rollout(ctx, objects, snapshot.Facts(), vm, desired)
	if err != nil {
		return fleet.Outcome{}, err
	}
	plan := rollouts.Plan(in)
	outcome := fleet.OutcomeOf(&plan, snapshot.Facts())
	outcome.Patched = changed == nil
	after := stored.JSON
	if changed != nil {
		after = changed
		if outcome.Denied, err = r.denied(ctx, snapshot, o.requester, record.name, after, stored.JSON); err != nil {
			return fleet.Outcome{}, err
		}
	}
	if outcome.Needs == fleet.NeedsRestart && len(outcome.Denied) == 0 { // an instance that is denied would not start again
		outcome.Denied, err = r.denied(ctx, snapshot, o.requester, record.name, after, nil)
	}
	return outcome, err
}

// current reads an instance as it is now. The cache of platform.Objects can have the one before a restart.
type current struct {
	*platform.Objects

	// instance is nil if there is none.
	instance *unstructured.Unstructured
}

// Get implements references.Objects.
func (c *current) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	switch resource := apikinds.VirtualMachineInstances; {
	case kind.GroupKind() != resource.GroupKind():
		return c.Objects.Get(ctx, kind, namespace, name)
	case c.instance == nil:
		return nil, apierrors.NewNotFound(resource.GroupVersionResource().GroupResource(), name)
	}
	return c.instance, nil
}

// withInstance reads the instance of a virtual machine.
func (r *Reconciler) withInstance(ctx context.Context, namespace, name string) (*current, error) {
	c := &current{Objects: r.Objects}
	found, err := r.Pages.Get(ctx, apikinds.VirtualMachineInstances.GroupVersionResource(), namespace, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the instance: %w", err)
	case found == nil:
		return c, nil
	case found.JSON == nil:
		return nil, errTooLarge
	}
	evaluated, limit := decode.Evaluated(found.JSON, reflect.TypeFor[kubevirtv1.VirtualMachineInstance]())
	if limit != nil {
		return nil, errTooLarge
	}
	c.instance = &unstructured.Unstructured{}
	return c, decodeInto(evaluated, &c.instance.Object)
}

var errTooLarge = errors.New("the VM is too large to be read")

// changed applies the patch to a virtual machine. The JSON of the result is nil if the virtual machine has the change.
func (r *Reconciler) changed(rollout *v1alpha1.VirtualMachineRollout, record *vmRecord, stored []byte) (vm, desired *kubevirtv1.VirtualMachine, changed []byte, err error) {
	if vm, err = readWhole(stored); err != nil {
		return nil, nil, nil, err
	}
	if rollout.Spec.Patch == nil || record.isMarked(rollout) && record.mark.Generation == vm.Generation {
		return vm, vm, nil, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"generation": vm.Generation + 1}, "spec": json.RawMessage(rollout.Spec.Patch.Raw)})
	if err != nil {
		return nil, nil, nil, err
	}
	if changed, err = jsonpatch.MergePatch(stored, patch); err != nil {
		return nil, nil, nil, fmt.Errorf("applying the patch: %w", err)
	}
	if desired, err = readWhole(changed); err != nil {
		return nil, nil, nil, fmt.Errorf("the VM with the patch: %w", err)
	}
	if equality.Semantic.DeepEqual(vm.Spec, desired.Spec) {
		return vm, vm, nil, nil
	}
	return vm, desired, changed, nil
}

// readWhole reads a virtual machine within the limits of package decode.
func readWhole(object []byte) (*kubevirtv1.VirtualMachine, error) {
	evaluated, limit := decode.Evaluated(object, reflect.TypeFor[kubevirtv1.VirtualMachine]())
	if limit != nil {
		return nil, errTooLarge
	}
	vm := &kubevirtv1.VirtualMachine{}
	return vm, decodeInto(evaluated, vm)
}

func decodeInto(object []byte, into any) (err error) {
	defer func() {
		if cause := recover(); cause != nil { // the types of some fields have decoders of their own
			err = fmt.Errorf("it cannot be read: %.200v", cause)
		}
	}()
	return sigsjson.UnmarshalCaseSensitivePreserveInts(object, into)
}

// denied evaluates a virtual machine with all rules and policies, as an update, or as it is started.
func (r *Reconciler) denied(ctx context.Context, snapshot *evaluator.Snapshot, requester authenticationv1.UserInfo, name string, object, old []byte) ([]v1alpha1.Finding, error) {
	kind := apikinds.VirtualMachines
	request := evaluator.Request{
		Object: object, OldObject: old, Kind: metav1.GroupVersionKind(kind.GroupVersionKind), Resource: metav1.GroupVersionResource(kind.GroupVersionResource()),
		Name: name, Stage: evaluator.Stored, Observer: evaluator.Observer{Gone: func() bool { return ctx.Err() != nil }},
	}
	if old != nil {
		request.Operation, request.Stage, request.User = admissionv1.Update, evaluator.Written, requester
	}
	release, err := r.room.Acquire(ctx, "", snapshot.Policies().Memory(len(object)))
	if err != nil {
		return nil, err
	}
	defer release()
	result, err := snapshot.Evaluate(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("evaluating the VM: %w", err)
	}
	var findings []v1alpha1.Finding
	for i := range result.Findings {
		f := &result.Findings[i]
		if f.Severity != validators.Deny {
			continue
		}
		findings = append(findings, v1alpha1.Finding{
			VirtualMachine: name, Field: texts.Shorten(f.PublicField(), 256), Message: texts.Shorten(f.PublicText(), 512), Rule: texts.Shorten(f.Rule, 253),
		})
		if len(findings) == maxFindings {
			break
		}
	}
	return findings, nil
}

// maxEvaluating bounds the memory of all evaluations together, in bytes.
const maxEvaluating = 64 << 20

// maxFindings bounds the findings that are kept of one virtual machine.
const maxFindings = 4
