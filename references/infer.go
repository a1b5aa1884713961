package references

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypeapi "kubevirt.io/api/instancetype"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
)

// infer replaces matchers that point at a volume by what its labels say.
func (r *references) infer(ctx context.Context, objects Objects, vm *v1.VirtualMachine) error {
	if m := r.InstancetypeMatcher; m != nil && m.InferFromVolume != "" {
		inferred, err := r.inferOne(ctx, objects, vm, m, field.NewPath("spec", "instancetype"), instancetypeLabels)
		if err != nil || len(r.Conflicts) > 0 {
			return err
		}
		if !r.unknown["spec.instancetype"] {
			r.Inferred, r.InstancetypeMatcher = true, nil
		}
		if inferred != nil {
			r.inferred["spec.instancetype"] = true
			r.InstancetypeMatcher = &v1.InstancetypeMatcher{Name: inferred.name, Kind: inferred.kind}
			r.ClearMemory = ignores(m)
		}
	}
	if m := r.PreferenceMatcher; m != nil && m.InferFromVolume != "" {
		inferred, err := r.inferOne(ctx, objects, vm, m, field.NewPath("spec", "preference"), preferenceLabels)
		if err != nil || len(r.Conflicts) > 0 {
			return err
		}
		if !r.unknown["spec.preference"] {
			r.Inferred, r.PreferenceMatcher = true, nil
		}
		if inferred != nil {
			r.inferred["spec.preference"] = true
			r.PreferenceMatcher = &v1.PreferenceMatcher{Name: inferred.name, Kind: inferred.kind}
		}
	}
	return nil
}

func ignores(m v1.Matcher) bool {
	policy := m.GetInferFromVolumeFailurePolicy()
	return policy != nil && *policy == v1.IgnoreInferFromVolumeFailure
}

// inferOne returns what was inferred, or nil: with a conflict added, or, if that may be ignored, a warning.
func (r *references) inferOne(ctx context.Context, objects Objects, vm *v1.VirtualMachine, m v1.Matcher, path *field.Path, labels labelNames) (*inferred, error) {
	chain := chain{objects: objects, namespace: vm.Namespace, labels: labels}
	found, err := chain.fromVolume(ctx, vm, m.GetInferFromVolume())
	if err == nil {
		return found, nil
	}
	if errors.Is(err, ErrNotGiven) {
		r.notGiven(path.String())
		r.resolved(path.String(), nil, effective.Unknown)
		r.warn("%s: nothing can be inferred from volume %q, because %v; the VM is evaluated without it, and what it determines is unknown", path, m.GetInferFromVolume(), err)
		return nil, nil
	}
	var dead deadEnd
	if !errors.As(err, &dead) {
		return nil, fmt.Errorf("%s: %w", path.Child("inferFromVolume"), err)
	}
	if dead.ignorable && ignores(m) {
		r.warn("%s: nothing was inferred from volume %q, so it is left out: %s", path, m.GetInferFromVolume(), dead.why)
		return nil, nil
	}
	r.Conflicts = append(r.Conflicts, field.Invalid(path.Child("inferFromVolume"), m.GetInferFromVolume(), dead.why))
	return nil, nil
}

// deadEnd says why nothing can be inferred. Only some of the reasons may be ignored by the policy Ignore: an
// object that carries no labels may, one that does not exist may not.
type deadEnd struct {
	why       string
	ignorable bool
}

func (d deadEnd) Error() string { return d.why }

func unlabelled(format string, args ...any) error {
	return deadEnd{why: fmt.Sprintf(format, args...), ignorable: true}
}

func missing(format string, args ...any) error { return deadEnd{why: fmt.Sprintf(format, args...)} }

// discreet leaves out why a chain came to a dead end at, or behind, an object outside of the VM's namespace: who
// may create the VM need not be allowed to know whether there is such an object, or what it says.
func (c chain) discreet(err error, kind schema.GroupVersionKind, namespace, name string) error {
	var dead deadEnd
	if namespace == c.namespace || namespace == "" || !errors.As(err, &dead) {
		return err
	}
	return deadEnd{why: "nothing can be inferred from " + c.describe(kind, namespace, name), ignorable: dead.ignorable}
}

// inferred is what the labels of an object say.
type inferred struct{ name, kind string }

// labelNames are the two labels of interest.
type labelNames struct{ name, kind string }

var (
	instancetypeLabels = labelNames{name: instancetypeapi.DefaultInstancetypeLabel, kind: instancetypeapi.DefaultInstancetypeKindLabel}
	preferenceLabels   = labelNames{name: instancetypeapi.DefaultPreferenceLabel, kind: instancetypeapi.DefaultPreferenceKindLabel}
)

// chain follows a volume to the object whose labels count:
//
//	volume ─► PersistentVolumeClaim
//	       └► DataVolume or dataVolumeTemplate ─► PersistentVolumeClaim
//	                                           ├► VolumeSnapshot
//	                                           └► DataSource ─► PersistentVolumeClaim
//	                                                         └► VolumeSnapshot
//
// A DataVolume's and a DataSource's own labels come first.
type chain struct {
	objects   Objects
	namespace string
	labels    labelNames
	// behind tells that the chain has left what the VM names: the name of what follows is a value of an object that the
	// requester may not be allowed to read.
	behind bool
}

// further is the chain behind an object that was read.
func (c chain) further() chain {
	c.behind = true
	return c
}

// describe names an object, if the VM names it.
func (c chain) describe(kind schema.GroupVersionKind, namespace, name string) string {
	if c.behind {
		return "the object behind the volume"
	}
	return described(kind, namespace, name)
}

// failed is the error of an object that cannot be read now.
func (c chain) failed(err error, kind schema.GroupVersionKind, namespace, name string) error {
	if c.behind || namespace != c.namespace {
		return discreetError{text: "reading " + c.describe(kind, namespace, name) + " failed", cause: err}
	}
	return fmt.Errorf("reading %s: %w", described(kind, namespace, name), err)
}

func (c chain) fromVolume(ctx context.Context, vm *v1.VirtualMachine, name string) (*inferred, error) {
	if vm.Spec.Template != nil {
		for i := range vm.Spec.Template.Spec.Volumes {
			volume := &vm.Spec.Template.Spec.Volumes[i]
			switch {
			case volume.Name != name:
			case volume.PersistentVolumeClaim != nil:
				return c.fromLabelled(ctx, claim, c.namespace, volume.PersistentVolumeClaim.ClaimName)
			case volume.DataVolume != nil:
				return c.fromDataVolume(ctx, vm, volume.DataVolume.Name)
			default:
				return nil, unlabelled("volume %q is neither a persistentVolumeClaim nor a dataVolume", name)
			}
		}
	}
	return nil, missing("the VM has no volume of this name")
}

// fromDataVolume looks for a template of this name before the object, since the template is to become it. A
// DataVolume that is gone has left a claim of its name.
func (c chain) fromDataVolume(ctx context.Context, vm *v1.VirtualMachine, name string) (*inferred, error) {
	for i := range vm.Spec.DataVolumeTemplates {
		if template := &vm.Spec.DataVolumeTemplates[i]; template.Name == name {
			return c.fromDataVolumeSpec(ctx, &template.Spec, "dataVolumeTemplate "+name)
		}
	}
	obj, err := c.objects.Get(ctx, dataVolume, c.namespace, name)
	if err != nil {
		if absent(err) {
			return c.fromLabelled(ctx, claim, c.namespace, name)
		}
		if errors.Is(err, platform.ErrTooLarge) {
			return nil, missing("%s is too large to be read", described(dataVolume, c.namespace, name))
		}
		return nil, c.failed(err, dataVolume, c.namespace, name)
	}
	if found := c.read(obj); found != nil {
		return found, nil
	}
	spec := &cdiv1beta1.DataVolumeSpec{}
	if err := decodeSpec(obj, spec); err != nil {
		return nil, missing("%s cannot be read", described(dataVolume, c.namespace, name))
	}
	return c.further().fromDataVolumeSpec(ctx, spec, described(dataVolume, c.namespace, name))
}

func (c chain) fromDataVolumeSpec(ctx context.Context, spec *cdiv1beta1.DataVolumeSpec, whose string) (*inferred, error) {
	switch source, ref := spec.Source, spec.SourceRef; {
	case source != nil && source.PVC != nil:
		return c.fromLabelled(ctx, claim, source.PVC.Namespace, source.PVC.Name)
	case source != nil && source.Snapshot != nil:
		return c.fromLabelled(ctx, volumeSnapshot, source.Snapshot.Namespace, source.Snapshot.Name)
	case ref != nil && ref.Kind == dataSource.Kind: // KubeVirt tells upper case from lower here, unlike for architectures
		namespace := c.namespace
		if ref.Namespace != nil {
			namespace = *ref.Namespace
		}
		return c.fromDataSource(ctx, namespace, ref.Name)
	case ref != nil:
		return nil, unlabelled("the sourceRef of %s is not a DataSource", whose)
	}
	return nil, unlabelled("the source of %s is neither a claim, a snapshot nor a DataSource", whose)
}

func (c chain) fromDataSource(ctx context.Context, namespace, name string) (*inferred, error) {
	found, err := c.behindDataSource(ctx, namespace, name)
	return found, c.discreet(err, dataSource, namespace, name)
}

func (c chain) behindDataSource(ctx context.Context, namespace, name string) (*inferred, error) {
	obj, err := c.get(ctx, dataSource, namespace, name)
	if err != nil {
		return nil, err
	}
	if found := c.read(obj); found != nil {
		return found, nil
	}
	spec := &cdiv1beta1.DataSourceSpec{}
	if err := decodeSpec(obj, spec); err != nil {
		return nil, missing("%s cannot be read", c.describe(dataSource, namespace, name))
	}
	behind := c.further()
	switch source := spec.Source; {
	case source.PVC != nil:
		return behind.fromLabelled(ctx, claim, source.PVC.Namespace, source.PVC.Name)
	case source.Snapshot != nil:
		return behind.fromLabelled(ctx, volumeSnapshot, source.Snapshot.Namespace, source.Snapshot.Name)
	}
	return nil, unlabelled("%s has no label %s, and its source is neither a claim nor a snapshot", c.describe(dataSource, namespace, name), c.labels.name)
}

// fromLabelled ends the chain at an object that has only labels to infer from.
func (c chain) fromLabelled(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*inferred, error) {
	obj, err := c.get(ctx, kind, namespace, name)
	if err != nil {
		return nil, c.discreet(err, kind, namespace, name)
	}
	if found := c.read(obj); found != nil {
		return found, nil
	}
	return nil, c.discreet(unlabelled("%s has no label %s", c.describe(kind, namespace, name), c.labels.name), kind, namespace, name)
}

func (c chain) read(obj *unstructured.Unstructured) *inferred {
	labels := obj.GetLabels()
	name, ok := labels[c.labels.name]
	if !ok {
		return nil
	}
	return &inferred{name: name, kind: labels[c.labels.kind]}
}

func (c chain) get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if namespace == "" || name == "" {
		return nil, missing("the %s that it comes from needs a name and a namespace", kind.Kind)
	}
	obj, err := c.objects.Get(ctx, kind, namespace, name)
	switch {
	case err == nil:
		return obj, nil
	case errors.Is(err, ErrNotGiven):
		return nil, fmt.Errorf("%s %w", c.describe(kind, namespace, name), err)
	case absent(err):
		return nil, missing("there is no %s", c.describe(kind, namespace, name))
	case errors.Is(err, platform.ErrTooLarge):
		return nil, missing("%s is too large to be read", c.describe(kind, namespace, name))
	}
	return nil, c.failed(err, kind, namespace, name)
}

func decodeSpec(obj *unstructured.Unstructured, into any) error {
	spec, found, err := unstructured.NestedMap(obj.Object, "spec")
	if err != nil || !found {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(spec, into)
}
