package certificates

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// named is an object that is watched by its name, as RBAC demands.
type named struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// watched are the Secret, and the objects that have its CA bundle.
func (o *Options) watched() []named {
	all := []named{{corev1.SchemeGroupVersion.WithResource("secrets"), o.Namespace, o.Secret}}
	if o.Mutating != "" {
		all = append(all, named{admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"), "", o.Mutating})
	}
	if o.Validating != "" {
		all = append(all, named{admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"), "", o.Validating})
	}
	for _, name := range o.APIServices {
		all = append(all, named{apiServiceResource, "", name})
	}
	return all
}

// watch adds an informer of the metadata of one object to the manager: no private key is in its cache.
func (r *Reconciler) watch(mgr ctrl.Manager, object named, ask handler.EventHandler) (source.Source, error) {
	informer := metadatainformer.NewFilteredMetadataInformer(r.Metadata, object.resource, object.namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, object.name).String()
	}).Informer()
	return &source.Informer{Informer: informer, Handler: ask}, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		informer.RunWithContext(ctx)
		return nil
	}))
}
