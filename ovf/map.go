package ovf

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/texts"
)

// Options are the choices of the user.
type Options struct {
	// VirtualSystem and DeploymentOption are ids; empty for the only one and for the default.
	VirtualSystem, DeploymentOption string
	// Lax drops required sections and devices that have no equivalent.
	Lax bool
	// File is the name of the package. It names a virtual system without a name.
	File string
	// Sizes are the virtual sizes of images in bytes, by the href of their files.
	Sizes map[string]int64

	// plain maps the standard elements only.
	plain bool
}

// ErrChoice is the error of an id that does not exist: a *ChoiceError.
var ErrChoice = errors.New("the descriptor has no such id")

// ChoiceError is the error of an id that does not exist.
type ChoiceError struct {
	// What is "virtual system" or "deployment option".
	What string
	// ID is the one of the user.
	ID string
	// Choices are the ids that exist.
	Choices Choices
}

// The values of ChoiceError.What.
const (
	WhatVirtualSystem    = "virtual system"
	WhatDeploymentOption = "deployment option"
)

// Error implements error.
func (e *ChoiceError) Error() string { return fmt.Sprintf("%s: %s %q", ErrChoice, e.What, e.ID) }

// Unwrap returns ErrChoice.
func (e *ChoiceError) Unwrap() error { return ErrChoice }

// Eula is a license.
type Eula struct {
	Text string `json:"text"`
}

// Choices are what the user can choose.
type Choices struct {
	VirtualSystems    []Choice           `json:"virtualSystems"`
	DeploymentOptions []DeploymentOption `json:"deploymentOptions"`
}

// Choice is a virtual system that the user can choose.
type Choice struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// CPU is the topology of the virtual CPUs.
type CPU struct {
	VCPUs          int `json:"vcpus"`
	Sockets        int `json:"sockets"`
	CoresPerSocket int `json:"coresPerSocket"`
}

// Volume is a disk of the virtual machine.
type Volume struct {
	DiskID  string `json:"diskId"`
	FileRef string `json:"fileRef"`
	Href    string `json:"href"`
	Blank   bool   `json:"blank"`
	// CapacityBytes is the larger of the capacity in the descriptor and the virtual size of the image.
	CapacityBytes int64  `json:"capacityBytes"`
	Format        string `json:"format"`
	// Image is the format of the image by its content; empty if it was not read.
	Image       string `json:"image,omitempty"`
	Compression string `json:"compression"`
	// Controller is ide, scsi, sata, nvme or empty.
	Controller string `json:"controller"`
	// Bus is that of KubeVirt: sata or virtio.
	Bus       string `json:"bus"`
	BootOrder int    `json:"bootOrder,omitempty"`
	// ContentSHA256 is the digest of the content that the guest sees; empty if it was not calculated.
	ContentSHA256 string `json:"contentSHA256,omitempty"`

	element string
}

// CDROM is a drive with a medium of the package.
type CDROM struct {
	Href string `json:"href"`
	Bus  string `json:"bus"`
}

// NIC is a network adapter.
type NIC struct {
	Network string `json:"network"`
	Adapter string `json:"adapter"`
	Model   string `json:"model"`
	MAC     string `json:"mac"`

	element string
}

// System is a virtual system as KubeVirt runs it.
type System struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	OS          OS       `json:"os"`
	CPU         *CPU     `json:"cpu,omitempty"`
	MemoryMiB   int64    `json:"memoryMiB,omitempty"`
	Firmware    string   `json:"firmware"`
	TPM         bool     `json:"tpm"`
	SerialPorts int      `json:"serialPorts"`
	Disks       []Volume `json:"disks"`
	CDROMs      []CDROM  `json:"cdroms"`
	NICs        []NIC    `json:"nics"`

	architecture string
	products     []Product
	annotation   string
	element      string
}

// Mapping is what a descriptor becomes.
type Mapping struct {
	Problems
	Choices Choices
	// Needs are what the user must give: acceptEula, properties, networks.
	Needs      []string
	Eulas      []Eula
	Networks   []Network
	Properties []Property
	// System is nil if there is a choice, or no virtual system.
	System *System

	// guest is what the operating system tells about the virtual machine.
	guest guest
	// embedded is the template of a descriptor that Export wrote; nil if the standard elements apply.
	embedded *Export
}

// mapper maps one virtual system.
type mapper struct {
	*Descriptor
	Mapping
	options Options
	source  *VirtualSystem
	devices []Item
	// parents are the devices by their InstanceIDs.
	parents map[string]*Item
	// bootItems are the InstanceIDs of disks that the boot order names, and that exist.
	bootItems map[string]bool
	// volumes are the devices of the disks, in the order of the descriptor.
	volumes []placed
}

// placed is a disk with what its position in the boot order depends on.
type placed struct {
	Volume
	// boot is the position in an explicit boot order, from 0; math.MaxInt without one.
	boot, address, parent int
}

// Map maps the chosen virtual system. The error is a *ChoiceError if a chosen id does not exist. Rejections are in the mapping.
func Map(d *Descriptor, options Options) (*Mapping, error) {
	m := &mapper{Descriptor: d, options: options, parents: map[string]*Item{}, bootItems: map[string]bool{}}
	m.Problems = Problems{slices.Clone(d.problems.Rejections), slices.Clone(d.problems.Warnings)}
	m.Choices = Choices{VirtualSystems: []Choice{}, DeploymentOptions: append([]DeploymentOption{}, d.DeploymentOptions...)}
	m.Mapping.Networks = append([]Network{}, d.Networks...)
	m.Needs, m.Eulas, m.Properties = []string{}, []Eula{}, []Property{}
	for _, v := range d.VirtualSystems {
		m.Choices.VirtualSystems = append(m.Choices.VirtualSystems, Choice{v.ID, v.Name})
	}
	option, err := m.chooseOption()
	if err != nil {
		return nil, err
	}
	if err := m.chooseSystem(); err != nil {
		return nil, err
	}
	if m.source != nil {
		m.system(option)
	}
	return &m.Mapping, nil
}

func (m *mapper) chooseOption() (string, error) {
	chosen := ""
	for _, o := range m.DeploymentOptions {
		if o.ID == m.options.DeploymentOption {
			return o.ID, nil
		}
		if o.Default {
			chosen = o.ID
		}
	}
	if m.options.DeploymentOption != "" {
		return "", &ChoiceError{WhatDeploymentOption, m.options.DeploymentOption, m.Choices}
	}
	return chosen, nil
}

func (m *mapper) chooseSystem() error {
	systems := m.VirtualSystems
	for i := range systems {
		if m.options.VirtualSystem != "" && systems[i].ID == m.options.VirtualSystem {
			m.source = &systems[i]
			return nil
		}
	}
	switch {
	case m.options.VirtualSystem != "":
		return &ChoiceError{WhatVirtualSystem, m.options.VirtualSystem, m.Choices}
	case len(systems) == 0:
		m.Reject(NoVirtualSystem, "Envelope", "the descriptor has no VirtualSystem", "export the virtual machine again")
	case len(systems) == 1:
		m.source = &systems[0]
	default:
		var ids []string
		for _, v := range systems {
			ids = append(ids, texts.Shorten(v.ID, maxShown))
		}
		m.Reject(SeveralVirtualSystems, "Envelope", "the descriptor has several virtual systems: "+texts.First(ids, 10), "choose one with --virtual-system")
	}
	return nil
}

// system maps the chosen virtual system.
func (m *mapper) system(option string) {
	v := m.source
	m.Rejections = append(m.Rejections, v.problems.Rejections...)
	m.Warnings = append(m.Warnings, v.problems.Warnings...)
	for _, s := range append(slices.Clone(m.unsupported), v.unsupported...) {
		m.unsupportedPart(s.element, "the required section "+s.name+" has no equivalent")
	}
	m.System = &System{
		ID: v.ID, Name: v.Name, OS: v.OS, TPM: v.TPM, Disks: []Volume{}, CDROMs: []CDROM{}, NICs: []NIC{},
		products: v.Products, annotation: v.Annotation, element: v.Element,
	}
	m.properties(option)
	m.architecture()
	m.firmware()
	m.devices = v.items(option)
	for i := range slices.Backward(m.devices) { // the first of an InstanceID that is there twice
		m.parents[m.devices[i].InstanceID] = &m.devices[i]
	}
	for i := range m.devices {
		m.device(&m.devices[i])
	}
	m.bootOrder()
	m.unusedDisks()
	if m.System.TPM {
		m.Warn(TPMStateLost, v.Element, "the virtual machine gets an empty TPM: keys that are sealed in the old one are lost")
	}
	if v.NVRAM || m.Producer == ProducerOVirt && m.file("nvram.dat") != nil {
		m.Warn(NVRAMDropped, v.Element, "the variables of the firmware are not imported: the boot entries are those of a new machine")
	}
	m.Eulas = m.licenses(v)
	m.embed()
	m.needs()
}

// unusedDisks warns of disks with a file that no device of any virtual system refers to, whatever the deployment option is.
func (m *mapper) unusedDisks() {
	used := map[string]bool{}
	for i := range m.VirtualSystems {
		items := m.VirtualSystems[i].Items
		for j := range items {
			if disk, _, _ := m.medium(&items[j]); disk != nil {
				used[disk.ID] = true
			}
		}
	}
	for i := range m.Disks {
		if d := &m.Disks[i]; !used[d.ID] && d.FileRef != "" && !d.lun {
			m.Warn(DeviceDropped, d.Element, "no device refers to the disk: it is not imported")
		}
	}
}

// needs lists what the user must give before an import.
func (m *mapper) needs() {
	if len(m.Eulas) > 0 {
		m.Needs = append(m.Needs, "acceptEula")
	}
	if m.embedded == nil && slices.ContainsFunc(m.Properties, func(p Property) bool { return p.UserConfigurable && p.Default == "" }) {
		m.Needs = append(m.Needs, "properties")
	}
	if len(m.System.NICs) > 1 {
		m.Needs = append(m.Needs, "networks")
	}
}

// unsupportedPart rejects a required part without an equivalent, or drops it if the user is lax.
func (m *mapper) unsupportedPart(element, message string) {
	if m.options.Lax {
		m.Warn(SectionDropped, element, message+": it is dropped")
		return
	}
	m.Reject(UnsupportedRequired, element, message, "use --lax to drop it")
}

// properties are those of the virtual system in a deployment option.
func (m *mapper) properties(option string) {
	for _, p := range m.source.Properties {
		found := p.Property
		if value, own := p.values[option]; own {
			found.Default = value
		}
		if found.Password {
			found.Default = ""
		}
		m.Properties = append(m.Properties, found)
	}
}

// firmware is that of the descriptor, as far as the architecture has it, or else that of the architecture.
func (m *mapper) firmware() {
	v, s := m.source, m.System
	firmware, differs := firmwareFor(v, s.architecture)
	if s.Firmware = firmware; differs != "" {
		m.Warn(Guessed, v.Element, differs)
	}
	m.guest = guestOf(v.OS, m.Producer, s.Firmware, s.architecture)
	if s.OS.Preference = m.guest.preference; m.guest.guessed {
		m.Warn(Guessed, v.Element+"/OperatingSystemSection", "there is no preference for the operating system: the virtual machine gets the preference "+s.OS.Preference)
	}
}

// onlyFirmware is the firmware of architectures that have one, none with Secure Boot, and its name in messages. That of s390x is not
// chosen: as with BIOS, a virtual machine names no bootloader.
var onlyFirmware = map[string]struct{ firmware, name string }{
	architectures.ARM64: {firmwareEFI, "EFI"},
	architectures.S390X: {firmwareBIOS, "the firmware of s390x"},
}

// firmwareNames are the names of firmware in messages.
var firmwareNames = map[string]string{firmwareBIOS: "BIOS", firmwareEFI: "EFI"}

// firmwareFor returns the firmware of a virtual machine of an architecture, and what differs from the descriptor; empty if nothing does.
func firmwareFor(v *VirtualSystem, architecture string) (firmware, differs string) {
	asked := firmwareBIOS
	if strings.HasPrefix(v.Firmware, firmwareEFI) {
		asked = firmwareEFI
	}
	only, isOnly := onlyFirmware[architecture]
	firmware = cmp.Or(only.firmware, asked)
	name := cmp.Or(only.name, firmwareNames[firmware])
	switch {
	case v.Firmware != "" && v.Firmware != firmwareBIOS && asked != firmwareEFI:
		return firmware, fmt.Sprintf("the firmware %q is not known: the virtual machine gets %s", texts.Shorten(v.Firmware, maxShown), name)
	case isOnly && v.SecureBoot:
		return firmware, "virtual machines of " + architecture + " have no Secure Boot: it gets " + name
	case isOnly && v.Firmware != "" && asked != firmware:
		return firmware, "virtual machines of " + architecture + " have no " + firmwareNames[asked] + ": it gets " + name
	case !isOnly && v.SecureBoot && asked == firmwareEFI:
		return firmwareSecure, ""
	case !isOnly && v.SecureBoot:
		return firmware, "the virtual machine has Secure Boot and the firmware BIOS, which contradict each other: it gets " + name
	}
	return firmware, ""
}

// architecturePOWER is an architecture of descriptors that KubeVirt does not have.
const architecturePOWER = "ppc64le"

// architectureNames are the names of CPU architectures in descriptors. Empty stands for amd64.
var architectureNames = map[string]string{
	"": "", "x86_64": "", architectures.AMD64: "", "x86": "", "i386": "", "i686": "",
	architectures.ARM64: architectures.ARM64, "aarch64": architectures.ARM64, architectures.S390X: architectures.S390X,
}

func (m *mapper) architecture() {
	name, known := architectureNames[strings.ToLower(m.source.Architecture)]
	if !known {
		m.Reject(UnsupportedArchitecture, m.source.Element,
			"KubeVirt runs no virtual machines of the architecture "+texts.Shorten(m.source.Architecture, maxShown), "import it on a platform of this architecture")
	}
	m.System.architecture = name
}

// bootRank is the position of a disk in the boot order of the descriptor. The boot disk of oVirt is the first.
func (m *mapper) bootRank(i *Item, disk *Disk) int {
	if disk != nil && disk.Boot {
		return 0
	}
	for n, b := range m.source.Boot {
		if b.id != "" && b.id == i.InstanceID {
			m.bootItems[b.id] = true
			return n
		}
	}
	return math.MaxInt
}

// bootOrder sorts the disks: first by the boot order of the descriptor, then by the address of the controller, the address on it, and the
// position in the descriptor.
func (m *mapper) bootOrder() {
	slices.SortStableFunc(m.volumes, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.boot, b.boot), cmp.Compare(a.address, b.address), cmp.Compare(a.parent, b.parent))
	})
	for i := range m.volumes {
		if i == 0 {
			m.volumes[i].BootOrder = 1
		}
		m.System.Disks = append(m.System.Disks, m.volumes[i].Volume)
	}
	for _, b := range m.source.Boot {
		if !m.bootItems[b.id] {
			m.Warn(SectionDropped, b.element, "the section BootOrderSection is dropped: it does not name a disk, so the boot order is that of the disks")
		}
	}
}
