package rollout

import (
	"strings"

	"k8s.io/client-go/metadata"
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
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, light metadata.Interface, reader metadatawatch.Pages) error {
	own := metadatawatch.Watch{Client: light, Pages: reader, Resource: apikinds.Rollouts.GroupVersionResource(), Existing: true}
	options := controllers.Options()
	options.MaxConcurrentReconciles = workers
	return ctrl.NewControllerManagedBy(mgr).Named("rollouts").WithOptions(options).WatchesRawSource(own.Source(metadatawatch.Itself)).Complete(r)
}

// WorstCase is the most memory of the controller, in bytes: a page, which all workers share, the records of the virtual
// machines of a namespace, those that are planned, the outcomes, the evaluations, and the phases of the metrics.
func WorstCase() int64 {
	const page, records, planned, outcome, phase = 16 << 20, 8 << 20, 12 << 20, 500, 400
	return page + workers*(records+2*planned) + maxOutcomes*outcome + maxEvaluating + maxCounted*phase
}
