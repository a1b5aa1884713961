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
	return Table{
		{
			ID: "dra-claim-named", Title: "A resource claim has a name", Scope: OnSpec,
			Remedy: "Set the name by which devices refer to the claim.", Check: draClaimNamed,
		},
		{
			ID: "dra-claim-name-valid", Title: "The name of a resource claim is a DNS label", Scope: OnSpec,
			Remedy: "Use lower-case letters, digits and '-', at most 63 of them.", Check: draClaimNameValid,
		},
		{
			ID: "dra-claim-names-unique", Title: "No two resource claims have the same name", Scope: OnSpec,
			Remedy: "Rename one of them, or remove it.", Check: draClaimNamesUnique,
		},
		{
			ID: "dra-claim-one-source", Title: "A resource claim names a ResourceClaim or a template of one", Scope: OnSpec,
			Remedy: "Set one of resourceClaimName and resourceClaimTemplateName.", Check: draClaimSource,
		},
		{
			ID: "dra-claim-source-valid", Title: "The ResourceClaim or the template has a name that an object can have", Scope: OnSpec,
			Remedy: "Name a ResourceClaim or a ResourceClaimTemplate in the namespace of the VM.", Check: draClaimSourceValid,
		},
		{
			ID: "dra-device-has-source", Title: "A GPU or a host device says which device it is", Scope: OnSpec,
			Remedy: "Set deviceName, or claimName and requestName.", Check: draDeviceHasSource,
		},
		{
			ID: "dra-device-one-source", Title: "A GPU or a host device comes from a device plugin or from a claim", Scope: OnSpec,
			Remedy: "Keep deviceName, or claimName and requestName.", Check: draDeviceOneSource,
		},
		{
			ID: "dra-gpus-of-one-kind", Title: "The GPUs of a VM come all from device plugins or all from claims", Scope: OnSpec,
			Remedy: "Use deviceName for all of them, or claimName and requestName for all of them.", Check: draGPUsOfOneKind,
		},
		{
			ID: "dra-device-gate", Title: "GPUs and host devices from claims need their feature gates", Scope: OnSpec, Security: true,
			Remedy: "Use deviceName, or have GPUsWithDRA or HostDevicesWithDRA enabled in the KubeVirt resource.", Check: draDeviceGate,
		},
		{
			ID: "dra-network-gate", Title: "Networks from claims need the feature gate NetworkDevicesWithDRA", Scope: OnSpec, Security: true,
			Remedy: "Use another kind of network, or have NetworkDevicesWithDRA enabled in the KubeVirt resource.", Check: draNetworkGate,
		},
		{
			ID: "dra-request-complete", Title: "What comes from a claim names the claim and the request in it", Scope: OnSpec,
			Remedy: "Set both claimName and requestName.", Check: draRequestComplete,
		},
		{
			ID: "dra-claim-declared", Title: "A claim that is used is in resourceClaims", Scope: OnSpec,
			Remedy: "Add the claim to resourceClaims, or use the name of one that is there.", Check: draClaimDeclared,
		},
		{
			ID: "dra-request-used-once", Title: "A request of a claim is used once", Scope: OnSpec,
			Remedy: "Add another request to the claim, and use that.", Check: draRequestUsedOnce,
		},
		{
			ID: "dra-network-binding", Title: "The interface of a network from a claim is an SR-IOV one or has a plugin", Scope: OnSpec,
			Remedy: "Set sriov: {} or binding on the interface.", Check: draNetworkBinding,
		},
		{
			ID: "dra-network-without-multus", Title: "A VM with networks from claims has none from Multus", Scope: OnSpec,
			Remedy: "Use claims or Multus for all secondary networks.", Check: draNetworkWithoutMultus,
		},
	}
}

// claimPath is where the claims stand.
func claimPath(s *Subject) *field.Path { return s.Path.Child("resourceClaims") }

// eachClaim adds what is wrong with the resource claims.
func eachClaim(s *Subject, add func(errs field.ErrorList, path *field.Path, claim *v1.VirtualMachineInstanceResourceClaim) field.ErrorList) field.ErrorList {
	if len(s.Spec.ResourceClaims) == 0 {
		return nil
	}
	return eachElement(nil, claimPath(s), s.Spec.ResourceClaims, add)
}

func draClaimNamed(s *Subject) field.ErrorList {
	return eachClaim(s, func(errs field.ErrorList, path *field.Path, claim *v1.VirtualMachineInstanceResourceClaim) field.ErrorList {
		if claim.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), "devices refer to the claim by its name"))
		}
		return errs
	})
}

func draClaimNameValid(s *Subject) field.ErrorList {
	return eachClaim(s, func(errs field.ErrorList, path *field.Path, claim *v1.VirtualMachineInstanceResourceClaim) field.ErrorList {
		if claim.Name == "" || len(validation.IsDNS1123Label(claim.Name)) == 0 {
			return errs
		}
		return append(errs, field.Invalid(path.Child("name"), shortened(claim.Name),
			"the name of a claim has at most 63 lower-case letters, digits and '-', and starts and ends with a letter or a digit"))
	})
}

func draClaimNamesUnique(s *Subject) field.ErrorList {
	claims := s.Spec.ResourceClaims
	if len(claims) < 2 {
		return nil
	}
	return eachRepeated(nil, len(claims), func(i int) string { return claims[i].Name }, func(i, _ int) *field.Error {
		if claims[i].Name == "" {
			return nil
		}
		return field.Duplicate(claimPath(s).Index(i).Child("name"), shortened(claims[i].Name))
	})
}

func draClaimSource(s *Subject) field.ErrorList {
	return eachClaim(s, func(errs field.ErrorList, path *field.Path, claim *v1.VirtualMachineInstanceResourceClaim) field.ErrorList {
		switch {
		case claim.ResourceClaimName != nil && claim.ResourceClaimTemplateName != nil:
			errs = append(errs, field.Invalid(path, shortened(claim.Name), "resourceClaimName and resourceClaimTemplateName cannot both be set"))
		case claim.ResourceClaimName == nil && claim.ResourceClaimTemplateName == nil:
			errs = append(errs, field.Invalid(path, shortened(claim.Name), "one of resourceClaimName and resourceClaimTemplateName must be set"))
		}
		return errs
	})
}

func draClaimSourceValid(s *Subject) field.ErrorList {
	return eachClaim(s, func(errs field.ErrorList, path *field.Path, claim *v1.VirtualMachineInstanceResourceClaim) field.ErrorList {
		errs = claimSourceFault(errs, path.Child("resourceClaimName"), claim.ResourceClaimName)
		return claimSourceFault(errs, path.Child("resourceClaimTemplateName"), claim.ResourceClaimTemplateName)
	})
}

func claimSourceFault(errs field.ErrorList, path *field.Path, name *string) field.ErrorList {
	if name == nil || len(validation.IsDNS1123Subdomain(*name)) == 0 {
		return errs
	}
	return append(errs, field.Invalid(path, shortened(*name),
		"no object can have this name: it takes lower-case letters, digits, '-' and '.', at most 253, the first and the last a letter or a digit"))
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
func (l *draList) eachDevice(errs field.ErrorList, check func(i int, d *draDevice) *field.Error) field.ErrorList {
	for i := range l.devices {
		switch {
		case l.mixed:
			return errs
		case enough(errs):
			return cutShort(errs, len(l.devices)-i)
		}
		if err := check(i, &l.devices[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// given is a claim that says anything. The fields of a device's claim stand in the device itself, and some
// decoders leave an empty claim behind where there are none of them.
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

func draDeviceHasSource(s *Subject) (errs field.ErrorList) {
	for _, list := range draLists(s) {
		errs = list.eachDevice(errs, func(i int, d *draDevice) *field.Error {
			if d.plugin != "" || d.claim != nil {
				return nil
			}
			return field.Required(list.path, fmt.Sprintf("%s[%d], %q, has neither a deviceName nor a claimName with a requestName", list.name, i, shortened(d.name)))
		})
	}
	return errs
}

func draDeviceOneSource(s *Subject) (errs field.ErrorList) {
	for _, list := range draLists(s) {
		errs = list.eachDevice(errs, func(i int, d *draDevice) *field.Error {
			if d.plugin == "" || d.claim == nil {
				return nil
			}
			return field.Invalid(list.path, shortened(d.name), fmt.Sprintf("%s[%d] has both a deviceName and a claim; it can come from one only", list.name, i))
		})
	}
	return errs
}

func draGPUsOfOneKind(s *Subject) (errs field.ErrorList) {
	for _, list := range draLists(s) {
		if list.mixed {
			errs = append(errs, field.Invalid(list.path, field.OmitValueType{}, "some GPUs come from claims and some do not; a VM can have one kind only"))
		}
	}
	return errs
}

func draDeviceGate(s *Subject) (errs field.ErrorList) {
	for _, list := range draLists(s) {
		if names := list.claimed(); len(names) > 0 && !list.mixed {
			errs = append(errs, behindGate(s, list.gate, list.path, listed(names), "a "+list.kind+" from a claim")...)
		}
	}
	return errs
}

func draNetworkGate(s *Subject) field.ErrorList {
	names := namesOf(s, isClaimed)
	if len(names) == 0 {
		return nil
	}
	return behindGate(s, gateNetworkDevicesWithDRA, networksPath(s), listed(names), "a network from a claim")
}

func isClaimed(n *v1.Network) bool { return n.ResourceClaim != nil }

// draUse is something that comes from a claim.
type draUse struct {
	// list that it is in, path of it, and names where its claimName and requestName stand.
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

func draRequestComplete(s *Subject) (errs field.ErrorList) {
	uses := draUses(s)
	for i := range uses {
		use := &uses[i]
		if enough(errs) {
			return cutShort(errs, len(uses)-i)
		}
		if use.request.ClaimName == "" {
			errs = append(errs, field.Required(use.names.Child("claimName"), "name the claim in resourceClaims that the device comes from"))
		}
		if use.request.RequestName == "" {
			errs = append(errs, field.Required(use.names.Child("requestName"), "name the request of the claim that the device comes from"))
		}
	}
	return errs
}

func draClaimDeclared(s *Subject) (errs field.ErrorList) {
	uses := draUses(s)
	if len(uses) == 0 {
		return nil
	}
	declared := make(map[string]bool, len(s.Spec.ResourceClaims))
	for i := range s.Spec.ResourceClaims {
		declared[s.Spec.ResourceClaims[i].Name] = true
	}
	for i := range uses {
		use, name := &uses[i], uses[i].request.ClaimName
		if enough(errs) {
			return cutShort(errs, len(uses)-i)
		}
		switch {
		case !use.complete() || declared[name]:
		case use.network:
			missing := field.NotFound(use.names.Child("claimName"), shortened(name))
			missing.Detail = "there is no claim of this name in resourceClaims"
			errs = append(errs, missing)
		default:
			errs = append(errs, field.Invalid(claimPath(s), shortened(name), fmt.Sprintf("%s uses a claim that is not declared", use.path)))
			declared[name] = true // once is enough
		}
	}
	return errs
}

// draRequestUsedOnce speaks of all that use a request but the first: by list, then by name, so that it says the same
// wherever they stand in their lists.
func draRequestUsedOnce(s *Subject) (errs field.ErrorList) {
	uses := slices.DeleteFunc(draUses(s), func(u draUse) bool { return !u.complete() })
	slices.SortStableFunc(uses, func(a, b draUse) int {
		return cmp.Or(cmp.Compare(a.request.ClaimName, b.request.ClaimName), cmp.Compare(a.request.RequestName, b.request.RequestName),
			cmp.Compare(a.list.String(), b.list.String()), cmp.Compare(a.name, b.name))
	})
	first := 0
	for i := range uses {
		use, by := &uses[i], &uses[first]
		switch {
		case i == first:
		case use.request != by.request:
			first = i
		case enough(errs):
			return cutShort(errs, len(uses)-i)
		default:
			again := field.Duplicate(use.path, shortened(use.request.ClaimName+"/"+use.request.RequestName))
			again.Detail = fmt.Sprintf("%s uses this request of the claim too", by.path)
			errs = append(errs, again)
		}
	}
	return errs
}

func draNetworkBinding(s *Subject) (errs field.ErrorList) {
	if !s.Facts.GateEnabled(gateNetworkDevicesWithDRA) {
		return nil
	}
	claimed := map[string]bool{}
	for i := range s.Spec.Networks {
		if network := &s.Spec.Networks[i]; network.ResourceClaim != nil {
			claimed[network.Name] = true
		}
	}
	if len(claimed) == 0 {
		return nil
	}
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range interfaces {
		if enough(errs) {
			return cutShort(errs, len(interfaces)-i)
		}
		if nic := &interfaces[i]; claimed[nic.Name] && nic.SRIOV == nil && nic.Binding == nil {
			errs = append(errs, field.Invalid(interfacesPath(s), shortened(nic.Name),
				fmt.Sprintf("interfaces[%d] is of a network from a claim, and needs sriov or a binding plugin", i)))
		}
	}
	return errs
}

func draNetworkWithoutMultus(s *Subject) field.ErrorList {
	if !s.Facts.GateEnabled(gateNetworkDevicesWithDRA) {
		return nil
	}
	claimed := namesOf(s, isClaimed)
	multus := namesOf(s, func(n *v1.Network) bool { return n.Multus != nil && n.ResourceClaim == nil })
	if len(claimed) == 0 || len(multus) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(networksPath(s), listed(multus),
		fmt.Sprintf("comes from Multus, and %q from a claim; a VM can have networks of one kind only", claimed[0]))}
}
