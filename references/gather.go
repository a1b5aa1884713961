package references

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
)

// Bounds of what is gathered for policies about one virtual machine. The objects of a kind are unknown beyond them.
const (
	// MaxGathered bounds the objects that are read, and maxMetadata the bytes of the labels and the annotations of each.
	MaxGathered = 64
	maxMetadata = 8 << 10
	// maxConfig bounds the configuration of a network, and MaxGatheredBytes the bytes of all elements together, each of which
	// has elementBytes besides its texts. Two fields can point at one object.
	maxConfig        = 16 << 10
	MaxGatheredBytes = 256 << 10
	elementBytes     = 256
	// gatherTimeout bounds the time of all reads.
	gatherTimeout = time.Second
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

// Gathered are the objects that a machine points at, for policies.
type Gathered struct {
	*cel.References
	// NotGiven are the fields that point at objects which are not in the files.
	NotGiven []string
}

// Gather reads the objects of some kinds that a virtual machine points at. spec and namespace are those of the instance,
// and templates the dataVolumeTemplates of its VM. An object that does not exist is an element of its list that is not
// found; one that cannot be read makes its kind unknown. So there is no error.
func Gather(ctx context.Context, objects Objects, kinds []string, namespace string, spec *v1.VirtualMachineInstanceSpec, templates []v1.DataVolumeTemplateSpec) Gathered {
	ctx, cancel := context.WithTimeout(ctx, gatherTimeout)
	defer cancel()
	g := &gathering{
		ctx: ctx, objects: objects, namespace: namespace, spec: spec, templates: templates, made: map[string]*v1.DataVolumeTemplateSpec{},
		read: map[address]*unstructured.Unstructured{}, volumes: map[string]cel.VolumeReference{},
	}
	for i := range templates {
		if _, taken := g.made[templates[i].Name]; !taken {
			g.made[templates[i].Name] = &templates[i]
		}
	}
	g.found.References = cel.NewReferences()
	for _, step := range []struct {
		list string
		read func() error
	}{
		{listNetworks, g.networks},
		{listClaims, g.claims},
		{listDataVolumes, g.dataVolumes},
		{listDataSources, g.dataSources},
		{listStorageClasses, g.storageClasses},
		{listConfigMaps, g.configMaps},
	} {
		if !slices.Contains(kinds, step.list) {
			g.found.Unknown[step.list] = fmt.Errorf("%w: no policy reads them", cel.ErrUnknownReference)
			continue
		}
		if err := step.read(); err != nil {
			g.found.Unknown[step.list] = err
		}
	}
	return g.found
}

// gathering reads the objects of one machine. It reads each object once, so that all lists agree.
type gathering struct {
	ctx       context.Context
	objects   Objects
	namespace string
	spec      *v1.VirtualMachineInstanceSpec
	templates []v1.DataVolumeTemplateSpec
	// made are the templates by the names of their DataVolumes, and volumes are those that were converted.
	made    map[string]*v1.DataVolumeTemplateSpec
	volumes map[string]cel.VolumeReference
	// read are the objects that were read; nil if they do not exist.
	read map[address]*unstructured.Unstructured

	found Gathered
	bytes int
}

func (g *gathering) networks() error {
	for i := range g.spec.Networks {
		multus := g.spec.Networks[i].Multus
		if multus == nil {
			continue
		}
		namespace, name, qualified := strings.Cut(multus.NetworkName, "/")
		if !qualified {
			namespace, name = g.namespace, multus.NetworkName
		}
		object, reference, err := g.get(apikinds.NetworkAttachments, namespace, name, fmt.Sprintf("spec.networks[%d].multus.networkName", i))
		if err != nil {
			return err
		}
		network := cel.NetworkReference{Reference: reference, Types: []string{}, VLANs: []int64{}}
		if object != nil {
			if err := fillNetwork(&network, object); err != nil {
				return err
			}
		}
		if err := g.weigh(&reference, len(network.Config)+8*len(network.VLANs)); err != nil {
			return err
		}
		g.found.NetworkAttachmentDefinitions = append(g.found.NetworkAttachmentDefinitions, network)
	}
	return nil
}

func fillNetwork(network *cel.NetworkReference, object *unstructured.Unstructured) error {
	network.Config, _, _ = unstructured.NestedString(object.Object, "spec", "config")
	if len(network.Config) > maxConfig {
		return unknown(network.Path, "the configuration of the network is larger than %d bytes", maxConfig)
	}
	types, vlans, err := cniOf(network.Config)
	if err != nil {
		return unknown(network.Path, "the configuration of the network cannot be read: %.100v", err)
	}
	network.Types, network.VLANs = types, vlans
	return nil
}

// pointer is a field that names a PersistentVolumeClaim, or a DataVolume, whose claim has the same name.
type pointer struct {
	name, path   string
	isDataVolume bool
}

// pointers returns the fields that name claims.
func (g *gathering) pointers() []pointer {
	var found []pointer
	for i := range g.spec.Volumes {
		at := fmt.Sprintf("spec.volumes[%d].", i)
		switch volume := &g.spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil:
			found = append(found, pointer{volume.PersistentVolumeClaim.ClaimName, at + "persistentVolumeClaim.claimName", false})
		case volume.DataVolume != nil:
			found = append(found, pointer{volume.DataVolume.Name, at + "dataVolume.name", true})
		case volume.Ephemeral != nil && volume.Ephemeral.PersistentVolumeClaim != nil:
			found = append(found, pointer{volume.Ephemeral.PersistentVolumeClaim.ClaimName, at + "ephemeral.persistentVolumeClaim.claimName", false})
		case volume.MemoryDump != nil:
			found = append(found, pointer{volume.MemoryDump.ClaimName, at + "memoryDump.claimName", false})
		}
	}
	for i := range g.spec.UtilityVolumes {
		found = append(found, pointer{g.spec.UtilityVolumes[i].ClaimName, fmt.Sprintf("spec.utilityVolumes[%d].claimName", i), false})
	}
	return slices.DeleteFunc(found, func(p pointer) bool { return p.name == "" })
}

func (g *gathering) claims() error {
	for _, p := range g.pointers() {
		claim, err := g.claim(p)
		if err == nil {
			err = g.weigh(&claim.Reference, 0)
		}
		if err != nil {
			return err
		}
		g.found.PersistentVolumeClaims = append(g.found.PersistentVolumeClaims, claim)
	}
	return nil
}

func (g *gathering) claim(p pointer) (cel.VolumeReference, error) {
	object, reference, err := g.get(apikinds.PersistentVolumeClaims, g.namespace, p.name, p.path)
	claim := cel.VolumeReference{Reference: reference, AccessModes: []string{}}
	if object != nil {
		fill(&claim, object.Object, "spec")
	}
	return claim, err
}

// dataVolumes reads the DataVolumes of volumes. Those that the VM creates are as its templates say.
func (g *gathering) dataVolumes() error {
	for _, p := range g.pointers() {
		if !p.isDataVolume {
			continue
		}
		volume, err := g.dataVolume(p)
		if err == nil {
			err = g.weigh(&volume.Reference, 0)
		}
		if err != nil {
			return err
		}
		g.found.DataVolumes = append(g.found.DataVolumes, volume)
	}
	return nil
}

func (g *gathering) dataVolume(p pointer) (cel.VolumeReference, error) {
	if template := g.made[p.name]; template != nil {
		volume, err := g.templated(template, p.path)
		volume.Path = p.path
		return volume, err
	}
	object, reference, err := g.get(apikinds.DataVolumes, g.namespace, p.name, p.path)
	volume := cel.VolumeReference{Reference: reference, AccessModes: []string{}}
	if object != nil {
		fillDataVolume(&volume, object.Object)
	}
	return volume, err
}

// templated returns the DataVolume that a template describes.
func (g *gathering) templated(template *v1.DataVolumeTemplateSpec, path string) (cel.VolumeReference, error) {
	if volume, known := g.volumes[template.Name]; known {
		return volume, nil
	}
	volume := cel.VolumeReference{Reference: referenceTo(g.namespace, template.Name, path), AccessModes: []string{}}
	if err := describe(&volume.Reference, template.Labels, template.Annotations); err != nil {
		return volume, err
	}
	fields, err := fieldsOf(&template.Spec)
	if err != nil {
		return volume, unknown(path, "the DataVolume cannot be read")
	}
	fillDataVolume(&volume, fields)
	g.volumes[template.Name] = volume
	return volume, nil
}

func (g *gathering) dataSources() error {
	for i := range g.templates {
		from := g.templates[i].Spec.SourceRef
		if from == nil || !strings.EqualFold(from.Kind, apikinds.DataSource) {
			continue
		}
		namespace := g.namespace
		if from.Namespace != nil && *from.Namespace != "" {
			namespace = *from.Namespace
		}
		object, reference, err := g.get(apikinds.DataSources, namespace, from.Name, fmt.Sprintf("spec.dataVolumeTemplates[%d].spec.sourceRef", i))
		if err == nil {
			err = g.weigh(&reference, 0)
		}
		if err != nil {
			return err
		}
		source := cel.SourceReference{Reference: reference}
		if object != nil {
			source.Source = onlyKey(object.Object, "spec", "source")
		}
		g.found.DataSources = append(g.found.DataSources, source)
	}
	return nil
}

// storageClasses reads the classes of volumes: of those that the VM creates, and of those that exist. The class of a volume
// that does not exist is an element without a name: the volume can be created later with any class.
func (g *gathering) storageClasses() error {
	for i := range g.templates {
		spec, class := &g.templates[i].Spec, (*string)(nil)
		path := fmt.Sprintf("spec.dataVolumeTemplates[%d].spec", i)
		switch {
		case spec.PVC != nil:
			path, class = path+".pvc.storageClassName", spec.PVC.StorageClassName
		case spec.Storage != nil:
			path, class = path+".storage.storageClassName", spec.Storage.StorageClassName
		}
		name := ""
		if class != nil {
			name = *class
		}
		if err := g.storageClass(name, name == "", path); err != nil {
			return err
		}
	}
	for _, p := range g.pointers() {
		if p.isDataVolume && g.made[p.name] != nil {
			continue
		}
		volume, err := g.claim(p)
		if err == nil && !volume.Found && p.isDataVolume {
			volume, err = g.dataVolume(p)
		}
		if err == nil {
			err = g.storageClass(volume.StorageClassName, volume.Found && volume.StorageClassName == "", p.path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *gathering) storageClass(name string, isDefault bool, path string) error {
	object, reference, err := g.get(apikinds.StorageClasses, "", name, path)
	if err != nil {
		return err
	}
	class := cel.StorageClassReference{Reference: reference, ClusterDefault: isDefault, Parameters: map[string]string{}}
	if object != nil {
		class.Provisioner, _, _ = unstructured.NestedString(object.Object, "provisioner")
		if parameters, found, _ := unstructured.NestedStringMap(object.Object, "parameters"); found {
			class.Parameters = parameters
		}
	}
	if err := g.weigh(&reference, sizeOf(class.Parameters)); err != nil {
		return err
	}
	g.found.StorageClasses = append(g.found.StorageClasses, class)
	return nil
}

func (g *gathering) configMaps() error {
	for i := range g.spec.Volumes {
		var name, at string
		switch volume := &g.spec.Volumes[i]; {
		case volume.ConfigMap != nil:
			name, at = volume.ConfigMap.Name, "configMap.name"
		case volume.Sysprep != nil && volume.Sysprep.ConfigMap != nil:
			name, at = volume.Sysprep.ConfigMap.Name, "sysprep.configMap.name"
		default:
			continue
		}
		_, reference, err := g.get(apikinds.ConfigMaps, g.namespace, name, fmt.Sprintf("spec.volumes[%d].%s", i, at))
		if err == nil {
			err = g.weigh(&reference, 0)
		}
		if err != nil {
			return err
		}
		g.found.ConfigMaps = append(g.found.ConfigMaps, reference)
	}
	return nil
}

// referenceTo returns a reference to an object that is not found.
func referenceTo(namespace, name, path string) cel.Reference {
	return cel.Reference{Name: name, Namespace: namespace, Path: path, Labels: map[string]string{}, Annotations: map[string]string{}}
}

// get returns an object, and the reference to it; the object is nil if it does not exist. The error means that it is unknown. Its
// text does not depend on why an object cannot be read.
func (g *gathering) get(kind apikinds.Resource, namespace, name, path string) (*unstructured.Unstructured, cel.Reference, error) {
	reference := referenceTo(namespace, name, path)
	if name == "" {
		return nil, reference, nil
	}
	at := address{kind.GroupKind(), namespace, name}
	object, known := g.read[at]
	if !known {
		if len(g.read) == MaxGathered {
			return nil, reference, unknown(path, "the virtual machine points at more than %d objects", MaxGathered)
		}
		found, err := g.objects.Get(g.ctx, kind.GroupVersionKind, namespace, name)
		switch {
		case errors.Is(err, ErrNotGiven):
			if !slices.Contains(g.found.NotGiven, path) {
				g.found.NotGiven = append(g.found.NotGiven, path)
			}
			return nil, reference, fmt.Errorf("%w: %s", cel.ErrReferenceNotGiven, path)
		case err != nil && !absent(err):
			return nil, reference, unknown(path, "the object cannot be read now")
		}
		if err == nil {
			object = found
		}
		g.read[at] = object
	}
	if object == nil {
		return nil, reference, nil
	}
	return object, reference, describe(&reference, object.GetLabels(), object.GetAnnotations())
}

// describe adds the metadata of an object that exists.
func describe(reference *cel.Reference, labels, annotations map[string]string) error {
	reference.Found = true
	maps.Copy(reference.Labels, labels)
	for key, value := range annotations {
		if key != corev1.LastAppliedConfigAnnotation {
			reference.Annotations[key] = value
		}
	}
	if sizeOf(reference.Labels)+sizeOf(reference.Annotations) > maxMetadata {
		return unknown(reference.Path, "labels and annotations of the object are larger than %d bytes", maxMetadata)
	}
	return nil
}

// weigh adds an element to the bytes of all.
func (g *gathering) weigh(r *cel.Reference, more int) error {
	g.bytes += elementBytes + len(r.Name) + len(r.Namespace) + len(r.Path) + sizeOf(r.Labels) + sizeOf(r.Annotations) + more
	if g.bytes > MaxGatheredBytes {
		return unknown(r.Path, "all objects together are larger than %d bytes", MaxGatheredBytes)
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

// fillDataVolume reads the fields of a DataVolume.
func fillDataVolume(volume *cel.VolumeReference, object map[string]any) {
	at := "storage"
	if _, found, _ := unstructured.NestedMap(object, "spec", "pvc"); found {
		at = "pvc"
	}
	fill(volume, object, "spec", at)
	if volume.Source = onlyKey(object, "spec", "source"); volume.Source == "" {
		kind, _, _ := unstructured.NestedString(object, "spec", "sourceRef", "kind")
		volume.Source = kind
	}
}

// fill reads the fields of a claim at a path.
func fill(volume *cel.VolumeReference, object map[string]any, path ...string) {
	at := func(more ...string) []string { return slices.Concat(path, more) }
	volume.StorageClassName, _, _ = unstructured.NestedString(object, at("storageClassName")...)
	if modes, found, _ := unstructured.NestedStringSlice(object, at("accessModes")...); found {
		volume.AccessModes = modes
	}
	volume.VolumeMode, _, _ = unstructured.NestedString(object, at("volumeMode")...)
	size, _, _ := unstructured.NestedFieldNoCopy(object, at("resources", "requests", "storage")...)
	if size != nil {
		volume.Size = canonical(fmt.Sprint(size))
	}
}

// onlyKey returns the first key of an object at a path, sorted; empty if it has none.
func onlyKey(object map[string]any, path ...string) string {
	fields, _, _ := unstructured.NestedMap(object, path...)
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return strings.Join(keys[:min(1, len(keys))], "")
}

func fieldsOf(spec *cdiv1beta1.DataVolumeSpec) (map[string]any, error) {
	fields, err := encoded(spec)
	return map[string]any{"spec": fields}, err
}
