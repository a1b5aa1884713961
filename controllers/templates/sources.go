package templates

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
)

// source is a volume of a template, and the object that it is made of.
type source struct {
	// volume is the name of the volume, or of the entry of dataVolumeTemplates.
	volume string
	kind   apikinds.Resource
	types.NamespacedName

	// unknown: the name depends on a required parameter.
	unknown bool
}

// sourcesOf returns the objects that the volumes of a VM are made of. unknown are the paths that depend on required
// parameters.
func sourcesOf(vm *kubevirtv1.VirtualMachine, namespace string, unknown []string) []source {
	var list []source
	made := map[string]bool{}
	for i := range vm.Spec.DataVolumeTemplates {
		t := &vm.Spec.DataVolumeTemplates[i]
		made[t.Name] = true
		if s, found := sourceOf(&t.Spec, namespace); found {
			s.volume = cmp.Or(t.Name, strconv.Itoa(i))
			s.unknown = isUnknown(unknown, "spec.dataVolumeTemplates["+strconv.Itoa(i)+"].spec")
			list = append(list, s)
		}
	}
	if vm.Spec.Template == nil {
		return list
	}
	for i := range vm.Spec.Template.Spec.Volumes {
		v := &vm.Spec.Template.Spec.Volumes[i]
		s := source{volume: v.Name, NamespacedName: types.NamespacedName{Namespace: namespace}}
		switch {
		case v.DataVolume != nil && !made[v.DataVolume.Name]:
			s.kind, s.Name = apikinds.DataVolumes, v.DataVolume.Name
		case v.PersistentVolumeClaim != nil:
			s.kind, s.Name = apikinds.PersistentVolumeClaims, v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
			s.kind, s.Name = apikinds.PersistentVolumeClaims, v.Ephemeral.PersistentVolumeClaim.ClaimName
		default:
			continue
		}
		s.unknown = isUnknown(unknown, "spec.template.spec.volumes["+strconv.Itoa(i)+"]")
		list = append(list, s)
	}
	return list
}

// sourceOf returns the object that a DataVolume clones. An empty namespace is that of the DataVolume.
func sourceOf(spec *cdiv1beta1.DataVolumeSpec, namespace string) (s source, found bool) {
	s.Namespace = namespace
	switch {
	case spec.SourceRef != nil && spec.SourceRef.Kind == apikinds.DataSource:
		s.kind, s.Name = apikinds.DataSources, spec.SourceRef.Name
		if spec.SourceRef.Namespace != nil && *spec.SourceRef.Namespace != "" {
			s.Namespace = *spec.SourceRef.Namespace
		}
	case spec.Source != nil && spec.Source.PVC != nil:
		s.kind, s.Name, s.Namespace = apikinds.PersistentVolumeClaims, spec.Source.PVC.Name, cmp.Or(spec.Source.PVC.Namespace, namespace)
	case spec.Source != nil && spec.Source.Snapshot != nil:
		s.kind, s.Name, s.Namespace = apikinds.VolumeSnapshots, spec.Source.Snapshot.Name, cmp.Or(spec.Source.Snapshot.Namespace, namespace)
	default:
		return s, false
	}
	return s, true
}

// isUnknown reports whether something at or below a path depends on a required parameter.
func isUnknown(unknown []string, path string) bool {
	return slices.ContainsFunc(unknown, func(u string) bool { return u == path || strings.HasPrefix(u, path+".") })
}
