package ovf

// Descriptor is a parsed OVF descriptor. Texts are verbatim, without surrounding spaces.
type Descriptor struct {
	// Version is that of the envelope: 0.9, 1 or 2.
	Version string
	// Producer is vmware, virtualbox, ovirt, xenserver, powervc or other.
	Producer          string
	Files             []File
	Disks             []Disk
	Networks          []Network
	DeploymentOptions []DeploymentOption
	VirtualSystems    []VirtualSystem
	// Bundles are references to files with texts, which the descriptor does not contain.
	Bundles []string
	// texts are the messages of the descriptor by their ids.
	texts map[string]string
	// problems are those of the parts that all virtual systems share.
	problems Problems
	// unsupported are required sections that have no mapping. Options.Lax turns them into warnings.
	unsupported []section
}

// File is an element File of References.
type File struct {
	ID, Href string
	// Compression is gzip, or empty.
	Compression string
	// ChunkSize is the size of the parts of the file in bytes; 0 if it is whole.
	ChunkSize int64
	Element   string
}

// Disk is an element Disk of the DiskSection.
type Disk struct {
	ID, FileRef, Format string
	// Capacity and Units are verbatim: 20 and byte * 2^30. A capacity can be ${PROPERTY}.
	Capacity, Units string
	ParentRef       string
	// Boot tells that oVirt boots from the disk.
	Boot bool
	// Interface is how oVirt connects the disk, such as VirtIO_SCSI; empty for others.
	Interface string
	Element   string

	// lun tells that it is a LUN of oVirt.
	lun bool
}

// Network is a network of the NetworkSection.
type Network struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// DeploymentOption is a configuration of the DeploymentOptionSection.
type DeploymentOption struct {
	ID      string `json:"id"`
	Label   string `json:"label"`
	Default bool   `json:"default"`
}

// VirtualSystem is a virtual machine of a descriptor.
type VirtualSystem struct {
	ID, Name string
	OS       OS
	Items    []Item
	// Firmware is bios or efi; empty if the descriptor does not state it.
	Firmware   string
	SecureBoot bool
	TPM        bool
	// NVRAM tells that the package has the content of the firmware's variables.
	NVRAM bool
	// Boot are the devices that the firmware tries first, in its order.
	Boot []bootDevice
	// Cores are the cores of a socket as an old setting of VMware states them; the CPU has priority.
	Cores string
	// Architecture is that of the CPU as the descriptor names it; empty if it does not.
	Architecture string
	Properties   []property
	Eulas        []text
	Annotation   string
	Products     []Product
	// Template is the JSON of a VirtualMachineTemplate; empty if Export did not write the descriptor.
	Template string
	Element  string

	problems    Problems
	unsupported []section
}

// OS is the operating system of a virtual system, verbatim.
type OS struct {
	CIMID          string `json:"cimId"`
	Version        string `json:"version"`
	VMwareType     string `json:"vmwareType"`
	VirtualBoxType string `json:"virtualBoxType"`
	Description    string `json:"description"`
	// Preference is the VirtualMachineClusterPreference that fits.
	Preference string `json:"preference"`
}

// Product is what a ProductSection says of its software.
type Product struct{ Name, Vendor, Version, Class, Instance string }

// Item is a device of the VirtualHardwareSection: an Item, a StorageItem or an EthernetPortItem.
type Item struct {
	Type         int
	InstanceID   string
	Name         string
	SubTypes     []string
	Parent       string
	Address      string
	OnParent     string
	HostResource string
	Connection   string
	MAC          string
	Quantity     string
	Units        string
	Cores        string
	Sockets      string
	// Reservation and Limit are what the item has of the host at least and at most, in units of its own.
	Reservation string
	Limit       string
	// Threads are the threads of a core; empty for one.
	Threads string
	// Kind is what oVirt calls the device, such as tpm; empty for others.
	Kind string
	// Disabled tells that oVirt does not create the device.
	Disabled bool
	// Bus is the number of a controller, if it has no address.
	Bus string
	// Configurations are the deployment options of the item; none for all.
	Configurations []string
	// Bound is min or max for an item that bounds another one.
	Bound    string
	Optional bool
	Element  string
}

// property is a property of a ProductSection.
type property struct {
	Property
	values  map[string]string // by deployment option
	element string
}

// Property is a property in one deployment option.
type Property struct {
	// Key is [class.]key[.instance].
	Key              string `json:"key"`
	Type             string `json:"type"`
	UserConfigurable bool   `json:"userConfigurable"`
	Password         bool   `json:"password"`
	// Default is verbatim; empty for a password.
	Default     string `json:"default"`
	Label       string `json:"label,omitempty"`
	Description string `json:"description,omitempty"`
	Qualifiers  string `json:"qualifiers,omitempty"`
}

// text is a text, or the id of a message in a bundle.
type text struct{ value, id string }

// bootDevice is a device of a boot order: the InstanceID of an Item.
type bootDevice struct{ id, element string }

// section is a section without a mapping.
type section struct{ name, element string }
