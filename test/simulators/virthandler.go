package simulators

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// nextPhase has the phases of a VMI that starts without errors.
var nextPhase = map[kubevirtv1.VirtualMachineInstancePhase]kubevirtv1.VirtualMachineInstancePhase{
	kubevirtv1.VmPhaseUnset: kubevirtv1.Pending,
	kubevirtv1.Pending:      kubevirtv1.Scheduling,
	kubevirtv1.Scheduling:   kubevirtv1.Scheduled,
	kubevirtv1.Scheduled:    kubevirtv1.Running,
}

// vmiReconciler is virt-controller's and virt-handler's part for VMIs: each status write is an update of
// the whole object, because the kind has no status subresource.
type vmiReconciler struct{ controller, handler client.Client }

// Reconcile sets the next phase of a VMI.
func (r *vmiReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := r.controller.Get(ctx, request.NamespacedName, vmi); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if vmi.DeletionTimestamp != nil {
		if !controllerutil.RemoveFinalizer(vmi, kubevirtv1.VirtualMachineInstanceFinalizer) {
			return ctrl.Result{}, nil
		}
		return again(r.controller.Update(ctx, vmi))
	}
	phase, found := nextPhase[vmi.Status.Phase]
	if !found {
		return ctrl.Result{}, nil
	}
	vmi.Status.Phase = phase
	writer := r.controller
	if phase == kubevirtv1.Running {
		writer = r.handler // the node's agent says that the domain runs
		vmi.Status.NodeName = "sandbox"
		vmi.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{{
			Type: kubevirtv1.VirtualMachineInstanceReady, Status: "True", LastTransitionTime: metav1.Now(),
		}}
	}
	return again(writer.Update(ctx, vmi))
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
