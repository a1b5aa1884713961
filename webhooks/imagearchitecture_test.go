package webhooks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/test/build"
)

// clones is a VM of an architecture that clones DataSources.
func clones(architecture string, sources ...string) *v1.VirtualMachine {
	vm := build.VM("db").Obj()
	vm.Spec.Template.Spec.Architecture = architecture
	for i, source := range sources {
		namespace, name, found := strings.Cut(source, "/")
		ref := &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: source}
		if found {
			ref.Namespace, ref.Name = &namespace, name
		}
		disk := string(rune('a' + i))
		template := v1.DataVolumeTemplateSpec{Spec: cdiv1beta1.DataVolumeSpec{SourceRef: ref, Storage: &cdiv1beta1.StorageSpec{}}}
		template.Name = disk
		vm.Spec.DataVolumeTemplates = append(vm.Spec.DataVolumeTemplates, template)
		vm.Spec.Template.Spec.Volumes = append(vm.Spec.Template.Spec.Volumes, v1.Volume{Name: "image-" + disk, VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: disk}}})
		vm.Spec.Template.Spec.Domain.Devices.Disks = append(vm.Spec.Template.Spec.Domain.Devices.Disks, v1.Disk{Name: "image-" + disk, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "virtio"}}})
	}
	return vm
}

// dataSource is a DataSource, which points to another one unless target is empty.
func dataSource(name, architecture, target string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"source": map[string]any{}}}}
	object.SetGroupVersionKind(apikinds.DataSources.GroupVersionKind)
	object.SetNamespace("images")
	object.SetName(name)
	if architecture != "" {
		object.SetLabels(map[string]string{"template.kubevirt.io/architecture": architecture})
	}
	if target != "" {
		_ = unstructured.SetNestedMap(object.Object, map[string]any{"namespace": "images", "name": target}, "spec", "source", "dataSource")
	}
	return object
}

// TestImageArchitecture compares the architecture of a VM with that of the image that it clones.
func TestImageArchitecture(t *testing.T) {
	objects := []*unstructured.Unstructured{
		dataSource("fedora", "amd64", "fedora-arm64"), dataSource("fedora-arm64", "arm64", ""), dataSource("fedora-amd64", "amd64", ""), dataSource("plain", "", ""),
	}
	const wrong = "FieldValueInvalid spec.dataVolumeTemplates[0].spec.sourceRef"
	for name, c := range map[string]struct {
		vm, old *v1.VirtualMachine
		nodes   []string
		want    string
	}{
		"the image of the VM":                      {vm: clones("arm64", "images/fedora-arm64")},
		"the image of another architecture":        {vm: clones("amd64", "images/fedora-arm64"), want: wrong},
		"a pointer, whose own label is old":        {vm: clones("arm64", "images/fedora")},
		"a pointer to another architecture":        {vm: clones("amd64", "images/fedora"), want: wrong},
		"the first label counts":                   {vm: clones("amd64", "images/plain", "images/fedora-amd64", "images/fedora-arm64")},
		"the second one is the first with a label": {vm: clones("arm64", "images/plain", "images/fedora-amd64"), want: "FieldValueInvalid spec.dataVolumeTemplates[1].spec.sourceRef"},
		"an image that does not exist":             {vm: clones("arm64", "images/none")},
		"without an image":                         {vm: clones("arm64")},
		"an update of something else":              {vm: labelled(clones("amd64", "images/fedora-arm64")), old: clones("amd64", "images/fedora-arm64")},
		"an update of the architecture":            {vm: clones("amd64", "images/fedora-arm64"), old: clones("arm64", "images/fedora-arm64"), want: wrong},
		"an update that keeps the fault":           {vm: clones("amd64", "images/fedora-arm64", "images/plain"), old: clones("amd64", "images/fedora-arm64"), want: "warning golden-image-architecture"},
		"no node":                                  {vm: clones("arm64", "images/fedora-arm64"), nodes: []string{"amd64"}, want: "warning node-architecture"},
		"a node":                                   {vm: clones("arm64", "images/fedora-arm64"), nodes: []string{"amd64", "arm64"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t, objects...)
			live(v.Evaluator).GetNodeArchitectures = func() []string { return c.nodes }
			body := reviewOf(t, apikinds.VirtualMachine, c.vm)
			if c.old != nil {
				body = reviewOf(t, apikinds.VirtualMachine, c.vm, update(t, c.old))
			}
			var got []string
			for _, said := range complaints(evaluated(t, v, body)) {
				switch {
				case strings.Contains(said, "virtward: "): // how many
				case strings.HasPrefix(said, "warning: ") && strings.Contains(said, "golden-image-architecture"):
					got = append(got, "warning golden-image-architecture")
				case strings.HasPrefix(said, "warning: ") && strings.Contains(said, "node-architecture"):
					got = append(got, "warning node-architecture")
				case strings.Contains(said, "the image of this DataSource is for"):
					got = append(got, strings.SplitN(said, ":", 2)[0])
				}
			}
			if diff := cmp.Diff(c.want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("-want +got:\n%s\n%v", diff, complaints(evaluated(t, v, body)))
			}
		})
	}
}

func labelled(vm *v1.VirtualMachine) *v1.VirtualMachine {
	vm.Labels = map[string]string{"a": "b"}
	return vm
}
