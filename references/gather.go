package references

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
)

// Bounds of what is gathered for policies about one virtual machine. Each list has bounds of its own, so that policies which
// read one list do not change what others know of another one. A list is unknown beyond its bounds.
const (
	// MaxGathered bounds the objects that are read for a list, and maxMetadata the bytes of the labels and the annotations
	// of each.
	MaxGathered = 64
	maxMetadata = 8 << 10
	// maxVolume bounds what is read of a claim or a DataVolume besides its metadata, in bytes.
	maxVolume = 2 << 10
	// maxConfig bounds the configuration of a network and the parameters of a StorageClass, and MaxGatheredBytes the elements of a list in bytes, each of which
	// has elementBytes besides its texts, and valueBytes for each value in it. Two fields can point at one object.
	maxConfig        = 16 << 10
	MaxGatheredBytes = 96 << 10
	elementBytes     = 256
	valueBytes       = 16
)

// The time in which objects are read for one request: what policies that deny read of one virtual machine, and everything
// that only other policies read. The latter is read after the policies that deny are evaluated, and delays the answer by at
// most ApartTimeout.
const (
	GatherTimeout = time.Second
	ApartTimeout  = 250 * time.Millisecond
)

// The names of the lists of cel.References.
const (
	listNetworks       = "networkAttachmentDefinitions"
	listClaims         = "persistentVolumeClaims"
	listDataVolumes    = "dataVolumes"
	listDataSources    = "dataSources"
	listStorageClasses = "storageClasses"
	listConfigMaps     = "configMaps"
)

// Gathering reads the objects that a virtual machine points at, for policies. It reads each object once, so that all lists
// agree. It belongs to one goroutine.
type Gathering struct {
	// NotGiven are the fields that point at objects which are not in the files.
	NotGiven []string

	objects   Objects
	namespace string
	spec      *v1.VirtualMachineInstanceSpec
	templates []v1.DataVolumeTemplateSpec
	// made are the templates by the names of their DataVolumes, and volumes are those that were converted.
	made    map[string]*v1.DataVolumeTemplateSpec
	volumes map[string]cel.VolumeReference
	// read are the objects that were read.
	read  map[address]*element
	found *cel.References
	// list is the one that is being read.
	list struct {
		objects map[address]bool
		bytes   int
	}
}

// element is what lists need of an object. So an object is not kept longer than it is decoded.
type element struct {
	found               bool
	labels, annotations map[string]string
	// content is the element of a list without its reference.
	content any
	// described reports whether the labels and the annotations were read.
	described bool
	// noContent and noMetadata say why the two are not known; empty if they are.
	noContent, noMetadata string
}

// NewGathering returns a Gathering. spec and namespace are those of the instance, and templates the dataVolumeTemplates of
// its VM.
func NewGathering(objects Objects, namespace string, spec *v1.VirtualMachineInstanceSpec, templates []v1.DataVolumeTemplateSpec) *Gathering {
	g := &Gathering{
		objects: objects, namespace: namespace, spec: spec, templates: templates, made: map[string]*v1.DataVolumeTemplateSpec{},
		read: map[address]*element{}, volumes: map[string]cel.VolumeReference{}, found: cel.NewReferences(),
	}
	for i := range templates {
		if _, taken := g.made[templates[i].Name]; !taken {
			g.made[templates[i].Name] = &templates[i]
		}
	}
	for _, list := range cel.ReferenceKinds() {
		g.found.Unknown[list] = cel.ErrReferencesNotRead
	}
	return g
}

// Gather reads some lists within a time, and returns them together with those that were read before. An object that does
// not exist is an element of its list that is not found; one that cannot be read makes its list unknown. So there is no
// error. Each list gets an equal part of the time, and what the lists before it leave.
func (g *Gathering) Gather(ctx context.Context, lists []string, within time.Duration) *cel.References {
	known := *g.found
	known.Unknown = maps.Clone(g.found.Unknown)
	g.found = &known
	steps := slices.DeleteFunc(g.steps(), func(s step) bool {
		return !slices.Contains(lists, s.list) || !errors.Is(known.Unknown[s.list], cel.ErrReferencesNotRead)
	})
	began := time.Now()
	for i, s := range steps {
		part := within * time.Duration(i+1) / time.Duration(len(steps))
		if err := g.one(ctx, s, began.Add(part)); err != nil {
			known.Unknown[s.list] = err
		} else {
			delete(known.Unknown, s.list)
		}
	}
	return g.found
}

// step reads one list.
type step struct {
	list string
	read func(context.Context) error
}

// steps are the lists in their order. Those of volumes follow each other, and share objects.
func (g *Gathering) steps() []step {
	return []step{
		{listNetworks, g.networks},
		{listClaims, g.claims},
		{listDataVolumes, g.dataVolumes},
		{listDataSources, g.dataSources},
		{listStorageClasses, g.storageClasses},
		{listConfigMaps, g.configMaps},
	}
}

func (g *Gathering) one(ctx context.Context, s step, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	g.list.objects, g.list.bytes = map[address]bool{}, 0
	return s.read(ctx)
}

// source is a kind of objects, and how an element of a list is made of one. The second result says why that is not possible.
type source struct {
	apikinds.Resource

	convert func(*unstructured.Unstructured) (any, string)
}

// get returns what is known of an object, and the reference to it. The error means that it is unknown. Its text does not
// depend on why an object cannot be read.
func (g *Gathering) get(ctx context.Context, from source, namespace, name, path string) (*element, cel.Reference, error) {
	return g.describe(ctx, from, namespace, name, path, true)
}

// content returns what is known of an object, except for its labels and annotations.
func (g *Gathering) content(ctx context.Context, from source, namespace, name, path string) (*element, error) {
	e, _, err := g.describe(ctx, from, namespace, name, path, false)
	return e, err
}

func (g *Gathering) describe(ctx context.Context, from source, namespace, name, path string, described bool) (*element, cel.Reference, error) {
	reference := referenceTo(namespace, name, path)
	if name == "" {
		return &element{}, reference, nil
	}
	at := address{from.GroupKind(), namespace, name}
	if g.list.objects[at] = true; len(g.list.objects) > MaxGathered {
		return nil, reference, unknown(path, "the virtual machine points at more than %d objects for this list", MaxGathered)
	}
	e := g.read[at]
	if e == nil || described && !e.described {
		object, err := g.objects.Get(ctx, from.GroupVersionKind, namespace, name)
		switch {
		case errors.Is(err, ErrNotGiven):
			if !slices.Contains(g.NotGiven, path) {
				g.NotGiven = append(g.NotGiven, path)
			}
			return nil, reference, fmt.Errorf("%w: %s", cel.ErrReferenceNotGiven, path)
		case err != nil && !absent(err):
			return nil, reference, unknown(path, "the object cannot be read now")
		case err != nil:
			object = nil
		}
		e = elementOf(from, object, described)
		g.read[at] = e
	}
	if e.noContent != "" {
		return nil, reference, unknown(path, "%s", e.noContent)
	}
	if described && e.noMetadata != "" {
		return nil, reference, unknown(path, "%s", e.noMetadata)
	}
	if reference.Found = e.found; e.found && e.described {
		reference.Labels, reference.Annotations = e.labels, e.annotations
	}
	return e, reference, nil
}

// elementOf returns what lists need of an object; nil for one that does not exist.
func elementOf(from source, object *unstructured.Unstructured, described bool) *element {
	if object == nil {
		return &element{described: true}
	}
	e := &element{found: true, described: described}
	if e.content, e.noContent = from.convert(object); described {
		e.labels, e.annotations, e.noMetadata = metadataOf(object.GetLabels(), object.GetAnnotations())
	}
	return e
}

// metadataOf returns the labels and the annotations that policies read. problem says why they are unknown.
func metadataOf(labels, annotations map[string]string) (_, _ map[string]string, problem string) {
	labels, annotations = given(labels), given(annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if sizeOf(labels)+sizeOf(annotations) > maxMetadata {
		return nil, nil, fmt.Sprintf("labels and annotations of the object are larger than %d bytes", maxMetadata)
	}
	return labels, annotations, ""
}

// given returns a copy of a map that is not nil.
func given(texts map[string]string) map[string]string {
	known := make(map[string]string, len(texts))
	maps.Copy(known, texts)
	return known
}

// referenceTo returns a reference to an object that is not found.
func referenceTo(namespace, name, path string) cel.Reference {
	return cel.Reference{Name: name, Namespace: namespace, Path: path, Labels: map[string]string{}, Annotations: map[string]string{}}
}

// weigh adds an element to the bytes of its list.
func (g *Gathering) weigh(r *cel.Reference, more int) error {
	g.list.bytes += elementBytes + len(r.Name) + len(r.Namespace) + len(r.Path) + sizeOf(r.Labels) + sizeOf(r.Annotations) + more
	if g.list.bytes > MaxGatheredBytes {
		return unknown(r.Path, "the list is larger than %d bytes", MaxGatheredBytes)
	}
	return nil
}

func unknown(path, format string, values ...any) error {
	return fmt.Errorf("%w: %s: %s", cel.ErrUnknownReference, path, fmt.Sprintf(format, values...))
}

func sizeOf(texts map[string]string) int {
	size := 0
	for key, value := range texts {
		size += len(key) + len(value)
	}
	return size
}
