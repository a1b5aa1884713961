package validators

import (
	"fmt"
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

func draClaimNamed(s *Subject) (errs field.ErrorList) {
	for i := range s.Spec.ResourceClaims {
		if s.Spec.ResourceClaims[i].Name == "" {
			errs = append(errs, field.Required(claimPath(s).Index(i).Child("name"), "devices refer to the claim by its name"))
		}
	}
	return errs
}

func draClaimNameValid(s *Subject) (errs field.ErrorList) {
	for i := range s.Spec.ResourceClaims {
		name := s.Spec.ResourceClaims[i].Name
		if name == "" || len(validation.IsDNS1123Label(name)) == 0 {
			continue
		}
		errs = append(errs, field.Invalid(claimPath(s).Index(i).Child("name"), shortened(name),
			"the name of a claim has at most 63 lower-case letters, digits and '-', and starts and ends with a letter or a digit"))
	}
	return errs
}

func draClaimNamesUnique(s *Subject) (errs field.ErrorList) {
	if len(s.Spec.ResourceClaims) < 2 {
		return nil
	}
	seen := make(map[string]bool, len(s.Spec.ResourceClaims))
	for i := range s.Spec.ResourceClaims {
		name := s.Spec.ResourceClaims[i].Name
		if name != "" && seen[name] {
			errs = append(errs, field.Duplicate(claimPath(s).Index(i).Child("name"), shortened(name)))
		}
		seen[name] = true
	}
	return errs
}

func draClaimSource(s *Subject) (errs field.ErrorList) {
	for i := range s.Spec.ResourceClaims {
		claim := &s.Spec.ResourceClaims[i]
		switch {
		case claim.ResourceClaimName != nil && claim.ResourceClaimTemplateName != nil:
			errs = append(errs, field.Invalid(claimPath(s).Index(i), shortened(claim.Name),
				"resourceClaimName and resourceClaimTemplateName cannot both be set"))
		case claim.ResourceClaimName == nil && claim.ResourceClaimTemplateName == nil:
			errs = append(errs, field.Invalid(claimPath(s).Index(i), shortened(claim.Name),
				"one of resourceClaimName and resourceClaimTemplateName must be set"))
		}
	}
	return errs
}

func draClaimSourceValid(s *Subject) (errs field.ErrorList) {
	check := func(i int, child string, name *string) {
		if name != nil && len(validation.IsDNS1123Subdomain(*name)) > 0 {
			errs = append(errs, field.Invalid(claimPath(s).Index(i).Child(child), shortened(*name),
				"no object can have this name: it takes lower-case letters, digits, '-' and '.', at most 253, the first and the last a letter or a digit"))
		}
	}
	for i := range s.Spec.ResourceClaims {
		check(i, "resourceClaimName", s.Spec.ResourceClaims[i].ResourceClaimName)
		check(i, "resourceClaimTemplateName", s.Spec.ResourceClaims[i].ResourceClaimTemplateName)
	}
	return errs
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
	// kind is what is in it, and gate what that needs to come from a claim.
	kind, gate string
	devices    []draDevice
	// mixed tells that it has both kinds of devices, which only host devices may.
	mixed bool
}

type draDevice struct {
	name, plugin string
	claim        *v1.ClaimRequest
}

// claimed tells whether the device comes from a claim.
func (d *draDevice) claimed() bool { return d.plugin == "" && d.claim != nil }

// claimed is the first device that comes from a claim; nil if none does.
func (l *draList) claimed() *draDevice {
	for i := range l.devices {
		if d := &l.devices[i]; d.claimed() {
			return d
		}
	}
	return nil
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
		list := &draList{path: s.Devices().Child("gpus"), kind: "GPU", gate: gateGPUsWithDRA}
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
		list := &draList{path: s.Devices().Child("hostDevices"), kind: "host device", gate: gateHostDevicesWithDRA}
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
		for i := range list.devices {
			if d := &list.devices[i]; !list.mixed && d.plugin == "" && d.claim == nil {
				errs = append(errs, field.Required(list.path, fmt.Sprintf("the %s %q at %d has neither a deviceName nor a claimName with a requestName", list.kind, shortened(d.name), i)))
			}
		}
	}
	return errs
}

func draDeviceOneSource(s *Subject) (errs field.ErrorList) {
	for _, list := range draLists(s) {
		for i := range list.devices {
			if d := &list.devices[i]; !list.mixed && d.plugin != "" && d.claim != nil {
				errs = append(errs, field.Invalid(list.path, shortened(d.name), fmt.Sprintf("the %s at %d has both a deviceName and a claim; it can come from one only", list.kind, i)))
			}
		}
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
		if device := list.claimed(); device != nil && !list.mixed {
			errs = append(errs, behindGate(s, list.gate, list.path, shortened(device.name), "a "+list.kind+" from a claim")...)
		}
	}
	return errs
}

func draNetworkGate(s *Subject) field.ErrorList {
	for i := range s.Spec.Networks {
		if network := &s.Spec.Networks[i]; network.ResourceClaim != nil {
			return behindGate(s, gateNetworkDevicesWithDRA, s.Path.Child("networks"), shortened(network.Name), "a network from a claim")
		}
	}
	return nil
}

// draUse is something that comes from a claim.
type draUse struct {
	// path of it, and names where its claimName and requestName stand.
	path, names *field.Path
	// network tells that it is a network.
	network bool
	request v1.ClaimRequest
}

func (u *draUse) complete() bool { return u.request.ClaimName != "" && u.request.RequestName != "" }

// draUses are the devices and the networks that come from claims, as far as their feature gates are on: the
// others are refused whatever they name.
func draUses(s *Subject) (uses []draUse) {
	for _, list := range draLists(s) {
		if list.mixed || !s.Facts.GateEnabled(list.gate) {
			continue
		}
		for i := range list.devices {
			if d := &list.devices[i]; d.claimed() {
				path := list.path.Index(i)
				uses = append(uses, draUse{path: path, names: path, request: *d.claim})
			}
		}
	}
	if !s.Facts.GateEnabled(gateNetworkDevicesWithDRA) {
		return uses
	}
	for i := range s.Spec.Networks {
		if claim := s.Spec.Networks[i].ResourceClaim; claim != nil {
			path := s.Path.Child("networks").Index(i)
			uses = append(uses, draUse{path: path, names: path.Child("resourceClaim"), network: true, request: *claim})
		}
	}
	return uses
}

func draRequestComplete(s *Subject) (errs field.ErrorList) {
	for _, use := range draUses(s) {
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
	for _, use := range uses {
		name := use.request.ClaimName
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

func draRequestUsedOnce(s *Subject) (errs field.ErrorList) {
	uses := draUses(s)
	if len(uses) < 2 {
		return nil
	}
	first := make(map[v1.ClaimRequest]*field.Path, len(uses))
	for _, use := range uses {
		if !use.complete() {
			continue
		}
		other, used := first[use.request]
		if !used {
			first[use.request] = use.path
			continue
		}
		again := field.Duplicate(use.path, shortened(use.request.ClaimName+"/"+use.request.RequestName))
		again.Detail = fmt.Sprintf("%s uses this request of the claim already", other)
		errs = append(errs, again)
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
	for i := range s.Spec.Domain.Devices.Interfaces {
		if nic := &s.Spec.Domain.Devices.Interfaces[i]; claimed[nic.Name] && nic.SRIOV == nil && nic.Binding == nil {
			errs = append(errs, field.Invalid(s.Devices().Child("interfaces"), shortened(nic.Name),
				fmt.Sprintf("the interface at %d is of a network from a claim, and needs sriov or a binding plugin", i)))
		}
	}
	return errs
}

func draNetworkWithoutMultus(s *Subject) field.ErrorList {
	if !s.Facts.GateEnabled(gateNetworkDevicesWithDRA) {
		return nil
	}
	var claimed, multus *v1.Network
	for i := range s.Spec.Networks {
		switch network := &s.Spec.Networks[i]; {
		case network.ResourceClaim != nil:
			claimed = network
		case network.Multus != nil:
			multus = network
		}
	}
	if claimed == nil || multus == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Path.Child("networks"), shortened(multus.Name),
		fmt.Sprintf("the network is from Multus, and %q is from a claim; a VM can have one kind only", shortened(claimed.Name)))}
}
