package goldenimages

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// cronLabel is CDI's label of the objects of a DataImportCron.
const cronLabel = "cdi.kubevirt.io/dataImportCron"

// page is the number of objects that are read together.
const page = 200

var (
	catalogs = v1alpha1.GroupVersion.WithResource("goldenimagecatalogs")
	crons    = cdiv1beta1.SchemeGroupVersion.WithResource("dataimportcrons")
)

// key is the namespace and the name of an object.
type key struct{ namespace, name string }

// view is what was read.
type view struct {
	catalogs []v1alpha1.GoldenImageCatalog
	crons    map[key]*cdiv1beta1.DataImportCron
	sources  map[key]*cdiv1beta1.DataSource
	// volumes are the DataVolumes of the current imports, by the names of their DataImportCrons.
	volumes map[key]*cdiv1beta1.DataVolume
	// unread are the namespaces whose objects the user may not read.
	unread map[string]bool
	// notes say what could not be read.
	notes []string
}

// reader reads catalogs and CDI's objects.
type reader struct {
	client dynamic.Interface
	// catalog and namespace select catalogs, unless they are empty.
	catalog, namespace string
}

func (r *reader) read(ctx context.Context) (*view, error) {
	v := &view{crons: map[key]*cdiv1beta1.DataImportCron{}, sources: map[key]*cdiv1beta1.DataSource{}, volumes: map[key]*cdiv1beta1.DataVolume{}, unread: map[string]bool{}}
	var err error
	if v.catalogs, err = r.catalogs(ctx); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i := range v.catalogs {
		namespace := namespaceOf(&v.catalogs[i])
		if seen[namespace] {
			continue
		}
		seen[namespace] = true
		switch err := r.objects(ctx, v, namespace); {
		case apierrors.IsForbidden(err):
			v.unread[namespace] = true
			v.notes = append(v.notes, fmt.Sprintf("progress and reasons are not complete: you may not list dataimportcrons, datasources and datavolumes of cdi.kubevirt.io in %s", namespace))
		case apierrors.IsNotFound(err):
			v.unread[namespace] = true
			v.notes = append(v.notes, "the cluster has no CDI (cdi.kubevirt.io), which imports images")
		case err != nil:
			return nil, err
		}
	}
	return v, nil
}

// catalogs are those that are selected.
func (r *reader) catalogs(ctx context.Context) ([]v1alpha1.GoldenImageCatalog, error) {
	var all []v1alpha1.GoldenImageCatalog
	err := each(ctx, r.client, catalogs, "", metav1.ListOptions{}, func(c *v1alpha1.GoldenImageCatalog) {
		if (r.catalog == "" || r.catalog == c.Name) && (r.namespace == "" || r.namespace == namespaceOf(c)) {
			all = append(all, *c)
		}
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the cluster has no GoldenImageCatalogs: install the chart of Virtward with goldenImages.enabled=true")
	case err != nil:
		return nil, fmt.Errorf("listing GoldenImageCatalogs: %w", err)
	case r.catalog != "" && len(all) == 0:
		return nil, fmt.Errorf("there is no GoldenImageCatalog %q", r.catalog)
	}
	return all, nil
}

// objects reads CDI's objects of a namespace.
func (r *reader) objects(ctx context.Context, v *view, namespace string) error {
	if err := each(ctx, r.client, crons, namespace, metav1.ListOptions{}, func(c *cdiv1beta1.DataImportCron) { v.crons[key{namespace, c.Name}] = c }); err != nil {
		return err
	}
	if err := each(ctx, r.client, apikinds.DataSources.GroupVersionResource(), namespace, metav1.ListOptions{}, func(s *cdiv1beta1.DataSource) { v.sources[key{namespace, s.Name}] = s }); err != nil {
		return err
	}
	return each(ctx, r.client, apikinds.DataVolumes.GroupVersionResource(), namespace, metav1.ListOptions{LabelSelector: cronLabel}, func(d *cdiv1beta1.DataVolume) {
		name := key{namespace, d.Labels[cronLabel]}
		if cron := v.crons[name]; cron != nil && len(cron.Status.CurrentImports) > 0 && cron.Status.CurrentImports[0].DataVolumeName == d.Name {
			v.volumes[name] = d
		}
	})
}

// each decodes the objects of a list.
func each[T any](ctx context.Context, c dynamic.Interface, resource schema.GroupVersionResource, namespace string, query metav1.ListOptions, found func(*T)) error {
	query.Limit = page
	for {
		var list *unstructured.UnstructuredList
		var err error
		if namespace == "" {
			list, err = c.Resource(resource).List(ctx, query)
		} else {
			list, err = c.Resource(resource).Namespace(namespace).List(ctx, query)
		}
		if err != nil {
			return err
		}
		for i := range list.Items {
			object := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, object); err != nil {
				return fmt.Errorf("reading %s %s: %s", resource.Resource, list.Items[i].GetName(), texts.Shorten(err.Error(), maxText))
			}
			found(object)
		}
		if query.Continue = list.GetContinue(); query.Continue == "" {
			return nil
		}
	}
}

func namespaceOf(c *v1alpha1.GoldenImageCatalog) string {
	if c.Spec.Namespace == "" {
		return v1alpha1.DefaultNamespace
	}
	return c.Spec.Namespace
}
