package references

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
)

// resolve finds the object behind a reference, or nil and a warning. A revision comes before the object,
// and one that is missing is not replaced by it: KubeVirt would not start the VM with another one either.
func (r *references) resolve(ctx context.Context, objects Objects, namespace, path string, ref *instancetypes.Reference, unknown *field.Error) (*unstructured.Unstructured, error) {
	if unknown != nil && r.inferred[path] {
		r.warn("%s: the inferred kind does not exist; the VM is evaluated without it, and KubeVirt will not start it", path)
		return nil, nil
	}
	if unknown != nil {
		r.warn("%v; the VM is evaluated without it, and KubeVirt will not start it", unknown)
		return nil, nil
	}
	if ref == nil {
		return nil, nil
	}
	if ref.Revision != "" {
		conflicts := len(r.Conflicts)
		obj, err := r.get(ctx, objects, path, controllerRevision, namespace, ref.Revision)
		if obj == nil && err == nil && len(r.Conflicts) == conflicts && !r.inferred[path] {
			r.noRevision[path] = ref.Revision
		}
		if obj == nil || err != nil || ref.RevisionCounts(obj.GetLabels()) {
			return obj, err
		}
	}
	if ref.Kind == "" {
		r.warn("%s.kind names a kind that does not exist; the VM is evaluated without it, and KubeVirt will not start it", path)
		return nil, nil
	}
	return r.get(ctx, objects, path, instancetypeKind(ref.Kind), ref.Namespace, ref.Name)
}

// get finds one object, or nil and a warning that it is missing.
func (r *references) get(ctx context.Context, objects Objects, path string, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	obj, err := objects.Get(ctx, kind, namespace, name)
	what := described(kind, namespace, name)
	if r.inferred[path] {
		what = "object of the inferred name"
	}
	switch {
	case err == nil:
		return obj, nil
	case errors.Is(err, ErrNotGiven):
		r.notGiven(path)
		r.warn("%s: %s is not in the files; the VM is evaluated without it, and what it determines is unknown", path, what)
		return nil, nil
	case absent(err):
		r.warn("%s: there is no %s; the VM is evaluated without it, and what it determines is checked when the VM starts", path, what)
		return nil, nil
	case errors.Is(err, platform.ErrTooLarge):
		r.Conflicts = append(r.Conflicts, &field.Error{
			Type: field.ErrorTypeTooLong, Field: path, BadValue: field.OmitValueType{},
			Detail: fmt.Sprintf("%s is too large to be read: what is evaluated of one may have %d bytes", what, platform.MaxReference),
		})
		return nil, nil
	}
	if r.inferred[path] {
		return nil, discreetError{text: path + ": the inferred object cannot be read now", cause: err}
	}
	return nil, fmt.Errorf("%s: reading %s: %w", path, what, err)
}

// discreetError is an error whose text does not contain that of its cause, which must not be disclosed.
type discreetError struct {
	text  string
	cause error
}

func (e discreetError) Error() string { return e.text }
func (e discreetError) Unwrap() error { return e.cause }

func described(kind schema.GroupVersionKind, namespace, name string) string {
	return kind.Kind + " " + strings.TrimPrefix(namespace+"/"+name, "/")
}
