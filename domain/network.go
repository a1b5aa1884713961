package domain

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

const (
	defaultMTU    uint = 1500
	maxQueues          = 256
	primaryTap         = "tap0"
	podInterface       = "eth0"
	passtLog           = "/var/run/kubevirt/passt.log" //nolint:gosec // no credentials
	istioInjected      = "sidecar.istio.io/inject"
)

// istioPorts are the ports of Istio's proxy, which passt does not forward.
var istioPorts = [...]uint{15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090}

// interfaces makes the NICs. Those of SR-IOV are host devices, and those of other binding plugins are added by a sidecar.
func interfaces(b *Build) error {
	networks := map[string]bool{}
	for i := range b.VMI.Spec.Networks {
		networks[b.VMI.Spec.Networks[i].Name] = true
	}
	list := b.VMI.Spec.Domain.Devices.Interfaces
	for i := range list {
		nic := &list[i]
		if nic.State == v1.InterfaceStateAbsent {
			continue
		}
		field := fmt.Sprintf(fieldDevices+"interfaces[%d]", i)
		if !networks[nic.Name] {
			return failf(field+".name", "there is no network %s", nic.Name)
		}
		if nic.SRIOV != nil || nic.Binding != nil && !b.isTap(nic) {
			continue
		}
		made, err := b.nic(nic, field)
		if err != nil {
			return err
		}
		b.Domain.Devices.Interfaces = append(b.Domain.Devices.Interfaces, *made)
	}
	return nil
}

func (b *Build) isTap(nic *v1.Interface) bool {
	kind := b.attachments[nic.Name]
	return kind == string(v1.Tap) || kind == string(v1.ManagedTap)
}

func (b *Build) nic(nic *v1.Interface, field string) (*DomainInterface, error) {
	made := &DomainInterface{Alias: userAlias(nic.Name), Model: &DomainInterfaceModel{Type: nic.Model}}
	element := b.item("devices/interface", len(b.Domain.Devices.Interfaces), "")
	b.from(element, field)
	b.from(element+"/model", field+".model")
	if nic.Model == "" || nic.Model == v1.VirtIO {
		made.Model.Type = b.VirtioModel
		made.Driver = b.nicDriver()
		b.from(element+"/driver", fieldDevices+"networkInterfaceMultiqueue")
	}
	if nic.PciAddress != "" {
		address, err := pciAddress(nic.PciAddress)
		if err != nil {
			return nil, failf(field+".pciAddress", "%w", err)
		}
		made.Address = address
		b.from(element+"/address", field+".pciAddress")
	}
	if nic.ACPIIndex > 0 {
		made.ACPI = &DomainDeviceACPI{Index: uint(nic.ACPIIndex)}
		b.from(element+"/acpi", field+".acpiIndex")
	}
	if nic.MacAddress != "" {
		made.MAC = &DomainInterfaceMAC{Address: nic.MacAddress}
		b.from(element+"/mac", field+".macAddress")
	}
	switch {
	case b.isTap(nic):
		b.tap(nic, made, element, field)
	case nic.PasstBinding != nil:
		if err := b.passt(nic, made); err != nil {
			return nil, failf(field, "%w", err)
		}
		b.from(element+"/portForward", field+".ports")
	}
	return made, nil
}

func (b *Build) tap(nic *v1.Interface, made *DomainInterface, element, field string) {
	made.Type = "ethernet"
	if nic.BootOrder != nil {
		made.Boot = &DomainDeviceBoot{Order: *nic.BootOrder}
		b.from(element+"/boot", field+".bootOrder")
	}
	if b.Architecture.ROM && (nic.BootOrder == nil || b.IOMMU != "") {
		made.ROM = &DomainROM{Enabled: "no"}
		b.from(element+"/rom", field+".bootOrder")
	}
	if nic.State == v1.InterfaceStateLinkDown {
		made.Link = &DomainInterfaceLink{State: "down"}
		b.from(element+"/link", field+".state")
	}
}

// nicDriver returns the settings of virtio NICs: queues for the current vCPUs, and whether the IOMMU is on.
func (b *Build) nicDriver() *DomainInterfaceDriver {
	driver := &DomainInterfaceDriver{Name: "vhost", IOMMU: b.IOMMU}
	if isTrue(b.VMI.Spec.Domain.Devices.NetworkInterfaceMultiQueue) && b.VCPUs > 0 {
		driver.Queues = pointer(min(b.VCPUs, maxQueues))
	}
	if driver.Queues == nil && driver.IOMMU == "" {
		return nil
	}
	return driver
}

// passt makes a NIC that passt connects.
func (b *Build) passt(nic *v1.Interface, made *DomainInterface) error {
	status := b.nicStatus(nic.Name)
	if status == nil || status.PodInterfaceName == "" {
		return fmt.Errorf("the status of the instance has no name of the pod's interface")
	}
	made.Type, made.Source = "vhostuser", &DomainInterfaceSource{Dev: status.PodInterfaceName}
	made.Backend = &DomainInterfaceBackend{Type: "passt", LogFile: passtLog}
	made.PortForward = portForward(nic, strings.EqualFold(b.VMI.Annotations[istioInjected], "true"))
	return nil
}

func (b *Build) nicStatus(name string) *v1.VirtualMachineInstanceNetworkInterface {
	for i := range b.VMI.Status.Interfaces {
		if status := &b.VMI.Status.Interfaces[i]; status.Name == name {
			return status
		}
	}
	return nil
}

// portForward returns the ports that passt forwards: all, if none is named. Ports of Istio are excluded.
func portForward(nic *v1.Interface, istio bool) []DomainInterfaceSourcePortForward {
	var tcp, udp []DomainInterfaceSourcePortForwardRange
	if istio {
		for _, port := range istioPorts {
			tcp = append(tcp, DomainInterfaceSourcePortForwardRange{Start: port, Exclude: "yes"})
		}
	}
	for i := range nic.Ports {
		port := &nic.Ports[i]
		if port.Port < 0 {
			continue
		}
		forwarded := DomainInterfaceSourcePortForwardRange{Start: uint(port.Port)}
		switch strings.ToLower(port.Protocol) {
		case "tcp", "":
			tcp = append(tcp, forwarded)
		case "udp":
			udp = append(udp, forwarded)
		}
	}
	var all []DomainInterfaceSourcePortForward
	if len(tcp) > 0 || len(udp) == 0 {
		all = append(all, DomainInterfaceSourcePortForward{Proto: "tcp", Ranges: tcp})
	}
	if len(udp) > 0 || len(tcp) == 0 {
		all = append(all, DomainInterfaceSourcePortForward{Proto: "udp", Ranges: udp})
	}
	return all
}

// prepareInterfaces gives NICs the tap device, the MAC address and the MTU of the pod's interface.
func (b *Build) prepareInterfaces() {
	present := map[string]*v1.Interface{}
	list := b.VMI.Spec.Domain.Devices.Interfaces
	for i := range list {
		if list[i].State != v1.InterfaceStateAbsent {
			present[list[i].Name] = &list[i]
		}
	}
	number := 0
	for i := range b.VMI.Spec.Networks {
		network := &b.VMI.Spec.Networks[i]
		nic := present[network.Name]
		if nic == nil {
			continue
		}
		number++
		at, made := b.interfaceNamed(network.Name)
		if made == nil || !b.isTap(nic) {
			continue
		}
		made.Target = &DomainInterfaceTarget{Dev: b.tapName(network), Managed: "no"}
		if made.MAC == nil {
			address := b.Host.PodMACs[network.Name]
			if address == "" {
				address = fmt.Sprintf("02:00:00:00:%02x:%02x", number>>8&0xff, number&0xff)
			}
			made.MAC = &DomainInterfaceMAC{Address: address}
			b.fromHost(b.item("devices/interface", at, "/mac"), "podMACs")
		}
		made.MAC.Address = normalMAC(made.MAC.Address)
		made.MTU = &DomainInterfaceMTU{Size: defaultMTU}
		if b.Host.PodMTU != 0 {
			made.MTU.Size = b.Host.PodMTU
		}
		b.fromHost(b.item("devices/interface", at, "/mtu"), "podMTU")
	}
}

// normalMAC is an address in lower case, with colons. Text that is no address stays.
func normalMAC(text string) string {
	digits := strings.ToLower(strings.NewReplacer(":", "", "-", "", ".", "").Replace(text))
	address, err := hex.DecodeString(digits)
	if err != nil {
		return text
	}
	parts := make([]string, len(address))
	for i := range address {
		parts[i] = digits[2*i : 2*i+2]
	}
	return strings.Join(parts, ":")
}

func (b *Build) interfaceNamed(name string) (int, *DomainInterface) {
	for i := range b.Domain.Devices.Interfaces {
		if made := &b.Domain.Devices.Interfaces[i]; made.Alias.Name == userPrefix+name {
			return i, made
		}
	}
	return 0, nil
}

// tapName is the device of a NIC in the pod. Those of secondary networks have a hash of the network's name.
func (b *Build) tapName(network *v1.Network) string {
	secondary := network.Multus != nil && !network.Multus.Default
	hash := sha256.Sum256([]byte(network.Name))
	name := hex.EncodeToString(hash[:])[:11]
	switch managed := b.attachments[network.Name] == string(v1.ManagedTap); {
	case managed && secondary:
		return "pod" + name
	case managed:
		return podInterface
	case secondary:
		return "tap" + name
	}
	return primaryTap
}

const userPrefix = "ua-"

// userAlias is the alias of a device that has a name in the instance.
func userAlias(name string) *DomainAlias { return &DomainAlias{Name: userPrefix + name} }
