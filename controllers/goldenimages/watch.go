package goldenimages

import (
	"context"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/goldenimages"
)

// settled is the delay after a change of the nodes or of CDI's objects: several changes are planned once.
const settled = 2 * time.Second

var catalogs = v1alpha1.GroupVersion.WithResource("goldenimagecatalogs")

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, reader metadatawatch.Reader) error {
	own := metadatawatch.Watch{Reader: reader, Resource: catalogs, Existing: true}
	builder := ctrl.NewControllerManagedBy(mgr).Named("images").WithOptions(controllers.Options()).
		WatchesRawSource(own.Source(r.changed)).
		WatchesRawSource(r.trigger.Source(r.keys)).
		WatchesRawSource(r.Manifests.ended.SourceAfter(r.keys, settled)).
		Watches(&corev1.Node{}, r.nodes())
	manager := metadatawatch.Watch{Reader: reader, Resource: ssps, Existing: true, Delay: settled}
	builder = builder.WatchesRawSource(manager.Source(func(types.NamespacedName) []reconcile.Request { return r.keys() }))
	for _, resource := range []schema.GroupVersionResource{crons, apikinds.DataSources.GroupVersionResource(), apikinds.DataVolumes.GroupVersionResource()} {
		w := metadatawatch.Watch{Reader: reader, Resource: resource, Status: true, Delay: settled, Began: r.trigger.Fire}
		if resource == apikinds.DataVolumes.GroupVersionResource() {
			w.LabelSelector = goldenimages.CronLabel
		}
		builder = builder.WatchesRawSource(w.Source(func(name types.NamespacedName) []reconcile.Request { return r.in(name.Namespace) }))
	}
	return builder.Complete(r)
}

// keys are the catalogs that exist.
func (r *Reconciler) keys() []reconcile.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []reconcile.Request
	for name := range r.namespaces {
		keys = append(keys, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return keys
}

// in are the catalogs of a namespace.
func (r *Reconciler) in(namespace string) []reconcile.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []reconcile.Request
	for name, of := range r.namespaces {
		if of == namespace {
			keys = append(keys, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	}
	return keys
}

// nodes requests all catalogs if a node comes or goes, or if its labels, taints or nodeInfo change. Heartbeats and
// conditions do not matter.
func (r *Reconciler) nodes() handler.EventHandler {
	request := func(queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, key := range r.keys() {
			queue.AddAfter(key, settled)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			request(q)
		},
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			request(q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !same(e.ObjectOld, e.ObjectNew) {
				request(q)
			}
		},
	}
}

func same(before, after client.Object) bool {
	a, isNode := before.(*corev1.Node)
	b, too := after.(*corev1.Node)
	return isNode && too && equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) && reflect.DeepEqual(a.Status.NodeInfo, b.Status.NodeInfo)
}

// Condensed keeps of a node what decides about architectures. It is the transformation of the cache.
func Condensed(object any) (any, error) {
	node, isNode := object.(*corev1.Node)
	if !isNode {
		return object, nil
	}
	condensed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels}}
	condensed.Spec.Taints = node.Spec.Taints
	condensed.Status.NodeInfo = corev1.NodeSystemInfo{Architecture: node.Status.NodeInfo.Architecture, OperatingSystem: node.Status.NodeInfo.OperatingSystem}
	return condensed, nil
}
