package simulators

import (
	"context"
	"errors"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/references"
)

// Expand makes the template of a VMI from a VM that names an instancetype or a preference. The VM is the
// function's own to change.
type Expand func(context.Context, client.Reader, *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineInstanceTemplateSpec, error)

// expandFromCluster does it with our own packages, which agree with KubeVirt as far as the conformance cases
// show. Like virt-controller, and unlike admission, it fails when an object is missing.
func expandFromCluster(ctx context.Context, reader client.Reader, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineInstanceTemplateSpec, error) {
	found, warnings, err := references.References(ctx, objects{reader}, vm)
	if err != nil {
		return nil, err
	}
	if len(found.Conflicts) > 0 {
		return nil, invalid(vm, found.Conflicts)
	}
	if len(warnings) > 0 {
		return nil, errors.New(strings.Join(warnings, "; "))
	}
	found.ApplyTo(vm)
	annotations, conflicts := instancetypes.Expand(instancetypes.TemplateOf(vm), found.Instancetype, found.Preference, &provenance.Recorder{})
	if len(conflicts) > 0 {
		return nil, invalid(vm, conflicts)
	}
	template := vm.Spec.Template
	if template.ObjectMeta.Annotations == nil {
		template.ObjectMeta.Annotations = map[string]string{}
	}
	maps.Copy(template.ObjectMeta.Annotations, annotations)
	maps.Copy(template.ObjectMeta.Annotations, instancetypes.NameAnnotations(found.Instancetype, found.Preference))
	return template, nil
}

func invalid(vm *kubevirtv1.VirtualMachine, errs field.ErrorList) error {
	return apierrors.NewInvalid(kubevirtv1.VirtualMachineGroupVersionKind.GroupKind(), vm.Name, errs)
}

// objects shows a cluster to package lookup.
type objects struct{ reader client.Reader }

// Get implements references.Objects.
func (o objects) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err := o.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	return object, err
}

// List implements references.Objects.
func (o objects) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := o.reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	items := make([]*unstructured.Unstructured, 0, len(list.Items))
	for i := range list.Items {
		items = append(items, &list.Items[i])
	}
	return items, nil
}
