package crds

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestAllIsSortedAndStoresOneVersion(t *testing.T) {
	definitions, err := All()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, definition := range definitions {
		names = append(names, definition.Name)
		stored := 0
		for _, version := range definition.Spec.Versions {
			if version.Storage {
				stored++
			}
		}
		if stored != 1 {
			t.Errorf("%s stores %d versions", definition.Name, stored)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("not sorted or not unique: %v", names)
	}
	for _, want := range []string{
		"kubevirts.kubevirt.io", "virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io",
		"virtualmachineclusterinstancetypes.instancetype.kubevirt.io", "datavolumes.cdi.kubevirt.io", "datasources.cdi.kubevirt.io",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestSeedVariantHasBothLists(t *testing.T) {
	variant, err := Variant(SeedHypervisor)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range variant.Spec.Versions {
		configuration := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["configuration"]
		seed, own := configuration.Properties["hypervisor"], configuration.Properties["hypervisors"]
		if seed.Type != "array" || seed.MaxItems != nil || seed.Items == nil {
			t.Errorf("version %s: hypervisor is %+v, want a list without a limit", version.Name, seed)
			continue
		}
		for _, field := range []string{"name", "hypervisorDevice", "virtType"} {
			if property := seed.Items.Schema.Properties[field]; property.Type != "string" || len(property.Enum) != 0 {
				t.Errorf("version %s: hypervisor[].%s is %+v, want any string", version.Name, field, property)
			}
		}
		if own.MaxItems == nil || *own.MaxItems != 1 {
			t.Errorf("version %s: hypervisors allows %v entries, want 1", version.Name, own.MaxItems)
		}
	}
	if variant.Spec.Scope != apiextensionsv1.NamespaceScoped {
		t.Errorf("scope %q", variant.Spec.Scope)
	}
}

func TestAnUnknownVariantIsNamed(t *testing.T) {
	_, err := Variant("other")
	if want := "reading the definition variants/other.yaml: open variants/other.yaml: file does not exist"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
