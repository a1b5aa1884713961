package validators

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// A VM from the time of a dropped binding can be edited, so the update of a VM does not speak of the gate.
func TestDroppedBindingOfAVM(t *testing.T) {
	const (
		binding = `interface-binding-discontinued: spec.template.spec.domain.devices.interfaces[0].macvtap: Invalid value: "macvtap": KubeVirt has dropped this binding; use a binding plugin`
		gate    = `interface-binding-gate: spec.template.spec.domain.devices.interfaces[0].macvtap: Unsupported value: "macvtap": the feature gate Macvtap, which the KubeVirt resource names, does not enable this binding again`
		vm      = `{spec: {template: {spec: {domain: {devices: {interfaces: [{name: a, macvtap: {}}]}}, networks: [{name: a, multus: {networkName: nad}}]}}}}`
	)
	for name, tc := range map[string]ruleCase{
		"at the creation": {vm: vm, want: []string{binding, gate}},
		"at an update":    {vm: vm, old: vm, want: []string{binding}},
	} {
		tc.configuration = `{developerConfiguration: {featureGates: [Macvtap]}}`
		if diff := cmp.Diff(tc.want, messages(networkRules().area("interface-binding").Check(tc.subject(t), OnSpec))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
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
	subject := &Subject{Facts: configuredFacts(t, ""), Spec: spec, Path: field.NewPath("spec")}
	want := []string{
		`interface-has-network: spec.domain.devices.interfaces[298].name: Invalid value: "n298": no network has this name`,
		`interface-has-network: spec.domain.devices.interfaces[299].name: Invalid value: "other": no network has this name`,
		`network-names-unique: spec.networks[298].name: Duplicate value: "n0": networks[0] already has this name`,
		`network-has-interface: spec.networks[299].name: Required value: network "n299" has no interface`,
	}
	if diff := cmp.Diff(want, messages(networkRules().Check(subject, OnSpec))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
