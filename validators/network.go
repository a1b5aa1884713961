package validators

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func networkRules() Table {
	return slices.Concat(networkListRules(), interfaceRules(), bindingRules(), portRules())
}

// networkListRules evaluate the networks by themselves.
func networkListRules() Table {
	return Scoped(OnSpec,
		networkNamesUniqueRule,
		networkSourceRule,
		networkMultusNameRule,
		networkSinglePodRule,
		networkSingleDefaultRule,
		networkPodOrDefaultRule,
		networkHasInterfaceRule,
	)
}

// few is up to where looking through a list is cheaper than a map of it.
const few = 16

// networkByName finds networks by their names; of several with the same name, the first.
func networkByName(s *Subject) func(string) *v1.Network {
	networks := s.Spec.Networks
	if len(networks) <= few {
		return func(name string) *v1.Network {
			for i := range networks {
				if networks[i].Name == name {
					return &networks[i]
				}
			}
			return nil
		}
	}
	index := make(map[string]*v1.Network, len(networks))
	for i := range networks {
		if _, found := index[networks[i].Name]; !found {
			index[networks[i].Name] = &networks[i]
		}
	}
	return func(name string) *v1.Network { return index[name] }
}

// interfaceByName finds the index of an interface by its name; of several with the same name, the first; -1
// if there is none.
func interfaceByName(s *Subject) func(string) int {
	interfaces := s.Spec.Domain.Devices.Interfaces
	if len(interfaces) <= few {
		return func(name string) int {
			return slices.IndexFunc(interfaces, func(n v1.Interface) bool { return n.Name == name })
		}
	}
	index := make(map[string]int, len(interfaces))
	for i := range interfaces {
		if _, found := index[interfaces[i].Name]; !found {
			index[interfaces[i].Name] = i
		}
	}
	return func(name string) int {
		if i, found := index[name]; found {
			return i
		}
		return -1
	}
}

func networksPath(s *Subject) *field.Path { return s.Path.Child("networks") }

func networkPath(s *Subject, i int) *field.Path { return networksPath(s).Index(i) }

// eachNetwork reports what is wrong with every network by itself.
func eachNetwork(s *Subject, check func(i int, n *v1.Network) *field.Error, found *Errors) {
	networks := s.Spec.Networks
	for i := range found.Each(len(networks)) {
		found.Add(check(i, &networks[i]))
	}
}

func isMultusDefault(n *v1.Network) bool { return n.Multus != nil && n.Multus.Default }

var networkNamesUniqueRule = Rule{
	ID:     "network-names-unique",
	Title:  "No two networks have the same name",
	Remedy: "Rename one of the networks, and its interface with it.",
	Check:  networkNamesUnique,
}

func networkNamesUnique(s *Subject, found *Errors) {
	networks := s.Spec.Networks
	eachRepeated(len(networks), func(i int) string { return networks[i].Name }, func(i, first int) *field.Error {
		return takenName(networkPath(s, i).Child("name"), networks[i].Name, fmt.Sprintf("networks[%d] already has this name", first))
	}, found)
}

var networkSourceRule = Rule{
	ID:     "network-source",
	Title:  "A network has exactly one source",
	Remedy: "Set exactly one of pod, multus and resourceClaim.",
	Check:  networkSource,
}

func networkSource(s *Subject, found *Errors) {
	eachNetwork(s, func(i int, n *v1.Network) *field.Error {
		sources := 0
		for _, given := range []bool{n.Pod != nil, n.Multus != nil, n.ResourceClaim != nil} {
			if given {
				sources++
			}
		}
		if sources == 1 {
			return nil
		}
		return field.Required(networkPath(s, i), fmt.Sprintf(
			"network %q has %d sources", shortened(n.Name), sources))
	}, found)
}

var networkMultusNameRule = Rule{
	ID:     "network-multus-name",
	Title:  "A multus network names its network attachment",
	Remedy: "Set multus.networkName to the name of a NetworkAttachmentDefinition.",
	Check:  networkMultusName,
}

func networkMultusName(s *Subject, found *Errors) {
	eachNetwork(s, func(i int, n *v1.Network) *field.Error {
		if n.Multus == nil || n.Multus.NetworkName != "" {
			return nil
		}
		return field.Required(networkPath(s, i), fmt.Sprintf(
			"network %q has no multus.networkName", shortened(n.Name)))
	}, found)
}

// namesOf are the names of the networks that are so, for people: sorted, since their order says nothing.
func namesOf(s *Subject, so func(*v1.Network) bool) (names []string) {
	for i := range s.Spec.Networks {
		if n := &s.Spec.Networks[i]; so(n) {
			names = append(names, shortened(n.Name))
		}
	}
	slices.Sort(names)
	return names
}

func isPod(n *v1.Network) bool { return n.Pod != nil }

var networkSinglePodRule = Rule{
	ID:     "network-single-pod",
	Title:  "At most one network is the pod network",
	Remedy: "Keep one pod network; attach the others by multus.",
	Check:  networkSinglePod,
}

func networkSinglePod(s *Subject, found *Errors) {
	names := namesOf(s, isPod)
	if len(names) < 2 {
		return
	}
	err := field.Duplicate(s.Path.Child("networks"), "pod")
	err.Detail = fmt.Sprintf("%q and %q are both the pod network", names[0], names[1])
	found.Add(err)
}

var networkSingleDefaultRule = Rule{
	ID:     "network-single-default",
	Title:  "At most one multus network is the default",
	Remedy: "Keep multus.default on one network.",
	Check:  networkSingleDefault,
}

func networkSingleDefault(s *Subject, found *Errors) {
	names := namesOf(s, isMultusDefault)
	if len(names) < 2 {
		return
	}
	found.Add(field.Invalid(s.Path.Child("networks"), names[1], fmt.Sprintf(
		"%q is already the multus default", names[0])))
}

var networkPodOrDefaultRule = Rule{
	ID:     "network-pod-or-default",
	Title:  "The pod network and a multus default network exclude each other",
	Remedy: "Remove the pod network, or multus.default of the other.",
	Check:  networkPodOrDefault,
}

func networkPodOrDefault(s *Subject, found *Errors) {
	pods, defaults := namesOf(s, isPod), namesOf(s, isMultusDefault)
	if len(pods) == 0 || len(defaults) == 0 {
		return
	}
	found.Add(field.Invalid(s.Path.Child("networks"), defaults[0], fmt.Sprintf(
		"the multus default replaces the pod network, which is %q", pods[0])))
}

var networkHasInterfaceRule = Rule{
	ID:     "network-has-interface",
	Title:  "Every network has an interface",
	Remedy: "Add an interface of the same name, or remove the network.",
	Check:  networkHasInterface,
}

func networkHasInterface(s *Subject, found *Errors) {
	byName := interfaceByName(s)
	eachNetwork(s, func(i int, n *v1.Network) *field.Error {
		if byName(n.Name) >= 0 {
			return nil
		}
		return field.Required(networkPath(s, i).Child("name"), fmt.Sprintf(
			"network %q has no interface", shortened(n.Name)))
	}, found)
}
