package rollout

import (
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/rollouts/fleet"
)

// workers is the number of rollouts that are reconciled at the same time.
const workers = 2

// invalid says why a spec cannot be carried out; empty if it can. The webhook denies such rollouts, unless it was away.
func invalid(rollout *v1alpha1.VirtualMachineRollout) string {
	wrong := fleet.Validate(&rollout.Spec)
	texts := make([]string, len(wrong))
	for i := range wrong {
		texts[i] = wrong[i].Error()
	}
	return strings.Join(texts, "; ")
}

// SetupWithManager adds the Reconciler to a manager, in the replica that leads. Virtual machines are not watched: those of
// a rollout that is carried out are read at an interval.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, reader metadatawatch.Reader) error {
	own := metadatawatch.Watch{Reader: reader, Resource: apikinds.Rollouts.GroupVersionResource(), Existing: true}
	options := controllers.Options()
	options.MaxConcurrentReconciles = workers
	return ctrl.NewControllerManagedBy(mgr).Named("rollouts").WithOptions(options).WatchesRawSource(own.Source(metadatawatch.Itself)).Complete(r)
}
