package offline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/validators"
)

// Resources are the resources of the kinds of the configuration.
var Resources = map[string]schema.GroupVersionResource{
	apikinds.RuleSettings:           policyv1alpha1.GroupVersion.WithResource("rulesettings"),
	apikinds.VirtualMachineDefaults: policyv1alpha1.GroupVersion.WithResource("virtualmachinedefaults"),
	apikinds.VirtualMachinePolicy:   policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies"),

	apikinds.VirtualMachinePolicyException: apikinds.PolicyExceptions.GroupVersionResource(),
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

// readConfigured reads the objects of a cluster-wide kind: those of the files, as if they were applied, and then those of the
// cluster, if there is one. The notes of the evaluator name objects that are skipped.
func readConfigured[T any](ctx context.Context, w *Evaluator, kind string, files []manifests.Document, cluster *Cluster) []configured[T] {
	all, given := readGiven[T](ctx, w, kind, files, (*unstructured.Unstructured).GetName)
	if cluster == nil {
		return all
	}
	listed, err := cluster.listConfigured(ctx, kind, metav1.NamespaceAll)
	if apierrors.IsForbidden(err) {
		w.forbidden = append(w.forbidden, kind)
		return all
	}
	if err != nil {
		w.Notes = append(w.Notes, fmt.Sprintf("%s are not considered: %v", kind, err))
		return all
	}
	listed = slices.DeleteFunc(listed, func(d manifests.Document) bool { return given[d.Object.GetName()] })
	return append(all, readListed[T](w, kind, listed)...)
}

// readGiven reads the objects of files of a kind, and returns their keys. An object that cannot be read also replaces that of
// the cluster.
func readGiven[T any](ctx context.Context, w *Evaluator, kind string, files []manifests.Document, key func(*unstructured.Unstructured) string) (all []configured[T], given map[string]bool) {
	given = map[string]bool{}
	files = slices.DeleteFunc(slices.Clone(files), func(d manifests.Document) bool { return d.Object.GetKind() != kind })
	for _, d := range w.once(files) {
		read := configured[T]{document: d}
		given[key(d.Object)] = true
		if err := decodeConfigured(d, &read.object); err != nil {
			w.Unreadable = append(w.Unreadable, d.Unreadable(err))
			continue
		}
		if w.valid(ctx, d) {
			all = append(all, read)
		}
	}
	return all, given
}

// readListed reads the objects of a cluster. Notes name those that cannot be read.
func readListed[T any](w *Evaluator, kind string, listed []manifests.Document) (all []configured[T]) {
	for _, d := range listed {
		read := configured[T]{document: d}
		if _, err := manifests.Decode(d.Object.Object, &read.object); err != nil {
			w.Notes = append(w.Notes, fmt.Sprintf("%s %s is not considered: %v", kind, d.Object.GetName(), err))
			continue
		}
		all = append(all, read)
	}
	return all
}

// noteForbidden adds one note for all kinds that the user may not list.
func (w *Evaluator) noteForbidden() {
	if len(w.forbidden) > 0 {
		w.Notes = append(w.Notes, fmt.Sprintf("%s of the cluster are not considered: you may not list them: an admin can grant the ClusterRole %s, or set policies.readers of the chart", strings.Join(w.forbidden, ", "), ReaderRole))
	}
}

// ReaderRole is the ClusterRole of the chart for readers of the configuration.
const ReaderRole = "virtward-policies-view"

// decodeConfigured reads an object of a file.
func decodeConfigured(d manifests.Document, into any) error {
	if _, err := manifests.Decode(d.Object.Object, into); err != nil {
		return fmt.Errorf("%s: %w", titled(d), err)
	}
	return nil
}

// titled returns the kind and the name of a document's object.
func titled(d manifests.Document) string { return d.Object.GetKind() + " " + d.Object.GetName() }

// maxInvalid is the number of errors that are listed of a document with an invalid object.
const maxInvalid = 10

// valid validates an object of a file that is not evaluated itself, with its schema. An invalid one is unreadable: an API
// server rejects it. Notes have the warnings.
func (w *Evaluator) valid(ctx context.Context, d manifests.Document) bool {
	result := &evaluator.Result{}
	if err := w.schemas.Validate(ctx, w.written(d), result); err != nil {
		w.Unreadable = append(w.Unreadable, d.Unreadable(fmt.Errorf("%s: %w", titled(d), err)))
		return false
	}
	errs := 0
	for i := range result.Findings {
		f := &result.Findings[i]
		switch {
		case f.Severity != validators.Deny:
			w.Notes = append(w.Notes, fmt.Sprintf("%s: %s: %v", d.Location(), titled(d), f.Error))
		case errs < maxInvalid:
			w.Unreadable = append(w.Unreadable, d.Unreadable(fmt.Errorf("%s: %w", titled(d), f.Error)))
			errs++
		}
	}
	return errs == 0
}

// listConfigured lists the objects of a kind, of a namespace or of all; there are none in a cluster without Virtward.
func (c *Cluster) listConfigured(ctx context.Context, kind, namespace string) ([]manifests.Document, error) {
	list, err := c.Client.Resource(Resources[kind]).Namespace(namespace).List(ctx, metav1.ListOptions{})
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

// readSettings compiles the RuleSettings of the files and of the cluster. Notes name entries without an effect.
func (w *Evaluator) readSettings(ctx context.Context, files *Files, cluster *Cluster) {
	all := readConfigured[policyv1alpha1.RuleSettings](ctx, w, apikinds.RuleSettings, files.Configuration, cluster)
	settings, without := validators.NewSettings(w.registry.Rules(), objectsOf(all)...)
	w.settings, w.Notes = settings, append(w.Notes, without...)
}

// readSite compiles the defaults of the files and of the cluster. Notes name defaults without an effect.
func (w *Evaluator) readSite(ctx context.Context, files *Files, cluster *Cluster) {
	all := readConfigured[policyv1alpha1.VirtualMachineDefaults](ctx, w, apikinds.VirtualMachineDefaults, files.Configuration, cluster)
	site, without := mutators.NewSite(objectsOf(all)...)
	w.site, w.Notes = site, append(w.Notes, without...)
}
