package launcher

import (
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
)

// devicePrefix is that of KubeVirt's device plugins.
const devicePrefix = "devices.kubevirt.io/"

// DeviceRequest is a device of the node that the pod requests.
type DeviceRequest struct {
	Resource corev1.ResourceName
	// Optional devices do not keep the pod from being scheduled where they are missing. KubeVirt has none yet, and leaves them
	// out of the pod.
	Optional bool
	// Field that needs the device; empty if every virtual machine does.
	Field string
}

// Device is a row of the table of devices.
type Device struct {
	// Name identifies it, as that of a Component.
	Name string
	// Resource returns the name of the extended resource.
	Resource func(facts *platform.Facts) corev1.ResourceName
	// Field that needs the device; empty if every virtual machine does.
	Field    string
	Optional bool
	// Requested reports whether an instance needs it.
	Requested func(vmi *v1.VirtualMachineInstance, facts *platform.Facts) bool
}

// Devices are the rows that all hypervisors have in common.
func Devices() []Device {
	return []Device{
		{Name: "tun", Resource: named("tun"), Field: "spec.domain.devices.interfaces", Requested: needsTUN},
		{Name: "vhost-net", Resource: named("vhost-net"), Field: "spec.domain.devices.interfaces", Requested: needsVhostNet},
		{Name: "hypervisor", Resource: hypervisorDevice, Requested: func(_ *v1.VirtualMachineInstance, facts *platform.Facts) bool { return !emulated(facts) }},
		{Name: "vsock", Resource: named("vhost-vsock"), Field: "spec.domain.devices.autoattachVSOCK", Requested: needsVSOCK},
	}
}

// DeviceRequests are the rows that an instance needs.
func (r *BaseRenderer) DeviceRequests(vmi *v1.VirtualMachineInstance, facts *platform.Facts) []DeviceRequest {
	requests := make([]DeviceRequest, 0, len(r.devices))
	for i := range r.devices {
		if d := &r.devices[i]; d.Requested(vmi, facts) {
			requests = append(requests, DeviceRequest{Resource: d.Resource(facts), Optional: d.Optional, Field: d.Field})
		}
	}
	return requests
}

// Devices are all rows. Only the hypervisor of the facts is used.
func (r *BaseRenderer) Devices(facts *platform.Facts) []DeviceRequest {
	requests := make([]DeviceRequest, 0, len(r.devices))
	for i := range r.devices {
		d := &r.devices[i]
		requests = append(requests, DeviceRequest{Resource: d.Resource(facts), Optional: d.Optional, Field: d.Field})
	}
	return requests
}

func named(name string) func(*platform.Facts) corev1.ResourceName {
	full := corev1.ResourceName(devicePrefix + name)
	return func(*platform.Facts) corev1.ResourceName { return full }
}

func hypervisorDevice(facts *platform.Facts) corev1.ResourceName {
	return corev1.ResourceName(facts.Hypervisor.Device)
}

// emulated reports whether the cluster runs virtual machines without the hypervisor's device.
func emulated(facts *platform.Facts) bool {
	return facts.Configuration.DeveloperConfiguration.UseEmulation
}

func needsTUN(vmi *v1.VirtualMachineInstance, _ *platform.Facts) bool {
	d := &vmi.Spec.Domain.Devices
	return len(d.Interfaces) > 0 || d.AutoattachPodInterface == nil || *d.AutoattachPodInterface
}

func needsVhostNet(vmi *v1.VirtualMachineInstance, facts *platform.Facts) bool {
	if emulated(facts) {
		return false
	}
	interfaces := vmi.Spec.Domain.Devices.Interfaces
	for i := range interfaces {
		if model := interfaces[i].Model; model == "" || model == v1.VirtIO {
			return true
		}
	}
	return false
}

func needsVSOCK(vmi *v1.VirtualMachineInstance, _ *platform.Facts) bool {
	attach := vmi.Spec.Domain.Devices.AutoattachVSOCK
	return attach != nil && *attach
}

// permitted returns an error that names the devices which the cluster does not permit. Without a list, it permits all.
func (s *subject) permitted() error {
	list := s.Facts.Configuration.PermittedHostDevices
	if list == nil {
		return nil
	}
	names := map[string]bool{}
	for i := range list.PciHostDevices {
		names[list.PciHostDevices[i].ResourceName] = true
	}
	for i := range list.MediatedDevices {
		names[list.MediatedDevices[i].ResourceName] = true
	}
	for i := range list.USB {
		names[list.USB[i].ResourceName] = true
	}
	var rejected []string
	check := func(kind, device, gate string, claim *v1.ClaimRequest) {
		if (claim == nil || !s.Facts.GateEnabled(gate)) && !names[device] {
			rejected = append(rejected, kind+" "+device+" is not permitted in permittedHostDevices configuration")
		}
	}
	devices := &s.spec.Domain.Devices
	for i := range devices.GPUs {
		check("GPU", devices.GPUs[i].DeviceName, gateGPUsWithDRA, devices.GPUs[i].ClaimRequest)
	}
	for i := range devices.HostDevices {
		check("HostDevice", devices.HostDevices[i].DeviceName, gateHostDevicesWithDRA, devices.HostDevices[i].ClaimRequest)
	}
	if len(rejected) > 0 {
		return errors.New(strings.Join(rejected, " "))
	}
	return nil
}

// The gates of devices that are claimed from a driver.
const (
	gateGPUsWithDRA        = "GPUsWithDRA"
	gateHostDevicesWithDRA = "HostDevicesWithDRA"
	gateNetworksWithDRA    = "NetworkDevicesWithDRA"
)

// passthrough requests the devices that are passed through to the guest: counted resources, and claims.
func (s *subject) passthrough(r *resources) {
	devices := &s.spec.Domain.Devices
	for i := range devices.GPUs {
		s.passDevice(r, devices.GPUs[i].DeviceName, gateGPUsWithDRA, devices.GPUs[i].ClaimRequest)
	}
	for i := range devices.HostDevices {
		s.passDevice(r, devices.HostDevices[i].DeviceName, gateHostDevicesWithDRA, devices.HostDevices[i].ClaimRequest)
	}
	if s.Facts.GateEnabled(gateNetworksWithDRA) {
		for i := range s.spec.Networks {
			if claim := s.spec.Networks[i].ResourceClaim; claim != nil {
				r.claims = append(r.claims, claimOf(claim))
			}
		}
	}
	security := s.spec.Domain.LaunchSecurity
	if isSEV(s.VMI) {
		r.device(devicePrefix + "sev")
	}
	if security != nil && security.TDX != nil {
		r.device(devicePrefix + "tdx")
	}
	if s.reserves() {
		r.device(devicePrefix + "pr-helper")
	}
	if s.Facts.GateEnabled("IOMMUFD") {
		r.device(devicePrefix + "iommufd")
	}
}

func (s *subject) passDevice(r *resources, device, gate string, claim *v1.ClaimRequest) {
	switch {
	case device != "" && claim == nil:
		r.device(corev1.ResourceName(device))
	case device == "" && claim != nil && s.Facts.GateEnabled(gate):
		r.claims = append(r.claims, claimOf(claim))
	}
}

// claimOf is the request of a claim; empty where the instance names none.
func claimOf(claim *v1.ClaimRequest) corev1.ResourceClaim {
	return corev1.ResourceClaim{Name: claim.ClaimName, Request: claim.RequestName}
}

// reserves reports whether a LUN uses persistent reservations.
func (s *subject) reserves() bool {
	disks := s.spec.Domain.Devices.Disks
	for i := range disks {
		if lun := disks[i].LUN; lun != nil && lun.Reservation {
			return true
		}
	}
	return false
}
