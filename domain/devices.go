package domain

// DomainDeviceList are the devices.
type DomainDeviceList struct {
	Emulator    string             `xml:"emulator" json:"emulator,omitempty"`
	Disks       []DomainDisk       `xml:"disk" json:"disk,omitempty"`
	Controllers []DomainController `xml:"controller" json:"controller,omitempty"`
	Filesystems []DomainFilesystem `xml:"filesystem" json:"filesystem,omitempty"`
	Interfaces  []DomainInterface  `xml:"interface" json:"interface,omitempty"`
	Serials     []DomainSerial     `xml:"serial" json:"serial,omitempty"`
	Consoles    []DomainConsole    `xml:"console" json:"console,omitempty"`
	Channels    []DomainChannel    `xml:"channel" json:"channel,omitempty"`
	Inputs      []DomainInput      `xml:"input" json:"input,omitempty"`
	TPMs        []DomainTPM        `xml:"tpm" json:"tpm,omitempty"`
	Graphics    []DomainGraphic    `xml:"graphics" json:"graphics,omitempty"`
	Sounds      []DomainSound      `xml:"sound" json:"sound,omitempty"`
	Videos      []DomainVideo      `xml:"video" json:"video,omitempty"`
	Hostdevs    []DomainHostdev    `xml:"hostdev" json:"hostdev,omitempty"`
	RedirDevs   []DomainRedirDev   `xml:"redirdev" json:"redirdev,omitempty"`
	Watchdogs   []DomainWatchdog   `xml:"watchdog" json:"watchdog,omitempty"`
	MemBalloon  *DomainMemBalloon  `xml:"memballoon" json:"memballoon,omitempty"`
	RNGs        []DomainRNG        `xml:"rng" json:"rng,omitempty"`
	Panics      []DomainPanic      `xml:"panic" json:"panic,omitempty"`
	VSock       *DomainVSock       `xml:"vsock" json:"vsock,omitempty"`
}

// DomainDisk is a disk, a LUN or a CD-ROM.
type DomainDisk struct {
	Type         string                  `xml:"type,attr,keep" json:"type"`
	Device       string                  `xml:"device,attr,keep" json:"device"`
	Model        string                  `xml:"model,attr" json:"model,omitempty"`
	Driver       *DomainDiskDriver       `xml:"driver" json:"driver,omitempty"`
	Source       *DomainDiskSource       `xml:"source" json:"source,omitempty"`
	BackingStore *DomainDiskBackingStore `xml:"backingStore" json:"backingStore,omitempty"`
	BlockIO      *DomainDiskBlockIO      `xml:"blockio" json:"blockio,omitempty"`
	Target       *DomainDiskTarget       `xml:"target" json:"target,omitempty"`
	ReadOnly     *DomainEmpty            `xml:"readonly" json:"readonly,omitempty"`
	Shareable    *DomainEmpty            `xml:"shareable" json:"shareable,omitempty"`
	Serial       string                  `xml:"serial" json:"serial,omitempty"`
	Boot         *DomainDeviceBoot       `xml:"boot" json:"boot,omitempty"`
	Alias        *DomainAlias            `xml:"alias" json:"alias,omitempty"`
	Address      *DomainAddress          `xml:"address" json:"address,omitempty"`
	// FilesystemOverhead and Capacity are KubeVirt's own, which libvirt ignores.
	FilesystemOverhead string `xml:"filesystemOverhead" json:"filesystemOverhead,omitempty"`
	Capacity           *int64 `xml:"capacity" json:"capacity,omitempty"`
}

// DomainDiskDriver is how QEMU reads and writes a disk.
type DomainDiskDriver struct {
	Name        string               `xml:"name,attr,keep" json:"name"`
	Type        string               `xml:"type,attr,keep" json:"type"`
	Cache       string               `xml:"cache,attr" json:"cache,omitempty"`
	ErrorPolicy string               `xml:"error_policy,attr" json:"error_policy,omitempty"`
	IO          string               `xml:"io,attr" json:"io,omitempty"`
	Discard     string               `xml:"discard,attr" json:"discard,omitempty"`
	IOThread    *uint                `xml:"iothread,attr" json:"iothread,omitempty"`
	IOThreads   *DomainDiskIOThreads `xml:"iothreads" json:"iothreads,omitempty"`
	Queues      *uint                `xml:"queues,attr" json:"queues,omitempty"`
	IOMMU       string               `xml:"iommu,attr" json:"iommu,omitempty"`
}

// DomainDiskIOThreads are the I/O threads of a disk.
type DomainDiskIOThreads struct {
	IOThread []DomainDiskIOThread `xml:"iothread" json:"iothread,omitempty"`
}

// DomainDiskIOThread is an I/O thread of a disk.
type DomainDiskIOThread struct {
	ID uint `xml:"id,attr,keep" json:"id"`
}

// DomainDiskSource is the file or the block device of a disk.
type DomainDiskSource struct {
	Dev  string `xml:"dev,attr" json:"dev,omitempty"`
	File string `xml:"file,attr" json:"file,omitempty"`
	// Name is KubeVirt's own for block devices, which libvirt ignores.
	Name         string                  `xml:"name,attr" json:"name,omitempty"`
	Reservations *DomainDiskReservations `xml:"reservations" json:"reservations,omitempty"`
	DataStore    *DomainDiskDataStore    `xml:"dataStore" json:"dataStore,omitempty"`
}

// DomainDiskReservations are the reservations of a LUN.
type DomainDiskReservations struct {
	Managed   string                        `xml:"managed,attr" json:"managed,omitempty"`
	Migration string                        `xml:"migration,attr" json:"migration,omitempty"`
	Source    *DomainDiskReservationsSource `xml:"source" json:"source,omitempty"`
}

// DomainDiskReservationsSource is the socket of the reservations.
type DomainDiskReservationsSource struct {
	Type string `xml:"type,attr" json:"type,omitempty"`
	Path string `xml:"path,attr" json:"path,omitempty"`
	Mode string `xml:"mode,attr" json:"mode,omitempty"`
}

// DomainDiskDataStore is where a disk with an overlay of metadata has its data.
type DomainDiskDataStore struct {
	Type   string            `xml:"type,attr" json:"type,omitempty"`
	Format *DomainDiskFormat `xml:"format" json:"format,omitempty"`
	Source *DomainDiskSource `xml:"source" json:"source,omitempty"`
}

// DomainDiskFormat is the format of an image.
type DomainDiskFormat struct {
	Type string `xml:"type,attr,keep" json:"type"`
}

// DomainDiskBackingStore is the image below an overlay.
type DomainDiskBackingStore struct {
	Type   string            `xml:"type,attr" json:"type,omitempty"`
	Format *DomainDiskFormat `xml:"format" json:"format,omitempty"`
	Source *DomainDiskSource `xml:"source" json:"source,omitempty"`
}

// DomainDiskBlockIO are the block sizes of a disk.
type DomainDiskBlockIO struct {
	LogicalBlockSize   uint  `xml:"logical_block_size,attr" json:"logical_block_size,omitempty"`
	PhysicalBlockSize  uint  `xml:"physical_block_size,attr" json:"physical_block_size,omitempty"`
	DiscardGranularity *uint `xml:"discard_granularity,attr" json:"discard_granularity,omitempty"`
}

// DomainDiskTarget is the disk in the guest.
type DomainDiskTarget struct {
	Dev  string `xml:"dev,attr" json:"dev,omitempty"`
	Bus  string `xml:"bus,attr" json:"bus,omitempty"`
	Tray string `xml:"tray,attr" json:"tray,omitempty"`
}

// DomainDeviceBoot is the position of a device in the boot order.
type DomainDeviceBoot struct {
	Order uint `xml:"order,attr,keep" json:"order"`
}

// DomainAlias is the name of a device.
type DomainAlias struct {
	Name string `xml:"name,attr" json:"name,omitempty"`
}

// DomainAddress is an address of a device, in the guest or on the host.
type DomainAddress struct {
	Type       string `xml:"type,attr" json:"type,omitempty"`
	Domain     string `xml:"domain,attr" json:"domain,omitempty"`
	Controller string `xml:"controller,attr" json:"controller,omitempty"`
	Bus        string `xml:"bus,attr" json:"bus,omitempty"`
	Slot       string `xml:"slot,attr" json:"slot,omitempty"`
	Function   string `xml:"function,attr" json:"function,omitempty"`
	Unit       string `xml:"unit,attr" json:"unit,omitempty"`
	UUID       string `xml:"uuid,attr" json:"uuid,omitempty"`
	Device     string `xml:"device,attr" json:"device,omitempty"`
}

// DomainController is a controller.
type DomainController struct {
	Type    string                     `xml:"type,attr" json:"type,omitempty"`
	Index   uint                       `xml:"index,attr,keep" json:"index"`
	Model   string                     `xml:"model,attr" json:"model,omitempty"`
	Driver  *DomainControllerDriver    `xml:"driver" json:"driver,omitempty"`
	Target  *DomainControllerTarget    `xml:"target" json:"target,omitempty"`
	Hole64  *DomainControllerPCIHole64 `xml:"pcihole64" json:"pcihole64,omitempty"`
	Address *DomainAddress             `xml:"address" json:"address,omitempty"`
}

// DomainControllerDriver are settings of a controller.
type DomainControllerDriver struct {
	IOThread *uint  `xml:"iothread,attr" json:"iothread,omitempty"`
	Queues   *uint  `xml:"queues,attr" json:"queues,omitempty"`
	IOMMU    string `xml:"iommu,attr" json:"iommu,omitempty"`
}

// DomainControllerTarget is a PCI controller in the guest.
type DomainControllerTarget struct {
	BusNr    *uint `xml:"busNr,attr" json:"busNr,omitempty"`
	NUMANode *uint `xml:"node" json:"node,omitempty"`
}

// DomainControllerPCIHole64 is the size of the 64-bit PCI hole.
type DomainControllerPCIHole64 struct {
	Unit string `xml:"unit,attr" json:"unit,omitempty"`
	Size uint64 `xml:",chardata,keep" json:"value"`
}

// DomainFilesystem is a directory that the guest shares.
type DomainFilesystem struct {
	Type string `xml:"type,attr" json:"type,omitempty"`
	// AccessMode has KubeVirt's spelling. libvirt's is accessmode, so it ignores this one.
	AccessMode string                  `xml:"accessMode,attr" json:"accessMode,omitempty"`
	Driver     *DomainFilesystemDriver `xml:"driver" json:"driver,omitempty"`
	Source     *DomainFilesystemSource `xml:"source" json:"source,omitempty"`
	Target     *DomainFilesystemTarget `xml:"target" json:"target,omitempty"`
}

// DomainFilesystemDriver is how a directory is shared.
type DomainFilesystemDriver struct {
	Type  string `xml:"type,attr" json:"type,omitempty"`
	Queue string `xml:"queue,attr" json:"queue,omitempty"`
}

// DomainFilesystemSource is the socket of virtiofsd.
type DomainFilesystemSource struct {
	Dir    string `xml:"dir,attr,keep" json:"dir"`
	Socket string `xml:"socket,attr" json:"socket,omitempty"`
}

// DomainFilesystemTarget is the tag of the filesystem in the guest.
type DomainFilesystemTarget struct {
	Dir string `xml:"dir,attr" json:"dir,omitempty"`
}

// DomainInterface is a NIC.
type DomainInterface struct {
	Type        string                             `xml:"type,attr,keep" json:"type"`
	MAC         *DomainInterfaceMAC                `xml:"mac" json:"mac,omitempty"`
	Source      *DomainInterfaceSource             `xml:"source" json:"source,omitempty"`
	Boot        *DomainDeviceBoot                  `xml:"boot" json:"boot,omitempty"`
	PortForward []DomainInterfaceSourcePortForward `xml:"portForward" json:"portForward,omitempty"`
	Target      *DomainInterfaceTarget             `xml:"target" json:"target,omitempty"`
	Model       *DomainInterfaceModel              `xml:"model" json:"model,omitempty"`
	Driver      *DomainInterfaceDriver             `xml:"driver" json:"driver,omitempty"`
	Backend     *DomainInterfaceBackend            `xml:"backend" json:"backend,omitempty"`
	Link        *DomainInterfaceLink               `xml:"link" json:"link,omitempty"`
	MTU         *DomainInterfaceMTU                `xml:"mtu" json:"mtu,omitempty"`
	ROM         *DomainROM                         `xml:"rom" json:"rom,omitempty"`
	ACPI        *DomainDeviceACPI                  `xml:"acpi" json:"acpi,omitempty"`
	Alias       *DomainAlias                       `xml:"alias" json:"alias,omitempty"`
	Address     *DomainAddress                     `xml:"address" json:"address,omitempty"`
}

// DomainInterfaceMAC is the MAC address of a NIC.
type DomainInterfaceMAC struct {
	Address string `xml:"address,attr" json:"address,omitempty"`
}

// DomainInterfaceSource is the interface in the pod.
type DomainInterfaceSource struct {
	Dev string `xml:"dev,attr" json:"dev,omitempty"`
}

// DomainInterfaceSourcePortForward are ports that passt forwards.
type DomainInterfaceSourcePortForward struct {
	Proto  string                                  `xml:"proto,attr" json:"proto,omitempty"`
	Ranges []DomainInterfaceSourcePortForwardRange `xml:"range" json:"range,omitempty"`
}

// DomainInterfaceSourcePortForwardRange is a range of ports.
type DomainInterfaceSourcePortForwardRange struct {
	Start   uint   `xml:"start,attr,keep" json:"start"`
	Exclude string `xml:"exclude,attr" json:"exclude,omitempty"`
}

// DomainInterfaceTarget is the tap device.
type DomainInterfaceTarget struct {
	Dev     string `xml:"dev,attr" json:"dev,omitempty"`
	Managed string `xml:"managed,attr" json:"managed,omitempty"`
}

// DomainInterfaceModel is the model of a NIC.
type DomainInterfaceModel struct {
	Type string `xml:"type,attr" json:"type,omitempty"`
}

// DomainInterfaceDriver are settings of a NIC.
type DomainInterfaceDriver struct {
	Name   string `xml:"name,attr" json:"name,omitempty"`
	Queues *uint  `xml:"queues,attr" json:"queues,omitempty"`
	IOMMU  string `xml:"iommu,attr" json:"iommu,omitempty"`
}

// DomainInterfaceBackend is the program behind a NIC.
type DomainInterfaceBackend struct {
	Type    string `xml:"type,attr" json:"type,omitempty"`
	LogFile string `xml:"logFile,attr" json:"logFile,omitempty"`
}

// DomainInterfaceLink is the state of a NIC's link.
type DomainInterfaceLink struct {
	State string `xml:"state,attr" json:"state,omitempty"`
}

// DomainInterfaceMTU is the MTU of a NIC.
type DomainInterfaceMTU struct {
	Size uint `xml:"size,attr" json:"size,omitempty"`
}

// DomainROM says whether a device has its boot ROM.
type DomainROM struct {
	Enabled string `xml:"enabled,attr" json:"enabled,omitempty"`
}

// DomainDeviceACPI is the index of a device in ACPI.
type DomainDeviceACPI struct {
	Index uint `xml:"index,attr" json:"index,omitempty"`
}

// DomainSerial is a serial port.
type DomainSerial struct {
	Type   string               `xml:"type,attr" json:"type,omitempty"`
	Source *DomainChardevSource `xml:"source" json:"source,omitempty"`
	Target *DomainSerialTarget  `xml:"target" json:"target,omitempty"`
	Log    *DomainChardevLog    `xml:"log" json:"log,omitempty"`
}

// DomainChardevSource is the socket of a character device.
type DomainChardevSource struct {
	Mode string `xml:"mode,attr" json:"mode,omitempty"`
	Path string `xml:"path,attr" json:"path,omitempty"`
}

// DomainChardevLog is the log of a character device.
type DomainChardevLog struct {
	File   string `xml:"file,attr" json:"file,omitempty"`
	Append string `xml:"append,attr" json:"append,omitempty"`
}

// DomainSerialTarget is a serial port in the guest.
type DomainSerialTarget struct {
	Port *uint `xml:"port,attr" json:"port,omitempty"`
}

// DomainConsole is a console.
type DomainConsole struct {
	Type   string               `xml:"type,attr" json:"type,omitempty"`
	Target *DomainConsoleTarget `xml:"target" json:"target,omitempty"`
}

// DomainConsoleTarget is the port of a console.
type DomainConsoleTarget struct {
	Type string `xml:"type,attr" json:"type,omitempty"`
	Port *uint  `xml:"port,attr" json:"port,omitempty"`
}

// DomainChannel is a channel between host and guest.
type DomainChannel struct {
	Type   string               `xml:"type,attr" json:"type,omitempty"`
	Source *DomainChardevSource `xml:"source" json:"source,omitempty"`
	Target *DomainChannelTarget `xml:"target" json:"target,omitempty"`
}

// DomainChannelTarget is a channel in the guest.
type DomainChannelTarget struct {
	Type string `xml:"type,attr" json:"type,omitempty"`
	Name string `xml:"name,attr" json:"name,omitempty"`
}

// DomainInput is an input device.
type DomainInput struct {
	Type    string         `xml:"type,attr" json:"type,omitempty"`
	Bus     string         `xml:"bus,attr" json:"bus,omitempty"`
	Model   string         `xml:"model,attr" json:"model,omitempty"`
	Alias   *DomainAlias   `xml:"alias" json:"alias,omitempty"`
	Address *DomainAddress `xml:"address" json:"address,omitempty"`
}

// DomainTPM is a TPM.
type DomainTPM struct {
	Model   string            `xml:"model,attr" json:"model,omitempty"`
	Backend *DomainTPMBackend `xml:"backend" json:"backend,omitempty"`
}

// DomainTPMBackend is the emulator of a TPM.
type DomainTPMBackend struct {
	Type            string `xml:"type,attr" json:"type,omitempty"`
	Version         string `xml:"version,attr" json:"version,omitempty"`
	PersistentState string `xml:"persistent_state,attr" json:"persistent_state,omitempty"`
}

// DomainGraphic is a display server.
type DomainGraphic struct {
	Type      string                  `xml:"type,attr" json:"type,omitempty"`
	Listeners []DomainGraphicListener `xml:"listen" json:"listen,omitempty"`
}

// DomainGraphicListener is where a display server listens.
type DomainGraphicListener struct {
	Type   string `xml:"type,attr" json:"type,omitempty"`
	Socket string `xml:"socket,attr" json:"socket,omitempty"`
}

// DomainSound is a sound card.
type DomainSound struct {
	Model string       `xml:"model,attr" json:"model,omitempty"`
	Alias *DomainAlias `xml:"alias" json:"alias,omitempty"`
}

// DomainVideo is a video device.
type DomainVideo struct {
	Model DomainVideoModel `xml:"model" json:"model"`
}

// DomainVideoModel is the model of a video device.
type DomainVideoModel struct {
	Type  string `xml:"type,attr" json:"type,omitempty"`
	Heads uint   `xml:"heads,attr" json:"heads,omitempty"`
	VRam  uint   `xml:"vram,attr" json:"vram,omitempty"`
}

// DomainHostdev is a device of the host.
type DomainHostdev struct {
	Type    string               `xml:"type,attr" json:"type,omitempty"`
	Mode    string               `xml:"mode,attr" json:"mode,omitempty"`
	Managed string               `xml:"managed,attr" json:"managed,omitempty"`
	Model   string               `xml:"model,attr" json:"model,omitempty"`
	Display string               `xml:"display,attr" json:"display,omitempty"`
	RamFB   string               `xml:"ramfb,attr" json:"ramfb,omitempty"`
	Source  *DomainHostdevSource `xml:"source" json:"source,omitempty"`
	Boot    *DomainDeviceBoot    `xml:"boot" json:"boot,omitempty"`
	Alias   *DomainAlias         `xml:"alias" json:"alias,omitempty"`
	Address *DomainAddress       `xml:"address" json:"address,omitempty"`
}

// DomainHostdevSource is the device on the host.
type DomainHostdevSource struct {
	Address *DomainAddress `xml:"address" json:"address,omitempty"`
}

// DomainRedirDev is a USB device of a client.
type DomainRedirDev struct {
	Bus    string               `xml:"bus,attr" json:"bus,omitempty"`
	Type   string               `xml:"type,attr" json:"type,omitempty"`
	Source *DomainChardevSource `xml:"source" json:"source,omitempty"`
}

// DomainWatchdog is a watchdog.
type DomainWatchdog struct {
	Model   string         `xml:"model,attr" json:"model,omitempty"`
	Action  string         `xml:"action,attr,keep" json:"action"`
	Alias   *DomainAlias   `xml:"alias" json:"alias,omitempty"`
	Address *DomainAddress `xml:"address" json:"address,omitempty"`
}

// DomainMemBalloon is the memory balloon.
type DomainMemBalloon struct {
	Model             string                  `xml:"model,attr" json:"model,omitempty"`
	FreePageReporting string                  `xml:"freePageReporting,attr" json:"freePageReporting,omitempty"`
	Driver            *DomainMemBalloonDriver `xml:"driver" json:"driver,omitempty"`
	Stats             *DomainMemBalloonStats  `xml:"stats" json:"stats,omitempty"`
	Address           *DomainAddress          `xml:"address" json:"address,omitempty"`
}

// DomainMemBalloonDriver are settings of the memory balloon.
type DomainMemBalloonDriver struct {
	IOMMU string `xml:"iommu,attr" json:"iommu,omitempty"`
}

// DomainMemBalloonStats is how often the memory balloon reports, in seconds.
type DomainMemBalloonStats struct {
	Period uint `xml:"period,attr" json:"period,omitempty"`
}

// DomainRNG is a source of random numbers.
type DomainRNG struct {
	Model   string            `xml:"model,attr" json:"model,omitempty"`
	Driver  *DomainRNGDriver  `xml:"driver" json:"driver,omitempty"`
	Backend *DomainRNGBackend `xml:"backend" json:"backend,omitempty"`
	Address *DomainAddress    `xml:"address" json:"address,omitempty"`
}

// DomainRNGDriver are settings of a source of random numbers.
type DomainRNGDriver struct {
	IOMMU string `xml:"iommu,attr" json:"iommu,omitempty"`
}

// DomainRNGBackend is the source on the host.
type DomainRNGBackend struct {
	Model  string `xml:"model,attr" json:"model,omitempty"`
	Device string `xml:",chardata" json:"value,omitempty"`
}

// DomainPanic reports that the guest crashed.
type DomainPanic struct {
	Model string `xml:"model,attr" json:"model,omitempty"`
}

// DomainVSock is a socket between host and guest.
type DomainVSock struct {
	Model string          `xml:"model,attr" json:"model,omitempty"`
	CID   *DomainVSockCID `xml:"cid" json:"cid,omitempty"`
}

// DomainVSockCID is the guest's address.
type DomainVSockCID struct {
	Auto    string `xml:"auto,attr" json:"auto,omitempty"`
	Address uint   `xml:"address,attr" json:"address,omitempty"`
}
