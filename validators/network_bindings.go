package validators

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// bindingRules evaluate how the interfaces are bound to their networks.
func bindingRules() Table {
	return Scoped(OnSpec,
		interfaceBindingRule,
		interfaceBindingDiscontinuedRule,
		interfaceBindingGateRule,
		interfaceMasqueradeNetworkRule,
		interfaceMasqueradeMACRule,
		interfaceBridgePodNetworkRule,
		interfacePasstGateRule,
		interfacePasstNetworkRule,
	)
}

// reservedMAC is that of the bridge which KubeVirt makes for masquerade.
const reservedMAC = "02:00:00:00:00:00"

// bindingsOf are the bindings of an interface, those that KubeVirt has dropped aside.
func bindingsOf(n *v1.Interface) (names []string) {
	for _, b := range []struct {
		given bool
		name  string
	}{
		{n.Bridge != nil, "bridge"},
		{n.Masquerade != nil, "masquerade"},
		{n.SRIOV != nil, "sriov"},
		{n.PasstBinding != nil, "passtBinding"},
		{n.Binding != nil, "binding"},
	} {
		if b.given {
			names = append(names, b.name)
		}
	}
	return names
}

var interfaceBindingRule = Rule{
	ID:     "interface-binding",
	Title:  "An interface has exactly one binding",
	Remedy: "Set exactly one of bridge, masquerade, sriov, passtBinding and binding.",
	Check:  interfaceBinding,
}

func interfaceBinding(s *Subject, found *Errors) {
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		names := bindingsOf(n)
		switch len(names) {
		case 1:
			return nil
		case 0:
			return field.Invalid(interfacePath(s, i), shortened(n.Name), "has no binding")
		}
		return field.Invalid(interfacePath(s, i), shortened(n.Name), fmt.Sprintf("has the bindings %s", strings.Join(names, ", ")))
	}, found)
}

// droppedBinding is one that KubeVirt no longer has.
type droppedBinding struct {
	// name of its field.
	name string
	// gate that it once needed; empty if it needed none.
	gate string
	// instead is what to use now.
	instead string
	given   func(*v1.Interface) bool
}

var droppedBindings = []droppedBinding{
	{"slirp", "", "masquerade or passtBinding", func(n *v1.Interface) bool { return n.DeprecatedSlirp != nil }},
	{"passt", "Passt", "passtBinding", func(n *v1.Interface) bool { return n.DeprecatedPasst != nil }},
	{"macvtap", "Macvtap", "a binding plugin", func(n *v1.Interface) bool { return n.DeprecatedMacvtap != nil }},
}

// eachDropped reports on every binding that KubeVirt no longer has.
func eachDropped(s *Subject, report func(path *field.Path, b *droppedBinding) *field.Error, found *Errors) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range found.Each(len(interfaces)) {
		for j := range droppedBindings {
			if b := &droppedBindings[j]; b.given(&interfaces[i]) {
				found.Add(report(interfacePath(s, i).Child(b.name), b))
			}
		}
	}
}

var interfaceBindingDiscontinuedRule = Rule{
	ID:     "interface-binding-discontinued",
	Title:  "Bindings that KubeVirt has dropped are not used",
	Remedy: "Use the binding that the message names.",
	Check:  interfaceBindingDiscontinued,
}

func interfaceBindingDiscontinued(s *Subject, found *Errors) {
	eachDropped(s, func(path *field.Path, b *droppedBinding) *field.Error {
		return field.Invalid(path, b.name, "KubeVirt has dropped this binding; use "+b.instead)
	}, found)
}

var interfaceBindingGateRule = Rule{
	ID:     "interface-binding-gate",
	Title:  "A feature gate does not enable a binding that KubeVirt has dropped",
	Remedy: "Use another binding, and remove the feature gate from the KubeVirt resource.",
	Check:  interfaceBindingGate,
}

// interfaceBindingGate is for those who named the gate to get the binding. KubeVirt looks at it when an object
// is created, but not when a VM is updated.
func interfaceBindingGate(s *Subject, found *Errors) {
	if s.OldVM != nil {
		return
	}
	eachDropped(s, func(path *field.Path, b *droppedBinding) *field.Error {
		if !slices.Contains(s.Facts.DiscontinuedGates(), b.gate) {
			return nil
		}
		err := field.NotSupported(path, b.name, []string{})
		err.Detail = "the feature gate " + b.gate + ", which the KubeVirt resource names, does not enable this binding again"
		return err
	}, found)
}

var interfaceMasqueradeNetworkRule = Rule{
	ID:     "interface-masquerade-network",
	Title:  "Masquerade binds to the pod network",
	Remedy: "Use bridge for this network, or make it the pod network.",
	Check:  interfaceMasqueradeNetwork,
}

func interfaceMasqueradeNetwork(s *Subject, found *Errors) {
	byName := networkByName(s)
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Masquerade == nil || !isOtherNetwork(byName(n.Name)) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("name"), shortened(n.Name), "masquerade works with the pod network only")
	}, found)
}

func isPodNetwork(n *v1.Network) bool { return n != nil && n.Pod != nil }

// isOtherNetwork reports whether a network is not the pod network. An interface without a network has an error of its own.
func isOtherNetwork(n *v1.Network) bool { return n != nil && n.Pod == nil }

var interfaceMasqueradeMACRule = Rule{
	ID:     "interface-masquerade-mac",
	Title:  "A masquerade interface does not have the MAC address of KubeVirt's bridge",
	Remedy: "Choose another MAC address, or leave it to KubeVirt.",
	Check:  interfaceMasqueradeMAC,
}

func interfaceMasqueradeMAC(s *Subject, found *Errors) {
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Masquerade == nil || n.MacAddress != reservedMAC {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("macAddress"), n.MacAddress,
			"is the address of KubeVirt's bridge for masquerade")
	}, found)
}

var interfaceBridgePodNetworkRule = Rule{
	ID:       "interface-bridge-pod-network",
	Title:    "A bridge binds to the pod network only if the cluster permits it",
	Remedy:   "Use masquerade, or set permitBridgeInterfaceOnPodNetwork in the KubeVirt resource.",
	Security: true,
	Check:    interfaceBridgePodNetwork,
}

func interfaceBridgePodNetwork(s *Subject, found *Errors) {
	if s.Facts.PermitBridge {
		return
	}
	byName := networkByName(s)
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Bridge == nil || !isPodNetwork(byName(n.Name)) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("name"), shortened(n.Name), "this cluster permits no bridge on the pod network")
	}, found)
}

var interfacePasstGateRule = Rule{
	ID:     "interface-passt-gate",
	Title:  "passtBinding needs the feature gate PasstBinding",
	Remedy: "Use masquerade, or enable the feature gate in the KubeVirt resource.",
	Check:  interfacePasstGate,
}

func interfacePasstGate(s *Subject, found *Errors) {
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.PasstBinding == nil {
			return nil
		}
		return gateOff(s, "PasstBinding", interfacePath(s, i).Child("name"), shortened(n.Name), "passtBinding")
	}, found)
}

var interfacePasstNetworkRule = Rule{
	ID:     "interface-passt-network",
	Title:  "passtBinding binds to the pod network",
	Remedy: "Use bridge for this network, or make it the pod network.",
	Check:  interfacePasstNetwork,
}

func interfacePasstNetwork(s *Subject, found *Errors) {
	byName := networkByName(s)
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.PasstBinding == nil || !isOtherNetwork(byName(n.Name)) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("name"), shortened(n.Name), "passtBinding works with the pod network only")
	}, found)
}
