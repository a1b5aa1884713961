package offline

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/validators"
)

// Resources are the resources of the kinds of the configuration.
var Resources = map[string]schema.GroupVersionResource{
	apikinds.RuleSettings:           policyv1alpha1.GroupVersion.WithResource("rulesettings"),
	apikinds.VirtualMachineDefaults: policyv1alpha1.GroupVersion.WithResource("virtualmachinedefaults"),
	apikinds.VirtualMachinePolicy:   policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies"),
}

// IsConfiguration reports whether an object is of one of these kinds, in any version.
func IsConfiguration(kind schema.GroupVersionKind) bool {
	_, known := Resources[kind.Kind]
	return known && kind.Group == policyv1alpha1.GroupVersion.Group
}

// configured is an object of the configuration, and the document that it was read from.
type configured[T any] struct {
	object   T
	document manifests.Document
}

// objectsOf returns the items of a list.
func objectsOf[T any](all []configured[T]) []T {
	objects := make([]T, len(all))
	for i := range all {
		objects[i] = all[i].object
	}
	return objects
}

// readConfigured reads the objects of a kind: those of the files, as if they were applied, and then those of the
// cluster, if there is one. The notes name objects that are skipped.
func readConfigured[T any](ctx context.Context, kind string, files []manifests.Document, cluster *Cluster) (all []configured[T], notes []string, err error) {
	names := map[string]bool{}
	for _, d := range files {
		if d.Object.GetKind() != kind {
			continue
		}
		read := configured[T]{document: d}
		unknown, err := decodeConfigured(d, &read.object)
		if err != nil {
			return nil, nil, err
		}
		all, notes, names[d.Object.GetName()] = append(all, read), append(notes, unknown...), true
	}
	if cluster == nil {
		return all, notes, nil
	}
	listed, err := cluster.listConfigured(ctx, kind)
	if err != nil {
		return all, append(notes, fmt.Sprintf("%s are not considered: %v", kind, err)), nil
	}
	for _, d := range listed {
		if names[d.Object.GetName()] {
			continue
		}
		read := configured[T]{document: d}
		if _, err := manifests.Decode(d.Object.Object, &read.object); err != nil {
			notes = append(notes, fmt.Sprintf("%s %s is not considered: %v", kind, d.Object.GetName(), err))
			continue
		}
		all = append(all, read)
	}
	return all, notes, nil
}

// decodeConfigured reads an object of a file; the notes name unknown fields.
func decodeConfigured(d manifests.Document, into any) (notes []string, err error) {
	kind := d.Object.GroupVersionKind()
	if kind.Version != policyv1alpha1.GroupVersion.Version {
		return nil, fmt.Errorf("%s: apiVersion: %s is not a version that Virtward serves %s in: use %s", d.Location(), d.Object.GetAPIVersion(), kind.Kind, policyv1alpha1.GroupVersion)
	}
	named := fmt.Sprintf("%s: %s %s", d.Location(), kind.Kind, d.Object.GetName())
	if notes, err = manifests.Decode(d.Object.Object, into); err != nil {
		return nil, fmt.Errorf("%s: %w", named, err)
	}
	for i := range notes {
		notes[i] = named + ": " + notes[i]
	}
	return notes, nil
}

// listConfigured lists the objects of a kind; there are none in a cluster without Virtward.
func (c *Cluster) listConfigured(ctx context.Context, kind string) ([]manifests.Document, error) {
	list, err := c.Client.Resource(Resources[kind]).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	found := make([]manifests.Document, len(list.Items))
	for i := range list.Items {
		found[i] = manifests.Document{Source: SourceCluster, Object: &list.Items[i]}
	}
	return found, nil
}

// readSettings compiles the RuleSettings of the files and of the cluster. The notes name entries without an effect.
func readSettings(ctx context.Context, files *Files, cluster *Cluster, known validators.Table) (s *validators.Settings, notes []string, err error) {
	all, notes, err := readConfigured[policyv1alpha1.RuleSettings](ctx, apikinds.RuleSettings, files.Configuration, cluster)
	if err != nil {
		return nil, nil, err
	}
	s, without := validators.NewSettings(known, objectsOf(all)...)
	return s, append(notes, without...), nil
}

// readSite compiles the defaults of the files and of the cluster. The notes name defaults without an effect.
func readSite(ctx context.Context, files *Files, cluster *Cluster) (s *mutators.Site, notes []string, err error) {
	all, notes, err := readConfigured[policyv1alpha1.VirtualMachineDefaults](ctx, apikinds.VirtualMachineDefaults, files.Configuration, cluster)
	if err != nil {
		return nil, nil, err
	}
	s, without := mutators.NewSite(objectsOf(all)...)
	return s, append(notes, without...), nil
}
