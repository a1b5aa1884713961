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
	return Table{
		{
			ID: "interface-binding", Title: "An interface has exactly one binding", Scope: OnSpec,
			Remedy: "Give the interface exactly one of bridge, masquerade, sriov, passtBinding and binding.",
			Check:  interfaceBinding,
		},
		{
			ID: "interface-binding-discontinued", Title: "Bindings that KubeVirt has dropped are not used", Scope: OnSpec,
			Remedy: "Use masquerade or passtBinding instead of slirp and passt, and a binding plugin instead of macvtap.",
			Check:  interfaceBindingDiscontinued,
		},
		{
			ID: "interface-binding-gate", Title: "A binding that KubeVirt has dropped is not used with its feature gate either", Scope: OnSpec,
			Remedy: "Use another binding; have the admin take the gate out of the KubeVirt resource.",
			Check:  interfaceBindingGate,
		},
		{
			ID: "interface-masquerade-network", Title: "Masquerade binds to the pod network", Scope: OnSpec,
			Remedy: "Use bridge for this network, or make it the pod network.",
			Check:  interfaceMasqueradeNetwork,
		},
		{
			ID: "interface-masquerade-mac", Title: "A masquerade interface does not take the MAC address of KubeVirt's own bridge", Scope: OnSpec,
			Remedy: "Choose another MAC address, or leave it to KubeVirt.",
			Check:  interfaceMasqueradeMAC,
		},
		{
			ID: "interface-bridge-pod-network", Title: "A bridge binds to the pod network only where the cluster permits it", Scope: OnSpec, Security: true,
			Remedy: "Use masquerade, or have the admin set permitBridgeInterfaceOnPodNetwork.",
			Check:  interfaceBridgePodNetwork,
		},
		{
			ID: "interface-passt-gate", Title: "passtBinding needs the feature gate PasstBinding", Scope: OnSpec,
			Remedy: "Use masquerade, or have the admin enable the gate.",
			Check:  interfacePasstGate,
		},
		{
			ID: "interface-passt-network", Title: "passtBinding binds to the pod network", Scope: OnSpec,
			Remedy: "Use bridge for this network, or make it the pod network.",
			Check:  interfacePasstNetwork,
		},
	}
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

func interfaceBinding(s *Subject) field.ErrorList {
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		names := bindingsOf(n)
		switch len(names) {
		case 1:
			return nil
		case 0:
			return field.Invalid(interfacePath(s, i), shortened(n.Name), "has no binding; needs exactly one of bridge, masquerade, sriov, passtBinding and binding")
		}
		return field.Invalid(interfacePath(s, i), shortened(n.Name), fmt.Sprintf("has the bindings %s; needs exactly one", strings.Join(names, ", ")))
	})
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
func eachDropped(s *Subject, report func(path *field.Path, b *droppedBinding) *field.Error) (found field.ErrorList) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range interfaces {
		if enough(found) {
			return cutShort(found, len(interfaces)-i)
		}
		for j := range droppedBindings {
			if b := &droppedBindings[j]; b.given(&interfaces[i]) {
				if err := report(interfacePath(s, i).Child(b.name), b); err != nil {
					found = append(found, err)
				}
			}
		}
	}
	return found
}

func interfaceBindingDiscontinued(s *Subject) field.ErrorList {
	return eachDropped(s, func(path *field.Path, b *droppedBinding) *field.Error {
		return field.Invalid(path, b.name, "KubeVirt has dropped this binding; use "+b.instead)
	})
}

// interfaceBindingGate is for those who named the gate to get the binding. KubeVirt looks at it when an object
// is created, but not when a VM is updated.
func interfaceBindingGate(s *Subject) field.ErrorList {
	if s.OldVM != nil {
		return nil
	}
	return eachDropped(s, func(path *field.Path, b *droppedBinding) *field.Error {
		if !slices.Contains(s.Facts.DiscontinuedGates(), b.gate) {
			return nil
		}
		err := field.NotSupported(path, b.name, []string{})
		err.Detail = "the feature gate " + b.gate + ", which the KubeVirt resource names, does not bring this binding back"
		return err
	})
}

func interfaceMasqueradeNetwork(s *Subject) field.ErrorList {
	byName := networkByName(s)
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Masquerade == nil || isPodNetwork(byName(n.Name)) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("name"), shortened(n.Name), "masquerade works with the pod network only")
	})
}

func isPodNetwork(n *v1.Network) bool { return n != nil && n.Pod != nil }

func interfaceMasqueradeMAC(s *Subject) field.ErrorList {
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Masquerade == nil || n.MacAddress != reservedMAC {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("macAddress"), n.MacAddress,
			"belongs to the bridge that KubeVirt makes for masquerade; choose another")
	})
}

func interfaceBridgePodNetwork(s *Subject) field.ErrorList {
	if s.Facts.PermitBridge {
		return nil
	}
	byName := networkByName(s)
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Bridge == nil || !isPodNetwork(byName(n.Name)) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("name"), shortened(n.Name), "this cluster permits no bridge on the pod network; use masquerade")
	})
}

func interfacePasstGate(s *Subject) field.ErrorList {
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.PasstBinding == nil {
			return nil
		}
		return gateOff(s, "PasstBinding", interfacePath(s, i).Child("name"), shortened(n.Name), "passtBinding")
	})
}

func interfacePasstNetwork(s *Subject) field.ErrorList {
	byName := networkByName(s)
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.PasstBinding == nil || isPodNetwork(byName(n.Name)) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("name"), shortened(n.Name), "passtBinding works with the pod network only")
	})
}
