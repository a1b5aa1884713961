package domain

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	k8sv1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

const (
	containerDisks = "/var/run/kubevirt/container-disks"
	hotplugFolder  = "/var/run/kubevirt/hotplug-disks"
	typeFile       = "file"
	typeBlock      = "block"
	formatRaw      = "raw"
	formatQCOW2    = "qcow2"
	unmap          = "unmap"
	deviceCDROM    = "cdrom"
	errorPolicy    = "stop"
	defaultBlock   = 4096
	maxBlockS390x  = 4096
)

// claimImage is the image in a claim that is a file system.
func claimImage(volume string) string {
	return path.Join(privateFolder, "vmi-disks", volume, "disk.img")
}

// disks makes disks, LUNs and CD-ROMs. Those of volumes that are not attached yet are left out.
func disks(b *Build) error {
	if err := checkPool(b.VMI); err != nil {
		return err
	}
	namer := newNamer(b.VMI)
	auto, dedicated := uint(1), b.ioThreads.auto+1
	list := b.VMI.Spec.Domain.Devices.Disks
	for i := range list {
		disk := &list[i]
		field := fmt.Sprintf(fieldDevices+"disks[%d]", i)
		element := b.item("devices/disk", len(b.Domain.Devices.Disks), "")
		made, err := b.disk(disk, namer, element, field)
		if err != nil {
			return err
		}
		volume := slices.IndexFunc(b.Volumes, func(v v1.Volume) bool { return v.Name == disk.Name })
		if volume < 0 && disk.CDRom == nil {
			return failf(field+".name", "there is no volume %s", disk.Name)
		}
		if err := b.source(made, volume, element); err != nil {
			return err
		}
		if err := b.blockSizes(disk, made, element, field); err != nil {
			return err
		}
		if err := diskErrorPolicy(disk, made, field); err != nil {
			return err
		}
		b.from(element+"/driver@error_policy", field+".errorPolicy")
		dedicated, auto = b.diskThread(disk, made, element, field, dedicated, auto)
		phase, hotplugged := b.hotplugged[disk.Name]
		ready := hotplugged && (phase == v1.HotplugVolumeMounted || phase == v1.VolumeReady)
		if volume < 0 || ready || b.permanent[disk.Name] || len(b.permanent) == 0 {
			b.Domain.Devices.Disks = append(b.Domain.Devices.Disks, *made)
		}
	}
	return nil
}

// checkPool rejects a pool of I/O threads without a size.
func checkPool(vmi *v1.VirtualMachineInstance) error {
	policy, threads := vmi.Spec.Domain.IOThreadsPolicy, vmi.Spec.Domain.IOThreads
	if policy != nil && *policy == v1.IOThreadsPolicySupplementalPool && (threads == nil || threads.SupplementalPoolThreadCount == nil) {
		return failf(fieldDomain+"ioThreads.supplementalPoolThreadCount", "the policy supplementalPool needs a count")
	}
	return nil
}

// disk makes a device without its source.
func (b *Build) disk(disk *v1.Disk, namer *diskNamer, element, field string) (*DomainDisk, error) {
	made := &DomainDisk{
		Driver: &DomainDiskDriver{Name: "qemu", Cache: string(disk.Cache), IO: string(disk.IO)},
		Target: &DomainDiskTarget{}, Alias: userAlias(disk.Name),
	}
	b.from(element, field)
	b.from(element+"/driver@cache", field+".cache")
	b.from(element+"/driver@io", field+".io")
	switch {
	case disk.Disk != nil:
		if err := b.hardDisk(disk, made, namer, field); err != nil {
			return nil, err
		}
		b.from(element+"/target", field+".disk.bus")
		b.from(element+"/serial", field+".serial")
		b.from(element+"/shareable", field+".shareable")
	case disk.LUN != nil:
		made.Device, made.ReadOnly = "lun", emptyIf(disk.LUN.ReadOnly)
		namer.place(made, disk.Name, disk.LUN.Bus)
		if disk.LUN.Reservation {
			made.Source = &DomainDiskSource{Reservations: &DomainDiskReservations{
				Managed: "no", Migration: "yes",
				Source: &DomainDiskReservationsSource{Type: "unix", Path: "/var/run/kubevirt/daemons/pr/pr-helper.sock", Mode: "client"},
			}}
		}
		b.from(element+"/target", field+".lun.bus")
	case disk.CDRom != nil:
		made.Device, made.ReadOnly = deviceCDROM, emptyIf(!isFalse(disk.CDRom.ReadOnly))
		namer.place(made, disk.Name, disk.CDRom.Bus)
		made.Target.Tray, made.Address = string(disk.CDRom.Tray), nil
		b.from(element+"/target", field+".cdrom.bus")
	}
	if disk.Disk != nil || disk.LUN != nil {
		claim := b.claims[disk.Name]
		if claim == nil || !claim.Preallocated {
			made.Driver.Discard = unmap
		}
		if claim != nil {
			ownElements(made, claim)
		}
	}
	if made.Target.Bus == string(v1.DiskBusVirtio) {
		made.Driver.IOMMU = b.IOMMU
		if isTrue(b.VMI.Spec.Domain.Devices.BlockMultiQueue) {
			made.Driver.Queues = pointer(max(b.VCPUs, 1))
			b.from(element+"/driver@queues", fieldDevices+"blockMultiQueue")
		}
	}
	if disk.BootOrder != nil {
		made.Boot = &DomainDeviceBoot{Order: *disk.BootOrder}
		b.from(element+"/boot", field+".bootOrder")
	}
	return made, nil
}

func emptyIf(set bool) *DomainEmpty {
	if set {
		return &DomainEmpty{}
	}
	return nil
}

func (b *Build) hardDisk(disk *v1.Disk, made *DomainDisk, namer *diskNamer, field string) error {
	made.Device, made.Serial, made.ReadOnly = "disk", disk.Serial, emptyIf(disk.Disk.ReadOnly)
	namer.place(made, disk.Name, disk.Disk.Bus)
	if disk.Disk.PciAddress != "" {
		if disk.Disk.Bus != v1.DiskBusVirtio {
			return failf(field+".disk.pciAddress", "disks on the bus %s have no PCI address", disk.Disk.Bus)
		}
		address, err := pciAddress(disk.Disk.PciAddress)
		if err != nil {
			return failf(field+".disk.pciAddress", "%w", err)
		}
		made.Address = address
	}
	if disk.Disk.Bus == v1.DiskBusVirtio {
		made.Model = b.VirtioModel
	}
	if !isTrue(disk.Shareable) {
		return nil
	}
	if disk.Cache != "" && disk.Cache != v1.CacheNone {
		return failf(field+".cache", "shareable disks need the cache mode none, not %s", disk.Cache)
	}
	made.Driver.Cache, made.Shareable = string(v1.CacheNone), &DomainEmpty{}
	return nil
}

// ownElements adds what KubeVirt notes of the claim of a disk.
func ownElements(made *DomainDisk, claim *v1.PersistentVolumeClaimInfo) {
	if claim.FilesystemOverhead != nil {
		made.FilesystemOverhead = string(*claim.FilesystemOverhead)
	}
	capacity, hasCapacity := claim.Capacity[k8sv1.ResourceStorage]
	requested, hasRequest := claim.Requests[k8sv1.ResourceStorage]
	size, whole := capacity.AsInt64()
	request, wholeRequest := requested.AsInt64()
	if hasCapacity && hasRequest && whole && wholeRequest {
		made.Capacity = pointer(min(size, request))
	}
}

// source sets the file or the device of a disk. A negative index is a CD-ROM without a volume.
func (b *Build) source(made *DomainDisk, index int, element string) error {
	if index < 0 {
		made.Type, made.Driver.Type, made.Driver.Discard = typeBlock, formatRaw, unmap
		return nil
	}
	volume := &b.Volumes[index]
	b.from(element+"/source", fmt.Sprintf("spec.volumes[%d]", index))
	b.from(element+"@type", fmt.Sprintf("spec.volumes[%d]", index))
	if _, hotplugged := b.hotplugged[volume.Name]; hotplugged {
		if volume.HostDisk == nil && volume.PersistentVolumeClaim == nil && volume.DataVolume == nil {
			return failf(fmt.Sprintf("spec.volumes[%d]", index), "the hotplugged volume %s is no claim", volume.Name)
		}
		b.claimSource(made, volume.Name, path.Join(hotplugFolder, volume.Name), path.Join(hotplugFolder, volume.Name+".img"), false)
		return nil
	}
	return b.volumeSource(made, volume, index, element)
}

// volumeSource sets the source of a volume that the pod has from its start.
func (b *Build) volumeSource(made *DomainDisk, volume *v1.Volume, index int, element string) error {
	image := func(format, folder, file string, discard bool) {
		made.Type, made.Driver.Type = typeFile, format
		made.setSource(&DomainDiskSource{File: path.Join(folder, file)})
		if discard {
			made.Driver.Discard = unmap
		}
	}
	iso := func(folder string) { image(formatRaw, privateFolder, path.Join(folder, volume.Name+".iso"), false) }
	overlay := func() {
		image(formatQCOW2, "/var/run/kubevirt-ephemeral-disks/disk-data", path.Join(volume.Name, "disk.qcow2"), true)
	}
	switch {
	case volume.ContainerDisk != nil:
		overlay()
		format := b.Host.ContainerDiskFormats[volume.Name]
		if format == "" {
			format = formatQCOW2
		}
		b.fromHost(element+"/backingStore/format", "containerDiskFormats")
		made.BackingStore = &DomainDiskBackingStore{
			Type: typeFile, Format: &DomainDiskFormat{format}, Source: &DomainDiskSource{File: fmt.Sprintf("%s/disk_%d.img", containerDisks, index)},
		}
	case volume.CloudInitNoCloud != nil:
		image(formatRaw, "/var/run/libvirt/cloud-init-dir", path.Join(b.VMI.Namespace, b.VMI.Name, "noCloud.iso"), false)
	case volume.CloudInitConfigDrive != nil:
		image(formatRaw, "/var/run/libvirt/cloud-init-dir", path.Join(b.VMI.Namespace, b.VMI.Name, "configdrive.iso"), false)
	case volume.Sysprep != nil:
		iso("sysprep-disks")
	case volume.HostDisk != nil:
		b.hostDisk(made, volume)
	case volume.PersistentVolumeClaim != nil, volume.DataVolume != nil:
		b.claimSource(made, volume.Name, path.Join("/dev", volume.Name), claimImage(volume.Name), true)
	case volume.Ephemeral != nil:
		overlay()
		made.BackingStore = &DomainDiskBackingStore{Format: &DomainDiskFormat{formatRaw}}
		if b.isBlock(volume.Name) {
			made.BackingStore.Type, made.BackingStore.Source = typeBlock, &DomainDiskSource{Dev: path.Join("/dev", volume.Name), Name: volume.Name}
		} else {
			made.BackingStore.Type, made.BackingStore.Source = typeFile, &DomainDiskSource{File: claimImage(volume.Name)}
		}
	case volume.EmptyDisk != nil:
		image(formatQCOW2, "/var/run/libvirt/empty-disks", volume.Name+".qcow2", true)
	case volume.ConfigMap != nil:
		iso("config-map-disks")
	case volume.Secret != nil:
		iso("secret-disks")
	case volume.DownwardAPI != nil:
		iso("downwardapi-disks")
	case volume.ServiceAccount != nil:
		image(formatRaw, privateFolder, "service-account-disk/service-account.iso", false)
	case volume.DownwardMetrics != nil:
		made.Driver = &DomainDiskDriver{Name: "qemu"}
		image(formatRaw, privateFolder, "downwardapi-disks/vhostmd0", false)
		made.ReadOnly, made.Model = &DomainEmpty{}, b.VirtioModel
	default:
		return failf(fmt.Sprintf("spec.volumes[%d]", index), "the volume %s cannot be a disk", volume.Name)
	}
	return nil
}

// setSource sets the source, and keeps reservations.
func (d *DomainDisk) setSource(source *DomainDiskSource) {
	if d.Source != nil {
		source.Reservations = d.Source.Reservations
	}
	d.Source = source
}

// isBlock reports whether a volume is a block device in the pod.
func (b *Build) isBlock(volume string) bool {
	claim := b.claims[volume]
	return claim != nil && isBlock(claim) || slices.Contains(b.Host.BlockVolumes, volume)
}

// claimSource sets the source of a claim. If changed blocks are tracked, it is an overlay with only metadata.
func (b *Build) claimSource(made *DomainDisk, volume, device, image string, named bool) {
	data, kind := &DomainDiskSource{File: image}, typeFile
	if b.isBlock(volume) {
		data, kind = &DomainDiskSource{Dev: device}, typeBlock
	}
	if !b.tracked() {
		if kind == typeBlock && named {
			data.Name = volume
		}
		made.Type, made.Driver.Type = kind, formatRaw
		made.setSource(data)
		return
	}
	source := b.overlay(volume, kind, data)
	if kind == typeBlock && named {
		source.Name = volume
	}
	made.Type, made.Driver.Type = typeFile, formatQCOW2
	made.setSource(source)
}

// tracked reports whether changed blocks are tracked.
func (b *Build) tracked() bool {
	status := b.VMI.Status.ChangedBlockTracking
	return status != nil && (status.State == v1.ChangedBlockTrackingEnabled || status.State == v1.ChangedBlockTrackingInitializing)
}

func (b *Build) overlay(volume, kind string, data *DomainDiskSource) *DomainDiskSource {
	return &DomainDiskSource{
		File:      path.Join(b.stateFolder(), "qemu", "cbt", volume+".qcow2"),
		DataStore: &DomainDiskDataStore{Type: kind, Format: &DomainDiskFormat{formatRaw}, Source: data},
	}
}

func (b *Build) hostDisk(made *DomainDisk, volume *v1.Volume) {
	data := &DomainDiskSource{File: path.Join(privateFolder, "vmi-disks", volume.Name, path.Base(volume.HostDisk.Path))}
	made.Type, made.Driver.Type = typeFile, formatRaw
	if b.tracked() {
		made.Driver.Type, data = formatQCOW2, b.overlay(volume.Name, typeFile, data)
	}
	made.setSource(data)
}

// blockSizes sets stated block sizes, or those of the volume. virt-launcher reads the latter before it makes an overlay.
func (b *Build) blockSizes(disk *v1.Disk, made *DomainDisk, element, field string) error {
	if disk.BlockSize == nil {
		return nil
	}
	field += ".blockSize"
	b.from(element+"/blockio", field)
	if custom := disk.BlockSize.Custom; custom != nil {
		if b.Architecture.Name == s390x().Name && max(custom.Logical, custom.Physical) > maxBlockS390x {
			return failf(field+".custom", "block sizes on s390x are at most %d", maxBlockS390x)
		}
		made.BlockIO = &DomainDiskBlockIO{LogicalBlockSize: custom.Logical, PhysicalBlockSize: custom.Physical, DiscardGranularity: custom.DiscardGranularity}
		return nil
	}
	match := disk.BlockSize.MatchVolume
	if match == nil || isFalse(match.Enabled) {
		return nil
	}
	file, block := made.backend()
	if _, exists := b.Host.Files[file]; !exists && !block {
		return failf(field+".matchVolume", "the image %s does not exist when virt-launcher reads the block size", file)
	}
	b.fromHost(element+"/blockio", "blockSize")
	size := b.Host.BlockSize
	if size == 0 {
		size = defaultBlock
	}
	made.BlockIO = &DomainDiskBlockIO{LogicalBlockSize: size, PhysicalBlockSize: size, DiscardGranularity: &size}
	return nil
}

// backend is the file or the device with the data of a disk; empty without a source.
func (d *DomainDisk) backend() (file string, block bool) {
	source := d.Source
	if source == nil {
		return "", false
	}
	if source.DataStore != nil {
		source = source.DataStore.Source
	}
	if source.File == "" {
		return source.Dev, source.Dev != ""
	}
	return source.File, false
}

func diskErrorPolicy(disk *v1.Disk, made *DomainDisk, field string) error {
	made.Driver.ErrorPolicy = errorPolicy
	if disk.ErrorPolicy == nil {
		return nil
	}
	switch *disk.ErrorPolicy {
	case v1.DiskErrorPolicyStop, v1.DiskErrorPolicyIgnore, v1.DiskErrorPolicyReport, v1.DiskErrorPolicyEnospace:
		made.Driver.ErrorPolicy = string(*disk.ErrorPolicy)
		return nil
	}
	return failf(field+".errorPolicy", "%q is not supported", *disk.ErrorPolicy)
}

// diskThread gives a virtio disk its I/O thread, and returns the next dedicated thread and the next shared one.
func (b *Build) diskThread(disk *v1.Disk, made *DomainDisk, element, field string, dedicated, auto uint) (nextDedicated, nextAuto uint) {
	if !b.ioThreads.used || made.Target.Bus != string(v1.DiskBusVirtio) {
		return dedicated, auto
	}
	switch {
	case b.ioThreads.pool > 0:
		list := make([]DomainDiskIOThread, b.ioThreads.pool)
		for i := range list {
			list[i].ID = uint(i) + 1
		}
		made.Driver.IOThreads = &DomainDiskIOThreads{IOThread: list}
		b.from(element+"/driver/iothreads", fieldDomain+"ioThreads")
	case isDedicated(disk):
		made.Driver.IOThread = pointer(dedicated)
		dedicated++
		b.from(element+"/driver@iothread", field+".dedicatedIOThread")
	default:
		made.Driver.IOThread = pointer(auto)
		auto = auto%max(b.ioThreads.auto, 1) + 1
		b.from(element+"/driver@iothread", fieldDomain+"ioThreadsPolicy")
	}
	return dedicated, auto
}

// prepareDisks sets the cache mode and the I/O mode of disks, by whether their files support O_DIRECT and are allocated in full.
func (b *Build) prepareDisks() error {
	for i := range b.Domain.Devices.Disks {
		disk := &b.Domain.Devices.Disks[i]
		file, block := disk.backend()
		if file == "" {
			if disk.Device == deviceCDROM {
				continue
			}
			return failf("", "the disk %s has no source", disk.Alias.Name)
		}
		direct := !pathHas(b.Host.NoDirectIO, file)
		if disk.BackingStore != nil && pathHas(b.Host.NoDirectIO, disk.BackingStore.Source.File) {
			direct = false
		}
		switch driver := disk.Driver; {
		case driver.Cache == string(v1.CacheNone) && !direct:
			return failf("", "the file system of %s does not support O_DIRECT, which the cache mode none needs", file)
		case driver.Cache != "":
		case direct:
			driver.Cache = string(v1.CacheNone)
			b.fromHost(b.item("devices/disk", i, "/driver@cache"), "noDirectIO")
		default:
			driver.Cache = string(v1.CacheWriteThrough)
			b.fromHost(b.item("devices/disk", i, "/driver@cache"), "noDirectIO")
		}
		if disk.Driver.IO == "" && disk.Driver.Cache == string(v1.CacheNone) && (block || pathHas(b.Host.PreallocatedImages, file)) {
			disk.Driver.IO = string(v1.IONative)
			b.fromHost(b.item("devices/disk", i, "/driver@io"), "preallocatedImages")
		}
	}
	return nil
}

// prepare is what virt-launcher does between the conversion and the definition.
func (b *Build) prepare() error {
	b.prepareInterfaces()
	return b.prepareDisks()
}

// maxNames bounds the names of disks with one prefix, as KubeVirt does.
const maxNames = 26 * 26 * 26

// diskNamer names disks in the guest: vda, sda. Disks that run keep their names.
type diskNamer struct {
	// names are the names of volumes that have one, and used the names that are in use.
	names map[string]string
	used  map[string]bool
	next  map[string]int
}

func newNamer(vmi *v1.VirtualMachineInstance) *diskNamer {
	namer := &diskNamer{names: map[string]string{}, used: map[string]bool{}, next: map[string]int{}}
	for i := range vmi.Status.VolumeStatus {
		if status := &vmi.Status.VolumeStatus[i]; status.Target != "" {
			namer.names[status.Name], namer.used[status.Target] = status.Target, true
		}
	}
	return namer
}

// place gives a disk its bus and its name, and one on a SCSI bus the address of that name.
func (n *diskNamer) place(made *DomainDisk, name string, bus v1.DiskBus) {
	made.Target.Bus = string(bus)
	prefix := "sd"
	switch bus {
	case v1.DiskBusVirtio:
		prefix = "vd"
	case v1.DiskBusSATA, v1.DiskBusSCSI, v1.DiskBusUSB:
	default:
		prefix = ""
	}
	var index int
	made.Target.Dev, index = n.name(prefix, name)
	if bus == v1.DiskBusSCSI {
		made.Address = &DomainAddress{Type: "drive", Controller: "0", Bus: "0", Unit: strconv.Itoa(index)}
	}
}

func (n *diskNamer) name(prefix, volume string) (name string, index int) {
	if name, named := n.names[volume]; named {
		return name, indexOf(prefix, name)
	}
	for ; n.next[prefix] < maxNames; n.next[prefix]++ {
		index := n.next[prefix]
		if name := nameAt(prefix, index); !n.used[name] {
			n.names[volume], n.used[name] = name, true
			return name, index
		}
	}
	return "", 0
}

const letters = 26

// nameAt is the name at an index: sda, sdz, sdaa.
func nameAt(prefix string, index int) string {
	name := ""
	for ; index >= 0; index = index/letters - 1 {
		name = string(rune('a'+index%letters)) + name
	}
	return prefix + name
}

// indexOf is the inverse of nameAt; 0 for other names.
func indexOf(prefix, name string) int {
	index := 0
	for _, letter := range name[min(len(prefix), len(name)):] {
		if letter < 'a' || letter > 'z' || index > maxNames {
			return 0
		}
		index = index*letters + int(letter-'a') + 1
	}
	if index == 0 || nameAt(prefix, index-1) != name {
		return 0
	}
	return index - 1
}

// controllers makes the controllers of USB, SCSI, PCI and serial ports.
func controllers(b *Build) error {
	devices := &b.VMI.Spec.Domain.Devices
	model := "none"
	if b.Architecture.USB(b) {
		model = "qemu-xhci"
	}
	list := []DomainController{{Type: "usb", Model: model}}
	driver := func() *DomainControllerDriver {
		if b.IOMMU == "" {
			return nil
		}
		return &DomainControllerDriver{IOMMU: b.IOMMU}
	}
	if !devices.DisableHotplug || slices.ContainsFunc(devices.Disks, func(d v1.Disk) bool { return busOf(&d) == v1.DiskBusSCSI }) {
		scsi := DomainController{Type: "scsi", Model: b.VirtioModel, Driver: b.scsiThread(driver())}
		if b.Architecture.PlainVirtio {
			scsi.Model = "virtio-scsi"
		}
		b.from(b.item("devices/controller", len(list), ""), fieldDevices+"disableHotplug")
		list = append(list, scsi)
	}
	if b.Architecture.PCIHole64 && strings.EqualFold(b.VMI.Annotations[v1.DisablePCIHole64], "true") {
		list = append(list, DomainController{Type: "pci", Model: pcieRoot, Hole64: &DomainControllerPCIHole64{Unit: "KiB"}})
	}
	if !isFalse(devices.AutoattachSerialConsole) {
		b.from(b.item("devices/controller", len(list), ""), fieldDevices+"autoattachSerialConsole")
		list = append(list, DomainController{Type: "virtio-serial", Model: b.VirtioModel, Driver: driver()})
	}
	b.Domain.Devices.Controllers = list
	return nil
}

func busOf(disk *v1.Disk) v1.DiskBus {
	switch {
	case disk.LUN != nil:
		return disk.LUN.Bus
	case disk.Disk != nil:
		return disk.Disk.Bus
	case disk.CDRom != nil:
		return disk.CDRom.Bus
	}
	return ""
}

// scsiThread gives the SCSI controller an I/O thread if a SCSI disk has one of its own.
func (b *Build) scsiThread(driver *DomainControllerDriver) *DomainControllerDriver {
	list := b.VMI.Spec.Domain.Devices.Disks
	if b.ioThreads.auto == 0 || !slices.ContainsFunc(list, func(d v1.Disk) bool { return busOf(&d) == v1.DiskBusSCSI && isDedicated(&d) }) {
		return driver
	}
	if driver == nil {
		driver = &DomainControllerDriver{}
	}
	thread := uint(1)
	for i := range list {
		if busOf(&list[i]) == v1.DiskBusVirtio && !isDedicated(&list[i]) {
			thread = thread%b.ioThreads.auto + 1
		}
	}
	driver.IOThread, driver.Queues = &thread, pointer(max(b.VCPUs, 1))
	return driver
}
