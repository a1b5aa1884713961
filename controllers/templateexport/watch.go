package templateexport

import (
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/controllers/metadatawatch"
)

// maxChildren bounds the names of the DataVolumes that exports wait for.
const maxChildren = 20_000

// workers is the number of exports that are reconciled at the same time.
const workers = 4

var exportKind = v1beta1.GroupVersion.WithResource("virtualmachinetemplateexports")

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, reader metadatawatch.Reader) error {
	options := controllers.Options()
	options.MaxConcurrentReconciles = workers
	own := metadatawatch.Watch{Reader: reader, Resource: exportKind, Existing: true}
	volumes := metadatawatch.Watch{Reader: reader, Resource: apikinds.DataVolumes.GroupVersionResource(), LabelSelector: v1beta1.LabelExportUID, Status: true}
	return ctrl.NewControllerManagedBy(mgr).Named("templateexport").WithOptions(options).
		WatchesRawSource(own.Source(metadatawatch.Itself)).
		WatchesRawSource(volumes.Source(func(name types.NamespacedName) []reconcile.Request {
			return r.children.Keys(dependents.Object{Resource: apikinds.DataVolumes.GroupVersionResource().GroupResource(), NamespacedName: name})
		})).Complete(r)
}

// watch remembers the DataVolumes that an export waits for.
func (r *Reconciler) watch(key reconcile.Request, o *observed) {
	var children []dependents.Object
	if o.pod == nil && !isFailed(o.request) {
		for i := range o.request.Status.Disks {
			children = append(children, dependents.Object{
				Resource: apikinds.DataVolumes.GroupVersionResource().GroupResource(), NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: o.request.Status.Disks[i].Name},
			})
		}
	}
	o.unwatched = !r.children.Set(key, children)
}
