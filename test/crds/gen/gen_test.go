package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func named(name string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i, version := range versions {
		definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
		})
	}
	return definition
}

// complete has every kind that the table treats.
func complete() definitionsByName {
	definitions := definitionsByName{}
	for name := range treatments {
		definitions[name] = named(name, "v1")
	}
	return definitions
}

func TestTreatNoticesThatTheAPIHasMoved(t *testing.T) {
	definitions := complete()
	delete(definitions, "kubevirts.kubevirt.io")
	definitions["news.kubevirt.io"] = named("news.kubevirt.io", "v1")
	definitions["datavolumes.cdi.kubevirt.io"] = named("datavolumes.cdi.kubevirt.io", "v1beta1")
	err := treat(definitions)
	want := "the table does not say how KubeVirt's operator installs news.kubevirt.io\n" +
		"the table treats kubevirts.kubevirt.io, which KubeVirt's types no longer have"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTreatAddsWhatTheTypesDoNotSay(t *testing.T) {
	definitions := complete()
	if err := treat(definitions); err != nil {
		t.Fatal(err)
	}
	vm, vmi := definitions["virtualmachines.kubevirt.io"], definitions["virtualmachineinstances.kubevirt.io"]
	if diff := cmp.Diff([]string{"vm", "vms"}, vm.Spec.Names.ShortNames); diff != "" {
		t.Errorf("the short names differ (-want +got):\n%s", diff)
	}
	for _, version := range vm.Spec.Versions {
		if version.Subresources == nil || version.Subresources.Status == nil {
			t.Errorf("VirtualMachine %s has no status subresource", version.Name)
		}
	}
	for _, version := range vmi.Spec.Versions {
		if version.Subresources != nil {
			t.Errorf("VirtualMachineInstance %s has subresources", version.Name)
		}
	}
	if got := vmi.Spec.Versions; len(got) != 2 || got[1].Name != "v1alpha3" || got[1].Storage || !got[1].Deprecated {
		t.Errorf("the versions of VirtualMachineInstance are %+v", got)
	}
	if got := definitions["virtualmachineclusterpreferences.instancetype.kubevirt.io"].Spec.Scope; got != apiextensionsv1.ClusterScoped {
		t.Errorf("the scope of a cluster preference is %q", got)
	}
}

func TestOlderVersionsHaveTheSchemaOfTheNewest(t *testing.T) {
	definition := named("a", "v1")
	definition.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
	treatment{deprecated: "old", older: []served{{version: "v1beta1"}, {version: "v1alpha3", stored: true, warning: "older"}}}.apply(definition)
	for i, want := range []struct {
		name    string
		storage bool
		warning string
	}{{"v1", false, "old"}, {"v1beta1", false, ""}, {"v1alpha3", true, "older"}} {
		got := definition.Spec.Versions[i]
		warning := ""
		if got.DeprecationWarning != nil {
			warning = *got.DeprecationWarning
		}
		if got.Name != want.name || !got.Served || got.Storage != want.storage || warning != want.warning || got.Deprecated != (want.warning != "") || got.Schema.OpenAPIV3Schema.Type != "object" {
			t.Errorf("version %d is %+v, want %+v", i, got, want)
		}
	}
}

func TestSeedVariantNeedsTheConfiguration(t *testing.T) {
	definition := named("kubevirts.kubevirt.io", "v1")
	definition.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{}}
	_, err := withSeedHypervisor(definition)
	if want := "kubevirts.kubevirt.io has no spec.configuration in version v1"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
