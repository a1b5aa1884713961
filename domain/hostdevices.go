package domain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

const (
	hostPCI  = "pci"
	hostMDev = "mdev"
	hostUSB  = "usb"
	vfio     = "vfio-pci"
	multus   = "multus-status"
)

// hostDevices adds the devices that the pod was given.
func hostDevices(b *Build) error {
	b.Domain.Devices.Hostdevs = b.hostdevs
	return nil
}

// readHostDevices finds the addresses of host devices, GPUs and SR-IOV NICs.
func (b *Build) readHostDevices() error {
	sriov, err := b.sriov()
	if err != nil {
		return err
	}
	generic, err := b.genericDevices()
	if err != nil {
		return err
	}
	gpus, err := b.gpus()
	if err != nil {
		return err
	}
	for _, list := range [][]found{generic, gpus, sriov} {
		for i := range list {
			b.from(b.item("devices/hostdev", len(b.hostdevs), ""), list[i].field)
			b.fromHost(b.item("devices/hostdev", len(b.hostdevs), "/source"), list[i].assumption)
			b.hostdevs = append(b.hostdevs, list[i].DomainHostdev)
		}
	}
	return nil
}

// found is a device with the field that requests it, and the assumption with its address.
type found struct {
	DomainHostdev
	field, assumption string
}

// pool has the addresses of resources. An address is given once, though two resources have it.
type pool struct {
	prefix string
	env    map[string]string
	given  map[string]bool
}

func (b *Build) pool(prefix string) *pool {
	return &pool{prefix: prefix, env: b.Host.Env, given: map[string]bool{}}
}

// take returns the next address of a resource; empty if there is none.
func (p *pool) take(resource string) string {
	for address := range strings.SplitSeq(strings.TrimSuffix(p.env[resourceVariable(p.prefix, resource)], ","), ",") {
		if address != "" && !p.given[address] {
			p.given[address] = true
			return address
		}
	}
	return ""
}

// request is a device that an instance requests from a device plugin.
type request struct {
	name, resource, field string
	display               *v1.VGPUDisplayOptions
}

// plugged makes the devices of requests whose kind of address the pod has.
func (b *Build) plugged(requests []request, prefix string, device func(r *request, address string) (DomainHostdev, error)) ([]found, error) {
	from := b.pool(prefix)
	var made []found
	for i := range requests {
		r := &requests[i]
		address := from.take(r.resource)
		if address == "" {
			continue
		}
		hostdev, err := device(r, address)
		if err != nil {
			return nil, failf(r.field, "%w", err)
		}
		made = append(made, found{hostdev, r.field, "env"})
	}
	return made, nil
}

func isClaimed(claim *v1.ClaimRequest, device string) bool { return claim != nil && device == "" }

func (b *Build) genericDevices() ([]found, error) {
	list := b.VMI.Spec.Domain.Devices.HostDevices
	var requests []request
	for i := range list {
		requests = append(requests, request{name: list[i].Name, resource: list[i].DeviceName, field: fmt.Sprintf(fieldDevices+"hostDevices[%d]", i)})
	}
	const prefix = "hostdevice-"
	var made []found
	for _, kind := range []struct {
		prefix string
		device func(r *request, address string) (DomainHostdev, error)
	}{
		{v1.PCIResourcePrefix, func(r *request, address string) (DomainHostdev, error) { return pciDevice(prefix+r.name, address) }},
		{v1.MDevResourcePrefix, func(r *request, uuid string) (DomainHostdev, error) { return mediated(prefix+r.name, uuid, vfio), nil }},
		{v1.USBResourcePrefix, usbDevice},
	} {
		plugged, err := b.plugged(requests, kind.prefix, kind.device)
		if err != nil {
			return nil, err
		}
		made = append(made, plugged...)
	}
	plugins := 0
	for i := range list {
		if !isClaimed(list[i].ClaimRequest, list[i].DeviceName) {
			plugins++
		}
	}
	if plugins > 0 && plugins != len(made) {
		return nil, failf(fieldDevices+"hostDevices", "the instance requests %d devices, and the pod has %d", plugins, len(made))
	}
	for i := range list {
		if !isClaimed(list[i].ClaimRequest, list[i].DeviceName) {
			continue
		}
		model := vfio
		if b.VMI.Spec.Architecture == s390x().Name {
			model = "vfio-ap"
		}
		device, err := b.claimed("dra-hostdevice-"+list[i].Name, list[i].ClaimRequest, model)
		if err != nil {
			return nil, failf(requests[i].field, "%w", err)
		}
		made = append(made, found{device, requests[i].field, "dra"})
	}
	return made, nil
}

func (b *Build) gpus() ([]found, error) {
	list := b.VMI.Spec.Domain.Devices.GPUs
	var requests []request
	var displays, plugins int
	for i := range list {
		r := request{name: list[i].Name, resource: list[i].DeviceName, field: fmt.Sprintf(fieldDevices+"gpus[%d]", i)}
		if options := list[i].VirtualGPUOptions; options != nil && options.Display != nil {
			r.display = options.Display
			displays++
		}
		if !isClaimed(list[i].ClaimRequest, list[i].DeviceName) {
			plugins++
		}
		requests = append(requests, r)
	}
	made, err := b.plugged(requests, v1.PCIResourcePrefix, func(r *request, address string) (DomainHostdev, error) {
		device, err := pciDevice("gpu-"+r.name, address)
		if r.display != nil && isTrue(r.display.Enabled) {
			device.setDisplay(r.display)
		}
		return device, err
	})
	if err != nil {
		return nil, err
	}
	mediated, err := b.plugged(requests, v1.MDevResourcePrefix, func(r *request, uuid string) (DomainHostdev, error) {
		return mediatedGPU("gpu-"+r.name, uuid, r.display), nil
	})
	if err != nil {
		return nil, err
	}
	if displays == 0 && len(mediated) > 0 {
		mediated[0].Display, mediated[0].RamFB = "on", "on"
	}
	made = append(made, mediated...)
	if plugins > 0 && plugins != len(made) {
		return nil, failf(fieldDevices+"gpus", "the instance requests %d GPUs, and the pod has %d", plugins, len(made))
	}
	claimed, err := b.claimedGPUs(requests, displays == 0)
	return append(made, claimed...), err
}

// claimedGPUs returns the GPUs of resource claims. The first mediated one is the display if no GPU has options for one.
func (b *Build) claimedGPUs(requests []request, display bool) ([]found, error) {
	list := b.VMI.Spec.Domain.Devices.GPUs
	var made []found
	for i := range list {
		if !isClaimed(list[i].ClaimRequest, list[i].DeviceName) {
			continue
		}
		device, err := b.claimed("dra-gpu-"+list[i].Name, list[i].ClaimRequest, vfio)
		if err != nil {
			return nil, failf(requests[i].field, "%w", err)
		}
		if device.Type == hostMDev {
			if requests[i].display != nil && !isFalse(requests[i].display.Enabled) {
				device.setDisplay(requests[i].display)
			}
			if display {
				device.Display, device.RamFB, display = "on", "on", false
			}
		}
		made = append(made, found{device, requests[i].field, "dra"})
	}
	return made, nil
}

// setDisplay makes a GPU the display.
func (d *DomainHostdev) setDisplay(options *v1.VGPUDisplayOptions) {
	d.Display = "on"
	if options.RamFB == nil || !isFalse(options.RamFB.Enabled) {
		d.RamFB = "on"
	}
}

func pciDevice(name, address string) (DomainHostdev, error) {
	source, err := pciAddress(address)
	return DomainHostdev{Type: hostPCI, Managed: "no", Source: &DomainHostdevSource{Address: source}, Alias: userAlias(name)}, err
}

func mediated(name, uuid, model string) DomainHostdev {
	return DomainHostdev{
		Type: hostMDev, Mode: "subsystem", Model: model, Alias: userAlias(name),
		Source: &DomainHostdevSource{Address: &DomainAddress{UUID: uuid}},
	}
}

func mediatedGPU(name, uuid string, display *v1.VGPUDisplayOptions) DomainHostdev {
	device := mediated(name, uuid, vfio)
	if display != nil && !isFalse(display.Enabled) {
		device.setDisplay(display)
	}
	return device
}

func usbDevice(r *request, address string) (DomainHostdev, error) {
	bus, number, ok := strings.Cut(address, ":")
	if !ok || strings.Contains(number, ":") {
		return DomainHostdev{}, fmt.Errorf("%q is no address of a USB device", address)
	}
	return DomainHostdev{
		Type: hostUSB, Mode: "subsystem", Alias: userAlias("usb-host-" + r.name),
		Source: &DomainHostdevSource{Address: &DomainAddress{Bus: bus, Device: number}},
	}, nil
}

// pciAddress reads an address such as 0000:3b:00.0.
func pciAddress(text string) (*DomainAddress, error) {
	domain, rest, first := strings.Cut(text, ":")
	bus, rest, second := strings.Cut(rest, ":")
	slot, function, third := strings.Cut(rest, ".")
	const hex, octal = "0123456789abcdefABCDEF", "01234567"
	if !first || !second || !third || !digits(domain, 4, hex) || !digits(bus, 2, hex) || !digits(slot, 2, hex) || !digits(function, 1, octal) {
		return nil, fmt.Errorf("%q is no PCI address", text)
	}
	return &DomainAddress{Type: hostPCI, Domain: "0x" + domain, Bus: "0x" + bus, Slot: "0x" + slot, Function: "0x" + function}, nil
}

func digits(text string, length int, allowed string) bool {
	return len(text) == length && strings.Trim(text, allowed) == ""
}

// pciText is the inverse of pciAddress.
func (a *DomainAddress) pciText() string {
	plain := func(part string) string { return strings.TrimPrefix(part, "0x") }
	return plain(a.Domain) + ":" + plain(a.Bus) + ":" + plain(a.Slot) + "." + plain(a.Function)
}

// sriov returns the SR-IOV NICs: those that Multus attached, and those of resource claims.
func (b *Build) sriov() ([]found, error) {
	addresses, taken := map[string]string{}, false
	if info := b.Host.NetworkInfo; info != nil {
		for i := range info.Interfaces {
			if address := info.Interfaces[i].DeviceInfo.PCI.Address; address != "" {
				addresses[info.Interfaces[i].Network], taken = address, true
			}
		}
	}
	var attached, claimed []found
	list := b.VMI.Spec.Domain.Devices.Interfaces
	for i := range list {
		nic := &list[i]
		if nic.SRIOV == nil {
			continue
		}
		field := fmt.Sprintf(fieldDevices+"interfaces[%d]", i)
		if status := b.nicStatus(nic.Name); status != nil && strings.Contains(status.InfoSource, multus) {
			address, known := addresses[nic.Name]
			switch {
			case !taken:
				return nil, failf(field, "the pod has no addresses of SR-IOV networks")
			case !known:
				return nil, failf(field, "the pod has no address of the SR-IOV network %s", nic.Name)
			}
			delete(addresses, nic.Name)
			device, err := sriovDevice(nic, address)
			if err != nil {
				return nil, failf(field, "%w", err)
			}
			attached = append(attached, found{device, field, "networkInfo"})
		}
		if claim := b.networkClaim(nic.Name); claim != nil {
			attributes, err := b.claimAttributes(claim)
			if err == nil && attributes[attributePCI] == "" {
				err = errors.New("the claim has no PCI address")
			}
			if err != nil {
				return nil, failf(field, "%w", err)
			}
			device, err := sriovDevice(nic, attributes[attributePCI])
			if err != nil {
				return nil, failf(field, "%w", err)
			}
			claimed = append(claimed, found{device, field, "dra"})
		}
	}
	return append(attached, claimed...), nil
}

func (b *Build) networkClaim(name string) *v1.ClaimRequest {
	for i := range b.VMI.Spec.Networks {
		if network := &b.VMI.Spec.Networks[i]; network.Name == name {
			return network.ResourceClaim
		}
	}
	return nil
}

func sriovDevice(nic *v1.Interface, address string) (DomainHostdev, error) {
	device, err := pciDevice("sriov-"+nic.Name, address)
	if err != nil {
		return device, err
	}
	if nic.PciAddress != "" {
		if device.Address, err = pciAddress(nic.PciAddress); err != nil {
			return device, err
		}
	}
	if nic.BootOrder != nil {
		device.Boot = &DomainDeviceBoot{Order: *nic.BootOrder}
	}
	return device, nil
}

// The attributes of devices of resource claims.
const (
	attributePCI  = "resource.kubernetes.io/pciBusID"
	attributeMDev = "resource.kubernetes.io/mdevUUID"
)

// claimed returns the device of a resource claim. A mediated device can have the PCI address of its parent too.
func (b *Build) claimed(name string, claim *v1.ClaimRequest, model string) (DomainHostdev, error) {
	attributes, err := b.claimAttributes(claim)
	switch {
	case err != nil:
		return DomainHostdev{}, err
	case attributes[attributeMDev] != "":
		return mediated(name, attributes[attributeMDev], model), nil
	case attributes[attributePCI] != "":
		return pciDevice(name, attributes[attributePCI])
	}
	return DomainHostdev{}, errors.New("the claim has neither a PCI address nor a mediated device")
}

// deviceMetadata is the file with the devices of a request of a claim.
type deviceMetadata struct {
	APIVersion string `json:"apiVersion"`
	Requests   []struct {
		Name    string `json:"name"`
		Devices []struct {
			Attributes map[string]struct {
				String string `json:"string"`
			} `json:"attributes"`
		} `json:"devices"`
	} `json:"requests"`
}

// claimAttributes returns the attributes of the device of a request.
func (b *Build) claimAttributes(claim *v1.ClaimRequest) (map[string]string, error) {
	if claim.ClaimName == "" || claim.RequestName == "" {
		return nil, errors.New("the claim or its request has no name")
	}
	folder := ""
	for i := range b.VMI.Spec.ResourceClaims {
		if own := &b.VMI.Spec.ResourceClaims[i]; own.Name == claim.ClaimName {
			folder = path.Join("resourceclaimtemplates", own.Name, claim.RequestName)
			if own.ResourceClaimName != nil && *own.ResourceClaimName != "" {
				folder = path.Join("resourceclaims", *own.ResourceClaimName, claim.RequestName)
			}
			break
		}
	}
	var files []string
	for name := range b.Host.DRA {
		if path.Dir(name) == folder && strings.HasSuffix(name, "-metadata.json") {
			files = append(files, name)
		}
	}
	if slices.Sort(files); len(files) != 1 {
		return nil, fmt.Errorf("the pod has %d metadata files of the claim %s and its request %s", len(files), claim.ClaimName, claim.RequestName)
	}
	metadata, err := readMetadata(b.Host.DRA[files[0]])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", files[0], err)
	}
	for i := range metadata.Requests {
		if metadata.Requests[i].Name != claim.RequestName {
			continue
		}
		if n := len(metadata.Requests[i].Devices); n != 1 {
			return nil, fmt.Errorf("the request %s has %d devices", claim.RequestName, n)
		}
		attributes := map[string]string{}
		for name, value := range metadata.Requests[i].Devices[0].Attributes {
			attributes[name] = value.String
		}
		return attributes, nil
	}
	return nil, fmt.Errorf("%s has no request %s", files[0], claim.RequestName)
}

// readMetadata reads the first object of a version that KubeVirt reads. A file has one for each version.
func readMetadata(text string) (*deviceMetadata, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	for {
		var read deviceMetadata
		if err := decoder.Decode(&read); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, errors.New("there is no object of a known version")
			}
			return nil, err
		}
		if strings.HasPrefix(read.APIVersion, "metadata.resource.k8s.io/") {
			return &read, nil
		}
	}
}
