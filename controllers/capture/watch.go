package capture

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/templates/capture"
)

// maxChildren bounds the names of the objects that captures wait for.
const maxChildren = 20_000

// workers is the number of captures that are reconciled at the same time. Each holds a snapshot's content.
const workers = 4

// The resources that are watched.
var (
	requestKind = v1beta1.GroupVersion.WithResource("virtualmachinetemplaterequests")
	templates   = v1beta1.GroupVersion.WithResource("virtualmachinetemplates")
	snapshots   = schema.GroupVersionResource{Group: "snapshot.kubevirt.io", Version: "v1beta1", Resource: "virtualmachinesnapshots"}
	dataVolumes = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"}
)

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, reader metadatawatch.Reader) error {
	options := controllers.Options()
	options.MaxConcurrentReconciles = workers
	own := metadatawatch.Watch{Reader: reader, Resource: requestKind, Existing: true}
	builder := ctrl.NewControllerManagedBy(mgr).Named("capture").WithOptions(options).WatchesRawSource(own.Source(metadatawatch.Itself))
	for _, resource := range []schema.GroupVersionResource{snapshots, dataVolumes, templates} {
		child := metadatawatch.Watch{Reader: reader, Resource: resource, LabelSelector: v1beta1.LabelRequestUID, Status: true}
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
	if !requests.IsCompleted(o.request.Status.Conditions) {
		children = append(children, dependents.Object{Resource: snapshots.GroupResource(), NamespacedName: types.NamespacedName{
			Namespace: o.request.Spec.VirtualMachineRef.Namespace, Name: capture.SnapshotName(o.request),
		}})
		for i := range o.volumes {
			children = append(children, dependents.Object{Resource: dataVolumes.GroupResource(), NamespacedName: types.NamespacedName{
				Namespace: key.Namespace, Name: capture.CloneName(o.request, o.volumes[i].Name),
			}})
		}
	}
	if requests.IsFailed(o.request.Status.Conditions) || requests.IsCompleted(o.request.Status.Conditions) && requests.IsTemplateReady(o.request.Status.Conditions) {
		children = nil
	}
	o.unwatched = !r.children.Set(key, children)
}
