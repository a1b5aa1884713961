package references

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
)

func (g *Gathering) networks(ctx context.Context) error {
	for i := range g.spec.Networks {
		multus := g.spec.Networks[i].Multus
		if multus == nil {
			continue
		}
		namespace, name, qualified := strings.Cut(multus.NetworkName, "/")
		if !qualified {
			namespace, name = g.namespace, multus.NetworkName
		}
		e, reference, err := g.get(ctx, networkSource, namespace, name, fmt.Sprintf("spec.networks[%d].multus.networkName", i))
		if err != nil {
			return err
		}
		network := cel.NetworkReference{Types: []string{}, VLANs: []int64{}}
		if e.found {
			network = e.content.(cel.NetworkReference)
		}
		network.Reference = reference
		if err := g.weigh(&reference, len(network.Config)+weightOf(network.Types...)+valueBytes*len(network.VLANs)); err != nil {
			return err
		}
		g.found.NetworkAttachmentDefinitions = append(g.found.NetworkAttachmentDefinitions, network)
	}
	return nil
}

// The kinds of objects that lists have.
var (
	networkSource = source{apikinds.NetworkAttachments, networkOf}
	claimSource   = source{apikinds.PersistentVolumeClaims, func(o *unstructured.Unstructured) (any, string) {
		return volumeOf(func(v *cel.VolumeReference) { fill(v, o.Object, "spec") })
	}}
	dataVolumeSource = source{apikinds.DataVolumes, func(o *unstructured.Unstructured) (any, string) {
		return volumeOf(func(v *cel.VolumeReference) { fillDataVolume(v, o.Object) })
	}}
	dataSourceSource   = source{apikinds.DataSources, func(o *unstructured.Unstructured) (any, string) { return onlyKey(o.Object, "spec", "source"), "" }}
	storageClassSource = source{apikinds.StorageClasses, storageClassOf}
	configMapSource    = source{apikinds.ConfigMaps, func(*unstructured.Unstructured) (any, string) { return nil, "" }}
)

func networkOf(object *unstructured.Unstructured) (any, string) {
	network := cel.NetworkReference{}
	network.Config, _, _ = unstructured.NestedString(object.Object, "spec", "config")
	if len(network.Config) > maxConfig {
		return nil, fmt.Sprintf("the configuration of the network is larger than %d bytes", maxConfig)
	}
	types, vlans, err := cniOf(network.Config)
	if err != nil {
		return nil, fmt.Sprintf("the configuration of the network cannot be read: %.100v", err)
	}
	network.Types, network.VLANs = types, vlans
	return network, ""
}

// pointer is a field that names a PersistentVolumeClaim, or a DataVolume, whose claim has the same name.
type pointer struct {
	name, path   string
	isDataVolume bool
}

// pointers returns the fields that name claims.
func (g *Gathering) pointers() []pointer {
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

func (g *Gathering) claims(ctx context.Context) error {
	for _, p := range g.pointers() {
		e, reference, err := g.get(ctx, claimSource, g.namespace, p.name, p.path)
		if err != nil {
			return err
		}
		claim := e.volume(reference)
		if err := g.weigh(&reference, weightOfVolume(&claim)); err != nil {
			return err
		}
		g.found.PersistentVolumeClaims = append(g.found.PersistentVolumeClaims, claim)
	}
	return nil
}

// volume returns the element of a list about a claim or a DataVolume.
func (e *element) volume(reference cel.Reference) cel.VolumeReference {
	volume := cel.VolumeReference{AccessModes: []string{}}
	if e.found {
		volume = e.content.(cel.VolumeReference)
	}
	volume.Reference = reference
	return volume
}

// dataVolumes reads the DataVolumes of volumes. Those that the VM creates are as its templates say.
func (g *Gathering) dataVolumes(ctx context.Context) error {
	for _, p := range g.pointers() {
		if !p.isDataVolume {
			continue
		}
		volume, err := g.dataVolume(ctx, p)
		if err == nil {
			err = g.weigh(&volume.Reference, weightOfVolume(&volume))
		}
		if err != nil {
			return err
		}
		g.found.DataVolumes = append(g.found.DataVolumes, volume)
	}
	return nil
}

func (g *Gathering) dataVolume(ctx context.Context, p pointer) (cel.VolumeReference, error) {
	if template := g.made[p.name]; template != nil {
		volume, err := g.templated(template, p.path)
		volume.Path = p.path
		return volume, err
	}
	e, reference, err := g.get(ctx, dataVolumeSource, g.namespace, p.name, p.path)
	if err != nil {
		return cel.VolumeReference{}, err
	}
	return e.volume(reference), nil
}

// templated returns the DataVolume that a template describes.
func (g *Gathering) templated(template *v1.DataVolumeTemplateSpec, path string) (cel.VolumeReference, error) {
	if volume, known := g.volumes[template.Name]; known {
		return volume, nil
	}
	reference := referenceTo(g.namespace, template.Name, path)
	labels, annotations, problem := metadataOf(template.Labels, template.Annotations)
	if problem != "" {
		return cel.VolumeReference{}, unknown(path, "%s", problem)
	}
	reference.Found, reference.Labels, reference.Annotations = true, labels, annotations
	fields, err := fieldsOf(&template.Spec)
	if err != nil {
		return cel.VolumeReference{}, unknown(path, "the DataVolume cannot be read")
	}
	made, problem := volumeOf(func(v *cel.VolumeReference) { fillDataVolume(v, fields) })
	if problem != "" {
		return cel.VolumeReference{}, unknown(path, "%s", problem)
	}
	volume := made.(cel.VolumeReference)
	volume.Reference = reference
	g.volumes[template.Name] = volume
	return volume, nil
}

func (g *Gathering) dataSources(ctx context.Context) error {
	for i := range g.templates {
		from := g.templates[i].Spec.SourceRef
		if from == nil || !strings.EqualFold(from.Kind, apikinds.DataSource) {
			continue
		}
		namespace := g.namespace
		if from.Namespace != nil && *from.Namespace != "" {
			namespace = *from.Namespace
		}
		e, reference, err := g.get(ctx, dataSourceSource, namespace, from.Name, fmt.Sprintf("spec.dataVolumeTemplates[%d].spec.sourceRef", i))
		if err == nil {
			err = g.weigh(&reference, 0)
		}
		if err != nil {
			return err
		}
		source := cel.SourceReference{Reference: reference}
		source.Source, _ = e.content.(string)
		g.found.DataSources = append(g.found.DataSources, source)
	}
	return nil
}

// storageClasses reads the classes of volumes: of those that the VM creates, and of those that exist. The class of a volume
// that does not exist is an element without a name: the volume can be created later with any class.
func (g *Gathering) storageClasses(ctx context.Context) error {
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
		if err := g.storageClass(ctx, name, name == "", path); err != nil {
			return err
		}
	}
	for _, p := range g.pointers() {
		if p.isDataVolume && g.made[p.name] != nil {
			continue
		}
		volume, err := g.content(ctx, claimSource, g.namespace, p.name, p.path)
		if err == nil && !volume.found && p.isDataVolume {
			volume, err = g.content(ctx, dataVolumeSource, g.namespace, p.name, p.path)
		}
		if err != nil {
			return err
		}
		class := volume.volume(cel.Reference{}).StorageClassName
		if err := g.storageClass(ctx, class, volume.found && class == "", p.path); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gathering) storageClass(ctx context.Context, name string, isDefault bool, path string) error {
	e, reference, err := g.get(ctx, storageClassSource, "", name, path)
	if err != nil {
		return err
	}
	class := cel.StorageClassReference{Parameters: map[string]string{}}
	if e.found {
		class = e.content.(cel.StorageClassReference)
	}
	class.Reference, class.ClusterDefault = reference, isDefault
	if err := g.weigh(&reference, len(class.Provisioner)+sizeOf(class.Parameters)); err != nil {
		return err
	}
	g.found.StorageClasses = append(g.found.StorageClasses, class)
	return nil
}

func storageClassOf(object *unstructured.Unstructured) (any, string) {
	class := cel.StorageClassReference{Parameters: map[string]string{}}
	class.Provisioner, _, _ = unstructured.NestedString(object.Object, "provisioner")
	if parameters, found, _ := unstructured.NestedStringMap(object.Object, "parameters"); found {
		class.Parameters = parameters
	}
	if sizeOf(class.Parameters) > maxConfig {
		return nil, fmt.Sprintf("the parameters of the StorageClass are larger than %d bytes", maxConfig)
	}
	return class, ""
}

func (g *Gathering) configMaps(ctx context.Context) error {
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
		_, reference, err := g.get(ctx, configMapSource, g.namespace, name, fmt.Sprintf("spec.volumes[%d].%s", i, at))
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

// volumeOf returns the element of a list about a claim or a DataVolume, without its reference.
func volumeOf(fill func(*cel.VolumeReference)) (any, string) {
	volume := cel.VolumeReference{AccessModes: []string{}}
	if fill(&volume); weightOfVolume(&volume) > maxVolume {
		return nil, fmt.Sprintf("the fields of the volume that policies read are larger than %d bytes", maxVolume)
	}
	return volume, ""
}

func weightOfVolume(v *cel.VolumeReference) int {
	return len(v.StorageClassName) + len(v.VolumeMode) + len(v.Size) + len(v.Source) + weightOf(v.AccessModes...)
}

// weightOf returns the bytes of the texts of a list.
func weightOf(texts ...string) int {
	bytes := valueBytes * len(texts)
	for _, text := range texts {
		bytes += len(text)
	}
	return bytes
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
