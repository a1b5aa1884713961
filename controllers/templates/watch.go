package templates

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/metadatawatch"
)

// maxObjects bounds the names of the objects that templates refer to.
const maxObjects = 20_000

// settled is the delay after a change. Instancetypes that were read before are cached for a second.
const settled = 1500 * time.Millisecond

// watched are the resources that templates refer to.
var watched = []apikinds.Resource{
	apikinds.DataSources, apikinds.DataVolumes, apikinds.PersistentVolumeClaims, apikinds.VolumeSnapshots,
	apikinds.Instancetypes, apikinds.ClusterInstancetypes, apikinds.Preferences, apikinds.ClusterPreferences,
}

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, reader metadatawatch.Reader) error {
	own := metadatawatch.Watch{Reader: reader, Resource: apikinds.Templates.GroupVersionResource(), Existing: true}
	builder := ctrl.NewControllerManagedBy(mgr).Named("templates").WithOptions(controllers.Options()).
		WatchesRawSource(own.Source(metadatawatch.Itself)).
		WatchesRawSource(r.trigger.Source(r.keys))
	for _, kind := range watched {
		w := metadatawatch.Watch{Reader: reader, Resource: kind.GroupVersionResource(), Status: true, Delay: settled}
		builder = builder.WatchesRawSource(w.Source(func(name types.NamespacedName) []reconcile.Request {
			return r.objects.Keys(objectOf(kind, name))
		}))
	}
	return builder.Complete(r)
}

// keys are the templates that exist.
func (r *Reconciler) keys() []reconcile.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.known))
}
