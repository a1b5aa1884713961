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
	return Scoped(OnSpec,
		interfaceNamesUniqueRule,
		interfaceNameFormatRule,
		interfaceHasNetworkRule,
		interfaceStateRule,
		interfaceStateSRIOVRule,
		interfaceStateAbsentBindingRule,
		interfaceStateAbsentDefaultRule,
		interfaceModelRule,
		interfaceMACRule,
		interfacePCIAddressRule,
		interfaceDHCPOptionRangeRule,
		interfaceDHCPOptionsUniqueRule,
		interfaceNTPServersRule,
	)
}

// interfaceModels are the models that KubeVirt emulates.
var interfaceModels = []string{"e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio"}

func interfacesPath(s *Subject) *field.Path { return s.Devices().Child("interfaces") }

func interfacePath(s *Subject, i int) *field.Path { return interfacesPath(s).Index(i) }

// eachInterface reports what is wrong with every interface by itself.
func eachInterface(s *Subject, check func(i int, n *v1.Interface) *field.Error, found *Errors) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range found.Each(len(interfaces)) {
		found.Add(check(i, &interfaces[i]))
	}
}

var interfaceNamesUniqueRule = Rule{
	ID:     "interface-names-unique",
	Title:  "No two interfaces have the same name",
	Remedy: "Rename one of the interfaces, and its network with it.",
	Check:  interfaceNamesUnique,
}

func interfaceNamesUnique(s *Subject, found *Errors) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	eachRepeated(len(interfaces), func(i int) string { return interfaces[i].Name }, func(i, first int) *field.Error {
		return takenName(interfacePath(s, i).Child("name"), interfaces[i].Name, fmt.Sprintf("interfaces[%d] is already connected to this network", first))
	}, found)
}

var interfaceNameFormatRule = Rule{
	ID:     "interface-name-format",
	Title:  "The name of an interface consists of letters, digits, - and _",
	Remedy: "Rename the interface and its network.",
	Check:  interfaceNameFormat,
}

func interfaceNameFormat(s *Subject, found *Errors) {
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Name != "" && strings.IndexFunc(n.Name, foreignInName) < 0 {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("name"), shortened(n.Name), "must consist of one or more letters, digits, - or _")
	}, found)
}

func foreignInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

var interfaceHasNetworkRule = Rule{
	ID:     "interface-has-network",
	Title:  "Every interface has a network",
	Remedy: "Add a network of the same name, or remove the interface.",
	Check:  interfaceHasNetwork,
}

func interfaceHasNetwork(s *Subject, found *Errors) {
	byName := networkByName(s)
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Name == "" || byName(n.Name) != nil { // no name has an error of its own
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("name"), shortened(n.Name), "no network has this name")
	}, found)
}

var interfaceStateRule = Rule{
	ID:     "interface-state",
	Title:  "The state of an interface is known",
	Remedy: "Set state to a supported value, or leave it out.",
	Check:  interfaceState,
}

func interfaceState(s *Subject, found *Errors) {
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.State == "" || slices.Contains(interfaceStates, n.State) {
			return nil
		}
		return unknown(interfacePath(s, i).Child("state"), n.State, "the state", interfaceStates)
	}, found)
}

var interfaceStates = []v1.InterfaceState{v1.InterfaceStateLinkUp, v1.InterfaceStateLinkDown, v1.InterfaceStateAbsent}

var interfaceStateSRIOVRule = Rule{
	ID:     "interface-state-sriov",
	Title:  "The link of an SR-IOV interface is not set",
	Remedy: "Remove state.",
	Check:  interfaceStateSRIOV,
}

func interfaceStateSRIOV(s *Subject, found *Errors) {
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.SRIOV == nil || n.State != v1.InterfaceStateLinkUp && n.State != v1.InterfaceStateLinkDown {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("state"), shortened(string(n.State)), "the link of an SR-IOV interface cannot be set")
	}, found)
}

var interfaceStateAbsentBindingRule = Rule{
	ID:     "interface-state-absent-binding",
	Title:  "Only an interface with bridge binding can be absent",
	Remedy: "Remove the interface and its network instead, and restart the VM.",
	Check:  interfaceStateAbsentBinding,
}

func interfaceStateAbsentBinding(s *Subject, found *Errors) {
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.State != v1.InterfaceStateAbsent || n.Bridge != nil {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("state"), shortened(string(n.State)), "only an interface with bridge binding can be unplugged")
	}, found)
}

var interfaceStateAbsentDefaultRule = Rule{
	ID:     "interface-state-absent-default",
	Title:  "The interface of the default network cannot be absent",
	Remedy: "Remove the interface and its network instead, and restart the VM.",
	Check:  interfaceStateAbsentDefault,
}

func interfaceStateAbsentDefault(s *Subject, found *Errors) {
	byName := networkByName(s)
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.State != v1.InterfaceStateAbsent {
			return nil
		}
		if network := byName(n.Name); network == nil || network.Pod == nil && !isMultusDefault(network) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("state"), shortened(string(n.State)), "the interface of the default network cannot be unplugged")
	}, found)
}

var interfaceModelRule = Rule{
	ID:     "interface-model",
	Title:  "KubeVirt supports the model of an interface",
	Remedy: "Use a supported model, such as virtio.",
	Check:  interfaceModel,
}

func interfaceModel(s *Subject, found *Errors) {
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.Model == "" || slices.Contains(interfaceModels, n.Model) {
			return nil
		}
		return field.NotSupported(interfacePath(s, i).Child("model"), shortened(n.Model), interfaceModels)
	}, found)
}

var interfaceMACRule = Rule{
	ID:     "interface-mac",
	Title:  "A MAC address has six bytes",
	Remedy: "Write six pairs of hexadecimal digits, for example de:ad:00:00:be:af.",
	Check:  interfaceMAC,
}

func interfaceMAC(s *Subject, found *Errors) {
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.MacAddress == "" {
			return nil
		}
		if slices.ContainsFunc(macForms, func(form string) bool { return hasForm(n.MacAddress, form) }) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("macAddress"), shortened(n.MacAddress),
			"is not a MAC address of six bytes")
	}, found)
}

// macForms are the notations of the six bytes.
var macForms = []string{"hh:hh:hh:hh:hh:hh", "hh-hh-hh-hh-hh-hh", "hhhh.hhhh.hhhh"}

var interfacePCIAddressRule = Rule{
	ID:     "interface-pci-address",
	Title:  "The PCI address of an interface is complete",
	Remedy: "Write domain, bus, slot and function, for example 0000:81:01.0.",
	Check:  interfacePCIAddress,
}

func interfacePCIAddress(s *Subject, found *Errors) {
	eachInterface(s, func(i int, n *v1.Interface) *field.Error {
		if n.PciAddress == "" || hasForm(n.PciAddress, pciForm) {
			return nil
		}
		return field.Invalid(interfacePath(s, i).Child("pciAddress"), shortened(n.PciAddress),
			"is not a PCI address")
	}, found)
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
func eachPrivateOption(s *Subject, newCheck func() func(path *field.Path, j, option int) *field.Error, found *Errors) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range interfaces {
		if interfaces[i].DHCPOptions == nil || len(interfaces[i].DHCPOptions.PrivateOptions) == 0 {
			continue
		}
		check := newCheck()
		path := interfacePath(s, i).Child("dhcpOptions", "privateOptions")
		options := interfaces[i].DHCPOptions.PrivateOptions
		for j := range found.Each(len(options)) {
			o := options[j]
			found.Add(check(path, j, o.Option))
		}
	}
}

var interfaceDHCPOptionRangeRule = Rule{
	ID:     "interface-dhcp-option-range",
	Title:  "Private DHCP options are within 224 and 254",
	Remedy: "Use a number from 224 to 254.",
	Check:  interfaceDHCPOptionRange,
}

func interfaceDHCPOptionRange(s *Subject, found *Errors) {
	eachPrivateOption(s, func() func(*field.Path, int, int) *field.Error {
		return func(path *field.Path, j, option int) *field.Error {
			if option >= firstPrivateOption && option <= lastPrivateOption {
				return nil
			}
			return field.Invalid(path.Index(j).Child("option"), option, fmt.Sprintf("must be within %d and %d", firstPrivateOption, lastPrivateOption))
		}
	}, found)
}

var interfaceDHCPOptionsUniqueRule = Rule{
	ID:     "interface-dhcp-options-unique",
	Title:  "No two private DHCP options have the same number",
	Remedy: "Keep one value for the option.",
	Check:  interfaceDHCPOptionsUnique,
}

func interfaceDHCPOptionsUnique(s *Subject, found *Errors) {
	eachPrivateOption(s, func() func(*field.Path, int, int) *field.Error {
		first := map[int]int{}
		return func(path *field.Path, j, option int) *field.Error {
			if other, given := first[option]; given {
				return field.Invalid(path.Index(j).Child("option"), option, fmt.Sprintf("privateOptions[%d] already has this option", other))
			}
			first[option] = j
			return nil
		}
	}, found)
}

var interfaceNTPServersRule = Rule{
	ID:     "interface-ntp-servers",
	Title:  "NTP servers are IPv4 addresses",
	Remedy: "Write the IPv4 address of the server; DHCP cannot hand out its name.",
	Check:  interfaceNTPServers,
}

func interfaceNTPServers(s *Subject, found *Errors) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range interfaces {
		if interfaces[i].DHCPOptions == nil {
			continue
		}
		servers := interfaces[i].DHCPOptions.NTPServers
		for j := range found.Each(len(servers)) {
			server := servers[j]
			if !isIPv4(server) {
				found.Add(field.Invalid(ntpServersPath(s, i).Index(j), shortened(server), "is not an IPv4 address"))
			}
		}
	}
}

func ntpServersPath(s *Subject, i int) *field.Path {
	return interfacePath(s, i).Child("dhcpOptions", "ntpServers")
}

// isIPv4 takes the form ::ffff:1.2.3.4 as well, as KubeVirt does.
func isIPv4(text string) bool {
	address, err := netip.ParseAddr(text)
	return err == nil && address.Zone() == "" && address.Unmap().Is4()
}
