package validators_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/validators"
)

// findingsOf are those of the rules with the ids.
func findingsOf(t *testing.T, s *validators.Subject, ids ...string) (found []string) {
	t.Helper()
	base, err := validators.Base()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range base.Check(s, validators.OnSpec) {
		for _, id := range ids {
			if f.Rule == id {
				found = append(found, f.Rule+": "+f.Error.Error())
			}
		}
	}
	return found
}

// A VM from the time of a dropped binding can be edited, so the update of a VM does not speak of the gate.
func TestDroppedBindingOfAVM(t *testing.T) {
	spec := &v1.VirtualMachineInstanceSpec{}
	spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "a", InterfaceBindingMethod: v1.InterfaceBindingMethod{DeprecatedMacvtap: &v1.DeprecatedInterfaceMacvtap{}}}}
	subject := &validators.Subject{
		Facts: factsFrom(t, `developerConfiguration: {featureGates: [Macvtap]}`),
		Spec:  spec, Path: field.NewPath("spec", "template", "spec"), VM: &v1.VirtualMachine{},
	}
	const (
		binding = `interface-binding-discontinued: spec.template.spec.domain.devices.interfaces[0].macvtap: Invalid value: "macvtap": KubeVirt has dropped this binding; use a binding plugin`
		gate    = `interface-binding-gate: spec.template.spec.domain.devices.interfaces[0].macvtap: Unsupported value: "macvtap": the feature gate Macvtap, which the KubeVirt resource names, does not bring this binding back`
	)
	ids := []string{"interface-binding-discontinued", "interface-binding-gate"}
	if diff := cmp.Diff([]string{binding, gate}, findingsOf(t, subject, ids...)); diff != "" {
		t.Errorf("at the creation (-want +got):\n%s", diff)
	}
	subject.OldVM = &v1.VirtualMachine{}
	if diff := cmp.Diff([]string{binding}, findingsOf(t, subject, ids...)); diff != "" {
		t.Errorf("at an update (-want +got):\n%s", diff)
	}
}

func TestManyNetworks(t *testing.T) {
	spec := &v1.VirtualMachineInstanceSpec{}
	for i := range 300 {
		name := fmt.Sprintf("n%d", i)
		spec.Networks = append(spec.Networks, v1.Network{Name: name, NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "nad"}}})
		spec.Domain.Devices.Interfaces = append(spec.Domain.Devices.Interfaces, v1.Interface{Name: name, InterfaceBindingMethod: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}})
	}
	spec.Networks[298].Name = "n0"
	spec.Domain.Devices.Interfaces[299].Name = "other"
	subject := &validators.Subject{Facts: factsFrom(t, ""), Spec: spec, Path: field.NewPath("spec")}
	want := []string{
		`interface-has-network: spec.domain.devices.interfaces[298].name: Invalid value: "n298": no network has this name; every interface needs one`,
		`interface-has-network: spec.domain.devices.interfaces[299].name: Invalid value: "other": no network has this name; every interface needs one`,
		`network-names-unique: spec.networks[298].name: Duplicate value: "n0": networks[0] has this name already`,
		`network-has-interface: spec.networks[299].name: Required value: network "n299" has no interface; there must be one of the same name`,
	}
	if diff := cmp.Diff(want, findingsOf(t, subject, "interface-has-network", "network-names-unique", "network-has-interface")); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
