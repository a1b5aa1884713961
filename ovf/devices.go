package ovf

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/texts"
)

// Types of devices that the package names itself: ResourceType of CIM_ResourceAllocationSettingData.
const (
	typeEthernet = 10
	typeDisk     = 17
	// typeConnection is that of an EthernetPortItem in OVF 2, beside typeEthernet.
	typeConnection = 33
)

// device is a row of the table of devices.
type device struct {
	types []int
	// name, becomes and problem are the cells of the documentation.
	name, becomes, problem string
	apply                  func(*mapper, *Item)
}

// devices is the table of devices, by ResourceType.
func devices() []device {
	nothing := func(*mapper, *Item) {}
	return []device{
		{[]int{3}, "CPU", "`sockets` and `cores`; `vmw:CoresPerSocket` divides the number", "a number that is not divisible becomes one socket: `Guessed`", (*mapper).cpu},
		{[]int{4}, "memory", "`memory.guest`; without a unit, MiB", "an unknown unit is rejected: `UnknownUnit`", (*mapper).memory},
		{[]int{5, 6}, "IDE or SCSI controller", "the bus of its disks", "", nothing},
		{[]int{20}, "other storage controller: AHCI, NVMe", "the bus of its disks", "NVDIMMs are dropped: `DeviceDropped`", (*mapper).storageController},
		{[]int{10}, "network adapter", "an interface; the model depends on the subtype", "the MAC address is dropped", (*mapper).nic},
		{[]int{15, 16}, "CD or DVD drive", "a `cdrom` if it has a medium of the package", "", (*mapper).cdrom},
		{[]int{typeDisk, 19, 31}, "disk", "a volume; without a file, a blank one", "a parent disk is rejected: `ParentDisk`", (*mapper).disk},
		{[]int{14}, "floppy drive", "", "`DeviceDropped`", drop("floppy drive")},
		{[]int{21}, "serial port", "", "`DeviceDropped`", (*mapper).serialPort},
		{[]int{22}, "parallel port", "", "`DeviceDropped`", drop("parallel port")},
		{[]int{23}, "USB controller", "", "`DeviceDropped`", drop("USB controller")},
		{[]int{35}, "sound card", "", "`DeviceDropped`", drop("sound card")},
		{[]int{2, 24}, "computer system, graphics adapter", "", "", nothing},
		{[]int{1}, "other device", "a vTPM becomes `tpm`", "`DeviceDropped`, except a VMCI device; the state of a vTPM: `TPMStateLost`", (*mapper).other},
		{[]int{34}, "vTPM of later releases of vSphere", "`tpm`", "its state: `TPMStateLost`; another device of this type is rejected: `UnsupportedRequired`", (*mapper).laterTPM},
	}
}

// device maps a device.
func (m *mapper) device(i *Item) {
	switch {
	case i.Disabled:
		return
	case m.Producer == ProducerOVirt && (i.Type == 20 || i.Type == 0 || i.Type > 23 && i.Type != 31):
		m.oVirtDevice(i)
		return
	}
	for _, d := range devices() {
		if slices.Contains(d.types, i.Type) {
			d.apply(m, i)
			return
		}
	}
	m.unsupportedDevice(i)
}

// unsupportedDevice drops a device without a row if it is optional, and rejects it if not.
func (m *mapper) unsupportedDevice(i *Item) {
	kind := "device of type " + strconv.Itoa(i.Type)
	if i.Type == 0 {
		kind = "device without a ResourceType"
	}
	if i.Optional {
		m.drop(i, kind)
		return
	}
	m.unsupportedPart(i.Element, "the required "+kind+" has no equivalent")
}

// drop returns a function that drops a device.
func drop(name string) func(*mapper, *Item) {
	return func(m *mapper, i *Item) { m.drop(i, name) }
}

func (m *mapper) drop(i *Item, name string) {
	if i.Name != "" {
		name += " " + strconv.Quote(texts.Shorten(i.Name, maxShown))
	}
	m.Warn(DeviceDropped, i.Element, "the "+name+" is not imported")
}

// serialPort drops a serial port. Hyper-V has the type for disks: that of an older version of CIM.
func (m *mapper) serialPort(i *Item) {
	if disk, _, _ := m.medium(i); disk != nil {
		m.disk(i)
		return
	}
	m.System.SerialPorts++
	m.drop(i, "serial port "+strconv.Itoa(m.System.SerialPorts))
}

// isTPM reports whether a device is a vTPM.
func (i *Item) isTPM() bool {
	return strings.Contains(strings.ToLower(strings.Join(i.SubTypes, " ")), "vtpm")
}

func (m *mapper) laterTPM(i *Item) {
	if !i.isTPM() {
		m.unsupportedDevice(i)
		return
	}
	m.System.TPM = true
}

func (m *mapper) other(i *Item) {
	switch kind := strings.ToLower(strings.Join(i.SubTypes, " ")); {
	case i.isTPM():
		m.System.TPM = true
	case kind == "", strings.Contains(kind, "vmci"): // a channel to the host that only VMware has
	case strings.Contains(kind, "passthrough"), strings.Contains(kind, "vmware.pci"):
		m.drop(i, "passthrough device")
	case strings.Contains(kind, "sound"):
		m.drop(i, "sound card")
	default:
		m.drop(i, "device "+texts.Shorten(strings.Join(i.SubTypes, " "), maxShown))
	}
}

func (m *mapper) storageController(i *Item) {
	if strings.Contains(strings.ToLower(i.subtype()), "nvdimm") {
		m.drop(i, "NVDIMM")
	}
}

func (m *mapper) cpu(i *Item) {
	if m.System.CPU != nil {
		m.Warn(Guessed, i.Element, "the virtual system has several CPU items: only the first is used")
		return
	}
	m.allocation(i)
	count, cores := number(i.Quantity), number(i.Cores)
	if i.Cores == "" {
		cores = number(m.source.Cores)
	}
	if sockets, threads := number(i.Sockets), max(number(i.Threads), 1); sockets > 0 && sockets <= MaxCPUs && cores <= MaxCPUs && threads <= MaxCPUs { // oVirt
		cores = max(cores, 1) * threads
		if count == 0 {
			count = sockets * cores
		}
	}
	switch {
	case count <= 0:
		m.Reject(InvalidDescriptor, i.Element, fmt.Sprintf("VirtualQuantity %q is not a number of CPUs", texts.Shorten(i.Quantity, maxShown)), "use a whole number from 1 to 1024")
		return
	case count > MaxCPUs:
		m.Reject(LimitExceeded, i.Element, "the virtual system has more than 1024 virtual CPUs", "use a whole number from 1 to 1024")
		return
	}
	cores = max(cores, 1)
	if count%cores != 0 {
		m.Warn(Guessed, i.Element, fmt.Sprintf("%d CPUs are not divisible by %d cores per socket: the virtual machine gets one socket", count, cores))
		cores = count
	}
	m.System.CPU = &CPU{VCPUs: count, Sockets: count / cores, CoresPerSocket: cores}
}

// allocation warns of a reservation or a limit.
func (m *mapper) allocation(i *Item) {
	if number(i.Reservation) > 0 || number(i.Limit) > 0 {
		m.Warn(SettingDropped, i.Element, "the reservation and the limit are not imported: the virtual machine requests what the cluster computes")
	}
}

func (m *mapper) memory(i *Item) {
	if m.System.MemoryMiB != 0 {
		m.Warn(Guessed, i.Element, "the virtual system has several memory items: only the first is used")
		return
	}
	m.allocation(i)
	unit := int64(1 << 20)
	if i.Units != "" {
		var known bool
		if unit, known = bytesIn(i.Units); !known {
			m.Reject(UnknownUnit, i.Element, fmt.Sprintf("the unit %q is not known", texts.Shorten(i.Units, maxShown)), "use byte * 2^20")
			return
		}
	}
	bytes, valid := times(i.Quantity, unit, MaxMemory)
	if !valid {
		m.Reject(InvalidDescriptor, i.Element, fmt.Sprintf("VirtualQuantity %q is not an amount of memory", texts.Shorten(i.Quantity, maxShown)), "use a whole number of at most 64 TiB")
		return
	}
	m.System.MemoryMiB = (bytes + 1<<20 - 1) >> 20
}

// models are the network adapters and the models of KubeVirt.
var models = []struct{ adapter, model string }{
	{"e1000e", "e1000e"},
	{"e1000", "e1000"},
	{"pcnet", "pcnet"},
	{"vlance", "pcnet"},
	{"vmxnet", "virtio"},
	{"virtio", "virtio"},
	{"rtl8139", "rtl8139"},
	{"ne2k_pci", "ne2k_pci"},
}

func (m *mapper) nic(i *Item) {
	if len(m.System.NICs) == MaxNICs {
		m.Reject(LimitExceeded, i.Element, "the virtual system has more than 64 network adapters", "remove network adapters")
		return
	}
	nic := NIC{Network: i.Connection, Adapter: strings.Join(i.SubTypes, " "), MAC: i.MAC, element: i.Element}
	for _, kind := range i.SubTypes { // in the order of preference
		for _, known := range models {
			if nic.Model == "" && strings.HasPrefix(strings.ToLower(kind), known.adapter) {
				nic.Model = known.model
			}
		}
	}
	if m.Producer == ProducerOVirt && nic.Model == "" {
		nic.Model = oVirtModels[i.subtype()]
	}
	guessed := nic.Model == ""
	switch {
	case guessed && m.guest.windows:
		nic.Model = "e1000e"
	case guessed && !m.guest.linux:
		nic.Model = "e1000"
	case guessed:
		nic.Model = "virtio"
	case nic.Model == "virtio" && m.guest.windows:
		nic.Model = "e1000e" // Windows has no driver for virtio
	}
	if !guessed && m.mayLackDriver(&nic) {
		m.Warn(Guessed, i.Element, fmt.Sprintf("the network adapter %q becomes virtio: choose another model if the operating system has no driver for it", texts.Shorten(nic.Adapter, maxShown)))
	}
	if guessed && nic.Adapter != "" {
		m.Warn(Guessed, i.Element, fmt.Sprintf("the network adapter %q is not known: the model is %s", texts.Shorten(nic.Adapter, maxShown), nic.Model))
	}
	m.System.NICs = append(m.System.NICs, nic)
}

// mayLackDriver reports whether an adapter of another kind becomes virtio, for an operating system that is not known.
func (m *mapper) mayLackDriver(nic *NIC) bool {
	isKnown := m.guest.linux || m.guest.windows
	return nic.Model == busVirtio && !isKnown && !strings.Contains(strings.ToLower(nic.Adapter), busVirtio) && m.Producer != ProducerOVirt
}

// medium is the Disk and the File that a device refers to; both are nil if it refers to none. Rejected tells that the reference does
// not exist.
func (m *mapper) medium(i *Item) (disk *Disk, file *File, rejected bool) {
	ref := strings.TrimLeft(strings.TrimPrefix(i.HostResource, "ovf:"), "/") // VirtualCenter 2.5 writes ovf://disk/ID
	kind, id, found := strings.Cut(ref, "/")
	switch {
	case ref == "":
		return nil, nil, false
	case found && kind == "disk":
		disk = m.diskByID(id)
	case found && kind == "file":
		if f := m.file(id); f != nil {
			return m.diskOf(f), f, false
		}
	default: // of oVirt: DISK/VOLUME, which is the href too
		for n := range m.Disks {
			if d := &m.Disks[n]; disk == nil && (d.FileRef == ref || d.ID == ref || d.ID == id || d.ID == kind) {
				disk = d
			}
		}
	}
	if disk == nil {
		return nil, nil, true
	}
	return disk, m.file(disk.FileRef), false
}

func (m *mapper) diskByID(id string) *Disk {
	for n := range m.Disks {
		if m.Disks[n].ID == id {
			return &m.Disks[n]
		}
	}
	return nil
}

// diskOf is the first Disk of a file, or nil.
func (m *mapper) diskOf(file *File) *Disk {
	for n := range m.Disks {
		if ref := m.Disks[n].FileRef; ref != "" && (ref == file.ID || ref == file.Href) {
			return &m.Disks[n]
		}
	}
	return nil
}

// file is the File of an id, or of an href as oVirt writes it; nil if there is none.
func (m *mapper) file(ref string) *File {
	if ref == "" {
		return nil
	}
	for n := range m.Files {
		if m.Files[n].ID == ref {
			return &m.Files[n]
		}
	}
	for n := range m.Files {
		if m.Files[n].Href == ref {
			return &m.Files[n]
		}
	}
	return nil
}

func (m *mapper) dangling(i *Item) {
	m.Reject(InvalidDescriptor, i.Element, "HostResource refers to "+texts.Shorten(i.HostResource, maxShown)+", which does not exist", "add the Disk or the File")
}

// mediumBus is the bus of CD drives.
func (s *System) mediumBus() string {
	if s.architecture != "" {
		return busSCSI
	}
	return busSATA
}

func (m *mapper) cdrom(i *Item) {
	_, file, rejected := m.medium(i)
	switch {
	case rejected && strings.Contains(i.HostResource, "/"):
		m.dangling(i)
	case file != nil && len(m.System.CDROMs) == MaxDisks:
		m.Reject(LimitExceeded, i.Element, "the virtual system has more than 64 CD drives with a medium", "remove drives")
	case file != nil:
		m.System.CDROMs = append(m.System.CDROMs, CDROM{Href: file.Href, Bus: m.System.mediumBus()})
	}
}

func (m *mapper) disk(i *Item) {
	disk, file, rejected := m.medium(i)
	switch {
	case rejected:
		m.dangling(i)
		return
	case disk == nil && file == nil:
		m.Warn(DeviceDropped, i.Element, "the disk refers to neither a Disk nor a File: it is not imported")
		return
	case len(m.volumes) == MaxDisks:
		m.Reject(LimitExceeded, i.Element, "the virtual system has more than 64 disks", "remove disks")
		return
	}
	v := Volume{Blank: file == nil, element: i.Element}
	if file != nil {
		v.FileRef, v.Href, v.Compression = file.ID, file.Href, file.Compression
	}
	if disk != nil {
		v.DiskID, v.Format, v.element = disk.ID, disk.Format, disk.Element
	}
	v.CapacityBytes = max(m.capacity(disk, v.element, m.options.Sizes[v.Href]), m.options.Sizes[v.Href])
	if v.CapacityBytes > MaxCapacity {
		m.Reject(LimitExceeded, v.element, "the disk has more than 64 TiB", "reduce the capacity")
	}
	parent := m.parents[i.Parent]
	v.Controller = controller(parent)
	if disk != nil && v.Controller == "" {
		v.Controller = oVirtControllers[disk.Interface]
	}
	v.Bus = m.bus(v.Controller)
	p := placed{Volume: v, boot: m.bootRank(i, disk), parent: number(i.OnParent)}
	if parent != nil {
		p.address = number(cmp.Or(parent.Address, parent.Bus))
	}
	m.volumes = append(m.volumes, p)
}

// The buses of KubeVirt.
const (
	busSATA   = "sata"
	busSCSI   = "scsi"
	busVirtio = "virtio"
)

// controller is what a device of the descriptor connects disks with.
func controller(parent *Item) string {
	if parent == nil {
		return ""
	}
	kind := strings.ToLower(strings.Join(parent.SubTypes, " "))
	switch {
	case parent.Type == 5:
		return "ide"
	case parent.Type == 6:
		return "scsi"
	case strings.Contains(kind, "nvme"):
		return "nvme"
	case parent.Type == 20 && (strings.Contains(kind, "ahci") || strings.Contains(kind, "sata")):
		return "sata"
	case strings.Contains(kind, "scsi"):
		return "scsi"
	}
	return ""
}

// bus is that of KubeVirt for a controller. Windows has no driver for virtio, and other systems than Linux need not have one. Only amd64
// has the bus sata.
func (m *mapper) bus(controller string) string {
	if m.System.architecture != "" {
		return busVirtio
	}
	if controller == "ide" || controller == "sata" || !m.guest.linux {
		return busSATA
	}
	return busVirtio
}

// capacity is that of a disk in bytes. The image has a virtual size; 0 if it is not known.
func (m *mapper) capacity(disk *Disk, element string, image int64) int64 {
	if disk == nil {
		if image == 0 {
			m.Warn(Guessed, element, "the descriptor does not state the capacity of the disk: it is that of the image")
		}
		return 0
	}
	text := disk.Capacity
	if name, isProperty := strings.CutPrefix(text, "${"); isProperty && strings.HasSuffix(name, "}") {
		text = m.propertyValue(strings.TrimSuffix(name, "}"))
	}
	unit, known := int64(1), true
	if disk.Units != "" {
		unit, known = bytesIn(disk.Units)
	}
	if !known {
		m.Reject(UnknownUnit, disk.Element, fmt.Sprintf("the unit %q is not known", texts.Shorten(disk.Units, maxShown)), "use byte * 2^30")
		return 0
	}
	bytes, valid := times(text, unit, 1<<62)
	if !valid {
		if text == "" && image > 0 {
			return 0
		}
		message := fmt.Sprintf("the capacity %q is not a positive whole number", texts.Shorten(disk.Capacity, maxShown))
		if disk.Capacity == "" {
			message = "the attribute capacity is missing"
		}
		m.Reject(InvalidCapacity, disk.Element, message, "set the capacity of the disk")
	}
	return bytes
}

// propertyValue is the default of a property by its key, with or without its class.
func (m *mapper) propertyValue(key string) string {
	suffix := "." + key
	for _, p := range m.Properties {
		if p.Key == key || strings.HasSuffix(p.Key, suffix) {
			return p.Default
		}
	}
	return ""
}
