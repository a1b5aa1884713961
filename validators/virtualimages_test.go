package validators

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/platform"
)

func TestVirtualImages(t *testing.T) {
	sized := func(list, size string) k8sv1.ResourceList {
		if size == "" {
			return nil
		}
		return k8sv1.ResourceList{k8sv1.ResourceName(list): resource.MustParse(size)}
	}
	at := field.NewPath("spec", "dataVolumeTemplates").Index(0).Child("spec", "sourceRef")
	image := VirtualImage{Name: "team/fedora", Field: at, MinDisk: 10, MinRAM: 2048}
	deleted, small := image, image
	deleted.Deleted, deleted.MinDisk, deleted.MinRAM = true, 0, 0
	small.Name, small.MinRAM, small.MinDisk = "team/small", 512, 0
	const disk = `virtual-image-disk: spec.dataVolumeTemplates[0].spec.storage.resources.requests.storage: Invalid value: "9Gi": VirtualImage team/fedora requires at least 10Gi of disk (spec.minDisk)`
	const memory = `: VirtualImage team/fedora requires at least 2Gi of memory (spec.minRam)`
	for name, c := range map[string]struct {
		images                []VirtualImage
		guest, request, limit string
		storage, claim        string
		want                  []string
	}{
		"enough":                  {images: []VirtualImage{image}, guest: "2Gi", storage: "10Gi"},
		"no image":                {guest: "1Gi", storage: "1Gi"},
		"deleted":                 {images: []VirtualImage{deleted}, guest: "2Gi", want: []string{`virtual-image-deleted: spec.dataVolumeTemplates[0].spec.sourceRef: Invalid value: "team/fedora": this VirtualImage is being deleted`}},
		"guest":                   {images: []VirtualImage{image}, guest: "2047Mi", storage: "10Gi", want: []string{`virtual-image-memory: spec.template.spec.domain.memory.guest: Invalid value: "2047Mi"` + memory}},
		"request":                 {images: []VirtualImage{image}, request: "1Gi", want: []string{`virtual-image-memory: spec.template.spec.domain.resources.requests.memory: Invalid value: "1Gi"` + memory}},
		"guest before request":    {images: []VirtualImage{image}, guest: "2Gi", request: "1Gi"},
		"limit":                   {images: []VirtualImage{image}, limit: "1Gi", want: []string{`virtual-image-memory: spec.template.spec.domain.resources.limits.memory: Invalid value: "1Gi"` + memory}},
		"unknown memory":          {images: []VirtualImage{image}},
		"the largest minimum":     {images: []VirtualImage{small, image, small}, guest: "1Gi", want: []string{`virtual-image-memory: spec.template.spec.domain.memory.guest: Invalid value: "1Gi"` + memory}},
		"disk":                    {images: []VirtualImage{image}, guest: "2Gi", storage: "9Gi", want: []string{disk}},
		"disk as claim":           {images: []VirtualImage{image}, guest: "2Gi", claim: "1G", want: []string{`virtual-image-disk: spec.dataVolumeTemplates[0].spec.pvc.resources.requests.storage: Invalid value: "1G": VirtualImage team/fedora requires at least 10Gi of disk (spec.minDisk)`}},
		"size of the image":       {images: []VirtualImage{image}, guest: "2Gi"},
		"no minimum":              {images: []VirtualImage{small}, guest: "1Gi", storage: "1Mi"},
		"a volume, not a clone":   {images: []VirtualImage{{Name: "team/fedora", Field: at, Template: -1, MinDisk: 10}}, storage: "1Gi"},
		"a template that is gone": {images: []VirtualImage{{Name: "team/fedora", Field: at, Template: 7, MinDisk: 10}}, storage: "1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{}}}
			template := v1.DataVolumeTemplateSpec{}
			if c.storage != "" {
				template.Spec.Storage = &cdiv1beta1.StorageSpec{Resources: k8sv1.VolumeResourceRequirements{Requests: sized("storage", c.storage)}}
			}
			if c.claim != "" {
				template.Spec.PVC = &k8sv1.PersistentVolumeClaimSpec{Resources: k8sv1.VolumeResourceRequirements{Requests: sized("storage", c.claim)}}
			}
			vm.Spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{template}
			domain := &vm.Spec.Template.Spec.Domain
			if c.guest != "" {
				guest := resource.MustParse(c.guest)
				domain.Memory = &v1.Memory{Guest: &guest}
			}
			domain.Resources.Requests, domain.Resources.Limits = sized("memory", c.request), sized("memory", c.limit)
			s := &Subject{
				Facts: platform.Defaults(platform.Settings{}), Spec: &vm.Spec.Template.Spec, Path: field.NewPath("spec", "template", "spec"), VM: vm, VirtualImages: c.images,
			}
			var got []string
			for _, scope := range []Scope{OnSpec, OnVM} {
				for _, f := range virtualImageRules().Check(s, scope) {
					got = append(got, f.Rule+": "+f.Error.Error())
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSameVirtualImages(t *testing.T) {
	vm := func(change func(*v1.VirtualMachine)) *v1.VirtualMachine {
		guest := resource.MustParse("1Gi")
		vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{}, DataVolumeTemplates: []v1.DataVolumeTemplateSpec{{}}}}
		vm.Spec.Template.Spec.Domain.Memory = &v1.Memory{Guest: &guest}
		change(vm)
		return vm
	}
	same := func(*v1.VirtualMachine) {}
	for name, c := range map[string]struct {
		change func(*v1.VirtualMachine)
		want   bool
	}{
		"nothing": {same, true},
		"a label": {func(vm *v1.VirtualMachine) { vm.Labels = map[string]string{"a": "b"} }, true},
		"an image": {func(vm *v1.VirtualMachine) {
			vm.Spec.DataVolumeTemplates[0].Spec.SourceRef = &cdiv1beta1.DataVolumeSourceRef{Name: "a"}
		}, false},
		"a volume":     {func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Volumes = []v1.Volume{{Name: "a"}} }, false},
		"memory":       {func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Domain.Memory = nil }, false},
		"instancetype": {func(vm *v1.VirtualMachine) { vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "a"} }, false},
		"a request": {func(vm *v1.VirtualMachine) {
			vm.Spec.Template.Spec.Domain.Resources.Requests = k8sv1.ResourceList{"memory": resource.MustParse("1Gi")}
		}, false},
		"a template": {func(vm *v1.VirtualMachine) { vm.Spec.Template = nil }, false},
	} {
		if got := SameVirtualImages(vm(c.change), vm(same)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if SameVirtualImages(vm(same), nil) {
		t.Error("a creation")
	}
}
