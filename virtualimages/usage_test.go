package virtualimages

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

func TestReferences(t *testing.T) {
	other := "images"
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "vm"}}
	template := func(spec cdiv1beta1.DataVolumeSpec) kubevirtv1.DataVolumeTemplateSpec {
		return kubevirtv1.DataVolumeTemplateSpec{Spec: spec}
	}
	vm.Spec.DataVolumeTemplates = []kubevirtv1.DataVolumeTemplateSpec{
		template(cdiv1beta1.DataVolumeSpec{SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "datasource", Name: "fedora"}}),
		template(cdiv1beta1.DataVolumeSpec{SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: "fedora", Namespace: &other}}),
		template(cdiv1beta1.DataVolumeSpec{SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: "fedora"}}),
		template(cdiv1beta1.DataVolumeSpec{Source: &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: other, Name: "fedora-0b6c7c0e"}}}),
		template(cdiv1beta1.DataVolumeSpec{SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "Secret", Name: "fedora"}}),
	}
	if got := ReferencesOfMachine(vm); len(got) != 3 {
		t.Errorf("references without a template: %v", got)
	}
	vm.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{}
	claim := corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}
	vm.Spec.Template.Spec.Volumes = []kubevirtv1.Volume{
		{VolumeSource: kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: "root"}}},
		{VolumeSource: kubevirtv1.VolumeSource{PersistentVolumeClaim: &kubevirtv1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: claim}}},
		{VolumeSource: kubevirtv1.VolumeSource{Ephemeral: &kubevirtv1.EphemeralVolumeSource{PersistentVolumeClaim: &claim}}},
		{VolumeSource: kubevirtv1.VolumeSource{Ephemeral: &kubevirtv1.EphemeralVolumeSource{}}},
	}
	want := []Reference{
		{Namespace: "images", Name: "fedora"},
		{Claim: true, Namespace: "images", Name: "fedora-0b6c7c0e"},
		{Claim: true, Namespace: "team", Name: "data"},
		{Namespace: "team", Name: "fedora"},
		{Claim: true, Namespace: "team", Name: "root"},
	}
	if diff := cmp.Diff(want, ReferencesOfMachine(vm)); diff != "" {
		t.Error(diff)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: vm.ObjectMeta, Spec: vm.Spec.Template.Spec}
	if got := ReferencesOfInstance(vmi); len(got) != 2 {
		t.Errorf("references of an instance: %v", got)
	}
	dv := &cdiv1beta1.DataVolume{ObjectMeta: vm.ObjectMeta, Spec: vm.Spec.DataVolumeTemplates[1].Spec}
	if got := ReferencesOfDataVolume(dv); len(got) != 1 {
		t.Errorf("references of a DataVolume: %v", got)
	}
	if dv.Status.Phase = cdiv1beta1.Succeeded; len(ReferencesOfDataVolume(dv)) != 0 {
		t.Error("a DataVolume that is complete refers to its source")
	}
	image := newSimulation().image
	for reference, of := range map[Reference]bool{
		{Namespace: "team", Name: "fedora"}:                       true,
		{Namespace: "images", Name: "fedora"}:                     false,
		{Claim: true, Namespace: "team", Name: "fedora"}:          false,
		{Claim: true, Namespace: "team", Name: "fedora-0b6c7c0e"}: true,
	} {
		if slices.Contains(ReferencesTo(image), reference) != of {
			t.Errorf("%v of %s: %v", reference, image.Name, !of)
		}
	}
}

// TestListed: the status names users of the namespace of the image, and only counts those of other namespaces.
func TestListed(t *testing.T) {
	many := func(namespace string, n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("%s/vm-%03d", namespace, i))
		}
		return names
	}
	for name, test := range map[string]struct {
		users []string
		want  []string
	}{
		"none":                 {nil, nil},
		"own, each once":       {[]string{"team/b", "team/a", "team/b"}, []string{"team/a", "team/b"}},
		"others":               {[]string{"secret/a", "secret/b", "team2/c"}, []string{"3 in other namespaces"}},
		"own and others":       {[]string{"secret/a", "team/a"}, []string{"team/a", "and 1 more in other namespaces"}},
		"many":                 {many("team", 25), append(many("team", MaxListed), "and 5 more")},
		"many, also of others": {append(many("secret", 30), many("team", 25)...), append(many("team", MaxListed), "and 35 more, 30 of them in other namespaces")},
	} {
		t.Run(name, func(t *testing.T) {
			users := CountUsers("team", test.users)
			if diff := cmp.Diff(test.want, users.Listed(), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
