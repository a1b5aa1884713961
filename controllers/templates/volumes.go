package templates

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/dependents"
)

// evidence is what was found about a volume.
type evidence struct {
	source
	status metav1.ConditionStatus
	reason string
	// message says what is missing.
	message string
	// shown is how messages name the object; empty for its kind and name. An object that another one refers to has no name in
	// messages unless both are in the namespace of the template: who reads the template need not be allowed to read the others.
	shown string
}

// name is how messages name the object.
func (e *evidence) name() string {
	if e.shown != "" {
		return e.shown
	}
	return fmt.Sprintf("%s %s", e.kind.Kind, e.NamespacedName)
}

// behind is the object that another one refers to.
func (e *evidence) behind(next *source, namespace string) *evidence {
	found := *e
	found.kind, found.NamespacedName = next.kind, next.NamespacedName
	if found.shown == "" && (e.Namespace != namespace || next.Namespace != namespace) {
		found.shown = "the object that " + e.name() + " refers to"
	}
	return &found
}

// volumes reads the objects that the volumes of a template of a namespace are made of. depends are the names of all objects that were read.
func (r *Reconciler) volumes(ctx context.Context, namespace string, sources []source) (found []evidence, depends []dependents.Object, err error) {
	for _, s := range sources {
		e := evidence{source: s, status: metav1.ConditionUnknown, reason: v1beta1.ReasonVolumeUnknown, message: "the name depends on a required parameter"}
		if !s.unknown && s.Name != "" {
			steps, err := r.follow(ctx, namespace, &e, 0)
			if err != nil {
				return nil, nil, err
			}
			depends = append(depends, steps...)
		}
		found = append(found, e)
	}
	return found, depends, nil
}

// maxSteps bounds the objects behind a volume: a DataSource can refer to another one, which CDI does not follow further.
const maxSteps = 3

// follow reads an object, and the one that it refers to.
func (r *Reconciler) follow(ctx context.Context, namespace string, e *evidence, step int) ([]dependents.Object, error) {
	what := e.name()
	depends := []dependents.Object{objectOf(e.kind, e.NamespacedName)}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(e.kind.GroupVersionKind)
	err := r.Client.Get(ctx, e.NamespacedName, object)
	if apierrors.IsNotFound(err) {
		if e.kind == apikinds.DataVolumes { // CDI can delete completed DataVolumes, and keep their claims
			e.kind = apikinds.PersistentVolumeClaims
			more, err := r.follow(ctx, namespace, e, step+1)
			return append(depends, more...), err
		}
		e.status, e.reason, e.message = metav1.ConditionFalse, v1beta1.ReasonVolumeMissing, what+" does not exist"
		return depends, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	next, ready, err := readyOf(e.kind, object)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	e.status, e.reason, e.message = metav1.ConditionTrue, v1beta1.ReasonVolumeReady, ""
	if !ready {
		e.status, e.reason, e.message = metav1.ConditionFalse, v1beta1.ReasonVolumeNotReady, what+" is not ready"
		return depends, nil
	}
	if next == nil || step >= maxSteps {
		return depends, nil
	}
	behind := e.behind(next, namespace)
	more, err := r.follow(ctx, namespace, behind, step+1)
	e.status, e.reason, e.message = behind.status, behind.reason, behind.message
	return append(depends, more...), err
}

// readyOf reports whether an object is ready, and the object that it refers to.
func readyOf(kind apikinds.Resource, object *unstructured.Unstructured) (next *source, ready bool, err error) {
	switch kind {
	case apikinds.DataSources:
		d := &cdiv1beta1.DataSource{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d); err != nil {
			return nil, false, err
		}
		return behindDataSource(d), !isConditionFalse(d.Status.Conditions), nil
	case apikinds.PersistentVolumeClaims:
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		return nil, phase == string(corev1.ClaimBound), nil
	case apikinds.VolumeSnapshots:
		ready, _, _ := unstructured.NestedBool(object.Object, "status", "readyToUse")
		return nil, ready, nil
	default:
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		return nil, phase == string(cdiv1beta1.Succeeded), nil
	}
}

// behindDataSource returns the object that a DataSource resolves to.
func behindDataSource(d *cdiv1beta1.DataSource) *source {
	from := d.Status.Source
	if from == (cdiv1beta1.DataSourceSource{}) {
		from = d.Spec.Source
	}
	s := &source{NamespacedName: types.NamespacedName{Namespace: d.Namespace}}
	switch {
	case from.PVC != nil:
		s.kind, s.Name, s.Namespace = apikinds.PersistentVolumeClaims, from.PVC.Name, cmp.Or(from.PVC.Namespace, d.Namespace)
	case from.Snapshot != nil:
		s.kind, s.Name, s.Namespace = apikinds.VolumeSnapshots, from.Snapshot.Name, cmp.Or(from.Snapshot.Namespace, d.Namespace)
	case from.DataSource != nil:
		s.kind, s.Name, s.Namespace = apikinds.DataSources, from.DataSource.Name, cmp.Or(from.DataSource.Namespace, d.Namespace)
	default:
		return nil
	}
	return s
}

func isConditionFalse(conditions []cdiv1beta1.DataSourceCondition) bool {
	for _, c := range conditions {
		if c.Type == cdiv1beta1.DataSourceReady && c.Status != corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func objectOf(kind apikinds.Resource, name client.ObjectKey) dependents.Object {
	return dependents.Object{Resource: kind.GroupVersionResource().GroupResource(), NamespacedName: name}
}
