package validators

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// portRules evaluate the ports that the interface of the pod network forwards. On other networks KubeVirt
// ignores them.
func portRules() Table {
	return Scoped(OnSpec,
		portNamesUniqueRule,
		portNameRule,
		portNumberRule,
		portProtocolRule,
		portRangesGateRule,
		portsOrRangesRule,
		portRangesMasqueradeRule,
		portRangesCountRule,
		portRangeProtocolRule,
		portRangeBoundsRule,
		portRangesOverlapRule,
	)
}

// gatePortRanges is the feature gate of portRanges. If it is off, ranges are not evaluated further.
const gatePortRanges = "PortRangesSpec"

const (
	lastPort      = 65535
	maxPortRanges = 10
)

// eachForwarding adds what is wrong with the ports of every interface of the pod network that has some.
func eachForwarding(s *Subject, add func(path *field.Path, n *v1.Interface, found *Errors), found *Errors) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	byName := networkByName(s)
	for i := range found.Each(len(interfaces)) {
		n := &interfaces[i]
		if len(n.Ports)+len(n.PortRanges) > 0 && isPodNetwork(byName(n.Name)) {
			add(interfacePath(s, i), n, found)
		}
	}
}

// eachPort reports what is wrong with every port by itself.
func eachPort(s *Subject, check func(path *field.Path, p *v1.Port) *field.Error, found *Errors) {
	eachForwarding(s, func(path *field.Path, n *v1.Interface, found *Errors) {
		eachElement(path.Child("ports"), n.Ports, func(path *field.Path, p *v1.Port, found *Errors) {
			found.Add(check(path, p))
		}, found)
	}, found)
}

var portNamesUniqueRule = Rule{
	ID:     "interface-port-names-unique",
	Title:  "No two ports of an interface have the same name",
	Remedy: "Rename one of the ports.",
	Check:  portNamesUnique,
}

func portNamesUnique(s *Subject, found *Errors) {
	eachForwarding(s, func(path *field.Path, n *v1.Interface, found *Errors) {
		eachRepeated(len(n.Ports), func(i int) string { return n.Ports[i].Name }, func(i, first int) *field.Error {
			if n.Ports[i].Name == "" {
				return nil
			}
			return takenName(path.Child("ports").Index(i).Child("name"), n.Ports[i].Name, fmt.Sprintf("ports[%d] already has this name", first))
		}, found)
	}, found)
}

var portNameRule = Rule{
	ID:     "interface-port-name",
	Title:  "The name of a port is valid",
	Remedy: "Use at most 15 lower-case letters, digits and single inner dashes, and at least one letter.",
	Check:  portName,
}

func portName(s *Subject, found *Errors) {
	eachPort(s, func(path *field.Path, p *v1.Port) *field.Error {
		if p.Name == "" || len(validation.IsValidPortName(p.Name)) == 0 {
			return nil
		}
		return field.Invalid(path.Child("name"), shortened(p.Name),
			"is not the name of a port")
	}, found)
}

var portNumberRule = Rule{
	ID:     "interface-port-number",
	Title:  "The number of a port is within 1 and 65535",
	Remedy: "Use a port from 1 to 65535.",
	Check:  portNumber,
}

func portNumber(s *Subject, found *Errors) {
	eachPort(s, func(path *field.Path, p *v1.Port) *field.Error {
		switch {
		case p.Port == 0:
			return field.Required(path.Child("port"), "must be within 1 and 65535")
		case !isPort(p.Port):
			return field.Invalid(path.Child("port"), p.Port, "must be within 1 and 65535")
		}
		return nil
	}, found)
}

func isPort(number int32) bool { return number > 0 && number <= lastPort }

func isForwarded(protocol string) bool { return protocol == "TCP" || protocol == "UDP" }

var portProtocolRule = Rule{
	ID:     "interface-port-protocol",
	Title:  "The protocol of a port is TCP or UDP",
	Remedy: "Use TCP or UDP, or leave the protocol out for TCP.",
	Check:  portProtocol,
}

func portProtocol(s *Subject, found *Errors) {
	eachPort(s, func(path *field.Path, p *v1.Port) *field.Error {
		if p.Protocol == "" || isForwarded(p.Protocol) {
			return nil
		}
		return field.Invalid(path.Child("protocol"), shortened(p.Protocol), "must be TCP or UDP")
	}, found)
}

var portRangesGateRule = Rule{
	ID:     "interface-port-ranges-gate",
	Title:  "Port ranges need the feature gate PortRangesSpec",
	Remedy: "List single ports, or enable the feature gate in the KubeVirt resource.",
	Check:  portRangesGate,
}

func portRangesGate(s *Subject, found *Errors) {
	eachForwarding(s, func(path *field.Path, n *v1.Interface, found *Errors) {
		if len(n.PortRanges) == 0 {
			return
		}
		found.Add(gateOff(s, gatePortRanges, path.Child("portRanges"), len(n.PortRanges), "a range of ports"))
	}, found)
}

var portsOrRangesRule = Rule{
	ID:     "interface-ports-or-ranges",
	Title:  "Ports and port ranges exclude each other",
	Remedy: "Write all ports as ranges.",
	Check:  portsOrRanges,
}

func portsOrRanges(s *Subject, found *Errors) {
	eachForwarding(s, func(path *field.Path, n *v1.Interface, found *Errors) {
		if len(n.Ports) == 0 || len(n.PortRanges) == 0 {
			return
		}
		found.Add(field.Invalid(path.Child("name"), shortened(n.Name), "the interface has both ports and portRanges"))
	}, found)
}

var portRangesMasqueradeRule = Rule{
	ID:     "interface-port-ranges-masquerade",
	Title:  "Port ranges need masquerade",
	Remedy: "Bind the interface with masquerade, or remove the ranges.",
	Check:  portRangesMasquerade,
}

func portRangesMasquerade(s *Subject, found *Errors) {
	eachForwarding(s, func(path *field.Path, n *v1.Interface, found *Errors) {
		if len(n.PortRanges) == 0 || n.Masquerade != nil || !s.Facts.GateEnabled(gatePortRanges) {
			return
		}
		found.Add(field.Invalid(path.Child("name"), shortened(n.Name), "the interface has portRanges, which need masquerade"))
	}, found)
}

var portRangesCountRule = Rule{
	ID:     "interface-port-ranges-count",
	Title:  "An interface has at most 10 port ranges",
	Remedy: "Join ranges.",
	Check:  portRangesCount,
}

func portRangesCount(s *Subject, found *Errors) {
	eachForwarding(s, func(path *field.Path, n *v1.Interface, found *Errors) {
		if len(n.PortRanges) <= maxPortRanges || !s.Facts.GateEnabled(gatePortRanges) {
			return
		}
		found.Add(field.Invalid(path.Child("portRanges"), len(n.PortRanges), fmt.Sprintf("must have at most %d ranges", maxPortRanges)))
	}, found)
}

// eachRange reports what is wrong with every port range; a list that is too long is not looked at further.
func eachRange(s *Subject, check func(path *field.Path, r *v1.PortRange) *field.Error, found *Errors) {
	if !s.Facts.GateEnabled(gatePortRanges) {
		return
	}
	eachForwarding(s, func(path *field.Path, n *v1.Interface, found *Errors) {
		if len(n.PortRanges) > maxPortRanges {
			return
		}
		for j := range n.PortRanges {
			found.Add(check(path.Child("portRanges").Index(j), &n.PortRanges[j]))
		}
	}, found)
}

var portRangeProtocolRule = Rule{
	ID:     "interface-port-range-protocol",
	Title:  "The protocol of a port range is TCP or UDP",
	Remedy: "Use TCP or UDP.",
	Check:  portRangeProtocol,
}

func portRangeProtocol(s *Subject, found *Errors) {
	eachRange(s, func(path *field.Path, r *v1.PortRange) *field.Error {
		if isForwarded(r.Protocol) {
			return nil
		}
		return field.Invalid(path.Child("protocol"), shortened(r.Protocol), "must be TCP or UDP")
	}, found)
}

var portRangeBoundsRule = Rule{
	ID:     "interface-port-range-bounds",
	Title:  "A port range is within 1 and 65535",
	Remedy: "Correct start and end.",
	Check:  portRangeBounds,
}

func portRangeBounds(s *Subject, found *Errors) {
	eachRange(s, func(path *field.Path, r *v1.PortRange) *field.Error {
		switch {
		case !isPort(r.Start):
			return field.Invalid(path.Child("start"), r.Start, "must be within 1 and 65535")
		case !isPort(r.End):
			return field.Invalid(path.Child("end"), r.End, "must be within 1 and 65535")
		case r.Start > r.End:
			return field.Invalid(path.Child("start"), r.Start, fmt.Sprintf("must not be above end, which is %d", r.End))
		}
		return nil
	}, found)
}

var portRangesOverlapRule = Rule{
	ID:     "interface-port-ranges-overlap",
	Title:  "Port ranges of one protocol do not overlap",
	Remedy: "Join the ranges, or change one of them.",
	Check:  portRangesOverlap,
}

func portRangesOverlap(s *Subject, found *Errors) {
	if !s.Facts.GateEnabled(gatePortRanges) {
		return
	}
	eachForwarding(s, func(path *field.Path, n *v1.Interface, found *Errors) {
		if len(n.PortRanges) > maxPortRanges {
			return
		}
		for _, protocol := range []string{"TCP", "UDP"} {
			if text := overlapping(n.PortRanges, protocol); text != "" {
				found.Add(field.Invalid(path.Child("portRanges"), text, "ranges of "+protocol+" must not overlap"))
			}
		}
	}, found)
}

// overlapping names two ranges of a protocol that overlap. Ranges that are none do not count.
func overlapping(ranges []v1.PortRange, protocol string) string {
	var sorted []v1.PortRange
	for _, r := range ranges {
		if r.Protocol == protocol && isPort(r.Start) && isPort(r.End) && r.Start <= r.End {
			sorted = append(sorted, r)
		}
	}
	slices.SortFunc(sorted, func(a, b v1.PortRange) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; b.Start <= a.End {
			return fmt.Sprintf("%d-%d, %d-%d", a.Start, a.End, b.Start, b.End)
		}
	}
	return ""
}
