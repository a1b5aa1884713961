package validators

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// interfaceRules evaluate the interfaces, their bindings aside.
func interfaceRules() Table {
	return Table{
		{
			ID: "interface-names-unique", Title: "No two interfaces have the same name", Scope: OnSpec,
			Remedy: "Rename one of the interfaces, and its network with it.",
			Check:  interfaceNamesUnique,
		},
		{
			ID: "interface-name-format", Title: "The name of an interface is of letters, digits, - and _", Scope: OnSpec,
			Remedy: "Take other characters out of the name of the interface and of its network.",
			Check:  interfaceNameFormat,
		},
		{
			ID: "interface-has-network", Title: "Every interface has a network", Scope: OnSpec,
			Remedy: "Add a network of the same name, or remove the interface.",
			Check:  interfaceHasNetwork,
		},
		{
			ID: "interface-state", Title: "The state of an interface is up, down or absent", Scope: OnSpec,
			Remedy: "Set state to up, down or absent, or leave it out.",
			Check:  interfaceState,
		},
		{
			ID: "interface-state-sriov", Title: "The link of an SR-IOV interface is not set", Scope: OnSpec,
			Remedy: "Leave state out.",
			Check:  interfaceStateSRIOV,
		},
		{
			ID: "interface-state-absent-binding", Title: "Only an interface with bridge binding can be absent", Scope: OnSpec,
			Remedy: "Remove the interface and its network instead, and restart the VM.",
			Check:  interfaceStateAbsentBinding,
		},
		{
			ID: "interface-state-absent-default", Title: "The interface of the default network cannot be absent", Scope: OnSpec,
			Remedy: "Remove the interface and its network instead, and restart the VM.",
			Check:  interfaceStateAbsentDefault,
		},
		{
			ID: "interface-model", Title: "The model of an interface is one that KubeVirt emulates", Scope: OnSpec,
			Remedy: "Use virtio, or one of the other models.",
			Check:  interfaceModel,
		},
		{
			ID: "interface-mac", Title: "A MAC address is one of Ethernet", Scope: OnSpec,
			Remedy: "Write six pairs of hexadecimal digits, for example de:ad:00:00:be:af.",
			Check:  interfaceMAC,
		},
		{
			ID: "interface-pci-address", Title: "The PCI address of an interface is complete", Scope: OnSpec,
			Remedy: "Write domain, bus, slot and function, for example 0000:81:01.0.",
			Check:  interfacePCIAddress,
		},
		{
			ID: "interface-dhcp-option-range", Title: "Private DHCP options are within 224 and 254", Scope: OnSpec,
			Remedy: "Use a number within 224 and 254.",
			Check:  interfaceDHCPOptionRange,
		},
		{
			ID: "interface-dhcp-options-unique", Title: "No private DHCP option is given twice", Scope: OnSpec,
			Remedy: "Keep one value for the option.",
			Check:  interfaceDHCPOptionsUnique,
		},
		{
			ID: "interface-ntp-servers", Title: "NTP servers are IPv4 addresses", Scope: OnSpec,
			Remedy: "Write the IPv4 address of the server; DHCP cannot hand out its name.",
			Check:  interfaceNTPServers,
		},
	}
}

// interfaceModels are the models that KubeVirt emulates.
var interfaceModels = []string{"e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio"}

func interfacesPath(s *Subject) *field.Path { return s.Devices().Child("interfaces") }

func interfacePath(s *Subject, i int) *field.Path { return interfacesPath(s).Index(i) }

// eachInterface reports what is wrong with every interface by itself.
func eachInterface(s *Subject, check func(i int, n *v1.Interface) *field.Error) (found field.ErrorList) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range interfaces {
		if enough(found) {
			return cutShort(found, len(interfaces)-i)
		}
		if err := check(i, &interfaces[i]); err != nil {
			found = append(found, err)
		}
	}
	return found
}

func interfaceNamesUnique(s *Subject) field.ErrorList {
	interfaces := s.Spec.Domain.Devices.Interfaces
	return eachRepeated(nil, len(interfaces), func(i int) string { return interfaces[i].Name }, func(i, first int) *field.Error {
		return takenName(interfacePath(s, i).Child("name"), interfaces[i].Name, fmt.Sprintf("interfaces[%d] is connected to this network already", first))
	})
}

func interfaceNameFormat(s *Subject) field.ErrorList {
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Name != "" && strings.IndexFunc(n.Name, foreignInName) < 0 {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("name"), shortened(n.Name), "must consist of one or more letters, digits, - or _")
	})
}

func foreignInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func interfaceHasNetwork(s *Subject) field.ErrorList {
	byName := networkByName(s)
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if byName(n.Name) != nil {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("name"), shortened(n.Name), "no network has this name; every interface needs one")
	})
}

func interfaceState(s *Subject) field.ErrorList {
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		switch n.State {
		case "", v1.InterfaceStateAbsent, v1.InterfaceStateLinkUp, v1.InterfaceStateLinkDown:
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("state"), shortened(string(n.State)), "must be up, down or absent")
	})
}

func interfaceStateSRIOV(s *Subject) field.ErrorList {
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.SRIOV == nil || n.State != v1.InterfaceStateLinkUp && n.State != v1.InterfaceStateLinkDown {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("state"), shortened(string(n.State)), "the link of an SR-IOV interface cannot be set; leave state out")
	})
}

func interfaceStateAbsentBinding(s *Subject) field.ErrorList {
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.State != v1.InterfaceStateAbsent || n.Bridge != nil {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("state"), shortened(string(n.State)), "only an interface with bridge binding can be unplugged")
	})
}

func interfaceStateAbsentDefault(s *Subject) field.ErrorList {
	byName := networkByName(s)
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.State != v1.InterfaceStateAbsent {
			return nil
		}
		if network := byName(n.Name); network == nil || network.Pod == nil && !isMultusDefault(network) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("state"), shortened(string(n.State)), "the interface of the default network cannot be unplugged")
	})
}

func interfaceModel(s *Subject) field.ErrorList {
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Model == "" || slices.Contains(interfaceModels, n.Model) {
			return nil
		}
		return field.NotSupported(interfacePath(s, i).Child("model"), shortened(n.Model), interfaceModels)
	})
}

func interfaceMAC(s *Subject) field.ErrorList {
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.MacAddress == "" {
			return nil
		}
		if slices.ContainsFunc(macForms, func(form string) bool { return hasForm(n.MacAddress, form) }) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("macAddress"), shortened(n.MacAddress),
			"is not a MAC address of six bytes, such as de:ad:00:00:be:af")
	})
}

// macForms are the notations of the six bytes.
var macForms = []string{"hh:hh:hh:hh:hh:hh", "hh-hh-hh-hh-hh-hh", "hhhh.hhhh.hhhh"}

func interfacePCIAddress(s *Subject) field.ErrorList {
	return eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.PciAddress == "" || hasForm(n.PciAddress, pciForm) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("pciAddress"), shortened(n.PciAddress),
			"is not a PCI address of domain, bus, slot and function, such as 0000:81:01.0")
	})
}

// pciForm is the notation of domain, bus, slot and function.
const pciForm = "hhhh:hh:hh.f"

// hasForm reports whether a text has a form, in which h stands for a hexadecimal digit, f for the function of a
// PCI device, which goes up to 7, and every other character for itself.
func hasForm(text, form string) bool {
	if len(text) != len(form) {
		return false
	}
	for i := range len(form) {
		c := text[i]
		switch form[i] {
		case 'h':
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return false
			}
		case 'f':
			if c < '0' || c > '7' {
				return false
			}
		default:
			if c != form[i] {
				return false
			}
		}
	}
	return true
}

// The numbers that DHCP leaves to private use.
const (
	firstPrivateOption = 224
	lastPrivateOption  = 254
)

// eachPrivateOption reports what is wrong with the private DHCP options. The check is made again for every
// interface.
func eachPrivateOption(s *Subject, newCheck func() func(path *field.Path, j, option int) *field.Error) (found field.ErrorList) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range interfaces {
		if interfaces[i].DHCPOptions == nil || len(interfaces[i].DHCPOptions.PrivateOptions) == 0 {
			continue
		}
		check := newCheck()
		path := interfacePath(s, i).Child("dhcpOptions", "privateOptions")
		options := interfaces[i].DHCPOptions.PrivateOptions
		for j, o := range options {
			if enough(found) {
				return cutShort(found, len(options)-j)
			}
			if err := check(path, j, o.Option); err != nil {
				found = append(found, err)
			}
		}
	}
	return found
}

func interfaceDHCPOptionRange(s *Subject) field.ErrorList {
	return eachPrivateOption(s, func() func(*field.Path, int, int) *field.Error {
		return func(path *field.Path, j, option int) *field.Error {
			if option >= firstPrivateOption && option <= lastPrivateOption {
				return nil
			}
			return field.Invalid(path.Index(j).Child("option"), option, fmt.Sprintf("must be within %d and %d", firstPrivateOption, lastPrivateOption))
		}
	})
}

func interfaceDHCPOptionsUnique(s *Subject) field.ErrorList {
	return eachPrivateOption(s, func() func(*field.Path, int, int) *field.Error {
		first := map[int]int{}
		return func(path *field.Path, j, option int) *field.Error {
			if other, given := first[option]; given {
				return field.Invalid(path.Index(j).Child("option"), option, fmt.Sprintf("privateOptions[%d] gives this option already", other))
			}
			first[option] = j
			return nil
		}
	})
}

func interfaceNTPServers(s *Subject) (found field.ErrorList) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range interfaces {
		if interfaces[i].DHCPOptions == nil {
			continue
		}
		servers := interfaces[i].DHCPOptions.NTPServers
		for j, server := range servers {
			if enough(found) {
				return cutShort(found, len(servers)-j)
			}
			if !isIPv4(server) {
				found = append(found, field.Invalid(ntpServersPath(s, i).Index(j), shortened(server), "is not an IPv4 address"))
			}
		}
	}
	return found
}

func ntpServersPath(s *Subject, i int) *field.Path {
	return interfacePath(s, i).Child("dhcpOptions", "ntpServers")
}

// isIPv4 takes the form ::ffff:1.2.3.4 as well, as KubeVirt does.
func isIPv4(text string) bool {
	address, err := netip.ParseAddr(text)
	return err == nil && address.Zone() == "" && address.Unmap().Is4()
}
