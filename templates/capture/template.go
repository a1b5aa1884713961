package capture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

// NameParameter is the parameter of a captured template for the name of the VirtualMachine.
const NameParameter = "NAME"

// suffix is the end of the names of the DataVolumes of a VirtualMachine.
const suffix = "-${" + NameParameter + "}"

// Template returns the spec of the template: that of the VirtualMachine of the snapshot, whose volumes are clones of the
// captured ones. It changes the spec that it is given.
func Template(request *v1beta1.VirtualMachineTemplateRequest, spec *kubevirtv1.VirtualMachineSpec, volumes []Volume) (*v1beta1.VirtualMachineTemplateSpec, error) {
	removeIdentities(&spec.Template.Spec)
	spec.Template.Spec.Hostname = ""
	dropVolumes(&spec.Template.Spec)
	renamed := useClones(request, spec, volumes)
	tree, err := treeOf(spec)
	if err != nil {
		return nil, err
	}
	e := &escaper{}
	tree = e.object(tree)
	for _, path := range renamed {
		if err := parameterize(tree, path...); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": kubevirtv1.GroupVersion.String(), "kind": "VirtualMachine",
		"metadata": map[string]any{"name": "${" + NameParameter + "}"}, "spec": tree,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the VirtualMachine: %w", err)
	}
	return &v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &runtime.RawExtension{Raw: raw}, Parameters: parameters(volumes, e.escaped)}, nil
}

// parameters returns the parameters of a template.
func parameters(volumes []Volume, escaped bool) []v1beta1.Parameter {
	longest := maxName
	for i := range volumes {
		longest = min(longest, maxName-1-len(volumes[i].base))
	}
	list := []v1beta1.Parameter{{
		Name: NameParameter, Description: "The name of the VirtualMachine", Generate: v1beta1.GenerateExpression, From: "vm-[a-z0-9]{5}", Required: true,
		Pattern: fmt.Sprintf("[a-z0-9]([-a-z0-9]{0,%d}[a-z0-9])?", longest-2),
	}}
	if escaped {
		list = append(list, templates.Dollar(templates.DollarParameter))
	}
	return list
}

// removeIdentities removes what only one VirtualMachine can have.
func removeIdentities(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	domain := &spec.Domain
	if domain.Firmware != nil {
		domain.Firmware.UUID, domain.Firmware.Serial = "", ""
	}
	if domain.Chassis != nil {
		domain.Chassis.Serial = ""
	}
	for i := range domain.Devices.Interfaces {
		nic := &domain.Devices.Interfaces[i]
		nic.MacAddress, nic.PciAddress = "", ""
	}
	for i := range domain.Devices.Disks {
		disk := &domain.Devices.Disks[i]
		disk.Serial = ""
		if disk.Disk != nil {
			disk.Disk.PciAddress = ""
		}
	}
}

// dropVolumes removes memory dumps, and ephemeral volumes with their disks: they are not part of the snapshot.
func dropVolumes(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	gone := map[string]bool{}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v kubevirtv1.Volume) bool {
		drop := v.MemoryDump != nil || v.Ephemeral != nil
		gone[v.Name] = drop
		return drop
	})
	spec.Domain.Devices.Disks = slices.DeleteFunc(spec.Domain.Devices.Disks, func(d kubevirtv1.Disk) bool { return gone[d.Name] })
}

// useClones lets the VirtualMachine clone the captured volumes. It returns the paths of the names to parameterize.
func useClones(request *v1beta1.VirtualMachineTemplateRequest, spec *kubevirtv1.VirtualMachineSpec, volumes []Volume) (paths [][]any) {
	entries, captured := map[string]int{}, map[string]*Volume{}
	for i := range spec.DataVolumeTemplates {
		entries[spec.DataVolumeTemplates[i].Name] = i
	}
	for i := range volumes {
		v := &volumes[i]
		captured[v.Claim] = v
		at, found := entries[v.Claim]
		if !found {
			at = len(spec.DataVolumeTemplates)
			spec.DataVolumeTemplates = append(spec.DataVolumeTemplates, kubevirtv1.DataVolumeTemplateSpec{})
		}
		v.source(request, &spec.DataVolumeTemplates[at])
		paths = append(paths, []any{"dataVolumeTemplates", at, "metadata", "name"})
	}
	for i := range spec.Template.Spec.Volumes {
		volume := &spec.Template.Spec.Volumes[i]
		if claim, _, isDisk := claimOf(volume); isDisk && captured[claim] != nil {
			volume.VolumeSource = kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: captured[claim].base}}
			paths = append(paths, []any{"template", "spec", "volumes", i, "dataVolume", "name"})
		}
	}
	return paths
}

// source makes a DataVolume template clone the captured volume. It keeps the settings of the template.
func (v *Volume) source(request *v1beta1.VirtualMachineTemplateRequest, t *kubevirtv1.DataVolumeTemplateSpec) {
	t.ObjectMeta = metav1.ObjectMeta{Name: v.base, Labels: t.Labels, Annotations: t.Annotations}
	t.Status = nil
	t.Spec.SourceRef, t.Spec.Checkpoints, t.Spec.FinalCheckpoint = nil, nil, false
	t.Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: request.Namespace, Name: CloneName(request, v.Name)}}
	if t.Spec.PVC == nil && t.Spec.Storage == nil {
		t.Spec.Storage = v.storage()
	}
	v.enlarge(&t.Spec)
}

// enlarge makes sure that a volume is not smaller than the claim, which can have grown.
func (v *Volume) enlarge(spec *cdiv1beta1.DataVolumeSpec) {
	size, found := v.size()
	if !found {
		return
	}
	grow := func(requests corev1.ResourceList) corev1.ResourceList {
		if requested, has := requests[corev1.ResourceStorage]; has && requested.Cmp(size) >= 0 {
			return requests
		}
		if requests == nil {
			requests = corev1.ResourceList{}
		}
		requests[corev1.ResourceStorage] = size
		return requests
	}
	if spec.PVC != nil {
		spec.PVC.Resources.Requests = grow(spec.PVC.Resources.Requests)
	}
	if spec.Storage != nil {
		spec.Storage.Resources.Requests = grow(spec.Storage.Resources.Requests)
	}
}

// treeOf returns a spec as JSON values, without those that are null. Numbers keep their digits.
func treeOf(spec *kubevirtv1.VirtualMachineSpec) (map[string]any, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("writing the VirtualMachine: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree map[string]any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("reading the VirtualMachine: %w", err)
	}
	return tree, nil
}

// escaper escapes all text of a tree, so that it renders to itself.
type escaper struct{ escaped bool }

func (e *escaper) text(text string) string {
	escaped := templates.Escape(text, templates.DollarParameter)
	e.escaped = e.escaped || escaped != text
	return escaped
}

func (e *escaper) object(members map[string]any) map[string]any {
	object := make(map[string]any, len(members))
	for key, value := range members {
		if value != nil {
			object[e.text(key)] = e.value(value)
		}
	}
	return object
}

func (e *escaper) value(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return e.object(v)
	case []any:
		for i := range v {
			v[i] = e.value(v[i])
		}
	case string:
		return e.text(v)
	}
	return value
}

// parameterize adds the parameter NAME to the end of the name at a path.
func parameterize(tree map[string]any, path ...any) error {
	var node any = tree
	for _, step := range path[:len(path)-1] {
		switch s := step.(type) {
		case string:
			object, _ := node.(map[string]any)
			node = object[s]
		case int:
			list, _ := node.([]any)
			if s >= len(list) {
				return fmt.Errorf("the VirtualMachine has no %v", path)
			}
			node = list[s]
		}
	}
	object, isObject := node.(map[string]any)
	last, _ := path[len(path)-1].(string)
	name, isText := object[last].(string)
	if !isObject || !isText {
		return fmt.Errorf("the VirtualMachine has no %v", path)
	}
	object[last] = name + suffix
	return nil
}
