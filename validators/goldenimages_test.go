package validators

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/platform"
)

func TestArchitectures(t *testing.T) {
	vm := func(architecture, source string) *v1.VirtualMachine {
		vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{}}}
		vm.Spec.Template.Spec.Architecture = architecture
		vm.Spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{}, {Spec: cdiv1beta1.DataVolumeSpec{SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: source}}}}
		return vm
	}
	const mismatch = `golden-image-architecture: spec.dataVolumeTemplates[1].spec.sourceRef: Invalid value: "images/fedora": the image of this DataSource is for arm64, and the architecture of the VM is amd64`
	image := &Image{Template: 1, DataSource: "images/fedora", Architecture: "arm64"}
	for name, c := range map[string]struct {
		vm, old *v1.VirtualMachine
		image   *Image
		nodes   []string
		want    []string
	}{
		"the same":                      {vm: vm("arm64", "fedora"), image: image, nodes: []string{"amd64", "arm64"}},
		"another one":                   {vm: vm("amd64", "fedora"), image: image, want: []string{mismatch}},
		"no image":                      {vm: vm("amd64", "fedora")},
		"another one, as before":        {vm: vm("amd64", "fedora"), old: vm("amd64", "fedora"), image: image},
		"another image":                 {vm: vm("amd64", "fedora"), old: vm("amd64", "debian"), image: image, want: []string{mismatch}},
		"another architecture":          {vm: vm("amd64", "fedora"), old: vm("arm64", "fedora"), image: image, want: []string{mismatch}},
		"no node":                       {vm: vm("s390x", "fedora"), nodes: []string{"amd64", "arm64"}, want: []string{`node-architecture: spec.template.spec.architecture: Invalid value: "s390x": no node for virtual machines has this architecture; nodes have amd64, arm64`}},
		"no node, for the image, too":   {vm: vm("amd64", "fedora"), image: image, nodes: []string{"arm64"}, want: []string{mismatch, `node-architecture: spec.template.spec.architecture: Invalid value: "amd64": no node for virtual machines has this architecture; nodes have arm64`}},
		"nodes that are not known":      {vm: vm("s390x", "fedora")},
		"an architecture not known yet": {vm: vm("", "fedora"), nodes: []string{"amd64"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Subject{
				Facts: platform.Defaults(platform.Settings{}), Spec: &c.vm.Spec.Template.Spec, Path: field.NewPath("spec", "template", "spec"),
				VM: c.vm, OldVM: c.old, Image: c.image, NodeArchitectures: c.nodes,
			}
			var got []string
			for _, f := range goldenImageRules().Check(s, OnVM) {
				got = append(got, f.Rule+": "+f.Error.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
