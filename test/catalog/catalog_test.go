package catalog

import (
	"os"
	"slices"
	"testing"

	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

// All objects decode strictly, and the common templates find all that they name.
func TestTheCommonTemplatesFindWhatTheyName(t *testing.T) {
	objects, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]any{}
	for _, object := range objects {
		switch o := object.(type) {
		case *instancetypev1beta1.VirtualMachineClusterInstancetype:
			specs["instancetype "+o.Name] = o.Spec
		case *instancetypev1beta1.VirtualMachineClusterPreference:
			specs["preference "+o.Name] = o.Spec
			if o.Spec.Requirements == nil || o.Spec.Requirements.CPU == nil || o.Spec.Requirements.Memory == nil || o.Spec.Devices.PreferredDiskBus != "virtio" {
				t.Errorf("preference %s: %+v", o.Name, o.Spec)
			}
		}
	}
	content, err := os.ReadFile("../../charts/virtward-common-templates/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		DataSources  struct{ Namespace string }
		Instancetype string
		Families     map[string]struct {
			DataSource, Instancetype string
			Preferences              map[string]string
		}
	}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	if values.DataSources.Namespace != ImagesNamespace || len(values.Families) < 10 {
		t.Errorf("the chart has %d families, and images in %s", len(values.Families), values.DataSources.Namespace)
	}
	for name, family := range values.Families {
		if !slices.Contains(Images(), family.DataSource) {
			t.Errorf("family %s: there is no image %s", name, family.DataSource)
		}
		wanted := []string{"instancetype " + values.Instancetype}
		if family.Instancetype != "" {
			wanted = append(wanted, "instancetype "+family.Instancetype)
		}
		for _, preference := range family.Preferences {
			wanted = append(wanted, "preference "+preference)
		}
		for _, want := range wanted {
			if specs[want] == nil {
				t.Errorf("family %s: there is no %s", name, want)
			}
		}
	}
}
