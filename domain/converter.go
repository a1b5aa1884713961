package domain

import (
	"fmt"
	"strconv"

	v1 "kubevirt.io/api/core/v1"
)

// Converter makes the domains of a hypervisor on an architecture.
type Converter interface {
	// Convert returns the domain of an instance, or an *Error.
	Convert(in *Input) (*Result, error)
	// GetHypervFeatures returns the enlightenments for Windows that nodes of the hypervisor can have, as libvirt names them. It
	// is the part of VEP 97's HypervisorCapabilityExtractor that does not read a node.
	GetHypervFeatures() []string
}

// Configurator makes one part of a domain.
type Configurator func(b *Build) error

// BaseConverter has the steps of KubeVirt. A hypervisor embeds it, and replaces the steps that differ.
type BaseConverter struct {
	// Architecture is that of the conversion.
	Architecture *Architecture

	// The steps, in KubeVirt's order.
	DomainConfigurator         Configurator
	NetworkConfigurator        Configurator
	TPMConfigurator            Configurator
	VSockConfigurator          Configurator
	LaunchSecurityConfigurator Configurator
	ChannelConfigurator        Configurator
	ClockConfigurator          Configurator
	RNGConfigurator            Configurator
	InputConfigurator          Configurator
	BalloonConfigurator        Configurator
	GraphicsConfigurator       Configurator
	SoundConfigurator          Configurator
	HostDeviceConfigurator     Configurator
	WatchdogConfigurator       Configurator
	// SerialDeviceConverter makes the serial port and the console.
	SerialDeviceConverter     Configurator
	PanicConfigurator         Configurator
	FeatureConfigurator       Configurator
	SysInfoConfigurator       Configurator
	OSConfigurator            Configurator
	FilesystemConfigurator    Configurator
	DiskConfigurator          Configurator
	RedirectionConfigurator   Configurator
	ControllerConfigurator    Configurator
	QEMUConfigurator          Configurator
	CPUConfigurator           Configurator
	IOThreadConfigurator      Configurator
	MemoryConfigurator        Configurator
	MemoryBackingConfigurator Configurator
	RebootConfigurator        Configurator
	IOMMUFDConfigurator       Configurator
	// HypervisorConfigurator sets the type of the domain.
	HypervisorConfigurator Configurator
	// ExtraConfigurators follow the others.
	ExtraConfigurators []Configurator
	// HypervFeatures are what GetHypervFeatures returns.
	HypervFeatures []string
}

// NewBaseConverter returns the steps for an architecture. The type of the domain is the one that the facts have of the
// hypervisor.
func NewBaseConverter(architecture string) *BaseConverter {
	return &BaseConverter{
		Architecture:               findArchitecture(architecture),
		DomainConfigurator:         domainName,
		NetworkConfigurator:        interfaces,
		TPMConfigurator:            tpm,
		VSockConfigurator:          vsock,
		LaunchSecurityConfigurator: launchSecurity,
		ChannelConfigurator:        channels,
		ClockConfigurator:          clock,
		RNGConfigurator:            rng,
		InputConfigurator:          inputs,
		BalloonConfigurator:        balloon,
		GraphicsConfigurator:       graphics,
		SoundConfigurator:          sound,
		HostDeviceConfigurator:     hostDevices,
		WatchdogConfigurator:       watchdog,
		SerialDeviceConverter:      serial,
		PanicConfigurator:          panicDevices,
		FeatureConfigurator:        features,
		SysInfoConfigurator:        sysInfo,
		OSConfigurator:             operatingSystem,
		FilesystemConfigurator:     filesystems,
		DiskConfigurator:           disks,
		RedirectionConfigurator:    redirection,
		ControllerConfigurator:     controllers,
		QEMUConfigurator:           qemuArguments,
		CPUConfigurator:            cpu,
		IOThreadConfigurator:       ioThreadCount,
		MemoryConfigurator:         memory,
		MemoryBackingConfigurator:  memoryBacking,
		RebootConfigurator:         reboot,
		IOMMUFDConfigurator:        iommufd,
		HypervisorConfigurator:     domainType,
	}
}

// steps returns the steps in their order.
func (c *BaseConverter) steps() []Configurator {
	return append([]Configurator{
		c.DomainConfigurator, c.NetworkConfigurator, c.TPMConfigurator, c.VSockConfigurator, c.LaunchSecurityConfigurator,
		c.ChannelConfigurator, c.ClockConfigurator, c.RNGConfigurator, c.InputConfigurator, c.BalloonConfigurator,
		c.GraphicsConfigurator, c.SoundConfigurator, c.HostDeviceConfigurator, c.WatchdogConfigurator, c.SerialDeviceConverter,
		c.PanicConfigurator, c.FeatureConfigurator, c.SysInfoConfigurator, c.OSConfigurator, c.FilesystemConfigurator,
		c.DiskConfigurator, c.RedirectionConfigurator, c.ControllerConfigurator, c.QEMUConfigurator, c.CPUConfigurator,
		c.IOThreadConfigurator, c.MemoryConfigurator, c.MemoryBackingConfigurator, c.RebootConfigurator, c.IOMMUFDConfigurator,
		c.HypervisorConfigurator,
	}, c.ExtraConfigurators...)
}

// Convert implements Converter.
func (c *BaseConverter) Convert(in *Input) (*Result, error) {
	if err := checkBounds(in.VMI); err != nil {
		return nil, at(StageBounds, err)
	}
	b, err := newBuild(in, c.Architecture)
	if err != nil {
		return nil, err
	}
	for _, configure := range c.steps() {
		if err := configure(b); err != nil {
			return nil, at(StageConvert, err)
		}
	}
	if err := b.place(); err != nil {
		return nil, at(StageConvert, err)
	}
	b.setDefaults()
	if err := b.prepare(); err != nil {
		return nil, at(StagePreStart, err)
	}
	result := &Result{Domain: b.Domain, Paused: b.VMI.ShouldStartPaused() || isolated(b.VMI), sources: b.sources}
	if result.Ports, err = b.hotplugPorts(); err != nil {
		return nil, at(StagePorts, err)
	}
	return result, nil
}

// GetHypervFeatures implements Converter.
func (c *BaseConverter) GetHypervFeatures() []string { return c.HypervFeatures }

// isolated reports whether the emulator has a CPU of its own.
func isolated(vmi *v1.VirtualMachineInstance) bool {
	return vmi.Spec.Domain.CPU != nil && vmi.IsCPUDedicated() && vmi.Spec.Domain.CPU.IsolateEmulatorThread
}

// setDefaults sets what every domain has.
func (b *Build) setDefaults() {
	d := b.Domain
	osType := d.OS.Type
	osType.Type, osType.Arch = "hvm", b.Architecture.LibvirtName
	b.from("os/type@arch", "spec.architecture")
	if osType.Machine == "" {
		osType.Machine = b.Architecture.Machine
	}
}

// Element returns the document of the domain in canonical order, with the sources if they were traced.
func (r *Result) Element() *Element {
	root := r.Domain.Element()
	if r.sources != nil {
		for _, child := range root.Children {
			child.trace("", nil, r.sources)
		}
		for i := range root.Attributes {
			root.Attributes[i].Source = r.sources["@"+root.Attributes[i].Name]
		}
	}
	return root
}

// trace sets the sources of an element and of what it contains. Elements of devices have an index in their path.
func (e *Element) trace(parent string, counts map[string]int, sources map[string]Source) {
	path := e.Name
	if parent != "" {
		path = parent + "/" + e.Name
	}
	if counts != nil {
		path += "[" + strconv.Itoa(counts[e.Name]) + "]"
		counts[e.Name]++
	}
	e.Source = sources[path]
	for i := range e.Attributes {
		e.Attributes[i].Source = sources[path+"@"+e.Attributes[i].Name]
	}
	var below map[string]int
	if path == "devices" {
		below = map[string]int{}
	}
	for _, child := range e.Children {
		child.trace(path, below, sources)
	}
}

// domainType sets the type of the domain: that of the hypervisor, or qemu if the node has none of its devices.
func domainType(b *Build) error {
	emulated, err := b.Emulated()
	if err != nil || emulated {
		return err
	}
	b.Domain.Type = b.Facts.Hypervisor.VirtType
	return nil
}

// Emulated makes the domain one of QEMU if the node has no device of the hypervisor, and reports whether it did. It is an error
// if KubeVirt's configuration does not allow that.
func (b *Build) Emulated() (bool, error) {
	if b.Host.hasDevice() {
		return false, nil
	}
	b.fromHost("@type", "hypervisorDevice")
	if developer := b.Facts.Configuration.DeveloperConfiguration; developer == nil || !developer.UseEmulation {
		return false, fmt.Errorf("the node does not have %s, and KubeVirt's configuration does not allow emulation", b.Facts.Hypervisor.Device)
	}
	b.Domain.Type = "qemu"
	return true, nil
}

// EmulateArchitecture makes the domain one of QEMU if the guest's architecture is not that of the node, and reports whether it
// did.
func (b *Build) EmulateArchitecture() bool {
	if !b.CrossArchitecture {
		return false
	}
	b.Domain.Type, b.Domain.Devices.Emulator = "qemu", b.Architecture.Emulator
	b.fromHost("@type", "hostArch")
	return true
}
