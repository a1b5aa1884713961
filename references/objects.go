package references

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	instancetypeapi "kubevirt.io/api/instancetype"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/platform"
)

// Objects is where objects are found. Callers do not change what they get.
type Objects interface {
	// Get finds one object; namespace is empty for a cluster-wide kind. Absence is a NotFound error of
	// apierrors, or a NoMatch error of meta where the cluster does not know the kind.
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	// List finds all objects of a kind in a namespace, in any order.
	List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error)
}

// Kinds are those that this package asks for.
func Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		instancetypeKind(apikinds.VirtualMachineInstancetype),
		instancetypeKind(apikinds.VirtualMachineClusterInstancetype),
		instancetypeKind(apikinds.VirtualMachinePreference),
		instancetypeKind(apikinds.VirtualMachineClusterPreference),
		controllerRevision, claim, volumeSnapshot, dataVolume, dataSource, virtualImage, preset,
		apikinds.NetworkAttachments.GroupVersionKind, apikinds.StorageClasses.GroupVersionKind, apikinds.ConfigMaps.GroupVersionKind,
	}
}

var (
	controllerRevision = apikinds.ControllerRevisions.GroupVersionKind
	claim              = apikinds.PersistentVolumeClaims.GroupVersionKind
	volumeSnapshot     = apikinds.VolumeSnapshots.GroupVersionKind
	dataVolume         = apikinds.DataVolumes.GroupVersionKind
	dataSource         = apikinds.DataSources.GroupVersionKind
	virtualImage       = apikinds.VirtualImages.GroupVersionKind
	preset             = apikinds.Presets.GroupVersionKind
)

// instancetypeKind is a kind in the version that every supported KubeVirt serves.
func instancetypeKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: instancetypeapi.GroupName, Version: "v1beta1", Kind: kind}
}

// absent tells the errors that mean that there is no such object.
func absent(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || errors.Is(err, ErrNotGiven)
}

// ErrNotGiven is the error of an object that is unknown: it is not in the files, and no cluster is read.
var ErrNotGiven = errors.New("is not in the files")

// Memory is a handful of objects. It is immutable, and safe for concurrent use.
type Memory struct {
	objects map[address]*unstructured.Unstructured
	// lists are the objects of a kind in a namespace, sorted by name: every virtual machine asks for its presets.
	lists map[address][]*unstructured.Unstructured
}

// address leaves out the version, as an API server serves every object in each of them.
type address struct {
	kind            schema.GroupKind
	namespace, name string
}

// NewMemory takes objects, and lists of them. Those of a namespaced kind that name no namespace are in the
// default one. Two objects of one kind, namespace and name are an error.
func NewMemory(defaultNamespace string, objects ...*unstructured.Unstructured) (*Memory, error) {
	m := &Memory{objects: map[address]*unstructured.Unstructured{}, lists: map[address][]*unstructured.Unstructured{}}
	for _, obj := range objects {
		if err := m.add(defaultNamespace, obj); err != nil {
			return nil, err
		}
	}
	for _, list := range m.lists {
		slices.SortFunc(list, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	return m, nil
}

func (m *Memory) add(defaultNamespace string, obj *unstructured.Unstructured) error {
	if obj == nil {
		return nil
	}
	if obj.IsList() {
		return obj.EachListItem(func(item runtime.Object) error {
			return m.add(defaultNamespace, item.(*unstructured.Unstructured))
		})
	}
	if obj.GetKind() == "" || obj.GetName() == "" {
		return fmt.Errorf("an object needs apiVersion, kind and metadata.name; this one is kind %q, name %q", obj.GetKind(), obj.GetName())
	}
	at := addressOf(defaultNamespace, obj)
	if _, taken := m.objects[at]; taken {
		return fmt.Errorf("%s %s is given twice", at.kind.Kind, strings.TrimPrefix(at.namespace+"/"+at.name, "/"))
	}
	m.objects[at] = obj
	list := address{kind: at.kind, namespace: at.namespace}
	m.lists[list] = append(m.lists[list], obj)
	return nil
}

// addressOf returns the address of an object.
func addressOf(defaultNamespace string, obj *unstructured.Unstructured) address {
	at := address{kind: obj.GroupVersionKind().GroupKind(), namespace: obj.GetNamespace(), name: obj.GetName()}
	switch {
	case platform.IsClusterWide(at.kind):
		at.namespace = ""
	case at.namespace == "":
		at.namespace = defaultNamespace
	}
	return at
}

// Repeated returns the indices of the objects that NewMemory rejects, each with that of the first one with its kind,
// namespace and name.
func Repeated(defaultNamespace string, objects []*unstructured.Unstructured) map[int]int {
	first, repeated := map[address]int{}, map[int]int{}
	for i, obj := range objects {
		at := addressOf(defaultNamespace, obj)
		if earlier, taken := first[at]; taken {
			repeated[i] = earlier
			continue
		}
		first[at] = i
	}
	return repeated
}

// Get implements Objects.
func (m *Memory) Get(_ context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	obj, ok := m.objects[address{kind: kind.GroupKind(), namespace: namespace, name: name}]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, name)
	}
	return obj, nil
}

// Given are objects beside which a cluster may have others. It never reports that an object does not exist.
type Given struct{ *Memory }

// Get implements Objects. The error of an object that was not given is ErrNotGiven, unless no object can have the name.
func (g Given) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	obj, err := g.Memory.Get(ctx, kind, namespace, name)
	if err != nil && platform.CanExist(kind.GroupKind(), namespace, name) {
		return nil, ErrNotGiven
	}
	return obj, err
}

// List implements Objects; the objects are sorted by their names.
func (m *Memory) List(_ context.Context, kind schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	return slices.Clone(m.lists[address{kind: kind.GroupKind(), namespace: namespace}]), nil
}
