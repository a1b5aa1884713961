package domain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	k8sv1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
)

// Stage is the step of KubeVirt at which an instance fails.
type Stage string

// The stages, in their order.
const (
	// StageBounds is Virtward's own: the domain would have too many elements.
	StageBounds Stage = "bounds"
	// StageHandler is virt-handler, before it calls virt-launcher.
	StageHandler Stage = "virt-handler"
	// StageContext is where virt-launcher reads its pod.
	StageContext Stage = "context"
	StageConvert Stage = "convert"
	// StagePreStart is where virt-launcher prepares NICs and disks.
	StagePreStart Stage = "prestart"
	// StagePorts is where virt-launcher adds ports for hotplug.
	StagePorts Stage = "ports"
)

// Error is why an instance has no domain.
type Error struct {
	Stage Stage
	// Field is the field of the instance that the error is about; empty if there is none.
	Field string
	Err   error
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// failf returns an error about a field; the caller adds the stage.
func failf(field, format string, args ...any) error {
	return &Error{Field: field, Err: fmt.Errorf(format, args...)}
}

// at returns an error of a stage.
func at(stage Stage, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // failf's own, which nothing wraps
		e.Stage = cmp.Or(e.Stage, stage)
		return e
	}
	return &Error{Stage: stage, Err: err}
}

// Input is what decides the domain.
type Input struct {
	// VMI is the complete instance. It is not changed.
	VMI   *v1.VirtualMachineInstance
	Facts *platform.Facts
	Host  *Assumptions
	// Trace records the sources of elements.
	Trace bool
}

// Result is the domain of an instance.
type Result struct {
	Domain *Domain
	// Ports are those for hotplug; nil if the machine has none.
	Ports *HotplugPorts
	// Paused says that the domain is created paused.
	Paused bool

	sources map[string]Source
}

// HotplugPorts are the ports that virt-launcher adds after libvirt has given addresses to the devices.
type HotplugPorts struct {
	// PlaceholderInterfaces are NICs that are removed again, so that their ports stay free.
	PlaceholderInterfaces int `json:"placeholderInterfaces"`
	// ExtraRootPorts are further PCIe ports.
	ExtraRootPorts int `json:"extraRootPorts"`
}

// Build is a domain in the making: what configurators read and write.
type Build struct {
	VMI    *v1.VirtualMachineInstance
	Domain *Domain
	Facts  *platform.Facts
	Host   *Assumptions
	// Architecture is that of the conversion.
	Architecture *Architecture
	// CrossArchitecture says that the guest is emulated, since its architecture is not that of the node.
	CrossArchitecture bool
	// VirtioModel is the model of most virtio devices.
	VirtioModel string
	// IOMMU is on for the devices of instances whose memory the host cannot read; empty otherwise.
	IOMMU string
	// VCPUs are the current vCPUs.
	VCPUs uint
	// BochsForEFI and SerialLog are settings of the cluster for this instance.
	BochsForEFI, SerialLog bool
	// Volumes are those of the instance, with host disks for claims that are file systems.
	Volumes []v1.Volume

	// attachments are how NICs are attached, by their names.
	attachments map[string]string
	efi         *efiFiles
	hostdevs    []DomainHostdev
	ioThreads   ioThreads
	nonRoot     bool
	hotplugged  map[string]v1.VolumePhase
	permanent   map[string]bool
	claims      map[string]*v1.PersistentVolumeClaimInfo
	sources     map[string]Source
}

// Source is what an element or an attribute was made from.
type Source struct {
	// Field is a field of the instance, and Assumption a field of Assumptions.
	Field, Assumption string
	// Plugin is the hook of a Plugin that wrote the element after the conversion.
	Plugin string
}

// from records the source of an element, or of an attribute: cpu/topology@sockets.
func (b *Build) from(element, field string) {
	if b.sources != nil {
		b.sources[element] = Source{Field: field}
	}
}

// fromHost records an assumption as the source of an element.
func (b *Build) fromHost(element, assumption string) {
	if b.sources != nil {
		b.sources[element] = Source{Assumption: assumption}
	}
}

// item is the path of an element of a list: devices/disk[0].
func (b *Build) item(element string, index int, rest string) string {
	if b.sources == nil {
		return ""
	}
	return element + "[" + strconv.Itoa(index) + "]" + rest
}

// The fields of an instance that configurators name most.
const (
	fieldDomain  = "spec.domain."
	fieldDevices = "spec.domain.devices."
	fieldCPU     = "spec.domain.cpu."
)

// newBuild prepares a conversion: what virt-handler passes to virt-launcher, and what virt-launcher reads of its pod.
func newBuild(in *Input, architecture *Architecture) (*Build, error) {
	b := &Build{
		VMI: in.VMI, Domain: &Domain{Devices: &DomainDeviceList{}}, Facts: in.Facts, Host: in.Host, Architecture: architecture,
		hotplugged: map[string]v1.VolumePhase{}, permanent: map[string]bool{}, claims: map[string]*v1.PersistentVolumeClaimInfo{},
	}
	if in.Trace {
		b.sources = map[string]Source{}
	}
	spec, host := &in.VMI.Spec, cmp.Or(in.Host.HostArch, in.VMI.Spec.Architecture)
	b.CrossArchitecture = in.Facts.GateEnabled("CrossArchitectureVirtualization") && spec.Architecture != "" && spec.Architecture != host
	b.VirtioModel = architecture.transitional(isTrue(spec.Domain.Devices.UseVirtioTransitional))
	if security := spec.Domain.LaunchSecurity; security != nil && (security.SEV != nil || security.SNP != nil || spec.Architecture == "s390x") {
		b.IOMMU = "on"
	}
	sockets, cores, threads := topology(in.VMI)
	b.VCPUs = sockets * cores * threads
	_, deprecated := in.VMI.Annotations[v1.DeprecatedNonRootVMIAnnotation]
	b.nonRoot = deprecated || in.VMI.Status.RuntimeUser != 0
	_, vgaForEFI := in.Facts.Annotations[v1.VGADisplayForEFIGuestsX86Annotation]
	b.BochsForEFI = !vgaForEFI
	options := in.Facts.Configuration.VirtualMachineOptions
	b.SerialLog = options == nil || options.DisableSerialConsoleLog == nil
	if own := spec.Domain.Devices.LogSerialConsole; own != nil {
		b.SerialLog = *own
	}
	b.attach()
	if err := b.readVolumes(); err != nil {
		return nil, at(StageHandler, err)
	}
	if err := b.readPod(); err != nil {
		return nil, at(StageContext, err)
	}
	return b, nil
}

// attach finds how NICs are attached: a tap for masquerade and bridge, and what a binding plugin says.
func (b *Build) attach() {
	b.attachments = map[string]string{}
	var plugins map[string]v1.InterfaceBindingPlugin
	if network := b.Facts.Configuration.NetworkConfiguration; network != nil {
		plugins = network.Binding
	}
	interfaces := b.VMI.Spec.Domain.Devices.Interfaces
	for i := range interfaces {
		switch nic := &interfaces[i]; {
		case nic.Masquerade != nil || nic.Bridge != nil:
			b.attachments[nic.Name] = string(v1.Tap)
		case nic.Binding != nil:
			if kind := plugins[nic.Binding.Name].DomainAttachmentType; kind != "" {
				b.attachments[nic.Name] = string(kind)
			}
		}
	}
}

// readVolumes reads the status of volumes. Claims that are file systems become host disks, as virt-handler does it.
func (b *Build) readVolumes() error {
	for i := range b.VMI.Status.VolumeStatus {
		status := &b.VMI.Status.VolumeStatus[i]
		if status.HotplugVolume != nil {
			b.hotplugged[status.Name] = status.Phase
		} else {
			b.permanent[status.Name] = true
		}
		if status.PersistentVolumeClaimInfo != nil {
			b.claims[status.Name] = status.PersistentVolumeClaimInfo
		}
	}
	b.Volumes = slices.Clone(b.VMI.Spec.Volumes)
	for i := range b.Volumes {
		volume := &b.Volumes[i]
		claim := b.claims[volume.Name]
		_, hotplugged := b.hotplugged[volume.Name]
		if volume.PersistentVolumeClaim == nil && (volume.DataVolume == nil || volume.DataVolume.Name == "") ||
			claim == nil || hotplugged || isBlock(claim) || b.isFilesystem(volume.Name) {
			continue
		}
		if err := imageFits(claim); err != nil {
			return failf(fmt.Sprintf("spec.volumes[%d]", i), "the claim of the volume %s %w", volume.Name, err)
		}
		volume.VolumeSource = v1.VolumeSource{HostDisk: &v1.HostDisk{Path: claimImage(volume.Name)}}
	}
	return nil
}

// imageFits checks the size of the image that KubeVirt creates in a claim.
func imageFits(claim *v1.PersistentVolumeClaimInfo) error {
	capacity, hasCapacity := claim.Capacity[k8sv1.ResourceStorage]
	requested, hasRequest := claim.Requests[k8sv1.ResourceStorage]
	if !hasCapacity && !hasRequest {
		return fmt.Errorf("has no size: neither a capacity nor a request")
	}
	size := capacity.Value()
	if hasRequest && (!hasCapacity || size > requested.Value()) {
		size = requested.Value()
	}
	const mebibyte = 1 << 20
	if size < mebibyte {
		return fmt.Errorf("is smaller than 1 MiB")
	}
	return nil
}

func isBlock(claim *v1.PersistentVolumeClaimInfo) bool {
	return claim.VolumeMode != nil && *claim.VolumeMode == k8sv1.PersistentVolumeBlock
}

// isFilesystem reports whether a volume is shared with the guest as a file system.
func (b *Build) isFilesystem(volume string) bool {
	return slices.ContainsFunc(b.VMI.Spec.Domain.Devices.Filesystems, func(f v1.Filesystem) bool { return f.Name == volume })
}

// readPod reads firmware and host devices.
func (b *Build) readPod() error {
	if err := b.readFirmware(); err != nil {
		return err
	}
	if err := b.readHostDevices(); err != nil {
		return err
	}
	b.ioThreads = threadsOf(b.VMI)
	return b.checkGrace()
}

// freePageReporting reports whether the balloon tells the host about free pages.
func (b *Build) freePageReporting() bool {
	options := b.Facts.Configuration.VirtualMachineOptions
	return (options == nil || options.DisableFreePageReporting == nil) &&
		!isFalse(b.VMI.Spec.Domain.Devices.AutoattachMemBalloon) &&
		!b.VMI.IsHighPerformanceVMI() &&
		b.VMI.Annotations[v1.FreePageReportingDisabledAnnotation] != "true"
}

// checkGrace checks what virt-launcher checks first of GPUs of NVIDIA Grace. Their domains need more of the host than can be
// assumed.
func (b *Build) checkGrace() error {
	field := b.graceDevice()
	if field == "" {
		return nil
	}
	switch {
	case !b.Facts.GateEnabled("PCINUMAAwareTopology"):
		return failf(field, "GPUs of NVIDIA Grace require the feature gate PCINUMAAwareTopology")
	case !b.Host.IOMMUFD:
		return failf(field, "GPUs of NVIDIA Grace require a file descriptor of iommufd in virt-launcher")
	case b.VMI.Spec.Domain.CPU == nil || !b.VMI.IsCPUDedicated():
		return failf(field, "GPUs of NVIDIA Grace require dedicated CPUs")
	}
	return failf(field, "the domain of GPUs of NVIDIA Grace cannot be previewed: it has addresses and sizes of the host")
}

// graceDevice returns the first device of an instance that is a GPU of NVIDIA Grace, if its gate is on.
func (b *Build) graceDevice() string {
	permitted := b.Facts.Configuration.PermittedHostDevices
	if permitted == nil || !b.Facts.GateEnabled("GraceIOVirtualization") {
		return ""
	}
	grace := map[string]bool{}
	for i := range permitted.PciHostDevices {
		device := &permitted.PciHostDevices[i]
		if device.ResourceName != "" && isGrace(device.PCIVendorSelector) {
			grace[device.ResourceName] = true
		}
	}
	devices := &b.VMI.Spec.Domain.Devices
	for i := range devices.GPUs {
		if grace[devices.GPUs[i].DeviceName] {
			return fmt.Sprintf(fieldDevices+"gpus[%d]", i)
		}
	}
	for i := range devices.HostDevices {
		if grace[devices.HostDevices[i].DeviceName] {
			return fmt.Sprintf(fieldDevices+"hostDevices[%d]", i)
		}
	}
	return ""
}

// isGrace reports whether a selector selects a GPU of NVIDIA Grace.
func isGrace(selector string) bool {
	vendor, device, _ := strings.Cut(strings.ToUpper(selector), ":")
	normal := func(id string) string { return strings.TrimPrefix(strings.TrimSpace(id), "0X") }
	return normal(vendor) == "10DE" && slices.Contains([]string{"2342", "2348", "2941"}, normal(device))
}

func isTrue(value *bool) bool  { return value != nil && *value }
func isFalse(value *bool) bool { return value != nil && !*value }

// onUnless is on unless a value is false, and off otherwise.
func onUnless(value *bool) string { return onOff(!isFalse(value)) }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func pointer[T any](value T) *T { return &value }
