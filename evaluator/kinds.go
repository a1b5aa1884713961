package evaluator

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// The kinds of objects that are evaluated.
var (
	VirtualMachine         = apikinds.VirtualMachines.GroupKind()
	VirtualMachineInstance = apikinds.VirtualMachineInstances.GroupKind()
	Template               = apikinds.Templates.GroupKind()
	ReplicaSet             = apikinds.ReplicaSets.GroupKind()
	Preset                 = apikinds.Presets.GroupKind()
	Plugin                 = apikinds.Plugins.GroupKind()
	Pool                   = apikinds.Pools.GroupKind()
	Instancetype           = apikinds.Instancetypes.GroupKind()
	ClusterInstancetype    = apikinds.ClusterInstancetypes.GroupKind()
	Preference             = apikinds.Preferences.GroupKind()
	ClusterPreference      = apikinds.ClusterPreferences.GroupKind()
)

// kind describes how objects of one kind are evaluated.
type kind struct {
	schema.GroupKind

	// resource is the plural name in URLs.
	resource string
	// versions that are evaluated. All have the same Go type.
	versions []string
	// namespaced kinds have objects in namespaces.
	namespaced bool
	// typ is the Go type of the objects. Its pointer implements metav1.Object.
	typ reflect.Type
	// scopes of the rules of the object itself; 0 for none.
	scopes validators.Scope
	// present sets the fields of the subject that those rules read. old is nil except in an update.
	present func(s *validators.Subject, object, old metav1.Object)
	// machine returns the virtual machine that the object is or creates; nil for kinds without one. values are those of
	// the parameters of a VirtualMachineTemplate.
	machine func(object metav1.Object, values map[string]string) machine
	// maxBytes bounds the evaluated part of the object; 0 for the general limits.
	maxBytes int
}

// empty returns an empty object.
func (k *kind) empty() metav1.Object {
	return reflect.New(k.typ).Interface().(metav1.Object) //nolint:forcetypeassert // the table has no other types
}

// machine is a virtual machine or an instance; both are nil if there is none. container is set if it is a template.
type machine struct {
	vm        *v1.VirtualMachine
	vmi       *v1.VirtualMachineInstance
	container *effective.Container
	// findings are those of rendering a VirtualMachineTemplate, and unknown the paths in the VM that depend on required
	// parameters without a value.
	findings []validators.Finding
	unknown  []string
}

func (m *machine) none() bool { return m.vm == nil && m.vmi == nil }

// kinds is the table of all kinds, virtual machines first.
var kinds = slices.Concat(machineKinds(), otherKinds)

// functions is what this package adds to a row of apikinds.Machines.
type functions struct {
	// machine and scopes and present are those of kind. machine sets no container.
	machine func(object metav1.Object, values map[string]string) machine
	scopes  validators.Scope
	present func(s *validators.Subject, object, old metav1.Object)
}

// functionsOf has an entry for each row of apikinds.Machines. A test compares them.
var functionsOf = map[schema.GroupKind]functions{
	VirtualMachine: {machine: func(o metav1.Object, _ map[string]string) machine { return machine{vm: o.(*v1.VirtualMachine)} }},
	VirtualMachineInstance: {machine: func(o metav1.Object, _ map[string]string) machine {
		return machine{vmi: o.(*v1.VirtualMachineInstance)}
	}},
	ReplicaSet: {machine: ofReplicaSet, scopes: validators.OnSet, present: presentReplicaSet},
	Pool:       {machine: ofPool, scopes: validators.OnSet, present: presentPool},
	Template:   {machine: ofTemplate},
}

// machineKinds returns the kinds of apikinds.Machines with their functions.
func machineKinds() []kind {
	machines := apikinds.Machines()
	all := make([]kind, len(machines))
	for i := range machines {
		m := &machines[i]
		f := functionsOf[m.GroupKind()]
		all[i] = kind{
			GroupKind: m.GroupKind(), resource: m.Plural, versions: m.Versions, namespaced: true, typ: m.Type,
			scopes: f.scopes, present: f.present, machine: contained(m, f.machine),
		}
	}
	return all
}

// contained adds the container to the result of a function, for a kind whose objects are not virtual machines themselves.
func contained(m *apikinds.Machine, of func(metav1.Object, map[string]string) machine) func(metav1.Object, map[string]string) machine {
	if of == nil || m.Kind == VirtualMachine.Kind || m.Kind == VirtualMachineInstance.Kind {
		return of
	}
	path := pathOf(m)
	return func(o metav1.Object, values map[string]string) machine {
		result := of(o, values)
		if !result.none() {
			result.container = &effective.Container{Kind: m.Kind, Object: o, Template: path}
		}
		return result
	}
}

// pathOf returns the path of the template.
func pathOf(m *apikinds.Machine) *field.Path {
	names := fieldpath.Split(m.Template)
	return field.NewPath(names[0], names[1:]...)
}

// otherKinds are those without a virtual machine.
var otherKinds = []kind{
	{
		GroupKind: Instancetype, resource: apikinds.Instancetypes.Plural, versions: instancetypeVersions, namespaced: true, typ: reflect.TypeFor[instancetypev1beta1.VirtualMachineInstancetype](),
		scopes: validators.OnInstancetype, present: presentInstancetype, maxBytes: platform.MaxReference,
	},
	{
		GroupKind: ClusterInstancetype, resource: apikinds.ClusterInstancetypes.Plural, versions: instancetypeVersions, typ: reflect.TypeFor[instancetypev1beta1.VirtualMachineClusterInstancetype](),
		scopes: validators.OnInstancetype, present: presentInstancetype, maxBytes: platform.MaxReference,
	},
	{
		GroupKind: Preference, resource: apikinds.Preferences.Plural, versions: instancetypeVersions, namespaced: true, typ: reflect.TypeFor[instancetypev1beta1.VirtualMachinePreference](),
		scopes: validators.OnPreference, present: presentPreference, maxBytes: platform.MaxReference,
	},
	{
		GroupKind: ClusterPreference, resource: apikinds.ClusterPreferences.Plural, versions: instancetypeVersions, typ: reflect.TypeFor[instancetypev1beta1.VirtualMachineClusterPreference](),
		scopes: validators.OnPreference, present: presentPreference, maxBytes: platform.MaxReference,
	},
	{
		GroupKind: Preset, resource: apikinds.Presets.Plural, versions: kubeVirtVersions, namespaced: true, typ: reflect.TypeFor[v1.VirtualMachineInstancePreset](),
		maxBytes: platform.MaxReference,
	},
	{
		GroupKind: Plugin, resource: apikinds.Plugins.Plural, versions: []string{apikinds.Plugins.Version}, typ: reflect.TypeFor[pluginv1alpha1.Plugin](),
		maxBytes: maxPlugin,
	},
}

// maxPlugin bounds the JSON of a Plugin, in bytes: its expressions have at most 16 KiB.
const maxPlugin = 64 << 10

// Versions that share a Go type.
var (
	kubeVirtVersions     = []string{"v1", "v1alpha3"}
	instancetypeVersions = []string{"v1beta1", "v1"}
)

// find returns the entry of a kind, or nil if the kind is not evaluated.
func find(gk schema.GroupKind) *kind {
	for i := range kinds {
		if kinds[i].GroupKind == gk {
			return &kinds[i]
		}
	}
	return nil
}

// Evaluates reports whether objects of a kind are evaluated.
func Evaluates(gk schema.GroupKind) bool { return find(gk) != nil }

// KindInfo describes a kind that is evaluated.
type KindInfo struct {
	schema.GroupVersionKind

	// Resource has the plural name in URLs.
	Resource schema.GroupVersionResource
	// Versions that are evaluated. GroupVersionKind has the first one.
	Versions []string
	// Namespaced kinds have objects in namespaces.
	Namespaced bool
	// Machine reports whether the objects are virtual machines or create them.
	Machine bool
	// Type is the Go type of the objects.
	Type reflect.Type
}

// Resources returns the resource in each version, in the order in which readers try them: not every cluster serves the first
// one.
func (k *KindInfo) Resources() []schema.GroupVersionResource {
	all := make([]schema.GroupVersionResource, len(k.Versions))
	for i, version := range k.Versions {
		all[i] = k.Resource.GroupResource().WithVersion(version)
	}
	return all
}

// Kinds returns the kinds that are evaluated, virtual machines first.
func Kinds() []KindInfo {
	infos := make([]KindInfo, len(kinds))
	for i := range kinds {
		infos[i] = kinds[i].info()
	}
	return infos
}

// Info returns the description of a kind; ok is false if it is not evaluated.
func Info(gk schema.GroupKind) (info KindInfo, ok bool) {
	k := find(gk)
	if k == nil {
		return info, false
	}
	return k.info(), true
}

func (k *kind) info() KindInfo {
	gvk := k.WithVersion(k.versions[0])
	return KindInfo{
		GroupVersionKind: gvk, Resource: gvk.GroupVersion().WithResource(k.resource),
		Versions: k.versions, Namespaced: k.namespaced, Machine: k.machine != nil, Type: k.typ,
	}
}

func ofReplicaSet(o metav1.Object, _ map[string]string) machine {
	rs := o.(*v1.VirtualMachineInstanceReplicaSet)
	if rs.Spec.Template == nil {
		return machine{}
	}
	vmi := &v1.VirtualMachineInstance{ObjectMeta: *rs.Spec.Template.ObjectMeta.DeepCopy(), Spec: *rs.Spec.Template.Spec.DeepCopy()}
	vmi.Namespace = rs.Namespace
	return machine{vmi: vmi}
}

func ofPool(o metav1.Object, _ map[string]string) machine {
	pool := o.(*poolv1beta1.VirtualMachinePool)
	template := pool.Spec.VirtualMachineTemplate
	if template == nil {
		return machine{}
	}
	vm := &v1.VirtualMachine{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	vm.Namespace = pool.Namespace
	return machine{vm: vm}
}

func presentReplicaSet(s *validators.Subject, object, _ metav1.Object) {
	rs := object.(*v1.VirtualMachineInstanceReplicaSet)
	s.Set = &validators.Set{Template: field.NewPath("spec", "template"), Missing: rs.Spec.Template == nil, Selector: rs.Spec.Selector}
	if !s.Set.Missing {
		s.Set.Labels = rs.Spec.Template.ObjectMeta.Labels
	}
}

func presentPool(s *validators.Subject, object, old metav1.Object) {
	pool := object.(*poolv1beta1.VirtualMachinePool)
	s.Set = &validators.Set{
		Template: field.NewPath("spec", "virtualMachineTemplate"), Missing: pool.Spec.VirtualMachineTemplate == nil,
		Selector: pool.Spec.Selector, MaxUnavailable: pool.Spec.MaxUnavailable,
	}
	if !s.Set.Missing {
		s.Set.Labels = pool.Spec.VirtualMachineTemplate.ObjectMeta.Labels
	}
	if before, ok := old.(*poolv1beta1.VirtualMachinePool); ok {
		s.Set.Fixed = before.Spec.Selector
	}
}

func presentInstancetype(s *validators.Subject, object, _ metav1.Object) {
	switch o := object.(type) {
	case *instancetypev1beta1.VirtualMachineInstancetype:
		s.Instancetype = &o.Spec
	case *instancetypev1beta1.VirtualMachineClusterInstancetype:
		s.Instancetype = &o.Spec
	}
}

func presentPreference(s *validators.Subject, object, _ metav1.Object) {
	switch o := object.(type) {
	case *instancetypev1beta1.VirtualMachinePreference:
		s.Preference = &o.Spec
	case *instancetypev1beta1.VirtualMachineClusterPreference:
		s.Preference = &o.Spec
	}
}
