package validators

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// KubeVirt's feature gates for devices that Kubernetes allocates (DRA).
const (
	gateGPUsWithDRA           = "GPUsWithDRA"
	gateHostDevicesWithDRA    = "HostDevicesWithDRA"
	gateNetworkDevicesWithDRA = "NetworkDevicesWithDRA"
)

func draRules() Table {
	return Scoped(OnSpec,
		draClaimNamedRule,
		draClaimNameValidRule,
		draClaimNamesUniqueRule,
		draClaimSourceRule,
		draClaimSourceValidRule,
		draDeviceHasSourceRule,
		draDeviceOneSourceRule,
		draGPUsOfOneKindRule,
		draDeviceGateRule,
		draNetworkGateRule,
		draRequestCompleteRule,
		draClaimDeclaredRule,
		draRequestUsedOnceRule,
		draNetworkBindingRule,
		draNetworkWithoutMultusRule,
	)
}

// claimPath is the path of the claims.
func claimPath(s *Subject) *field.Path { return s.Path.Child("resourceClaims") }

// eachClaim adds what is wrong with the resource claims.
func eachClaim(s *Subject, add func(path *field.Path, claim *v1.VirtualMachineInstanceResourceClaim, found *Errors), found *Errors) {
	if len(s.Spec.ResourceClaims) == 0 {
		return
	}
	eachElement(claimPath(s), s.Spec.ResourceClaims, add, found)
}

var draClaimNamedRule = Rule{
	ID:     "dra-claim-named",
	Title:  "A resource claim has a name",
	Remedy: "Set the name.",
	Check:  draClaimNamed,
}

func draClaimNamed(s *Subject, found *Errors) {
	eachClaim(s, func(path *field.Path, claim *v1.VirtualMachineInstanceResourceClaim, found *Errors) {
		if claim.Name == "" {
			found.Add(field.Required(path.Child("name"), "devices refer to the claim by its name"))
		}
	}, found)
}

var draClaimNameValidRule = Rule{
	ID:     "dra-claim-name-valid",
	Title:  "The name of a resource claim is a DNS label",
	Remedy: "Use 1 to 63 lower-case letters, digits and '-', with a letter or digit at both ends.",
	Check:  draClaimNameValid,
}

func draClaimNameValid(s *Subject, found *Errors) {
	eachClaim(s, func(path *field.Path, claim *v1.VirtualMachineInstanceResourceClaim, found *Errors) {
		if claim.Name == "" || len(validation.IsDNS1123Label(claim.Name)) == 0 {
			return
		}
		found.Add(field.Invalid(path.Child("name"), shortened(claim.Name),
			"is not a DNS label"))
	}, found)
}

var draClaimNamesUniqueRule = Rule{
	ID:     "dra-claim-names-unique",
	Title:  "No two resource claims have the same name",
	Remedy: "Rename one of them, or remove it.",
	Check:  draClaimNamesUnique,
}

func draClaimNamesUnique(s *Subject, found *Errors) {
	claims := s.Spec.ResourceClaims
	if len(claims) < 2 {
		return
	}
	eachRepeated(len(claims), func(i int) string { return claims[i].Name }, func(i, _ int) *field.Error {
		if claims[i].Name == "" {
			return nil
		}
		return field.Duplicate(claimPath(s).Index(i).Child("name"), shortened(claims[i].Name))
	}, found)
}

var draClaimSourceRule = Rule{
	ID:     "dra-claim-one-source",
	Title:  "A resource claim names a ResourceClaim or a ResourceClaimTemplate",
	Remedy: "Set one of resourceClaimName and resourceClaimTemplateName.",
	Check:  draClaimSource,
}

func draClaimSource(s *Subject, found *Errors) {
	eachClaim(s, func(path *field.Path, claim *v1.VirtualMachineInstanceResourceClaim, found *Errors) {
		switch {
		case claim.ResourceClaimName != nil && claim.ResourceClaimTemplateName != nil:
			found.Add(field.Invalid(path, shortened(claim.Name), "resourceClaimName and resourceClaimTemplateName are both set"))
		case claim.ResourceClaimName == nil && claim.ResourceClaimTemplateName == nil:
			found.Add(field.Invalid(path, shortened(claim.Name), "neither resourceClaimName nor resourceClaimTemplateName is set"))
		}
	}, found)
}

var draClaimSourceValidRule = Rule{
	ID:     "dra-claim-source-valid",
	Title:  "The name of a ResourceClaim or of its template is valid",
	Remedy: "Name a ResourceClaim or a ResourceClaimTemplate in the namespace of the VM.",
	Check:  draClaimSourceValid,
}

func draClaimSourceValid(s *Subject, found *Errors) {
	eachClaim(s, func(path *field.Path, claim *v1.VirtualMachineInstanceResourceClaim, found *Errors) {
		claimSourceFault(path.Child("resourceClaimName"), claim.ResourceClaimName, found)
		claimSourceFault(path.Child("resourceClaimTemplateName"), claim.ResourceClaimTemplateName, found)
	}, found)
}

func claimSourceFault(path *field.Path, name *string, found *Errors) {
	if name == nil || len(validation.IsDNS1123Subdomain(*name)) == 0 {
		return
	}
	found.Add(field.Invalid(path, shortened(*name),
		"no object can have this name"))
}

// maxShown bounds what a message repeats of a name.
const maxShown = 100

// shortened is a name as a message shows it.
func shortened(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return strings.ToValidUTF8(name[:maxShown], "") + "…"
}

// draList is one of the two lists of devices that may come from a claim.
type draList struct {
	path *field.Path
	// name is that of its field, kind what is in it, and gate what that needs to come from a claim.
	name, kind, gate string
	devices          []draDevice
	// mixed tells that it has both kinds of devices, which only host devices may.
	mixed bool
}

type draDevice struct {
	name, plugin string
	claim        *v1.ClaimRequest
}

// claimed reports whether the device comes from a claim.
func (d *draDevice) claimed() bool { return d.plugin == "" && d.claim != nil }

// claimed are the names of the devices that come from claims.
func (l *draList) claimed() (names []string) {
	for i := range l.devices {
		if d := &l.devices[i]; d.claimed() {
			names = append(names, shortened(d.name))
		}
	}
	return names
}

// eachDevice adds what is wrong with the devices. Where the list has both kinds, that comes first.
func (l *draList) eachDevice(check func(i int, d *draDevice) *field.Error, found *Errors) {
	if l.mixed {
		return
	}
	for i := range found.Each(len(l.devices)) {
		found.Add(check(i, &l.devices[i]))
	}
}

// given is a claim that is not empty. The fields of a device's claim are fields of the device, and some decoders make an
// empty claim if there are none of them.
func given(claim *v1.ClaimRequest) *v1.ClaimRequest {
	if claim == nil || *claim == (v1.ClaimRequest{}) {
		return nil
	}
	return claim
}

// draLists are the GPUs and the host devices; a list that is empty is left out.
func draLists(s *Subject) (lists []*draList) {
	devices := &s.Spec.Domain.Devices
	if len(devices.GPUs) > 0 {
		list := &draList{path: s.Devices().Child("gpus"), name: "gpus", kind: "GPU", gate: gateGPUsWithDRA}
		claimed := 0
		for i := range devices.GPUs {
			gpu := &devices.GPUs[i]
			list.devices = append(list.devices, draDevice{name: gpu.Name, plugin: gpu.DeviceName, claim: given(gpu.ClaimRequest)})
			if list.devices[i].claimed() {
				claimed++
			}
		}
		list.mixed = claimed > 0 && claimed < len(list.devices)
		lists = append(lists, list)
	}
	if len(devices.HostDevices) > 0 {
		list := &draList{path: s.Devices().Child("hostDevices"), name: "hostDevices", kind: "host device", gate: gateHostDevicesWithDRA}
		for i := range devices.HostDevices {
			device := &devices.HostDevices[i]
			list.devices = append(list.devices, draDevice{name: device.Name, plugin: device.DeviceName, claim: given(device.ClaimRequest)})
		}
		lists = append(lists, list)
	}
	return lists
}

var draDeviceHasSourceRule = Rule{
	ID:     "dra-device-has-source",
	Title:  "A GPU or a host device names its device",
	Remedy: "Set deviceName, or claimName and requestName.",
	Check:  draDeviceHasSource,
}

func draDeviceHasSource(s *Subject, found *Errors) {
	for _, list := range draLists(s) {
		list.eachDevice(func(i int, d *draDevice) *field.Error {
			if d.plugin != "" || d.claim != nil {
				return nil
			}
			return field.Required(list.path, fmt.Sprintf("%s[%d], %q, has neither a deviceName nor a claimName with a requestName", list.name, i, shortened(d.name)))
		}, found)
	}
}

var draDeviceOneSourceRule = Rule{
	ID:     "dra-device-one-source",
	Title:  "A GPU or a host device comes from a device plugin or from a claim",
	Remedy: "Keep deviceName, or claimName and requestName.",
	Check:  draDeviceOneSource,
}

func draDeviceOneSource(s *Subject, found *Errors) {
	for _, list := range draLists(s) {
		list.eachDevice(func(i int, d *draDevice) *field.Error {
			if d.plugin == "" || d.claim == nil {
				return nil
			}
			return field.Invalid(list.path, shortened(d.name), fmt.Sprintf("%s[%d] has both a deviceName and a claim", list.name, i))
		}, found)
	}
}

var draGPUsOfOneKindRule = Rule{
	ID:     "dra-gpus-of-one-kind",
	Title:  "The GPUs of a VM come either from device plugins or from claims",
	Remedy: "Use deviceName for all of them, or claimName and requestName for all of them.",
	Check:  draGPUsOfOneKind,
}

func draGPUsOfOneKind(s *Subject, found *Errors) {
	for _, list := range draLists(s) {
		if list.mixed {
			found.Add(field.Invalid(list.path, field.OmitValueType{}, "some GPUs come from claims and some from device plugins"))
		}
	}
}

var draDeviceGateRule = Rule{
	ID:       "dra-device-gate",
	Title:    "GPUs and host devices from claims need their feature gates",
	Remedy:   "Use deviceName, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    draDeviceGate,
}

func draDeviceGate(s *Subject, found *Errors) {
	for _, list := range draLists(s) {
		if names := list.claimed(); len(names) > 0 && !list.mixed {
			found.Add(gateOff(s, list.gate, list.path, listed(names), "a "+list.kind+" from a claim"))
		}
	}
}

var draNetworkGateRule = Rule{
	ID:       "dra-network-gate",
	Title:    "Networks from claims need the feature gate NetworkDevicesWithDRA",
	Remedy:   "Use another kind of network, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    draNetworkGate,
}

func draNetworkGate(s *Subject, found *Errors) {
	names := namesOf(s, isClaimed)
	if len(names) == 0 {
		return
	}
	found.Add(gateOff(s, gateNetworkDevicesWithDRA, networksPath(s), listed(names), "a network from a claim"))
}

func isClaimed(n *v1.Network) bool { return n.ResourceClaim != nil }

// draUse is something that comes from a claim.
type draUse struct {
	// list that it is in, path of it, and names the path of its claimName and requestName.
	list, path, names *field.Path
	// name is its own.
	name string
	// network tells that it is a network.
	network bool
	request v1.ClaimRequest
}

func (u *draUse) complete() bool { return u.request.ClaimName != "" && u.request.RequestName != "" }

// draUses are the devices and the networks that come from claims, as far as their feature gates are on: the
// others are rejected whatever they name.
func draUses(s *Subject) (uses []draUse) {
	for _, list := range draLists(s) {
		if list.mixed || !s.Facts.GateEnabled(list.gate) {
			continue
		}
		for i := range list.devices {
			if d := &list.devices[i]; d.claimed() {
				path := list.path.Index(i)
				uses = append(uses, draUse{list: list.path, path: path, names: path, name: d.name, request: *d.claim})
			}
		}
	}
	if !s.Facts.GateEnabled(gateNetworkDevicesWithDRA) {
		return uses
	}
	for i := range s.Spec.Networks {
		if claim := s.Spec.Networks[i].ResourceClaim; claim != nil {
			path := networkPath(s, i)
			uses = append(uses, draUse{list: networksPath(s), path: path, names: path.Child("resourceClaim"), name: s.Spec.Networks[i].Name, network: true, request: *claim})
		}
	}
	return uses
}

var draRequestCompleteRule = Rule{
	ID:     "dra-request-complete",
	Title:  "A device from a claim names the claim and a request of it",
	Remedy: "Set both claimName and requestName.",
	Check:  draRequestComplete,
}

func draRequestComplete(s *Subject, found *Errors) {
	uses := draUses(s)
	for i := range found.Each(len(uses)) {
		use := &uses[i]
		if use.request.ClaimName == "" {
			found.Add(field.Required(use.names.Child("claimName"), "name the claim in resourceClaims that the device comes from"))
		}
		if use.request.RequestName == "" {
			found.Add(field.Required(use.names.Child("requestName"), "name the request of the claim that the device comes from"))
		}
	}
}

var draClaimDeclaredRule = Rule{
	ID:     "dra-claim-declared",
	Title:  "Each used claim is in resourceClaims",
	Remedy: "Add the claim, or use a declared one.",
	Check:  draClaimDeclared,
}

func draClaimDeclared(s *Subject, found *Errors) {
	uses := draUses(s)
	if len(uses) == 0 {
		return
	}
	declared := make(map[string]bool, len(s.Spec.ResourceClaims))
	for i := range s.Spec.ResourceClaims {
		declared[s.Spec.ResourceClaims[i].Name] = true
	}
	for i := range found.Each(len(uses)) {
		use, name := &uses[i], uses[i].request.ClaimName
		switch {
		case !use.complete() || declared[name]:
		case use.network:
			missing := field.NotFound(use.names.Child("claimName"), shortened(name))
			missing.Detail = "there is no claim of this name in resourceClaims"
			found.Add(missing)
		default:
			found.Add(field.Invalid(claimPath(s), shortened(name), fmt.Sprintf("%s uses a claim that is not declared", use.path)))
			declared[name] = true // once is enough
		}
	}
}

var draRequestUsedOnceRule = Rule{
	ID:     "dra-request-used-once",
	Title:  "A request of a claim is used once",
	Remedy: "Add another request to the claim, and use that.",
	Check:  draRequestUsedOnce,
}

// draRequestUsedOnce reports all uses of a request except the first, by list and then by name. So the findings do not
// depend on the order of the lists.
func draRequestUsedOnce(s *Subject, found *Errors) {
	uses := slices.DeleteFunc(draUses(s), func(u draUse) bool { return !u.complete() })
	slices.SortStableFunc(uses, func(a, b draUse) int {
		return cmp.Or(cmp.Compare(a.request.ClaimName, b.request.ClaimName), cmp.Compare(a.request.RequestName, b.request.RequestName),
			cmp.Compare(a.list.String(), b.list.String()), cmp.Compare(a.name, b.name))
	})
	first := 0
	for i := range found.Each(len(uses)) {
		use, by := &uses[i], &uses[first]
		switch {
		case i == first:
		case use.request != by.request:
			first = i
		default:
			again := field.Duplicate(use.path, shortened(use.request.ClaimName+"/"+use.request.RequestName))
			again.Detail = fmt.Sprintf("%s also uses this request", by.path)
			found.Add(again)
		}
	}
}

var draNetworkBindingRule = Rule{
	ID:     "dra-network-binding",
	Title:  "The interface of a network from a claim uses SR-IOV or a binding plugin",
	Remedy: "Set sriov: {} or binding on the interface.",
	Check:  draNetworkBinding,
}

func draNetworkBinding(s *Subject, found *Errors) {
	if !s.Facts.GateEnabled(gateNetworkDevicesWithDRA) {
		return
	}
	claimed := map[string]bool{}
	for i := range s.Spec.Networks {
		if network := &s.Spec.Networks[i]; network.ResourceClaim != nil {
			claimed[network.Name] = true
		}
	}
	if len(claimed) == 0 {
		return
	}
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range found.Each(len(interfaces)) {
		if nic := &interfaces[i]; claimed[nic.Name] && nic.SRIOV == nil && nic.Binding == nil {
			found.Add(field.Invalid(interfacesPath(s), shortened(nic.Name),
				fmt.Sprintf("the network of interfaces[%d] comes from a claim", i)))
		}
	}
}

var draNetworkWithoutMultusRule = Rule{
	ID:     "dra-network-without-multus",
	Title:  "A VM with networks from claims has none from Multus",
	Remedy: "Use claims or Multus for all secondary networks.",
	Check:  draNetworkWithoutMultus,
}

func draNetworkWithoutMultus(s *Subject, found *Errors) {
	if !s.Facts.GateEnabled(gateNetworkDevicesWithDRA) {
		return
	}
	claimed := namesOf(s, isClaimed)
	multus := namesOf(s, func(n *v1.Network) bool { return n.Multus != nil && n.ResourceClaim == nil })
	if len(claimed) == 0 || len(multus) == 0 {
		return
	}
	found.Add(field.Invalid(networksPath(s), listed(multus),
		fmt.Sprintf("comes from Multus, and %q from a claim", claimed[0])))
}
