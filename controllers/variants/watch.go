package variants

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/templates/variants"
)

// settled is the delay after a change of a catalog: several changes are planned once.
const settled = time.Second

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, reader metadatawatch.Reader) error {
	templates := apikinds.Templates.GroupVersionResource()
	sources := metadatawatch.Watch{Reader: reader, Resource: templates, LabelSelector: imagev1alpha1.PerArchitectureLabel, Existing: true}
	made := metadatawatch.Watch{Reader: reader, Resource: templates, LabelSelector: imagev1alpha1.VariantLabel, Existing: true}
	return ctrl.NewControllerManagedBy(mgr).Named("variants").WithOptions(controllers.Options()).
		WatchesRawSource(sources.Source(metadatawatch.Itself)).
		WatchesRawSource(made.Source(sourceOf)).
		Watches(&imagev1alpha1.GoldenImageCatalog{}, r.all()).
		Complete(r)
}

// sourceOf is the template that a variant was made of.
func sourceOf(variant types.NamespacedName) []reconcile.Request {
	return metadatawatch.Itself(types.NamespacedName{Namespace: variant.Namespace, Name: variants.SourceName(variant.Name)})
}

// all requests all templates if a catalog changes.
func (r *Reconciler) all() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	request := func(q queue) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for name := range r.known {
			q.AddAfter(reconcile.Request{NamespacedName: name}, settled)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { request(q) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { request(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { request(q) },
	}
}

// Condensed keeps of a catalog what decides about variants. It is the transformation of the cache.
func Condensed(object any) (any, error) {
	catalog, isCatalog := object.(*imagev1alpha1.GoldenImageCatalog)
	if !isCatalog {
		return object, nil
	}
	kept := &imagev1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: catalog.Name, UID: catalog.UID, ResourceVersion: catalog.ResourceVersion, Generation: catalog.Generation}}
	kept.Spec.Namespace = catalog.Spec.Namespace
	for i := range catalog.Spec.DataImportCronTemplates {
		kept.Spec.DataImportCronTemplates = append(kept.Spec.DataImportCronTemplates, variants.Named(&catalog.Spec.DataImportCronTemplates[i]))
	}
	for i := range catalog.Status.Images {
		kept.Status.Images = append(kept.Status.Images, variants.Condensed(&catalog.Status.Images[i]))
	}
	return kept, nil
}
