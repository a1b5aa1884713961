package validators

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
)

// KubeVirt's feature gates that host devices depend on.
const (
	gateHostDevices           = "HostDevices"
	gateGraceIOVirtualization = "GraceIOVirtualization"
	gatePCINUMAAwareTopology  = "PCINUMAAwareTopology"
	gateIOMMUFD               = "IOMMUFD"
)

func hostDeviceRules() Table {
	return Table{
		{
			ID: "hostdevice-gate", Title: "Host devices need the feature gate HostDevices", Scope: OnSpec, Security: true,
			Remedy: "Remove hostDevices, or have the feature gate HostDevices enabled in the KubeVirt resource.", Check: hostDeviceGate,
		},
		{
			ID: "hostdevice-permitted", Title: "A device is one that the cluster permits", Scope: OnSpec, Security: true, Severity: Warn,
			Remedy: "Name a device of permittedHostDevices in the KubeVirt resource, or have this one added there.", Check: hostDevicePermitted,
		},
		{
			ID: "hostdevice-one-boot-display", Title: "One virtual GPU at most shows the boot screen", Scope: OnSpec,
			Remedy: "Set virtualGPUOptions.display.enabled or virtualGPUOptions.display.ramFB.enabled to false for all virtual GPUs but one.", Check: oneBootDisplay,
		},
		{
			ID: "hostdevice-grace-gate", Title: "NVIDIA Grace GPUs need the feature gate GraceIOVirtualization", Scope: OnSpec, Security: true,
			Remedy: "Name another device, or have the feature gate GraceIOVirtualization enabled in the KubeVirt resource.", Check: graceGate,
		},
		{
			ID: "hostdevice-grace-selector", Title: "With GraceIOVirtualization, an NVIDIA device is permitted by its exact id", Scope: OnSpec,
			Remedy: "Have the pciVendorSelector of the device in the KubeVirt resource name a device id instead of *.", Check: graceSelector,
		},
		{
			ID: "hostdevice-grace-architecture", Title: "NVIDIA Grace GPUs need an arm64 guest", Scope: OnSpec,
			Remedy: "Set architecture to arm64, or name another device.", Check: graceArchitecture,
		},
		{
			ID: "hostdevice-grace-machine", Title: "NVIDIA Grace GPUs need the machine type virt", Scope: OnSpec,
			Remedy: "Set domain.machine.type to virt, or name another device.", Check: graceMachine,
		},
		{
			ID: "hostdevice-grace-dedicated-cpus", Title: "NVIDIA Grace GPUs need dedicated CPUs", Scope: OnSpec,
			Remedy: "Set domain.cpu.dedicatedCpuPlacement to true, or name another device.", Check: graceDedicatedCPUs,
		},
		{
			ID: "hostdevice-grace-numa-gate", Title: "NVIDIA Grace GPUs need the feature gate PCINUMAAwareTopology", Scope: OnSpec,
			Remedy: "Have the feature gate PCINUMAAwareTopology enabled in the KubeVirt resource.", Check: graceNUMAGate,
		},
		{
			ID: "hostdevice-grace-iommufd-gate", Title: "NVIDIA Grace GPUs need the feature gate IOMMUFD", Scope: OnSpec,
			Remedy: "Have the feature gate IOMMUFD enabled in the KubeVirt resource.", Check: graceIOMMUFDGate,
		},
		{
			ID: "hostdevice-grace-root-complex", Title: "NVIDIA Grace GPUs cannot be placed on the root complex", Scope: OnSpec,
			Remedy: "Remove the annotation " + v1.PlacePCIDevicesOnRootComplex + ".", Check: graceRootComplex,
		},
		{
			ID: "hostdevice-grace-pci-hole", Title: "NVIDIA Grace GPUs need the 64-bit PCI hole", Scope: OnSpec,
			Remedy: "Remove the annotation " + v1.DisablePCIHole64 + ".", Check: gracePCIHole,
		},
	}
}

func hostDeviceGate(s *Subject) field.ErrorList {
	devices := s.Spec.Domain.Devices.HostDevices
	if len(devices) == 0 || s.Facts.GateEnabled(gateHostDevices) {
		return nil
	}
	names := make([]string, 0, len(devices))
	for i := range devices {
		names = append(names, shortened(devices[i].Name))
	}
	return behindGate(s, gateHostDevices, s.Devices().Child("hostDevices"), listed(names), "a host device")
}

// hostDevicePermitted warns of devices for which virt-controller will not make a pod. Where the cluster has
// no list, it checks nothing either.
func hostDevicePermitted(s *Subject) (errs field.ErrorList) {
	devices, permitted := &s.Spec.Domain.Devices, s.Facts.Configuration.PermittedHostDevices
	if permitted == nil || len(devices.GPUs)+len(devices.HostDevices) == 0 {
		return nil
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
	for i, request := range requests {
		if enough(errs) {
			return cutShort(errs, len(requests)-i)
		}
		if !names[request.resource] {
			errs = append(errs, field.Invalid(request.path, request.resource,
				"the device is not among permittedHostDevices of the KubeVirt resource; the VM will not start"))
		}
	}
	return errs
}

func oneBootDisplay(s *Subject) field.ErrorList {
	var showing []string
	for i := range s.Spec.Domain.Devices.GPUs {
		if gpu := &s.Spec.Domain.Devices.GPUs[i]; showsBoot(gpu.VirtualGPUOptions) {
			showing = append(showing, shortened(gpu.Name))
		}
	}
	if len(showing) < 2 {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Devices().Child("gpus"), listed(showing),
		"only one virtual GPU can have a display with a RAM framebuffer, which is on unless it is switched off")}
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

// deviceRequest is a device that is asked for by the name of its resource.
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

// graceInUse is a Grace GPU that is asked for where the cluster allows it, if there is one; of several, the first
// by name.
func graceInUse(s *Subject) (resource string, ok bool) {
	requests := graceDevices(s)
	if len(requests) == 0 || !s.Facts.GateEnabled(gateGraceIOVirtualization) {
		return "", false
	}
	first := slices.MinFunc(requests, func(a, b deviceRequest) int { return cmp.Compare(a.resource, b.resource) })
	return first.resource, true
}

func graceGate(s *Subject) (errs field.ErrorList) {
	requests := graceDevices(s)
	for i, request := range requests {
		if enough(errs) {
			return cutShort(errs, len(requests)-i)
		}
		errs = append(errs, behindGate(s, gateGraceIOVirtualization, request.path, request.resource, "an NVIDIA Grace GPU")...)
	}
	return errs
}

func graceSelector(s *Subject) (errs field.ErrorList) {
	if !s.Facts.GateEnabled(gateGraceIOVirtualization) {
		return nil
	}
	requests := requestedFrom(s, func(vendor, device string) bool { return vendor == nvidia && device == anyDevice })
	for i, request := range requests {
		if enough(errs) {
			return cutShort(errs, len(requests)-i)
		}
		errs = append(errs, field.Invalid(request.path, request.resource,
			"the device is permitted by a selector of any NVIDIA device; with the feature gate "+gateGraceIOVirtualization+" it must name one"))
	}
	return errs
}

func graceArchitecture(s *Subject) field.ErrorList {
	resource, ok := graceInUse(s)
	if architecture := s.architecture(); ok && architecture != platform.ARM64 {
		return field.ErrorList{field.Invalid(s.Path.Child("architecture"), architecture,
			fmt.Sprintf("the NVIDIA Grace GPU %s works in arm64 guests only", resource))}
	}
	return nil
}

// graceMachineType is the start of the machine types that take Grace GPUs.
const graceMachineType = "virt"

func graceMachine(s *Subject) field.ErrorList {
	resource, ok := graceInUse(s)
	if !ok {
		return nil
	}
	machine := ""
	if m := s.Spec.Domain.Machine; m != nil {
		machine = m.Type
	}
	if machine == "" {
		machine = s.Facts.MachineType(s.architecture())
	}
	if strings.HasPrefix(machine, graceMachineType) {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Domain().Child("machine", "type"), machine,
		fmt.Sprintf("the NVIDIA Grace GPU %s needs a machine of type %s", resource, graceMachineType))}
}

func graceDedicatedCPUs(s *Subject) field.ErrorList {
	resource, ok := graceInUse(s)
	if cpu := s.Spec.Domain.CPU; !ok || cpu != nil && cpu.DedicatedCPUPlacement {
		return nil
	}
	return field.ErrorList{field.Required(s.Domain().Child("cpu", "dedicatedCpuPlacement"),
		fmt.Sprintf("the NVIDIA Grace GPU %s needs dedicated CPUs", resource))}
}

func graceNUMAGate(s *Subject) field.ErrorList {
	resource, ok := graceInUse(s)
	if !ok {
		return nil
	}
	return behindGate(s, gatePCINUMAAwareTopology, s.Devices(), resource, "an NVIDIA Grace GPU")
}

func graceIOMMUFDGate(s *Subject) field.ErrorList {
	resource, ok := graceInUse(s)
	if !ok {
		return nil
	}
	return behindGate(s, gateIOMMUFD, s.Devices(), resource, "an NVIDIA Grace GPU")
}

func graceRootComplex(s *Subject) field.ErrorList {
	return graceAnnotation(s, v1.PlacePCIDevicesOnRootComplex, "an NVIDIA Grace GPU cannot be placed on the root complex")
}

func gracePCIHole(s *Subject) field.ErrorList {
	return graceAnnotation(s, v1.DisablePCIHole64, "an NVIDIA Grace GPU needs the 64-bit PCI hole")
}

func graceAnnotation(s *Subject, key, problem string) field.ErrorList {
	if s.Meta == nil || s.Meta.Annotations[key] != "true" || len(graceDevices(s)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(s.MetaPath.Child("annotations").Key(key), "true", problem)}
}
