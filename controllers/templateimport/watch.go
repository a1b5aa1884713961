package templateimport

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/ovf/imports"
)

// maxChildren bounds the names of the objects that imports wait for.
const maxChildren = 20_000

// workers is the number of imports that are reconciled at the same time.
const workers = 4

var importKind = v1beta1.GroupVersion.WithResource("virtualmachinetemplateimports")

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, reader metadatawatch.Reader) error {
	options := controllers.Options()
	options.MaxConcurrentReconciles = workers
	own := metadatawatch.Watch{Reader: reader, Resource: importKind, Existing: true}
	builder := ctrl.NewControllerManagedBy(mgr).Named("templateimport").WithOptions(options).
		WatchesRawSource(own.Source(metadatawatch.Itself))
	for _, resource := range []schema.GroupVersionResource{apikinds.DataVolumes.GroupVersionResource(), apikinds.Templates.GroupVersionResource()} {
		child := metadatawatch.Watch{Reader: reader, Resource: resource, LabelSelector: v1beta1.LabelImportUID, Status: true}
		builder = builder.WatchesRawSource(child.Source(func(name types.NamespacedName) []reconcile.Request {
			return r.children.Keys(dependents.Object{Resource: resource.GroupResource(), NamespacedName: name})
		}))
	}
	return builder.Complete(r)
}

// watch remembers the objects that an import waits for.
func (r *Reconciler) watch(key reconcile.Request, o *observed) {
	of := func(resource apikinds.Resource, name string) dependents.Object {
		return dependents.Object{Resource: resource.GroupVersionResource().GroupResource(), NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: name}}
	}
	children := []dependents.Object{of(apikinds.Templates, imports.TemplateName(o.request))}
	if !requests.IsCompleted(o.request.Status.Conditions) {
		if s := o.staging(); s != nil {
			children = append(children, of(apikinds.DataVolumes, s.Name))
		}
		for i := range o.request.Status.Disks {
			children = append(children, of(apikinds.DataVolumes, o.request.Status.Disks[i].Name))
		}
	}
	if requests.IsFailed(o.request.Status.Conditions) || requests.IsCompleted(o.request.Status.Conditions) && requests.IsTemplateReady(o.request.Status.Conditions) {
		children = nil
	}
	o.unwatched = !r.children.Set(key, children)
}
