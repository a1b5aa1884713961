package capture

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/templates/capture"
)

// maxChildren bounds the names of the objects that captures wait for. A name needs about 500 bytes.
const maxChildren = 20_000

// workers is the number of captures that are reconciled at the same time. Each holds a snapshot's content.
const workers = 4

// The resources that are watched.
var (
	requests    = v1beta1.GroupVersion.WithResource("virtualmachinetemplaterequests")
	templates   = v1beta1.GroupVersion.WithResource("virtualmachinetemplates")
	snapshots   = schema.GroupVersionResource{Group: "snapshot.kubevirt.io", Version: "v1beta1", Resource: "virtualmachinesnapshots"}
	dataVolumes = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"}
)

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, light metadata.Interface, reader metadatawatch.Pages) error {
	options := controllers.Options()
	options.MaxConcurrentReconciles = workers
	own := metadatawatch.Watch{Client: light, Pages: reader, Resource: requests, Existing: true}
	builder := ctrl.NewControllerManagedBy(mgr).Named("capture").WithOptions(options).WatchesRawSource(own.Source(metadatawatch.Itself))
	for _, resource := range []schema.GroupVersionResource{snapshots, dataVolumes, templates} {
		child := metadatawatch.Watch{Client: light, Pages: reader, Resource: resource, LabelSelector: v1beta1.LabelRequestUID, Status: true}
		builder = builder.WatchesRawSource(child.Source(func(name types.NamespacedName) []reconcile.Request {
			return r.children.Keys(dependents.Object{Resource: resource.GroupResource(), NamespacedName: name})
		}))
	}
	return builder.Complete(r)
}

// watch remembers the objects that a capture waits for.
func (r *Reconciler) watch(key reconcile.Request, o *observed) {
	template := dependents.Object{Resource: templates.GroupResource(), NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: capture.TemplateName(o.request)}}
	children := []dependents.Object{template}
	if !isCompleted(o.request) {
		children = append(children, dependents.Object{Resource: snapshots.GroupResource(), NamespacedName: types.NamespacedName{
			Namespace: o.request.Spec.VirtualMachineRef.Namespace, Name: capture.SnapshotName(o.request),
		}})
		for i := range o.volumes {
			children = append(children, dependents.Object{Resource: dataVolumes.GroupResource(), NamespacedName: types.NamespacedName{
				Namespace: key.Namespace, Name: capture.CloneName(o.request, o.volumes[i].Name),
			}})
		}
	}
	if isFailed(o.request) || isCompleted(o.request) && isTemplateReady(o.request) {
		children = nil
	}
	o.unwatched = !r.children.Set(key, children)
}

// WorstCase is the most memory of the captures and of the index, in bytes: the content of a snapshot as it is stored, and
// the values that are decoded and written from it.
func WorstCase() int64 { return workers*24*(3<<19) + maxChildren*500 }
