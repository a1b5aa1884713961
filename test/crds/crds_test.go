package crds

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestServedVersions: each kind has the versions that KubeVirt 1.9 serves, and stores the one that KubeVirt stores. The Go types do
// not have the older ones.
func TestServedVersions(t *testing.T) {
	want := map[string]string{
		"virtualmachines.kubevirt.io":                                 "v1* v1alpha3",
		"virtualmachineinstances.kubevirt.io":                         "v1* v1alpha3",
		"virtualmachineinstancereplicasets.kubevirt.io":               "v1* v1alpha3",
		"virtualmachineinstancepresets.kubevirt.io":                   "v1 v1alpha3*",
		"virtualmachinepools.pool.kubevirt.io":                        "v1alpha1 v1beta1*",
		"virtualmachineclones.clone.kubevirt.io":                      "v1alpha1 v1beta1*",
		"virtualmachinesnapshots.snapshot.kubevirt.io":                "v1alpha1 v1beta1*",
		"virtualmachinesnapshotcontents.snapshot.kubevirt.io":         "v1alpha1 v1beta1*",
		"virtualmachinerestores.snapshot.kubevirt.io":                 "v1alpha1 v1beta1*",
		"virtualmachineexports.export.kubevirt.io":                    "v1* v1beta1",
		"virtualmachineclusterinstancetypes.instancetype.kubevirt.io": "v1beta1*",
		"virtualmachinepreferences.instancetype.kubevirt.io":          "v1beta1*",
		"migrationpolicies.migrations.kubevirt.io":                    "v1alpha1*",
	}
	definitions, err := All()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, definition := range definitions {
		var versions []string
		for _, version := range definition.Spec.Versions {
			name := version.Name
			if version.Storage {
				name += "*"
			}
			if version.Served {
				versions = append(versions, name)
			}
		}
		slices.Sort(versions)
		if want[definition.Name] != "" {
			got[definition.Name] = strings.Join(versions, " ")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the served versions differ (-want +got):\n%s", diff)
	}
}

// TestDevicesAreRequired: KubeVirt's schema requires the devices of a domain in each kind that has one.
func TestDevicesAreRequired(t *testing.T) {
	paths := map[string]string{
		"virtualmachines.kubevirt.io":                   "spec.template.spec.domain",
		"virtualmachineinstances.kubevirt.io":           "spec.domain",
		"virtualmachineinstancereplicasets.kubevirt.io": "spec.template.spec.domain",
		"virtualmachinepools.pool.kubevirt.io":          "spec.virtualMachineTemplate.spec.template.spec.domain",
	}
	definitions, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
		path, found := paths[definition.Name]
		if !found {
			continue
		}
		delete(paths, definition.Name)
		for _, version := range definition.Spec.Versions {
			schema := *version.Schema.OpenAPIV3Schema
			for step := range strings.SplitSeq(path, ".") {
				schema = schema.Properties[step]
			}
			if !slices.Contains(schema.Required, "devices") {
				t.Errorf("%s %s requires %v of %s", definition.Name, version.Name, schema.Required, path)
			}
		}
	}
	if len(paths) > 0 {
		t.Errorf("there is no definition of %v", paths)
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
