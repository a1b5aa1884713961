package domain

// Domain is a libvirt domain. The order of fields is the canonical order of elements.
type Domain struct {
	Type            string                 `xml:"type,attr" json:"type,omitempty"`
	Name            string                 `xml:"name" json:"name,omitempty"`
	MaximumMemory   *DomainMaxMemory       `xml:"maxMemory" json:"maxMemory,omitempty"`
	Memory          *DomainMemory          `xml:"memory" json:"memory,omitempty"`
	MemoryBacking   *DomainMemoryBacking   `xml:"memoryBacking" json:"memoryBacking,omitempty"`
	VCPU            *DomainVCPU            `xml:"vcpu" json:"vcpu,omitempty"`
	VCPUs           *DomainVCPUs           `xml:"vcpus" json:"vcpus,omitempty"`
	IOThreads       uint                   `xml:"iothreads" json:"iothreads,omitempty"`
	CPUTune         *DomainCPUTune         `xml:"cputune" json:"cputune,omitempty"`
	NUMATune        *DomainNUMATune        `xml:"numatune" json:"numatune,omitempty"`
	IOMMUFD         *DomainIOMMUFD         `xml:"iommufd" json:"iommufd,omitempty"`
	SysInfo         *DomainSysInfo         `xml:"sysinfo" json:"sysinfo,omitempty"`
	OS              *DomainOS              `xml:"os" json:"os,omitempty"`
	Features        *DomainFeatureList     `xml:"features" json:"features,omitempty"`
	CPU             *DomainCPU             `xml:"cpu" json:"cpu,omitempty"`
	Clock           *DomainClock           `xml:"clock" json:"clock,omitempty"`
	OnReboot        string                 `xml:"on_reboot" json:"on_reboot,omitempty"`
	Devices         *DomainDeviceList      `xml:"devices" json:"devices,omitempty"`
	LaunchSecurity  *DomainLaunchSecurity  `xml:"launchSecurity" json:"launchSecurity,omitempty"`
	QEMUCommandline *DomainQEMUCommandline `xml:"qemu:commandline" json:"qemu_commandline,omitempty"`
}

// DomainMaxMemory is the memory that can be plugged up to.
type DomainMaxMemory struct {
	Unit  string `xml:"unit,attr" json:"unit,omitempty"`
	Slots uint   `xml:"slots,attr,keep" json:"slots"`
	Value uint64 `xml:",chardata" json:"value,omitempty"`
}

// DomainMemory is an amount of memory.
type DomainMemory struct {
	Unit  string `xml:"unit,attr" json:"unit,omitempty"`
	Value uint64 `xml:",chardata,keep" json:"value"`
}

// DomainMemoryBacking says how the host provides the memory.
type DomainMemoryBacking struct {
	MemoryHugePages    *DomainMemoryHugepages  `xml:"hugepages" json:"hugepages,omitempty"`
	MemoryNosharepages *DomainEmpty            `xml:"nosharepages" json:"nosharepages,omitempty"`
	MemorySource       *DomainMemorySource     `xml:"source" json:"source,omitempty"`
	MemoryAccess       *DomainMemoryAccess     `xml:"access" json:"access,omitempty"`
	MemoryAllocation   *DomainMemoryAllocation `xml:"allocation" json:"allocation,omitempty"`
}

// DomainEmpty is an element without content, such as readonly.
type DomainEmpty struct{}

// DomainMemoryHugepages are the huge pages of the memory.
type DomainMemoryHugepages struct {
	Hugepages []DomainMemoryHugepage `xml:"page" json:"page,omitempty"`
}

// DomainMemoryHugepage is a page size, for some NUMA cells of the guest.
type DomainMemoryHugepage struct {
	Size    uint64 `xml:"size,attr" json:"size,omitempty"`
	Unit    string `xml:"unit,attr" json:"unit,omitempty"`
	Nodeset string `xml:"nodeset,attr" json:"nodeset,omitempty"`
}

// DomainMemorySource is the kind of memory: memfd.
type DomainMemorySource struct {
	Type string `xml:"type,attr" json:"type,omitempty"`
}

// DomainMemoryAccess is the mode of access: shared.
type DomainMemoryAccess struct {
	Mode string `xml:"mode,attr" json:"mode,omitempty"`
}

// DomainMemoryAllocation is when the memory is allocated: immediate.
type DomainMemoryAllocation struct {
	Mode string `xml:"mode,attr" json:"mode,omitempty"`
}

// DomainVCPU is the maximum of vCPUs.
type DomainVCPU struct {
	Placement string `xml:"placement,attr" json:"placement,omitempty"`
	Value     uint   `xml:",chardata,keep" json:"value"`
}

// DomainVCPUs are the vCPUs, where some of them can be plugged.
type DomainVCPUs struct {
	VCPU []DomainVCPUsVCPU `xml:"vcpu" json:"vcpu,omitempty"`
}

// DomainVCPUsVCPU is a vCPU.
type DomainVCPUsVCPU struct {
	ID           uint   `xml:"id,attr,keep" json:"id"`
	Enabled      string `xml:"enabled,attr" json:"enabled,omitempty"`
	Hotpluggable string `xml:"hotpluggable,attr" json:"hotpluggable,omitempty"`
}

// DomainCPUTune pins threads to CPUs of the host.
type DomainCPUTune struct {
	VCPUPin     []DomainCPUTuneVCPUPin     `xml:"vcpupin" json:"vcpupin,omitempty"`
	EmulatorPin *DomainCPUTuneEmulatorPin  `xml:"emulatorpin" json:"emulatorpin,omitempty"`
	IOThreadPin []DomainCPUTuneIOThreadPin `xml:"iothreadpin" json:"iothreadpin,omitempty"`
}

// DomainCPUTuneVCPUPin pins a vCPU.
type DomainCPUTuneVCPUPin struct {
	VCPU   uint   `xml:"vcpu,attr,keep" json:"vcpu"`
	CPUSet string `xml:"cpuset,attr" json:"cpuset,omitempty"`
}

// DomainCPUTuneEmulatorPin pins the threads of the emulator.
type DomainCPUTuneEmulatorPin struct {
	CPUSet string `xml:"cpuset,attr" json:"cpuset,omitempty"`
}

// DomainCPUTuneIOThreadPin pins an I/O thread.
type DomainCPUTuneIOThreadPin struct {
	IOThread uint   `xml:"iothread,attr,keep" json:"iothread"`
	CPUSet   string `xml:"cpuset,attr" json:"cpuset,omitempty"`
}

// DomainNUMATune binds memory to NUMA nodes of the host.
type DomainNUMATune struct {
	Memory   *DomainNUMATuneMemory   `xml:"memory" json:"memory,omitempty"`
	MemNodes []DomainNUMATuneMemNode `xml:"memnode" json:"memnode,omitempty"`
}

// DomainNUMATuneMemory binds the memory of the domain.
type DomainNUMATuneMemory struct {
	Mode    string `xml:"mode,attr" json:"mode,omitempty"`
	Nodeset string `xml:"nodeset,attr,keep" json:"nodeset"`
}

// DomainNUMATuneMemNode binds the memory of a NUMA cell.
type DomainNUMATuneMemNode struct {
	CellID  uint   `xml:"cellid,attr,keep" json:"cellid"`
	Mode    string `xml:"mode,attr" json:"mode,omitempty"`
	Nodeset string `xml:"nodeset,attr" json:"nodeset,omitempty"`
}

// DomainIOMMUFD says that host devices use a file descriptor of iommufd.
type DomainIOMMUFD struct {
	Enabled string `xml:"enabled,attr" json:"enabled,omitempty"`
	FDGroup string `xml:"fdgroup,attr" json:"fdgroup,omitempty"`
}

// DomainSysInfo are the values of the guest's SMBIOS.
type DomainSysInfo struct {
	Type    string               `xml:"type,attr" json:"type,omitempty"`
	System  []DomainSysInfoEntry `xml:"system>entry" json:"system,omitempty"`
	Chassis []DomainSysInfoEntry `xml:"chassis>entry" json:"chassis,omitempty"`
}

// DomainSysInfoEntry is a value of SMBIOS.
type DomainSysInfoEntry struct {
	Name  string `xml:"name,attr" json:"name,omitempty"`
	Value string `xml:",chardata" json:"value,omitempty"`
}

// DomainOS is how the guest boots.
type DomainOS struct {
	Firmware     string                `xml:"firmware,attr" json:"firmware,omitempty"`
	Type         *DomainOSType         `xml:"type" json:"type,omitempty"`
	FirmwareInfo *DomainOSFirmwareInfo `xml:"firmware" json:"firmwareInfo,omitempty"`
	Loader       *DomainLoader         `xml:"loader" json:"loader,omitempty"`
	NVRam        *DomainNVRam          `xml:"nvram" json:"nvram,omitempty"`
	Kernel       string                `xml:"kernel" json:"kernel,omitempty"`
	Initrd       string                `xml:"initrd" json:"initrd,omitempty"`
	Cmdline      string                `xml:"cmdline" json:"cmdline,omitempty"`
	ACPI         *DomainACPI           `xml:"acpi" json:"acpi,omitempty"`
	BootMenu     *DomainBootMenu       `xml:"bootmenu" json:"bootmenu,omitempty"`
	BIOS         *DomainBIOS           `xml:"bios" json:"bios,omitempty"`
	SMBios       *DomainSMBios         `xml:"smbios" json:"smbios,omitempty"`
}

// DomainOSType is the machine.
type DomainOSType struct {
	Arch    string `xml:"arch,attr" json:"arch,omitempty"`
	Machine string `xml:"machine,attr" json:"machine,omitempty"`
	Type    string `xml:",chardata" json:"value,omitempty"`
}

// DomainOSFirmwareInfo are the features by which libvirt selects a firmware.
type DomainOSFirmwareInfo struct {
	Features []DomainOSFirmwareFeature `xml:"feature" json:"feature,omitempty"`
}

// DomainOSFirmwareFeature is a feature of a firmware.
type DomainOSFirmwareFeature struct {
	Enabled string `xml:"enabled,attr" json:"enabled,omitempty"`
	Name    string `xml:"name,attr" json:"name,omitempty"`
}

// DomainLoader is the firmware.
type DomainLoader struct {
	Readonly string `xml:"readonly,attr" json:"readonly,omitempty"`
	Secure   string `xml:"secure,attr" json:"secure,omitempty"`
	Type     string `xml:"type,attr" json:"type,omitempty"`
	Path     string `xml:",chardata" json:"value,omitempty"`
}

// DomainNVRam has the variables of the firmware.
type DomainNVRam struct {
	Template string `xml:"template,attr" json:"template,omitempty"`
	Format   string `xml:"format,attr" json:"format,omitempty"`
	NVRam    string `xml:",chardata" json:"value,omitempty"`
}

// DomainACPI are tables of ACPI.
type DomainACPI struct {
	Tables []DomainACPITable `xml:"table" json:"table,omitempty"`
}

// DomainACPITable is a table of ACPI.
type DomainACPITable struct {
	Type string `xml:"type,attr" json:"type,omitempty"`
	Path string `xml:",chardata" json:"value,omitempty"`
}

// DomainBootMenu is the menu that the firmware shows.
type DomainBootMenu struct {
	Enable  string `xml:"enable,attr" json:"enable,omitempty"`
	Timeout uint   `xml:"timeout,attr" json:"timeout,omitempty"`
}

// DomainBIOS are settings of the BIOS.
type DomainBIOS struct {
	UseSerial string `xml:"useserial,attr" json:"useserial,omitempty"`
}

// DomainSMBios is where the values of SMBIOS come from.
type DomainSMBios struct {
	Mode string `xml:"mode,attr" json:"mode,omitempty"`
}

// DomainFeatureList are features of the hypervisor.
type DomainFeatureList struct {
	ACPI       *DomainEmpty         `xml:"acpi" json:"acpi,omitempty"`
	APIC       *DomainEmpty         `xml:"apic" json:"apic,omitempty"`
	HyperV     *DomainFeatureHyperV `xml:"hyperv" json:"hyperv,omitempty"`
	KVM        *DomainFeatureKVM    `xml:"kvm" json:"kvm,omitempty"`
	PVSpinlock *DomainFeatureState  `xml:"pvspinlock" json:"pvspinlock,omitempty"`
	PMU        *DomainFeatureState  `xml:"pmu" json:"pmu,omitempty"`
	VMPort     *DomainFeatureState  `xml:"vmport" json:"vmport,omitempty"`
	SMM        *DomainEmpty         `xml:"smm" json:"smm,omitempty"`
}

// DomainFeatureState is a feature that is on or off.
type DomainFeatureState struct {
	State string `xml:"state,attr" json:"state,omitempty"`
}

// DomainFeatureHyperV are the enlightenments for Windows.
type DomainFeatureHyperV struct {
	Mode            string                        `xml:"mode,attr" json:"mode,omitempty"`
	Relaxed         *DomainFeatureState           `xml:"relaxed" json:"relaxed,omitempty"`
	VAPIC           *DomainFeatureState           `xml:"vapic" json:"vapic,omitempty"`
	Spinlocks       *DomainFeatureHyperVSpinlocks `xml:"spinlocks" json:"spinlocks,omitempty"`
	VPIndex         *DomainFeatureState           `xml:"vpindex" json:"vpindex,omitempty"`
	Runtime         *DomainFeatureState           `xml:"runtime" json:"runtime,omitempty"`
	Synic           *DomainFeatureState           `xml:"synic" json:"synic,omitempty"`
	STimer          *DomainFeatureHyperVSTimer    `xml:"stimer" json:"stimer,omitempty"`
	Reset           *DomainFeatureState           `xml:"reset" json:"reset,omitempty"`
	VendorId        *DomainFeatureHyperVVendorId  `xml:"vendor_id" json:"vendor_id,omitempty"`
	Frequencies     *DomainFeatureState           `xml:"frequencies" json:"frequencies,omitempty"`
	ReEnlightenment *DomainFeatureState           `xml:"reenlightenment" json:"reenlightenment,omitempty"`
	TLBFlush        *DomainFeatureHyperVTLBFlush  `xml:"tlbflush" json:"tlbflush,omitempty"`
	IPI             *DomainFeatureState           `xml:"ipi" json:"ipi,omitempty"`
	EVMCS           *DomainFeatureState           `xml:"evmcs" json:"evmcs,omitempty"`
}

// DomainFeatureHyperVSpinlocks are the retries of spinlocks.
type DomainFeatureHyperVSpinlocks struct {
	State   string  `xml:"state,attr" json:"state,omitempty"`
	Retries *uint32 `xml:"retries,attr" json:"retries,omitempty"`
}

// DomainFeatureHyperVSTimer are the synthetic timers.
type DomainFeatureHyperVSTimer struct {
	State  string              `xml:"state,attr" json:"state,omitempty"`
	Direct *DomainFeatureState `xml:"direct" json:"direct,omitempty"`
}

// DomainFeatureHyperVVendorId is the vendor that the guest sees.
type DomainFeatureHyperVVendorId struct {
	State string `xml:"state,attr" json:"state,omitempty"`
	Value string `xml:"value,attr" json:"value,omitempty"`
}

// DomainFeatureHyperVTLBFlush are the calls that flush translations.
type DomainFeatureHyperVTLBFlush struct {
	State    string              `xml:"state,attr" json:"state,omitempty"`
	Direct   *DomainFeatureState `xml:"direct" json:"direct,omitempty"`
	Extended *DomainFeatureState `xml:"extended" json:"extended,omitempty"`
}

// DomainFeatureKVM are features of KVM.
type DomainFeatureKVM struct {
	Hidden        *DomainFeatureState `xml:"hidden" json:"hidden,omitempty"`
	HintDedicated *DomainFeatureState `xml:"hint-dedicated" json:"hint_dedicated,omitempty"`
}

// DomainCPU is the CPU of the guest.
type DomainCPU struct {
	Mode     string             `xml:"mode,attr" json:"mode,omitempty"`
	Model    string             `xml:"model" json:"model,omitempty"`
	Topology *DomainCPUTopology `xml:"topology" json:"topology,omitempty"`
	Features []DomainCPUFeature `xml:"feature" json:"feature,omitempty"`
	Numa     *DomainNuma        `xml:"numa" json:"numa,omitempty"`
}

// DomainCPUTopology is the topology of the vCPUs.
type DomainCPUTopology struct {
	Sockets uint `xml:"sockets,attr" json:"sockets,omitempty"`
	Cores   uint `xml:"cores,attr" json:"cores,omitempty"`
	Threads uint `xml:"threads,attr" json:"threads,omitempty"`
}

// DomainCPUFeature is a feature of the CPU.
type DomainCPUFeature struct {
	Policy string `xml:"policy,attr" json:"policy,omitempty"`
	Name   string `xml:"name,attr" json:"name,omitempty"`
}

// DomainNuma are the NUMA cells of the guest.
type DomainNuma struct {
	Cell []DomainCell `xml:"cell" json:"cell,omitempty"`
}

// DomainCell is a NUMA cell of the guest.
type DomainCell struct {
	ID        uint                 `xml:"id,attr,keep" json:"id"`
	CPUs      string               `xml:"cpus,attr" json:"cpus,omitempty"`
	Memory    uint64               `xml:"memory,attr,keep" json:"memory"`
	Unit      string               `xml:"unit,attr" json:"unit,omitempty"`
	Distances *DomainCellDistances `xml:"distances" json:"distances,omitempty"`
}

// DomainCellDistances are the distances to other cells.
type DomainCellDistances struct {
	Siblings []DomainCellSibling `xml:"sibling" json:"sibling,omitempty"`
}

// DomainCellSibling is the distance to a cell.
type DomainCellSibling struct {
	ID    uint   `xml:"id,attr,keep" json:"id"`
	Value uint64 `xml:"value,attr,keep" json:"value"`
}

// DomainClock is the clock of the guest.
type DomainClock struct {
	Offset     string        `xml:"offset,attr" json:"offset,omitempty"`
	Adjustment string        `xml:"adjustment,attr" json:"adjustment,omitempty"`
	TimeZone   string        `xml:"timezone,attr" json:"timezone,omitempty"`
	Timer      []DomainTimer `xml:"timer" json:"timer,omitempty"`
}

// DomainTimer is a timer of the guest.
type DomainTimer struct {
	Name       string `xml:"name,attr" json:"name,omitempty"`
	Track      string `xml:"track,attr" json:"track,omitempty"`
	TickPolicy string `xml:"tickpolicy,attr" json:"tickpolicy,omitempty"`
	Frequency  uint64 `xml:"frequency,attr" json:"frequency,omitempty"`
	Present    string `xml:"present,attr" json:"present,omitempty"`
}

// DomainLaunchSecurity is the protection from the host.
type DomainLaunchSecurity struct {
	Type                   string                        `xml:"type,attr" json:"type,omitempty"`
	Policy                 string                        `xml:"policy" json:"policy,omitempty"`
	DHCert                 string                        `xml:"dhCert" json:"dhCert,omitempty"`
	Session                string                        `xml:"session" json:"session,omitempty"`
	QuoteGenerationService *DomainQuoteGenerationService `xml:"quoteGenerationService" json:"quoteGenerationService,omitempty"`
}

// DomainQuoteGenerationService is where the guest gets its quotes.
type DomainQuoteGenerationService struct {
	Path string `xml:"path,attr" json:"path,omitempty"`
}

// DomainQEMUCommandline are arguments for QEMU.
type DomainQEMUCommandline struct {
	Args []DomainQEMUCommandlineArg `xml:"qemu:arg" json:"qemu_arg,omitempty"`
}

// DomainQEMUCommandlineArg is an argument for QEMU.
type DomainQEMUCommandlineArg struct {
	Value string `xml:"value,attr" json:"value,omitempty"`
}
