package domain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

const (
	pcieRoot     = "pcie-root"
	pcieExpander = "pcie-expander-bus"
	pcieRootPort = "pcie-root-port"
	// maxBus is the highest number of a PCI bus.
	maxBus = 255
)

// pciDevices calls a function with the address of each device that has one on PCI, or that libvirt gives one.
func (b *Build) pciDevices(call func(address **DomainAddress) error) error {
	d := b.Domain.Devices
	var all []**DomainAddress
	for i := range d.Interfaces {
		all = append(all, &d.Interfaces[i].Address)
	}
	for i := range d.Hostdevs {
		if d.Hostdevs[i].Type == hostPCI {
			all = append(all, &d.Hostdevs[i].Address)
		}
	}
	for i := range d.Controllers {
		if model := d.Controllers[i].Model; model != "pci-root" && model != pcieRoot && model != pcieExpander {
			all = append(all, &d.Controllers[i].Address)
		}
	}
	for i := range d.Disks {
		if d.Disks[i].Target.Bus == string(v1.DiskBusVirtio) {
			all = append(all, &d.Disks[i].Address)
		}
	}
	for i := range d.Inputs {
		if d.Inputs[i].Bus == virtio {
			all = append(all, &d.Inputs[i].Address)
		}
	}
	for i := range d.Watchdogs {
		all = append(all, &d.Watchdogs[i].Address)
	}
	for i := range d.RNGs {
		all = append(all, &d.RNGs[i].Address)
	}
	if d.MemBalloon != nil {
		all = append(all, &d.MemBalloon.Address)
	}
	for _, address := range all {
		if *address != nil && (*address).Type != "" && (*address).Type != hostPCI {
			continue
		}
		if err := call(address); err != nil {
			return err
		}
	}
	return nil
}

// placeOnRoot gives every PCI device without an address a slot of the root complex.
func (b *Build) placeOnRoot() error {
	// The other slots are those of VGA, of ich9's sound card and of QEMU's SATA controller.
	const first, sound, sata, slots = 0x02, 0x1b, 0x1f, 0x20
	slot := first - 1
	return b.pciDevices(func(address **DomainAddress) error {
		if *address != nil && (*address).Domain != "" {
			return nil
		}
		if slot++; slot == sound || slot == sata {
			slot++
		}
		if slot >= slots {
			return failf("metadata.annotations", "the root complex has no slot left for a PCI device")
		}
		*address = slotAddress("0x00", slot)
		return nil
	})
}

func slotAddress(bus string, slot int) *DomainAddress {
	return &DomainAddress{Type: hostPCI, Domain: "0x0000", Bus: bus, Slot: fmt.Sprintf("0x%02x", slot), Function: "0x0"}
}

// placeByNUMA puts PCI devices of the host on an expander bus of the guest's NUMA cell that has their memory. If the guest sees
// the cells of the node, every device must have one.
func (b *Build) placeByNUMA() error {
	strict := b.isPassthrough()
	cells, failures := b.deviceCells()
	if strict && len(failures) > 0 {
		return failf(fieldCPU+"numa", "PCI devices cannot be placed by NUMA cells: %s", strings.Join(failures, "; "))
	}
	placed, err := expanders(cells, b.highestIndex())
	if err != nil {
		if strict {
			return failf(fieldCPU+"numa", "%w", err)
		}
		return nil // virt-launcher leaves the devices where they are
	}
	b.Domain.Devices.Controllers = append(b.Domain.Devices.Controllers, placed...)
	return nil
}

// cellDevice is a device of the host with the guest's NUMA cell.
type cellDevice struct {
	hostdev *DomainHostdev
	address string
	cell    uint
}

// deviceCells finds the cells of devices, and why others have none. It is sorted by the devices' addresses on the host.
func (b *Build) deviceCells() (cells []cellDevice, failures []string) {
	for i := range b.Domain.Devices.Hostdevs {
		device := &b.Domain.Devices.Hostdevs[i]
		if device.Type != hostPCI {
			continue
		}
		address := device.Source.Address.pciText()
		if device.Address != nil {
			failures = append(failures, address+" has an address in the guest")
			continue
		}
		cell, err := b.deviceCell(address)
		if err != nil {
			failures = append(failures, address+": "+err.Error())
			continue
		}
		cells = append(cells, cellDevice{device, address, cell})
	}
	slices.SortFunc(cells, func(x, y cellDevice) int { return cmp.Compare(x.address, y.address) })
	return cells, failures
}

// deviceCell returns the cell of a device: the one that has the memory of its node, or the one with a vCPU on its node.
func (b *Build) deviceCell(address string) (uint, error) {
	if b.Domain.CPU.Numa == nil {
		return 0, errors.New("the guest has no NUMA cells")
	}
	text, known := b.Host.PCINUMANodes[address]
	if !known {
		return 0, errors.New("its NUMA node is not known")
	}
	node, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("its NUMA node %q is not known", text)
	}
	if b.Domain.NUMATune != nil {
		for _, bound := range b.Domain.NUMATune.MemNodes {
			if bound.Nodeset == cpuText(uint(node)) {
				return bound.CellID, nil
			}
		}
	}
	if cell, found := b.cellOnNode(uint(node)); found {
		return cell, nil
	}
	return 0, fmt.Errorf("its NUMA node %d has no cell in the guest", node)
}

// cellOnNode returns the cell of the first vCPU that is pinned on a node.
func (b *Build) cellOnNode(node uint) (uint, bool) {
	vcpuOn := map[string]uint{}
	for _, pin := range b.Domain.CPUTune.VCPUPin {
		vcpuOn[pin.CPUSet] = pin.VCPU
	}
	var cpus []uint
	for i := range b.Host.NUMA {
		if b.Host.NUMA[i].ID == node {
			cpus = append(cpus, slices.Concat(b.Host.NUMA[i].Cores...)...)
		}
	}
	slices.Sort(cpus)
	for _, cpu := range cpus {
		vcpu, pinned := vcpuOn[cpuText(cpu)]
		if !pinned {
			continue
		}
		for i := range b.Domain.CPU.Numa.Cell {
			if cell := &b.Domain.CPU.Numa.Cell[i]; inSet(cell.CPUs, vcpu) {
				return cell.ID, true
			}
		}
	}
	return 0, false
}

// inSet reports whether a set such as 0-3,7 has a number.
func inSet(set string, number uint) bool {
	for part := range strings.SplitSeq(set, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 32)
		if err != nil {
			continue
		}
		to, err := strconv.ParseUint(last, 10, 32)
		if err == nil && uint(from) <= number && number <= uint(to) {
			return true
		}
	}
	return false
}

// highestIndex is the highest index of a controller.
func (b *Build) highestIndex() uint {
	highest := uint(0)
	for i := range b.Domain.Devices.Controllers {
		highest = max(highest, b.Domain.Devices.Controllers[i].Index)
	}
	return highest
}

// expanders returns an expander bus for each cell, with a root port for each of its devices, and sets the devices' addresses. The
// numbers of the buses count down, so that each has room for its ports.
func expanders(devices []cellDevice, index uint) ([]DomainController, error) {
	var made []DomainController
	addresses := make([]*DomainAddress, len(devices))
	lowest := uint(maxBus)
	for _, cell := range cellsOf(devices) {
		index++
		expander := len(made)
		made = append(made, DomainController{Type: hostPCI, Index: index, Model: pcieExpander, Target: &DomainControllerTarget{NUMANode: pointer(cell)}})
		slot := 0
		for i := range devices {
			if devices[i].cell != cell {
				continue
			}
			if index >= lowest-1 {
				return nil, errors.New("there are too few numbers for PCI buses")
			}
			index++
			made = append(made, DomainController{
				Type: hostPCI, Index: index, Model: pcieRootPort, Address: slotAddress(decimal(made[expander].Index), slot),
			})
			addresses[i] = slotAddress(decimal(index), 0)
			slot++
		}
		lowest = maxBus - uint(len(made)) + 1
		made[expander].Target.BusNr = pointer(lowest)
	}
	for i := range devices {
		devices[i].hostdev.Address = addresses[i]
	}
	return made, nil
}

func decimal(n uint) string { return strconv.FormatUint(uint64(n), 10) }

// cellsOf are the cells of devices, sorted.
func cellsOf(devices []cellDevice) []uint {
	var cells []uint
	for i := range devices {
		cells = append(cells, devices[i].cell)
	}
	slices.Sort(cells)
	return slices.Compact(cells)
}

// The ports that a guest has in all, and free ones at least.
const (
	portsSmall, freeSmall = 8, 3
	portsLarge, freeLarge = 16, 6
	largeMemory           = 2 << 30
	// portsOfNICs is the number of NICs that have a port in every guest.
	portsOfNICs = 4
)

// hotplugPorts counts the ports that are added for hotplug.
func (b *Build) hotplugPorts() (*HotplugPorts, error) {
	machine, arch := b.VMI.Spec.Domain.Machine, b.VMI.Spec.Architecture
	if arch != "" && arch != amd64().Name && arch != arm64().Name ||
		machine != nil && !strings.Contains(machine.Type, "q35") && !strings.HasPrefix(machine.Type, "virt") {
		return nil, nil //nolint:nilnil // the machine has no such ports
	}
	nics := len(b.VMI.Spec.Domain.Devices.Interfaces)
	onRoot := b.VMI.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true"
	ports := &HotplugPorts{}
	text, frozen := b.VMI.Annotations[v1.PciInterfaceSlotCountAnnotation]
	switch {
	case frozen:
		slots, err := strconv.Atoi(text)
		if err != nil {
			return nil, failf("metadata.annotations", "%s is %q, which is no number", v1.PciInterfaceSlotCountAnnotation, text)
		}
		ports.PlaceholderInterfaces = max(0, slots-nics)
	case nics > 0 && !onRoot:
		ports.PlaceholderInterfaces = max(0, portsOfNICs-nics)
	}
	if onRoot {
		return ports, nil
	}
	devices := 0
	_ = b.pciDevices(func(**DomainAddress) error { devices++; return nil }) // the function has no error
	total, free := portsSmall, freeSmall
	if b.Domain.Memory.Value > largeMemory {
		total, free = portsLarge, freeLarge
	}
	ports.ExtraRootPorts = max(0, max(total-devices, free)-ports.PlaceholderInterfaces)
	return ports, nil
}
