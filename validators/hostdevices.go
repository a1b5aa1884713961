package validators

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
)

// KubeVirt's feature gates that host devices depend on.
const (
	gateHostDevices           = "HostDevices"
	gateGraceIOVirtualization = "GraceIOVirtualization"
	gatePCINUMAAwareTopology  = "PCINUMAAwareTopology"
	gateIOMMUFD               = "IOMMUFD"
)

func hostDeviceRules() Table {
	return Scoped(OnSpec,
		hostDeviceGateRule,
		hostDevicePermittedRule,
		oneBootDisplayRule,
		graceGateRule,
		graceSelectorRule,
		graceArchitectureRule,
		graceMachineRule,
		graceDedicatedCPUsRule,
		graceNUMAGateRule,
		graceIOMMUFDGateRule,
		graceRootComplexRule,
		gracePCIHoleRule,
	)
}

var hostDeviceGateRule = Rule{
	ID:       "hostdevice-gate",
	Title:    "Host devices need the feature gate HostDevices",
	Remedy:   "Remove hostDevices, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    hostDeviceGate,
}

func hostDeviceGate(s *Subject, found *Errors) {
	devices := s.Spec.Domain.Devices.HostDevices
	if len(devices) == 0 || s.Facts.GateEnabled(gateHostDevices) {
		return
	}
	names := make([]string, 0, len(devices))
	for i := range devices {
		names = append(names, shortened(devices[i].Name))
	}
	found.Add(gateOff(s, gateHostDevices, s.Devices().Child("hostDevices"), listed(names), "a host device"))
}

var hostDevicePermittedRule = Rule{
	ID:       "hostdevice-permitted",
	Title:    "A device is one that the cluster permits",
	Remedy:   "Name a permitted device, or add this one to permittedHostDevices.",
	Severity: Warn,
	Security: true,
	Check:    hostDevicePermitted,
}

// hostDevicePermitted warns of devices for which virt-controller will not make a pod. Where the cluster has
// no list, it checks nothing either.
func hostDevicePermitted(s *Subject, found *Errors) {
	devices, permitted := &s.Spec.Domain.Devices, s.Facts.Configuration.PermittedHostDevices
	if permitted == nil || len(devices.GPUs)+len(devices.HostDevices) == 0 {
		return
	}
	names := map[string]bool{}
	for i := range permitted.PciHostDevices {
		names[permitted.PciHostDevices[i].ResourceName] = true
	}
	for i := range permitted.MediatedDevices {
		names[permitted.MediatedDevices[i].ResourceName] = true
	}
	for i := range permitted.USB {
		names[permitted.USB[i].ResourceName] = true
	}
	requests := requestedDevices(s)
	for i := range found.Each(len(requests)) {
		request := requests[i]
		if !names[request.resource] {
			found.Add(field.Invalid(request.path, request.resource,
				"the device is not in permittedHostDevices of the KubeVirt resource, so the VM will not start"))
		}
	}
}

var oneBootDisplayRule = Rule{
	ID:     "hostdevice-one-boot-display",
	Title:  "At most one virtual GPU shows the boot screen",
	Remedy: "Set virtualGPUOptions.display.enabled or virtualGPUOptions.display.ramFB.enabled to false for all virtual GPUs but one.",
	Check:  oneBootDisplay,
}

func oneBootDisplay(s *Subject, found *Errors) {
	var showing []string
	for i := range s.Spec.Domain.Devices.GPUs {
		if gpu := &s.Spec.Domain.Devices.GPUs[i]; showsBoot(gpu.VirtualGPUOptions) {
			showing = append(showing, shortened(gpu.Name))
		}
	}
	if len(showing) < 2 {
		return
	}
	found.Add(field.Invalid(s.Devices().Child("gpus"), listed(showing),
		"only one virtual GPU can have a display with a RAM framebuffer, which is on by default"))
}

// showsBoot reports whether a virtual GPU has a display with a RAM framebuffer. A display that is given is on
// unless it is switched off, and its framebuffer is on unless it is given and not switched on.
func showsBoot(options *v1.VGPUOptions) bool {
	if options == nil || options.Display == nil {
		return false
	}
	display := options.Display
	if display.Enabled != nil && !*display.Enabled {
		return false
	}
	return display.RamFB == nil || display.RamFB.Enabled != nil && *display.RamFB.Enabled
}

// deviceRequest is a device that a VM requests by the name of its resource.
type deviceRequest struct {
	path     *field.Path
	resource string
}

func requestedDevices(s *Subject) []deviceRequest {
	devices := &s.Spec.Domain.Devices
	if len(devices.GPUs)+len(devices.HostDevices) == 0 {
		return nil
	}
	requests := make([]deviceRequest, 0, len(devices.GPUs)+len(devices.HostDevices))
	for i := range devices.GPUs {
		if name := devices.GPUs[i].DeviceName; name != "" {
			requests = append(requests, deviceRequest{s.Devices().Child("gpus").Index(i).Child("deviceName"), name})
		}
	}
	for i := range devices.HostDevices {
		if name := devices.HostDevices[i].DeviceName; name != "" {
			requests = append(requests, deviceRequest{s.Devices().Child("hostDevices").Index(i).Child("deviceName"), name})
		}
	}
	return requests
}

// nvidia is the PCI id of the vendor, and graceGPUs are those of its GPUs in Grace systems.
const nvidia = "10DE"

var graceGPUs = map[string]bool{"2342": true, "2348": true, "2941": true}

// anyDevice stands for every device of a vendor.
const anyDevice = "*"

// requestedFrom returns the requested devices whose permission has a selector that matches.
func requestedFrom(s *Subject, matches func(vendor, device string) bool) (found []deviceRequest) {
	permitted := s.Facts.Configuration.PermittedHostDevices
	if permitted == nil || len(permitted.PciHostDevices) == 0 {
		return nil
	}
	requests := requestedDevices(s)
	if len(requests) == 0 {
		return nil
	}
	selected := map[string]bool{} // where a resource has several selectors, KubeVirt goes by the last
	for i := range permitted.PciHostDevices {
		p := &permitted.PciHostDevices[i]
		if p.ResourceName == "" || p.PCIVendorSelector == "" {
			continue
		}
		vendor, device, ok := pciIDs(p.PCIVendorSelector)
		selected[p.ResourceName] = ok && matches(vendor, device)
	}
	for _, request := range requests {
		if selected[request.resource] {
			found = append(found, request)
		}
	}
	return found
}

// pciIDs reads a selector, VENDOR:DEVICE. Each is four hexadecimal digits, the device may be any.
func pciIDs(selector string) (vendor, device string, ok bool) {
	vendor, device, ok = strings.Cut(selector, ":")
	if !ok {
		return "", "", false
	}
	vendor, device = normalPCIID(vendor), normalPCIID(device)
	return vendor, device, isPCIID(vendor) && (device == anyDevice || isPCIID(device))
}

func normalPCIID(id string) string {
	return strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(id)), "0X")
}

func isPCIID(id string) bool { return len(id) == 4 && strings.Trim(id, "0123456789ABCDEF") == "" }

func graceDevices(s *Subject) []deviceRequest {
	return requestedFrom(s, func(vendor, device string) bool { return vendor == nvidia && graceGPUs[device] })
}

// graceInUse is a Grace GPU that a VM requests and the cluster permits, if there is one; of several, the first
// by name.
func graceInUse(s *Subject) (resource string, ok bool) {
	requests := graceDevices(s)
	if len(requests) == 0 || !s.Facts.GateEnabled(gateGraceIOVirtualization) {
		return "", false
	}
	first := slices.MinFunc(requests, func(a, b deviceRequest) int { return cmp.Compare(a.resource, b.resource) })
	return first.resource, true
}

var graceGateRule = Rule{
	ID:       "hostdevice-grace-gate",
	Title:    "NVIDIA Grace GPUs need the feature gate GraceIOVirtualization",
	Remedy:   "Name another device, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    graceGate,
}

func graceGate(s *Subject, found *Errors) {
	requests := graceDevices(s)
	for i := range found.Each(len(requests)) {
		request := requests[i]
		found.Add(gateOff(s, gateGraceIOVirtualization, request.path, request.resource, "an NVIDIA Grace GPU"))
	}
}

var graceSelectorRule = Rule{
	ID:     "hostdevice-grace-selector",
	Title:  "With GraceIOVirtualization, an NVIDIA device is permitted by its exact id",
	Remedy: "In the KubeVirt resource, replace the * in the pciVendorSelector of the device by a device id.",
	Check:  graceSelector,
}

func graceSelector(s *Subject, found *Errors) {
	if !s.Facts.GateEnabled(gateGraceIOVirtualization) {
		return
	}
	requests := requestedFrom(s, func(vendor, device string) bool { return vendor == nvidia && device == anyDevice })
	for i := range found.Each(len(requests)) {
		request := requests[i]
		found.Add(field.Invalid(request.path, request.resource,
			"the device is permitted by a selector of any NVIDIA device; with the feature gate "+gateGraceIOVirtualization+" it must name one"))
	}
}

var graceArchitectureRule = Rule{
	ID:     "hostdevice-grace-architecture",
	Title:  "NVIDIA Grace GPUs need an arm64 guest",
	Remedy: "Set architecture to arm64, or name another device.",
	Check:  graceArchitecture,
}

func graceArchitecture(s *Subject, found *Errors) {
	resource, ok := graceInUse(s)
	if architecture := s.architecture(); ok && architecture != architectures.ARM64 {
		found.Add(field.Invalid(s.Path.Child("architecture"), architecture,
			fmt.Sprintf("the NVIDIA Grace GPU %s needs an arm64 guest", resource)))
	}
}

// graceMachineType is the start of the machine types that take Grace GPUs.
const graceMachineType = "virt"

var graceMachineRule = Rule{
	ID:     "hostdevice-grace-machine",
	Title:  "NVIDIA Grace GPUs need the machine type virt",
	Remedy: "Set domain.machine.type to virt, or name another device.",
	Check:  graceMachine,
}

func graceMachine(s *Subject, found *Errors) {
	resource, ok := graceInUse(s)
	if !ok {
		return
	}
	machine := ""
	if m := s.Spec.Domain.Machine; m != nil {
		machine = m.Type
	}
	if machine == "" {
		machine = s.Facts.MachineType(s.architecture())
	}
	if strings.HasPrefix(machine, graceMachineType) {
		return
	}
	found.Add(field.Invalid(s.Domain().Child("machine", "type"), machine,
		fmt.Sprintf("the NVIDIA Grace GPU %s needs a machine of type %s", resource, graceMachineType)))
}

var graceDedicatedCPUsRule = Rule{
	ID:     "hostdevice-grace-dedicated-cpus",
	Title:  "NVIDIA Grace GPUs need dedicated CPUs",
	Remedy: "Set domain.cpu.dedicatedCpuPlacement to true, or name another device.",
	Check:  graceDedicatedCPUs,
}

func graceDedicatedCPUs(s *Subject, found *Errors) {
	resource, ok := graceInUse(s)
	if cpu := s.Spec.Domain.CPU; !ok || cpu != nil && cpu.DedicatedCPUPlacement {
		return
	}
	found.Add(field.Required(s.Domain().Child("cpu", "dedicatedCpuPlacement"),
		fmt.Sprintf("the NVIDIA Grace GPU %s needs dedicated CPUs", resource)))
}

var graceNUMAGateRule = Rule{
	ID:     "hostdevice-grace-numa-gate",
	Title:  "NVIDIA Grace GPUs need the feature gate PCINUMAAwareTopology",
	Remedy: "Name another device, or enable the feature gate in the KubeVirt resource.",
	Check:  graceNUMAGate,
}

func graceNUMAGate(s *Subject, found *Errors) {
	resource, ok := graceInUse(s)
	if !ok {
		return
	}
	found.Add(gateOff(s, gatePCINUMAAwareTopology, s.Devices(), resource, "an NVIDIA Grace GPU"))
}

var graceIOMMUFDGateRule = Rule{
	ID:     "hostdevice-grace-iommufd-gate",
	Title:  "NVIDIA Grace GPUs need the feature gate IOMMUFD",
	Remedy: "Name another device, or enable the feature gate in the KubeVirt resource.",
	Check:  graceIOMMUFDGate,
}

func graceIOMMUFDGate(s *Subject, found *Errors) {
	resource, ok := graceInUse(s)
	if !ok {
		return
	}
	found.Add(gateOff(s, gateIOMMUFD, s.Devices(), resource, "an NVIDIA Grace GPU"))
}

var graceRootComplexRule = Rule{
	ID:     "hostdevice-grace-root-complex",
	Title:  "NVIDIA Grace GPUs cannot be placed on the root complex",
	Remedy: "Remove the annotation " + v1.PlacePCIDevicesOnRootComplex + ".",
	Check:  graceRootComplex,
}

func graceRootComplex(s *Subject, found *Errors) {
	graceAnnotation(s, v1.PlacePCIDevicesOnRootComplex, "an NVIDIA Grace GPU cannot be placed on the root complex", found)
}

var gracePCIHoleRule = Rule{
	ID:     "hostdevice-grace-pci-hole",
	Title:  "NVIDIA Grace GPUs need the 64-bit PCI hole",
	Remedy: "Remove the annotation " + v1.DisablePCIHole64 + ".",
	Check:  gracePCIHole,
}

func gracePCIHole(s *Subject, found *Errors) {
	graceAnnotation(s, v1.DisablePCIHole64, "an NVIDIA Grace GPU needs the 64-bit PCI hole", found)
}

func graceAnnotation(s *Subject, key, problem string, found *Errors) {
	if s.Meta == nil || s.Meta.Annotations[key] != "true" || len(graceDevices(s)) == 0 {
		return
	}
	found.Add(field.Invalid(s.MetaPath.Child("annotations").Key(key), "true", problem))
}
