package references

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	// maxConfig bounds the configuration of a network, and MaxGatheredBytes the bytes of all objects together.
	maxConfig        = 16 << 10
	MaxGatheredBytes = 256 << 10
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
	g := &gathering{ctx: ctx, objects: objects, namespace: namespace, spec: spec, templates: templates}
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

// gathering reads the objects of one machine.
type gathering struct {
	ctx       context.Context
	objects   Objects
	namespace string
	spec      *v1.VirtualMachineInstanceSpec
	templates []v1.DataVolumeTemplateSpec

	found       Gathered
	reads, size int
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
		object, reference, err := g.read(apikinds.NetworkAttachments, namespace, name, fmt.Sprintf("spec.networks[%d].multus.networkName", i))
		if err != nil {
			return err
		}
		network := cel.NetworkReference{Reference: reference, Types: []string{}, VLANs: []int64{}}
		if object != nil {
			if err := g.network(&network, object); err != nil {
				return err
			}
		}
		g.found.NetworkAttachmentDefinitions = append(g.found.NetworkAttachmentDefinitions, network)
	}
	return nil
}

func (g *gathering) network(network *cel.NetworkReference, object *unstructured.Unstructured) error {
	network.Config, _, _ = unstructured.NestedString(object.Object, "spec", "config")
	if len(network.Config) > maxConfig {
		return unknown(network.Path, "the configuration of the network is larger than %d bytes", maxConfig)
	}
	types, vlans, err := cniOf(network.Config)
	if err != nil {
		return unknown(network.Path, "the configuration of the network cannot be read: %.100v", err)
	}
	network.Types, network.VLANs = types, vlans
	return g.weigh(network.Path, len(network.Config)+8*len(vlans))
}

// claims reads the volumes that exist: PersistentVolumeClaims, and those of DataVolumes, which have the same names.
func (g *gathering) claims() error {
	for i := range g.spec.Volumes {
		name, at := claimOf(&g.spec.Volumes[i])
		if name == "" {
			continue
		}
		claim, err := g.claim(name, fmt.Sprintf("spec.volumes[%d].%s", i, at))
		if err != nil {
			return err
		}
		g.found.PersistentVolumeClaims = append(g.found.PersistentVolumeClaims, claim)
	}
	return nil
}

func claimOf(volume *v1.Volume) (name, at string) {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName, "persistentVolumeClaim.claimName"
	case volume.DataVolume != nil:
		return volume.DataVolume.Name, "dataVolume.name"
	}
	return "", ""
}

func (g *gathering) claim(name, path string) (cel.VolumeReference, error) {
	object, reference, err := g.read(apikinds.PersistentVolumeClaims, g.namespace, name, path)
	claim := cel.VolumeReference{Reference: reference, AccessModes: []string{}}
	if object != nil {
		fill(&claim, object, "spec")
	}
	return claim, err
}

// dataVolumes reads the DataVolumes of volumes. Those that the VM creates are as its templates say.
func (g *gathering) dataVolumes() error {
	for i := range g.spec.Volumes {
		if g.spec.Volumes[i].DataVolume == nil {
			continue
		}
		name, path := g.spec.Volumes[i].DataVolume.Name, fmt.Sprintf("spec.volumes[%d].dataVolume.name", i)
		if template := g.template(name); template != nil {
			volume := cel.VolumeReference{
				Reference:   cel.Reference{Name: name, Namespace: g.namespace, Path: path, Found: true, Labels: template.Labels, Annotations: template.Annotations},
				AccessModes: []string{},
			}
			fields, err := fieldsOf(&template.Spec)
			if err != nil {
				return unknown(path, "the DataVolume cannot be read")
			}
			fillDataVolume(&volume, fields)
			g.found.DataVolumes = append(g.found.DataVolumes, volume)
			continue
		}
		volume, err := g.dataVolume(name, path)
		if err != nil {
			return err
		}
		g.found.DataVolumes = append(g.found.DataVolumes, volume)
	}
	return nil
}

func (g *gathering) dataVolume(name, path string) (cel.VolumeReference, error) {
	object, reference, err := g.read(apikinds.DataVolumes, g.namespace, name, path)
	volume := cel.VolumeReference{Reference: reference, AccessModes: []string{}}
	if object != nil {
		fillDataVolume(&volume, object.Object)
	}
	return volume, err
}

func (g *gathering) template(name string) *v1.DataVolumeTemplateSpec {
	for i := range g.templates {
		if g.templates[i].Name == name {
			return &g.templates[i]
		}
	}
	return nil
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
		object, reference, err := g.read(apikinds.DataSources, namespace, from.Name, fmt.Sprintf("spec.dataVolumeTemplates[%d].spec.sourceRef", i))
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

// storageClasses reads the classes of volumes: of those that exist, and of those that the VM creates.
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
		if err := g.storageClass(name, path); err != nil {
			return err
		}
	}
	for i := range g.spec.Volumes {
		name, at := claimOf(&g.spec.Volumes[i])
		path := fmt.Sprintf("spec.volumes[%d].%s", i, at)
		if name == "" || g.spec.Volumes[i].DataVolume != nil && g.template(name) != nil {
			continue
		}
		volume, err := g.claim(name, path)
		if err == nil && !volume.Found && g.spec.Volumes[i].DataVolume != nil {
			volume, err = g.dataVolume(name, path)
		}
		if err == nil && volume.Found {
			err = g.storageClass(volume.StorageClassName, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *gathering) storageClass(name, path string) error {
	class := cel.StorageClassReference{Reference: cel.Reference{Path: path}}
	if name != "" {
		object, reference, err := g.read(apikinds.StorageClasses, "", name, path)
		if err != nil {
			return err
		}
		class.Reference = reference
		if object != nil {
			class.Provisioner, _, _ = unstructured.NestedString(object.Object, "provisioner")
			class.Parameters, _, _ = unstructured.NestedStringMap(object.Object, "parameters")
			if err := g.weigh(path, sizeOf(class.Parameters)); err != nil {
				return err
			}
		}
	}
	if class.Parameters == nil {
		class.Parameters = map[string]string{}
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
		_, reference, err := g.read(apikinds.ConfigMaps, g.namespace, name, fmt.Sprintf("spec.volumes[%d].%s", i, at))
		if err != nil {
			return err
		}
		g.found.ConfigMaps = append(g.found.ConfigMaps, reference)
	}
	return nil
}

// read reads an object; nil if it does not exist. The error means that it is unknown. Its text does not depend on why an
// object cannot be read.
func (g *gathering) read(kind apikinds.Resource, namespace, name, path string) (*unstructured.Unstructured, cel.Reference, error) {
	reference := cel.Reference{Name: name, Namespace: namespace, Path: path, Labels: map[string]string{}, Annotations: map[string]string{}}
	if name == "" {
		return nil, reference, nil
	}
	if g.reads++; g.reads > MaxGathered {
		return nil, reference, unknown(path, "the virtual machine points at more than %d objects", MaxGathered)
	}
	object, err := g.objects.Get(g.ctx, kind.GroupVersionKind, namespace, name)
	switch {
	case errors.Is(err, ErrNotGiven):
		g.found.NotGiven = append(g.found.NotGiven, path)
		return nil, reference, fmt.Errorf("%w: %s", cel.ErrReferenceNotGiven, path)
	case absent(err):
		return nil, reference, nil
	case err != nil:
		return nil, reference, unknown(path, "the object cannot be read now")
	}
	reference.Found = true
	maps.Copy(reference.Labels, object.GetLabels())
	for key, value := range object.GetAnnotations() {
		if key != "kubectl.kubernetes.io/last-applied-configuration" {
			reference.Annotations[key] = value
		}
	}
	size := sizeOf(reference.Labels) + sizeOf(reference.Annotations)
	if size > maxMetadata {
		return nil, reference, unknown(path, "labels and annotations of the object are larger than %d bytes", maxMetadata)
	}
	return object, reference, g.weigh(path, size)
}

func (g *gathering) weigh(path string, bytes int) error {
	if g.size += bytes; g.size > MaxGatheredBytes {
		return unknown(path, "all objects together are larger than %d bytes", MaxGatheredBytes)
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
	fill(volume, &unstructured.Unstructured{Object: object}, "spec", at)
	if volume.Source = onlyKey(object, "spec", "source"); volume.Source == "" {
		kind, _, _ := unstructured.NestedString(object, "spec", "sourceRef", "kind")
		volume.Source = kind
	}
}

// fill reads the fields of a claim at a path.
func fill(volume *cel.VolumeReference, object *unstructured.Unstructured, path ...string) {
	at := func(more ...string) []string { return slices.Concat(path, more) }
	volume.StorageClassName, _, _ = unstructured.NestedString(object.Object, at("storageClassName")...)
	if modes, found, _ := unstructured.NestedStringSlice(object.Object, at("accessModes")...); found {
		volume.AccessModes = modes
	}
	volume.VolumeMode, _, _ = unstructured.NestedString(object.Object, at("volumeMode")...)
	size, _, _ := unstructured.NestedFieldNoCopy(object.Object, at("resources", "requests", "storage")...)
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
