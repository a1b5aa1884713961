package references

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/rollouts"
)

// maxVolumesRead bounds the claims and DataVolumes that are read of one VM.
const maxVolumesRead = 64

// Rollout gathers what the plan of a change needs. The current VM is the one in the cluster: without an instance, the
// change is compared with it. The notes name what could not be read. The error means that the cluster could not be read.
func Rollout(ctx context.Context, objects Objects, facts *platform.Facts, current, desired *v1.VirtualMachine) (*rollouts.Input, []string, error) {
	g := &rolloutGatherer{objects: objects, input: &rollouts.Input{Desired: desired, Facts: facts}}
	if err := errors.Join(g.instance(ctx, current), g.kinds(ctx), g.storage(ctx)); err != nil {
		return nil, nil, err
	}
	return g.input, g.notes, nil
}

// ErrNoStart is the error for an instance that was started with an unknown spec.
var ErrNoStart = errors.New("there is no spec that it was started with")

// Instances reads running instances in their Go types, without the detour over an unstructured object.
type Instances interface {
	Instance(ctx context.Context, namespace, name string) (*v1.VirtualMachineInstance, error)
	StartedSpec(ctx context.Context, namespace, revision string) (*v1.VirtualMachineSpec, error)
}

// RunningRollout reads the running instance of a VM, and the spec that it was started with, for plans of what changes.
// It is nil if there is no instance. If what it was started with is unknown, that is an error. It reads small instances
// only if the objects are Instances: others are an error.
func RunningRollout(ctx context.Context, objects Objects, facts *platform.Facts, current *v1.VirtualMachine) (*rollouts.Input, error) {
	g := &rolloutGatherer{objects: objects, input: &rollouts.Input{Facts: facts}}
	read := g.instance
	if instances, ok := objects.(Instances); ok {
		read = func(ctx context.Context, current *v1.VirtualMachine) error { return g.typed(ctx, instances, current) }
	}
	if err := read(ctx, current); err != nil || g.input.Running == nil {
		return nil, err
	}
	if g.input.LastStarted == nil {
		return nil, fmt.Errorf("VirtualMachineInstance %s/%s: %w", current.Namespace, current.Name, ErrNoStart)
	}
	return g.input, nil
}

// typed reads the instance of the VM, and the spec that it was started with.
func (g *rolloutGatherer) typed(ctx context.Context, instances Instances, current *v1.VirtualMachine) error {
	vmi, err := instances.Instance(ctx, current.Namespace, current.Name)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the VirtualMachineInstance %s/%s: %w", current.Namespace, current.Name, err)
	case !metav1.IsControlledBy(vmi, current):
		return nil
	}
	if g.input.Running = vmi; vmi.Status.VirtualMachineRevisionName == "" {
		return nil
	}
	started, err := instances.StartedSpec(ctx, vmi.Namespace, vmi.Status.VirtualMachineRevisionName)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the ControllerRevision %s/%s: %w", vmi.Namespace, vmi.Status.VirtualMachineRevisionName, err)
	}
	if started.Template != nil {
		g.input.LastStarted = started
	}
	return nil
}

// DesiredRollout is the input of a plan with another desired VM, whose instancetype and preference are known.
func DesiredRollout(ctx context.Context, objects Objects, running *rollouts.Input, desired *v1.VirtualMachine, kinds rollouts.Kinds) (*rollouts.Input, error) {
	in := *running
	in.Desired, in.DesiredKinds = desired, kinds
	g := &rolloutGatherer{objects: objects, input: &in}
	return &in, errors.Join(g.startedKinds(ctx), g.storage(ctx))
}

type rolloutGatherer struct {
	objects Objects
	input   *rollouts.Input
	notes   []string
}

// read reads an object. It is nil with a note if the object is absent, too large, or the user may not read it.
func (g *rolloutGatherer) read(ctx context.Context, kind schema.GroupVersionKind, namespace, name, without string) (*unstructured.Unstructured, error) {
	object, err := g.objects.Get(ctx, kind, namespace, name)
	switch {
	case err == nil:
		return object, nil
	case absent(err), apierrors.IsForbidden(err), errors.Is(err, platform.ErrTooLarge):
		g.notes = append(g.notes, fmt.Sprintf("%s %s cannot be read (%v): %s", kind.Kind, name, err, without))
		return nil, nil
	}
	return nil, fmt.Errorf("reading %s %s/%s: %w", kind.Kind, namespace, name, err)
}

// instance reads the instance of the VM, and the spec that it was started with.
func (g *rolloutGatherer) instance(ctx context.Context, current *v1.VirtualMachine) error {
	object, err := g.objects.Get(ctx, instance, current.Namespace, current.Name)
	if absent(err) {
		g.input.LastStarted = &current.Spec
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the VirtualMachineInstance %s/%s: %w", current.Namespace, current.Name, err)
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := converted(object.Object, vmi, field.NewPath("")); err != nil {
		return fmt.Errorf("reading the VirtualMachineInstance %s/%s: %w", current.Namespace, current.Name, err)
	}
	if current.UID != "" && !metav1.IsControlledBy(vmi, current) {
		g.notes = append(g.notes, "a VirtualMachineInstance of this name exists, but it is not of this virtual machine")
		g.input.LastStarted = &current.Spec
		return nil
	}
	g.input.Running = vmi
	return g.start(ctx, vmi)
}

// start reads the ControllerRevision with the spec at the start of the instance.
func (g *rolloutGatherer) start(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	name := vmi.Status.VirtualMachineRevisionName
	if name == "" {
		return nil
	}
	revision, err := g.read(ctx, controllerRevision, vmi.Namespace, name, "the change is compared with the running instance only")
	if revision == nil || err != nil {
		return err
	}
	if g.input.LastStarted = startedSpec(revision); g.input.LastStarted == nil {
		g.notes = append(g.notes, fmt.Sprintf("ControllerRevision %s has no spec of a virtual machine: the change is compared with the running instance only", name))
	}
	return nil
}

// startedSpec is the spec that KubeVirt has stored in a revision; nil if there is none.
func startedSpec(revision *unstructured.Unstructured) *v1.VirtualMachineSpec {
	data, _, _ := unstructured.NestedMap(revision.Object, "data", "spec")
	spec := &v1.VirtualMachineSpec{}
	if len(data) == 0 || converted(data, spec, field.NewPath("data", "spec")) != nil {
		return nil
	}
	return spec
}

func converted(from map[string]any, into any, path *field.Path) error {
	if err := decode.QuantitiesIn(from, reflect.TypeOf(into), path); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from, into)
}

// kinds finds the instancetypes and preferences of the start and of the desired VM.
func (g *rolloutGatherer) kinds(ctx context.Context) (err error) {
	if g.input.DesiredKinds, err = g.kindsOf(ctx, g.input.Desired); err != nil {
		return err
	}
	return g.startedKinds(ctx)
}

func (g *rolloutGatherer) startedKinds(ctx context.Context) (err error) {
	if g.input.LastStarted == nil {
		return nil
	}
	started := &v1.VirtualMachine{ObjectMeta: g.input.Desired.ObjectMeta, Spec: *g.input.LastStarted}
	g.input.StartedKinds, err = g.kindsOf(ctx, started)
	return err
}

func (g *rolloutGatherer) kindsOf(ctx context.Context, vm *v1.VirtualMachine) (rollouts.Kinds, error) {
	refs, _, err := References(ctx, g.objects, vm)
	if err != nil {
		return rollouts.Kinds{}, err
	}
	return KindsOf(refs), nil
}

// KindsOf are the instancetype and the preference of references, for the plan of a change.
func KindsOf(refs effective.References) rollouts.Kinds {
	kinds := rollouts.Kinds{Instancetype: refs.Instancetype, Preference: refs.Preference}
	for i := range refs.Resolved {
		r := &refs.Resolved[i]
		var what string
		switch kind := unknownKind(&refs, r); {
		case r.MissingRevision != "":
			what = fmt.Sprintf("ControllerRevision %q", r.MissingRevision)
		case r.State == effective.Missing && r.Name != "":
			what = fmt.Sprintf("%s %q", r.Kind, r.Name)
		case r.State == effective.Missing:
			what = "The object of " + r.Field
		case kind != "":
			what = fmt.Sprintf("The kind %q", kind)
		default:
			continue
		}
		kinds.Missing = append(kinds.Missing, rollouts.Missing{Field: r.Field, What: what})
	}
	return kinds
}

// unknownKind is the kind of a reference that is none of an instancetype or a preference; empty if it is one.
func unknownKind(refs *effective.References, r *effective.Reference) string {
	if r.State != effective.Unknown || refs.Inferred {
		return ""
	}
	vm := &v1.VirtualMachine{}
	switch {
	case r.Field == "spec.instancetype" && refs.InstancetypeMatcher != nil:
		vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: refs.InstancetypeMatcher.Name, Kind: refs.InstancetypeMatcher.Kind}
	case r.Field == "spec.preference" && refs.PreferenceMatcher != nil:
		vm.Spec.Preference = &v1.PreferenceMatcher{Name: refs.PreferenceMatcher.Name, Kind: refs.PreferenceMatcher.Kind}
	}
	if _, wrong := instancetypes.InstancetypeReference(vm); wrong != nil {
		return vm.Spec.Instancetype.Kind
	}
	if _, wrong := instancetypes.PreferenceReference(vm); wrong != nil {
		return vm.Spec.Preference.Kind
	}
	return ""
}

// storage reads the claims and DataVolumes of a VM that migrates volumes or has dataVolumeTemplates.
func (g *rolloutGatherer) storage(ctx context.Context) error {
	names := g.claims()
	if len(names) == 0 || len(names) > maxVolumesRead {
		return nil
	}
	s := rollouts.Storage{Known: true, Claims: map[string]rollouts.Claim{}, DataVolumes: map[string]rollouts.DataVolume{}}
	namespace := g.input.Desired.Namespace
	for _, name := range names {
		object, known, err := g.optional(ctx, claim, namespace, name)
		if err != nil || !known {
			return err
		}
		if object != nil {
			_, populated, _ := unstructured.NestedMap(object.Object, "spec", "dataSourceRef")
			s.Claims[name] = rollouts.Claim{Populated: populated}
		}
		if object, known, err = g.optional(ctx, dataVolume, namespace, name); err != nil || !known {
			return err
		}
		if object != nil {
			phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
			s.DataVolumes[name] = rollouts.DataVolume{Phase: cdiv1beta1.DataVolumePhase(phase)}
		}
	}
	g.input.Storage = s
	return nil
}

// optional reads an object that need not exist. It is not known if the user may not read it.
func (g *rolloutGatherer) optional(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (object *unstructured.Unstructured, known bool, err error) {
	object, err = g.objects.Get(ctx, kind, namespace, name)
	switch {
	case err == nil:
		return object, true, nil
	case absent(err):
		return nil, true, nil
	case apierrors.IsForbidden(err), errors.Is(err, platform.ErrTooLarge):
		g.notes = append(g.notes, fmt.Sprintf("%s %s cannot be read: the plan assumes that it exists and is ready", kind.Kind, name))
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("reading %s %s/%s: %w", kind.Kind, namespace, name, err)
}

// claims are the names of the claims that the plan needs.
func (g *rolloutGatherer) claims() []string {
	var names []string
	spec := &g.input.Desired.Spec
	if s := spec.UpdateVolumesStrategy; s != nil && *s == v1.UpdateVolumesStrategyMigration && spec.Template != nil {
		for i := range spec.Template.Spec.Volumes {
			switch volume := &spec.Template.Spec.Volumes[i]; {
			case volume.PersistentVolumeClaim != nil:
				names = append(names, volume.PersistentVolumeClaim.ClaimName)
			case volume.DataVolume != nil:
				names = append(names, volume.DataVolume.Name)
			}
		}
	}
	for i := range spec.DataVolumeTemplates {
		names = append(names, spec.DataVolumeTemplates[i].Name)
	}
	return names
}
