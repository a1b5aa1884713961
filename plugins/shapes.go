package plugins

// This file has what the encoders of libvirtxml do besides its tags. The types that are not here are encoded by their tags.

// variant is one content of an element, with the value of the attribute that says so.
type variant struct {
	value, field string
	// absent is set for a content for which no element is written.
	absent bool
	// needs are the fields of the content, and around those of the type with the variants, of which one must be set: otherwise
	// no element is written. every says that all must be set.
	needs, around []string
	every         bool
}

// variants are the contents of an element, of which the first one that is set is written.
type variants struct {
	// attributes select the content. Empty if an attribute of the element around it does: see owner.
	attributes []string
	// required reports whether an element without the attributes is an error, and fallback is the value if it is not.
	required bool
	fallback string
	// asField says that the attribute is a field of the type too, which selects the content that is written.
	asField string
	// none is the value that is written if no content is set, and hidden says that no element is written then.
	none   string
	hidden bool
	// strict says that an element with another value cannot be read.
	strict bool
	of     []variant
}

// owner is an element whose attribute selects the content of its field.
type owner struct {
	field, attribute string
	required         bool
	// fallback is the value if the attribute is missing. If it is empty, the field is not set then.
	fallback string
	// asField says that the attribute is a field of the type too.
	asField bool
}

var characterDevices = []variant{
	{value: "null", field: "Null", absent: true},
	{value: "vc", field: "VC", absent: true},
	{value: "pty", field: "Pty", needs: []string{"Path"}},
	{value: "dev", field: "Dev"},
	{value: "file", field: "File"},
	{value: "pipe", field: "Pipe"},
	{value: "stdio", field: "StdIO", absent: true},
	{value: "udp", field: "UDP"},
	{value: "tcp", field: "TCP"},
	{value: "unix", field: "UNIX", needs: []string{"Path", "Mode"}},
	{value: "spicevmc", field: "SpiceVMC", absent: true},
	{value: "spiceport", field: "SpicePort"},
	{value: "nmdm", field: "NMDM", needs: []string{"Master", "Slave"}, every: true},
	{value: "qemu-vdagent", field: "QEMUVDAgent"},
	{value: "dbus", field: "DBus"},
}

// variantTypes are the types whose elements have several contents.
var variantTypes = map[string]variants{
	"DomainAddress": {attributes: []string{"type"}, hidden: true, strict: true, of: []variant{
		{value: "usb", field: "USB"},
		{value: "pci", field: "PCI"},
		{value: "drive", field: "Drive"},
		{value: "dimm", field: "DIMM"},
		{value: "isa", field: "ISA"},
		{value: "virtio-mmio", field: "VirtioMMIO"},
		{value: "ccw", field: "CCW"},
		{value: "virtio-serial", field: "VirtioSerial"},
		{value: "spapr-vio", field: "SpaprVIO"},
		{value: "ccid", field: "CCID"},
		{value: "virtio-s390", field: "VirtioS390"},
		{value: "unassigned", field: "Unassigned"},
	}},
	"DomainAudio": {attributes: []string{"type"}, required: true, hidden: true, of: []variant{
		{value: "none", field: "None"},
		{value: "alsa", field: "ALSA"},
		{value: "coreaudio", field: "CoreAudio"},
		{value: "jack", field: "Jack"},
		{value: "oss", field: "OSS"},
		{value: "pulseaudio", field: "PulseAudio"},
		{value: "sdl", field: "SDL"},
		{value: "spice", field: "SPICE"},
		{value: "file", field: "File"},
		{value: "dbus", field: "DBus"},
		{value: "pipewire", field: "PipeWire"},
	}},
	"DomainChannelTarget": {attributes: []string{"type"}, required: true, hidden: true, of: []variant{
		{value: "virtio", field: "VirtIO"},
		{value: "xen", field: "Xen"},
		{value: "guestfwd", field: "GuestFWD"},
	}},
	"DomainChardevSource": {hidden: true, strict: true, of: characterDevices},
	"DomainController": {attributes: []string{"type"}, required: true, asField: "Type", of: []variant{
		{value: "pci", field: "PCI"},
		{value: "usb", field: "USB"},
		{value: "virtio-serial", field: "VirtIOSerial"},
		{value: "xenbus", field: "XenBus"},
		{value: "nvme", field: "NVME"},
	}},
	"DomainCryptoBackend": {attributes: []string{"model"}, required: true, of: []variant{
		{value: "builtin", field: "BuiltIn"},
		{value: "lkcf", field: "LKCF"},
	}},
	"DomainDiskReservationsSource": {attributes: []string{"type"}, fallback: "unix", hidden: true, of: characterDevices},
	"DomainDiskSource": {hidden: true, strict: true, of: []variant{
		{value: "file", field: "File", needs: []string{"File"}, around: []string{"StartupPolicy", "Encryption"}},
		{value: "block", field: "Block", needs: []string{"Dev"}, around: []string{"StartupPolicy", "Encryption"}},
		{value: "dir", field: "Dir"},
		{value: "network", field: "Network"},
		{value: "volume", field: "Volume", needs: []string{"Pool", "Volume"}, around: []string{"StartupPolicy", "Encryption"}},
		{value: "nvme", field: "NVME"},
		{value: "vhostuser", field: "VHostUser"},
		{value: "vhostvdpa", field: "VHostVDPA"},
		{value: "ctl", field: "Ctl"},
	}},
	"DomainFilesystemSource": {hidden: true, strict: true, of: []variant{
		{value: "mount", field: "Mount"},
		{value: "block", field: "Block"},
		{value: "file", field: "File"},
		{value: "template", field: "Template"},
		{value: "ram", field: "RAM"},
		{value: "bind", field: "Bind"},
		{value: "volume", field: "Volume"},
	}},
	"DomainGraphic": {attributes: []string{"type"}, required: true, hidden: true, strict: true, of: []variant{
		{value: "sdl", field: "SDL"},
		{value: "vnc", field: "VNC"},
		{value: "rdp", field: "RDP"},
		{value: "desktop", field: "Desktop"},
		{value: "spice", field: "Spice"},
		{value: "egl-headless", field: "EGLHeadless"},
		{value: "dbus", field: "DBus"},
	}},
	"DomainGraphicListener": {attributes: []string{"type"}, required: true, none: "none", strict: true, of: []variant{
		{value: "address", field: "Address"},
		{value: "network", field: "Network"},
		{value: "socket", field: "Socket"},
	}},
	"DomainHostdev": {attributes: []string{"mode", "type"}, required: true, of: []variant{
		{value: "subsystem/scsi", field: "SubsysSCSI"},
		{value: "subsystem/scsi_host", field: "SubsysSCSIHost"},
		{value: "subsystem/usb", field: "SubsysUSB"},
		{value: "subsystem/pci", field: "SubsysPCI"},
		{value: "subsystem/mdev", field: "SubsysMDev"},
		{value: "capabilities/storage", field: "CapsStorage"},
		{value: "capabilities/misc", field: "CapsMisc"},
		{value: "capabilities/net", field: "CapsNet"},
	}},
	"DomainInputSource": {hidden: true, strict: true, of: []variant{
		{value: "passthrough", field: "Passthrough"},
		{value: "evdev", field: "EVDev"},
	}},
	"DomainInterfaceSource": {hidden: true, strict: true, of: []variant{
		{value: "user", field: "User", needs: []string{"Dev"}},
		{value: "ethernet", field: "Ethernet", needs: []string{"IP", "Route"}, every: true},
		{value: "vhostuser", field: "VHostUser"},
		{value: "server", field: "Server"},
		{value: "client", field: "Client"},
		{value: "mcast", field: "MCast"},
		{value: "network", field: "Network"},
		{value: "bridge", field: "Bridge"},
		{value: "internal", field: "Internal"},
		{value: "direct", field: "Direct"},
		{value: "hostdev", field: "Hostdev"},
		{value: "udp", field: "UDP"},
		{value: "vdpa", field: "VDPA"},
		{value: "null", field: "Null"},
		{value: "vds", field: "VDS"},
	}},
	"DomainInterfaceVirtualPortParams": {hidden: true, of: []variant{
		{value: "", field: "Any"},
		{value: "802.1Qbg", field: "VEPA8021QBG"},
		{value: "802.1Qbh", field: "VNTag8011QBH"},
		{value: "openvswitch", field: "OpenVSwitch"},
		{value: "midonet", field: "MidoNet"},
	}},
	"DomainLaunchSecurity": {attributes: []string{"type"}, hidden: true, strict: true, of: []variant{
		{value: "sev", field: "SEV"},
		{value: "sev-snp", field: "SEVSNP"},
		{value: "s390-pv", field: "S390PV"},
		{value: "tdx", field: "TDX"},
	}},
	"DomainRNGBackend": {attributes: []string{"model"}, hidden: true, of: []variant{
		{value: "random", field: "Random"},
		{value: "egd", field: "EGD"},
		{value: "builtin", field: "BuiltIn"},
	}},
	"DomainSysInfo": {attributes: []string{"type"}, required: true, of: []variant{
		{value: "smbios", field: "SMBIOS"},
		{value: "fwcfg", field: "FWCfg"},
	}},
	"DomainTPMBackend": {attributes: []string{"type"}, required: true, hidden: true, of: []variant{
		{value: "passthrough", field: "Passthrough"},
		{value: "emulator", field: "Emulator"},
		{value: "external", field: "External"},
	}},
	"DomainTPMBackendExternalSource": {attributes: []string{"type"}, fallback: "unix", hidden: true, of: characterDevices},
	"DomainTPMBackendSource": {attributes: []string{"type"}, required: true, hidden: true, of: []variant{
		{value: "file", field: "File"},
		{value: "dir", field: "Dir"},
	}},
}

// owners are the types whose attribute selects the content of their source.
var owners = map[string]owner{
	"DomainChannel":              {field: "Source", attribute: "type", fallback: "pty"},
	"DomainConsole":              {field: "Source", attribute: "type", fallback: "pty"},
	"DomainDisk":                 {field: "Source", attribute: "type", fallback: "file"},
	"DomainFilesystem":           {field: "Source", attribute: "type", fallback: "mount"},
	"DomainInput":                {field: "Source", attribute: "type", asField: true},
	"DomainInterface":            {field: "Source", attribute: "type", required: true},
	"DomainInterfaceVirtualPort": {field: "Params", attribute: "type"},
	"DomainNVRam":                {field: "Source", attribute: "type"},
	"DomainParallel":             {field: "Source", attribute: "type", fallback: "pty"},
	"DomainRNGBackendEGD":        {field: "Source", attribute: "type", fallback: "pty"},
	"DomainRedirDev":             {field: "Source", attribute: "type", fallback: "pty"},
	"DomainSerial":               {field: "Source", attribute: "type", fallback: "pty"},
}

// unsupportedTypes are the types whose documents cannot be previewed.
var unsupportedTypes = map[string]string{
	"DomainChardevSourceUDP":         "a source of two elements",
	"DomainDiskBackingStore":         "a backing chain of images",
	"DomainDiskDataStore":            "a data store of an image",
	"DomainDiskMirror":               "a running block job",
	"DomainDiskSourceNVME":           "a disk of a host's NVMe controller",
	"DomainDiskSourceVHostUser":      "a disk of a vhost-user process",
	"DomainHostdevSubsysSCSISource":  "a SCSI device of the host",
	"DomainInterfaceSourceHostdev":   "a network interface that is a device of the host",
	"DomainMetadata":                 "KubeVirt's own metadata, which depends on the node",
	"DomainSmartcard":                "a smart card",
	"DomainInterfaceSourceVHostUser": "a network interface of a vhost-user process",
}

// unsupportedFields are the fields that cannot be previewed, of types that can.
var unsupportedFields = map[string]string{
	"DomainDeviceList.IOMMU": "the old name of IOMMUs",
}

// renamed are the names of elements that libvirtxml does not have in a tag.
var renamed = map[string]struct {
	name  string
	place place
}{
	"DomainControllerPCITarget.ChassisNr":  {"chassisNr", placeAttribute},
	"DomainControllerPCITarget.Chassis":    {"chassis", placeAttribute},
	"DomainControllerPCITarget.Port":       {"port", placeAttribute},
	"DomainControllerPCITarget.BusNr":      {"busNr", placeAttribute},
	"DomainControllerPCITarget.Index":      {"index", placeAttribute},
	"DomainControllerPCITarget.MemReserve": {"memReserve", placeAttribute},
	"DomainControllerPCITarget.Hotplug":    {"hotplug", placeAttribute},
	"DomainControllerPCITarget.NUMANode":   {"node", placeChild},
	"DomainLaunchSecuritySEV.Session":      {"session", placeChild},
}

// formats are how numbers are written. Numbers in them are read with their prefix.
var formats = map[string]string{
	"DomainAddressCCW.CSSID":            "0x%x",
	"DomainAddressCCW.DevNo":            "0x%04x",
	"DomainAddressCCW.SSID":             "0x%x",
	"DomainAddressDIMM.Base":            "0x%x",
	"DomainAddressISA.IOBase":           "0x%x",
	"DomainAddressISA.IRQ":              "0x%x",
	"DomainAddressPCI.Bus":              "0x%02x",
	"DomainAddressPCI.Domain":           "0x%04x",
	"DomainAddressPCI.Function":         "0x%x",
	"DomainAddressPCI.Slot":             "0x%02x",
	"DomainAddressSpaprVIO.Reg":         "0x%x",
	"DomainAddressZPCI.FID":             "0x%04x",
	"DomainAddressZPCI.UID":             "0x%04x",
	"DomainLaunchSecuritySEV.Policy":    "0x%04x",
	"DomainLaunchSecuritySEVSNP.Policy": "0x%08x",
	"DomainLaunchSecurityTDX.Policy":    "0x%08x",
	"DomainMemorydevTargetAddress.Base": "0x%08x",
	"DomainRedirFilterUSB.Class":        "0x%02x",
	"DomainRedirFilterUSB.Product":      "0x%04x",
	"DomainRedirFilterUSB.Vendor":       "0x%04x",
}

// omitted are fields that are not written if they are empty, and kept those that are, whatever their tags say.
var (
	omitted = []string{"DomainAudio.ID", "DomainControllerPCITarget.Hotplug", "DomainLaunchSecuritySEV.DHCert", "DomainLaunchSecuritySEV.Session"}
	kept    = []string{
		"DomainCryptoBackend.Queues", "DomainLaunchSecurityTDX.MrConfigId", "DomainLaunchSecurityTDX.MrOwner",
		"DomainLaunchSecurityTDX.MrOwnerConfig",
	}
)
