package simulators

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/virtward/virtward/test/simulators/liveupdates"
)

// sourceNode is where VMIs start.
const sourceNode = "sandbox"

// nextPhase has the phases of a VMI that starts without errors.
var nextPhase = map[kubevirtv1.VirtualMachineInstancePhase]kubevirtv1.VirtualMachineInstancePhase{
	kubevirtv1.VmPhaseUnset: kubevirtv1.Pending,
	kubevirtv1.Pending:      kubevirtv1.Scheduling,
	kubevirtv1.Scheduling:   kubevirtv1.Scheduled,
	kubevirtv1.Scheduled:    kubevirtv1.Running,
}

// vmiReconciler is virt-controller's and virt-handler's part for VMIs: each status write is an update of
// the whole object, because the kind has no status subresource.
type vmiReconciler struct {
	controller, handler client.Client
	live                client.Reader
	pacer               *pacer
}

// Reconcile sets the next phase of a VMI, or what its controllers report of a running one.
func (r *vmiReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := r.controller.Get(ctx, request.NamespacedName, vmi); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	vm, err := r.owner(ctx, vmi)
	if err != nil {
		return ctrl.Result{}, err
	}
	_, gone := requested(vm, NodeGone)
	if vmi.DeletionTimestamp != nil {
		return r.end(ctx, vmi, gone)
	}
	if vmi.Status.Phase == kubevirtv1.Running {
		if err := errors.Join(r.report(ctx, vm, vmi), r.updateWorkload(ctx, vmi)); err != nil || !liveupdates.Waits(vmi) {
			return again(err)
		}
		return ctrl.Result{RequeueAfter: retryAfter}, nil
	}
	phase, found := nextPhase[vmi.Status.Phase]
	if _, stays := requested(vm, NeverRuns); !found || stays && phase == kubevirtv1.Scheduled {
		return ctrl.Result{}, nil
	}
	if left := r.pacer.left(vmi.UID); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	vmi.Status.Phase = phase
	writer := r.controller
	if phase == kubevirtv1.Running {
		writer = r.handler // the node's agent says that the domain runs
		vmi.Status.NodeName = sourceNode
		liveupdates.Booted(vmi)
		r.readClaims(ctx, vmi)
		setHealth(vm, vmi)
	}
	return again(writer.Update(ctx, vmi))
}

// owner is the VM of a VMI; nil if it has none.
func (r *vmiReconciler) owner(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) (*kubevirtv1.VirtualMachine, error) {
	if metav1.GetControllerOf(vmi) == nil {
		return nil, nil
	}
	vm := &kubevirtv1.VirtualMachine{}
	if err := r.controller.Get(ctx, client.ObjectKeyFromObject(vmi), vm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return vm, nil
}

// end lets a deleted VMI go. Without its node, no agent reports that the guest has ended.
func (r *vmiReconciler) end(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, gone bool) (ctrl.Result, error) {
	if gone || !controllerutil.ContainsFinalizer(vmi, kubevirtv1.VirtualMachineInstanceFinalizer) {
		return ctrl.Result{}, nil
	}
	if left := r.pacer.left(vmi.UID); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	controllerutil.RemoveFinalizer(vmi, kubevirtv1.VirtualMachineInstanceFinalizer)
	return again(r.controller.Update(ctx, vmi))
}

// report writes what has changed of a running VMI: its devices, its conditions, and its health.
func (r *vmiReconciler) report(ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) error {
	before := vmi.DeepCopy()
	liveupdates.Attach(vmi)
	liveupdates.Settle(vmi)
	setHealth(vm, vmi)
	if equality.Semantic.DeepEqual(before, vmi) {
		return nil
	}
	return r.handler.Update(ctx, vmi)
}

// readClaims sets the access modes of the claims that exist.
func (r *vmiReconciler) readClaims(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) {
	for i := range vmi.Status.VolumeStatus {
		info, claim := vmi.Status.VolumeStatus[i].PersistentVolumeClaimInfo, &corev1.PersistentVolumeClaim{}
		if info == nil || r.live.Get(ctx, client.ObjectKey{Namespace: vmi.Namespace, Name: info.ClaimName}, claim) != nil {
			continue
		}
		info.AccessModes = claim.Spec.AccessModes
	}
}

// setHealth sets the conditions of a running VMI, with the failures that the annotations of its VM ask for.
func setHealth(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) {
	set := func(kind kubevirtv1.VirtualMachineInstanceConditionType, status corev1.ConditionStatus, reason, message string) {
		liveupdates.SetCondition(vmi, kubevirtv1.VirtualMachineInstanceCondition{
			Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now(),
		})
	}
	status, reason, message := readiness(vm)
	set(kubevirtv1.VirtualMachineInstanceReady, status, reason, message)
	status = corev1.ConditionTrue
	if _, none := requested(vm, NoAgent); none {
		status = ""
	}
	set(kubevirtv1.VirtualMachineInstanceAgentConnected, status, "", "")
	reason, message = obstacle(vm, vmi)
	status = corev1.ConditionTrue
	if message != "" {
		status = corev1.ConditionFalse
	}
	set(kubevirtv1.VirtualMachineInstanceIsMigratable, status, reason, message)
	if reason == kubevirtv1.VirtualMachineInstanceReasonDisksNotMigratable {
		status, reason, message = corev1.ConditionTrue, "", ""
	}
	set(kubevirtv1.VirtualMachineInstanceIsStorageLiveMigratable, status, reason, message)
}

// readiness is the condition Ready of a running VMI.
func readiness(vm *kubevirtv1.VirtualMachine) (status corev1.ConditionStatus, reason, message string) {
	if _, gone := requested(vm, NodeGone); gone {
		return corev1.ConditionFalse, "PodTerminating", "the node does not answer"
	}
	if message, never := requested(vm, NeverReady); never {
		return corev1.ConditionFalse, "GuestNotRunning", message
	}
	return corev1.ConditionTrue, "", ""
}

// obstacle is why a VMI cannot be migrated live.
func obstacle(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (reason, message string) {
	if message, ok := requested(vm, NotMigratable); ok {
		return "NotMigratable", message
	}
	devices := &vmi.Spec.Domain.Devices
	if len(devices.HostDevices)+len(devices.GPUs) > 0 {
		return kubevirtv1.VirtualMachineInstanceReasonHostDeviceNotMigratable, "VMI uses a PCI host device"
	}
	for i := range devices.Interfaces {
		pod := slices.ContainsFunc(vmi.Spec.Networks, func(n kubevirtv1.Network) bool { return n.Name == devices.Interfaces[i].Name && n.Pod != nil })
		if pod && devices.Interfaces[i].Bridge != nil {
			return kubevirtv1.VirtualMachineInstanceReasonInterfaceNotMigratable, "cannot migrate VMI which does not use masquerade to connect to the pod network"
		}
	}
	for i := range vmi.Status.VolumeStatus {
		s := &vmi.Status.VolumeStatus[i]
		if info := s.PersistentVolumeClaimInfo; info != nil && !slices.Contains(info.AccessModes, corev1.ReadWriteMany) {
			return kubevirtv1.VirtualMachineInstanceReasonDisksNotMigratable,
				fmt.Sprintf("cannot migrate VMI: PVC %s is not shared, live migration requires that all PVCs must be shared (using ReadWriteMany access mode)", info.ClaimName)
		}
	}
	return "", ""
}

// again tries a lost race once more, soon; the object being gone is no failure.
func again(err error) (ctrl.Result, error) {
	if client.IgnoreNotFound(err) == nil {
		return ctrl.Result{}, nil
	}
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, err
}
