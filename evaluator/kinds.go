package evaluator

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	templatev1beta1 "github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/effective"
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

// kinds is the table of all kinds.
var kinds = []kind{
	{
		GroupKind: VirtualMachine, resource: apikinds.VirtualMachines.Plural, versions: kubeVirtVersions, namespaced: true, typ: reflect.TypeFor[v1.VirtualMachine](),
		machine: func(o metav1.Object, _ map[string]string) machine { return machine{vm: o.(*v1.VirtualMachine)} },
	},
	{
		GroupKind: VirtualMachineInstance, resource: apikinds.VirtualMachineInstances.Plural, versions: kubeVirtVersions, namespaced: true, typ: reflect.TypeFor[v1.VirtualMachineInstance](),
		machine: func(o metav1.Object, _ map[string]string) machine {
			return machine{vmi: o.(*v1.VirtualMachineInstance)}
		},
	},
	{
		GroupKind: ReplicaSet, resource: apikinds.ReplicaSets.Plural, versions: kubeVirtVersions, namespaced: true, typ: reflect.TypeFor[v1.VirtualMachineInstanceReplicaSet](),
		scopes: validators.OnSet, present: presentReplicaSet, machine: ofReplicaSet,
	},
	{
		GroupKind: Pool, resource: apikinds.Pools.Plural, versions: poolVersions, namespaced: true, typ: reflect.TypeFor[poolv1beta1.VirtualMachinePool](),
		scopes: validators.OnSet, present: presentPool, machine: ofPool,
	},
	{
		GroupKind: Template, resource: apikinds.Templates.Plural, versions: []string{"v1beta1", "v1alpha1"}, namespaced: true, typ: reflect.TypeFor[templatev1beta1.VirtualMachineTemplate](),
		machine: ofTemplate,
	},
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
}

// Versions that share a Go type.
var (
	kubeVirtVersions     = []string{"v1", "v1alpha3"}
	instancetypeVersions = []string{"v1beta1", "v1"}
	poolVersions         = []string{"v1beta1", "v1alpha1"}
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
	return machine{vmi: vmi, container: &effective.Container{Kind: ReplicaSet.Kind, Object: rs, Template: field.NewPath("spec", "template")}}
}

func ofPool(o metav1.Object, _ map[string]string) machine {
	pool := o.(*poolv1beta1.VirtualMachinePool)
	template := pool.Spec.VirtualMachineTemplate
	if template == nil {
		return machine{}
	}
	vm := &v1.VirtualMachine{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	vm.Namespace = pool.Namespace
	return machine{vm: vm, container: &effective.Container{Kind: Pool.Kind, Object: pool, Template: field.NewPath("spec", "virtualMachineTemplate")}}
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
