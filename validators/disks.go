package validators

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

const (
	// storageListMax is how many disks, and how many volumes, a VM may have.
	storageListMax = 256
	// diskSerialMax is the longest serial number, in characters.
	diskSerialMax = 256
	// Block sizes in bytes.
	blockSizeMin = 512
	blockSizeMax = 2 << 20
)

// gateDeclarativeHotplugVolumes is the feature gate of CD-ROM drives that are empty.
const gateDeclarativeHotplugVolumes = "DeclarativeHotplugVolumes"

// cacheDirectSync is younger than the API that this is built with.
const cacheDirectSync v1.DriverCache = "directsync"

// diskBusIDE is a bus that people ask for, and that KubeVirt does not have.
const diskBusIDE v1.DiskBus = "ide"

var (
	diskSerialPattern = regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)
	diskPCIPattern    = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)
)

func diskRules() Table {
	return Scoped(OnSpec,
		diskCountRule,
		diskNamesUniqueRule,
		diskNameLabelRule,
		diskHasVolumeRule,
		diskOneTargetRule,
		diskBusKnownRule,
		diskCDROMBusRule,
		diskSATAWritableRule,
		diskPCIBusRule,
		diskPCIAddressRule,
		bootOrderPositiveRule,
		bootOrderUniqueRule,
		diskIOThreadBusRule,
		diskSerialCharactersRule,
		diskSerialLengthRule,
		diskCacheKnownRule,
		diskIOKnownRule,
		diskErrorPolicyKnownRule,
		blockSizeOneSourceRule,
		blockSizeLogicalRule,
		blockSizeSATARule,
		blockSizeDiscardRule,
		blockSizeRangeRule,
		diskLUNSourceRule,
		diskReservationBusRule,
		diskReservationEnabledRule,
		diskDownwardMetricsRule,
	)
}

// diskAt is the position of a disk. The path is made only for a finding: most disks have none.
type diskAt struct {
	s     *Subject
	index int
}

func (at diskAt) path(names ...string) *field.Path {
	path := at.s.Devices().Child("disks").Index(at.index)
	for _, name := range names {
		path = path.Child(name)
	}
	return path
}

// bus is the path of the disk's bus.
func (at diskAt) bus(d *v1.Disk) *field.Path {
	kind, _ := diskDevice(d)
	return at.path(kind, "bus")
}

// disksOf are the disks to look at one by one: none where the lists are so long that only their length matters.
func disksOf(s *Subject) []v1.Disk {
	if tooLong(s) {
		return nil
	}
	return s.Spec.Domain.Devices.Disks
}

func tooLong(s *Subject) bool {
	return len(s.Spec.Domain.Devices.Disks) > storageListMax || len(s.Spec.Volumes) > storageListMax
}

// eachDisk makes a rule of a check of one disk.
func eachDisk(check func(*v1.Disk, diskAt) *field.Error) func(*Subject, *Errors) {
	return func(s *Subject, found *Errors) {
		disks := disksOf(s)
		for i := range disks {
			found.Add(check(&disks[i], diskAt{s, i}))
		}
	}
}

// diskDevice is how a disk is shown, and on which bus. Where several are given, the first counts.
func diskDevice(d *v1.Disk) (kind string, bus v1.DiskBus) {
	switch {
	case d.Disk != nil:
		return "disk", d.Disk.Bus
	case d.LUN != nil:
		return "lun", d.LUN.Bus
	case d.CDRom != nil:
		return "cdrom", d.CDRom.Bus
	}
	return "", ""
}

var diskCountRule = Rule{
	ID:     "disk-count",
	Title:  "A VM has at most 256 disks",
	Remedy: "Remove disks, or spread the data over several VMs.",
	Check:  diskCount,
}

func diskCount(s *Subject, found *Errors) {
	if n := len(s.Spec.Domain.Devices.Disks); n > storageListMax {
		found.Add(field.Invalid(s.Devices().Child("disks"), n, fmt.Sprintf("a VM may have at most %d disks", storageListMax)))
	}
}

var diskNamesUniqueRule = Rule{
	ID:     "disk-names-unique",
	Title:  "No two disks have the same name",
	Remedy: "Give each disk the name of its own volume.",
	Check:  diskNamesUnique,
}

func diskNamesUnique(s *Subject, found *Errors) {
	disks := disksOf(s)
	eachRepeated(len(disks), func(i int) string { return disks[i].Name }, func(i, first int) *field.Error {
		return field.Invalid(diskAt{s, i}.path("name"), disks[i].Name, fmt.Sprintf("disks[%d] already has this name", first))
	}, found)
}

var diskNameLabelRule = Rule{
	ID:     "disk-name-label",
	Title:  "The name of a disk is a DNS label",
	Remedy: "Rename the disk and its volume: 1 to 63 lower-case letters, digits and '-', with a letter or digit at both ends.",
	Check:  eachDisk(diskNameLabel),
}

func diskNameLabel(d *v1.Disk, at diskAt) *field.Error {
	if len(validation.IsDNS1123Label(d.Name)) == 0 {
		return nil
	}
	return field.Invalid(at.path("name"), d.Name, "must be a DNS label, because a container can have this name")
}

var diskHasVolumeRule = Rule{
	ID:     "disk-has-volume",
	Title:  "Each disk has a volume with the same name",
	Remedy: "Add a volume with the name of the disk, or remove the disk.",
	Check:  diskHasVolume,
}

func diskHasVolume(s *Subject, found *Errors) {
	disks := disksOf(s)
	if len(disks) == 0 {
		return
	}
	volumes := volumesByName(s)
	for i := range disks {
		d := &disks[i]
		switch {
		case volumes[d.Name] != nil:
		case d.CDRom == nil:
			found.Add(field.Invalid(diskAt{s, i}.path("name"), d.Name, "there is no volume with this name"))
		case !s.Facts.GateEnabled(gateDeclarativeHotplugVolumes):
			found.Add(field.Invalid(diskAt{s, i}.path("name"), d.Name, "there is no volume with this name; an empty CD-ROM drive needs the feature gate "+gateDeclarativeHotplugVolumes))
		}
	}
}

var diskOneTargetRule = Rule{
	ID:     "disk-one-target",
	Title:  "A disk is attached as one kind of device",
	Remedy: "Keep one of disk, lun and cdrom.",
	Check:  eachDisk(diskOneTarget),
}

func diskOneTarget(d *v1.Disk, at diskAt) *field.Error {
	targets := 0
	for _, set := range []bool{d.Disk != nil, d.LUN != nil, d.CDRom != nil} {
		if set {
			targets++
		}
	}
	if targets < 2 {
		return nil
	}
	return field.Invalid(at.path(), d.Name, fmt.Sprintf("%d of disk, lun and cdrom are set", targets))
}

var diskBusKnownRule = Rule{
	ID:     "disk-bus-known",
	Title:  "The bus of a disk is known",
	Remedy: "Set bus to a supported value; virtio is the fastest.",
	Check:  eachDisk(diskBusKnown),
}

func diskBusKnown(d *v1.Disk, at diskAt) *field.Error {
	switch _, bus := diskDevice(d); bus {
	case "", v1.DiskBusVirtio, v1.DiskBusSCSI, v1.DiskBusSATA, v1.DiskBusUSB:
		return nil
	case diskBusIDE:
		return field.Invalid(at.bus(d), bus, "KubeVirt has no ide bus, but the similar sata")
	default:
		return unknown(at.bus(d), bus, "the bus", diskBuses)
	}
}

var diskCDROMBusRule = Rule{
	ID:            "disk-cdrom-bus",
	Title:         "A CD-ROM is not on the virtio bus",
	Remedy:        "Set the bus to sata, scsi or usb.",
	ReadsDefaults: true,
	Check:         eachDisk(diskCDROMBus),
}

func diskCDROMBus(d *v1.Disk, at diskAt) *field.Error {
	if kind, bus := diskDevice(d); kind != "cdrom" || bus != v1.DiskBusVirtio {
		return nil
	}
	return field.Invalid(at.bus(d), v1.DiskBusVirtio, "a CD-ROM drive cannot be on the virtio bus")
}

var diskSATAWritableRule = Rule{
	ID:            "disk-sata-writable",
	Title:         "A disk on the sata bus is writable",
	Remedy:        "Use the virtio or scsi bus for a read-only disk, or make it a CD-ROM.",
	ReadsDefaults: true,
	Check:         eachDisk(diskSATAWritable),
}

func diskSATAWritable(d *v1.Disk, at diskAt) *field.Error {
	if d.Disk == nil || d.Disk.Bus != v1.DiskBusSATA || !d.Disk.ReadOnly {
		return nil
	}
	return field.Invalid(at.bus(d), v1.DiskBusSATA, "a disk on the sata bus cannot be read-only")
}

var diskPCIBusRule = Rule{
	ID:            "disk-pci-bus",
	Title:         "Only a disk on the virtio bus has a PCI address",
	Remedy:        "Set the bus to virtio, or leave the PCI address to KubeVirt.",
	ReadsDefaults: true,
	Check:         eachDisk(diskPCIBus),
}

func diskPCIBus(d *v1.Disk, at diskAt) *field.Error {
	if d.Disk == nil || d.Disk.PciAddress == "" || d.Disk.Bus == v1.DiskBusVirtio {
		return nil
	}
	return field.Invalid(at.path("disk", "pciAddress"), d.Disk.PciAddress, fmt.Sprintf("a PCI address needs the bus virtio, and the bus is %q", d.Disk.Bus))
}

var diskPCIAddressRule = Rule{
	ID:     "disk-pci-address",
	Title:  "The PCI address of a disk is well-formed",
	Remedy: "Write it as domain:bus:slot.function in hexadecimal, such as 0000:81:01.0.",
	Check:  eachDisk(diskPCIAddress),
}

func diskPCIAddress(d *v1.Disk, at diskAt) *field.Error {
	if d.Disk == nil || d.Disk.PciAddress == "" || diskPCIPattern.MatchString(d.Disk.PciAddress) {
		return nil
	}
	return field.Invalid(at.path("disk", "pciAddress"), d.Disk.PciAddress, "is not a PCI address")
}

const bootOrderFromOne = "must be at least 1"

var bootOrderPositiveRule = Rule{
	ID:     "boot-order-positive",
	Title:  "Boot orders are positive",
	Remedy: "Number the boot devices from 1, or leave the boot order out.",
	Check:  bootOrderPositive,
}

func bootOrderPositive(s *Subject, found *Errors) {
	disks := disksOf(s)
	for i := range disks {
		if order := disks[i].BootOrder; order != nil && *order == 0 {
			found.Add(field.Invalid(diskAt{s, i}.path("bootOrder"), *order, bootOrderFromOne))
		}
	}
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range found.Each(len(interfaces)) {
		if order := interfaces[i].BootOrder; order != nil && *order == 0 {
			found.Add(field.Invalid(interfaceBootOrder(s, i), *order, bootOrderFromOne))
		}
	}
}

// bootDevice is a disk or an interface that has a boot order.
type bootDevice struct {
	list, name string
	index      int
	order      uint
	// rank is 0 of a disk, 1 of the interface of the pod network, 2 of any other.
	rank int
}

var bootOrderUniqueRule = Rule{
	ID:     "boot-order-unique",
	Title:  "No two devices have the same boot order",
	Remedy: "Give each disk and interface a boot order of its own, or none.",
	Check:  bootOrderUnique,
}

// bootOrderUnique reports all devices with the same boot order, except the first by rank and name. So the findings do
// not depend on the order of the lists.
func bootOrderUnique(s *Subject, found *Errors) {
	devices := bootDevices(s)
	if len(devices) < 2 {
		return
	}
	slices.SortFunc(devices, func(a, b bootDevice) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name), cmp.Compare(a.index, b.index))
	})
	first := 0
	for i := range found.Each(len(devices)) {
		d, by := &devices[i], &devices[first]
		switch {
		case i == first:
		case d.order != by.order:
			first = i
		default:
			found.Add(field.Invalid(s.Devices().Child(d.list).Index(d.index).Child("bootOrder"), d.order, fmt.Sprintf("%s[%d] has the same boot order", by.list, by.index)))
		}
	}
}

// bootDevices leaves out the order 0, which is another rule's.
func bootDevices(s *Subject) (devices []bootDevice) {
	disks := disksOf(s)
	for i := range disks {
		if order := disks[i].BootOrder; order != nil && *order != 0 {
			devices = append(devices, bootDevice{list: "disks", name: disks[i].Name, index: i, order: *order})
		}
	}
	interfaces, byName := s.Spec.Domain.Devices.Interfaces, networkByName(s)
	for i := range interfaces {
		if order := interfaces[i].BootOrder; order != nil && *order != 0 {
			d := bootDevice{list: "interfaces", name: interfaces[i].Name, index: i, order: *order, rank: 2}
			if isPodNetwork(byName(d.name)) {
				d.rank = 1
			}
			devices = append(devices, d)
		}
	}
	return devices
}

func interfaceBootOrder(s *Subject, index int) *field.Path {
	return interfacePath(s, index).Child("bootOrder")
}

var diskIOThreadBusRule = Rule{
	ID:            "disk-iothread-bus",
	Title:         "Only a disk on the virtio bus has an I/O thread of its own",
	Remedy:        "Set the bus to virtio, or remove dedicatedIOThread.",
	ReadsDefaults: true,
	Check:         eachDisk(diskIOThreadBus),
}

func diskIOThreadBus(d *v1.Disk, at diskAt) *field.Error {
	_, bus := diskDevice(d)
	if d.DedicatedIOThread == nil || !*d.DedicatedIOThread || bus == "" || bus == v1.DiskBusVirtio {
		return nil
	}
	return &field.Error{
		Type: field.ErrorTypeNotSupported, Field: at.path("dedicatedIOThread").String(), BadValue: true,
		Detail: fmt.Sprintf("an I/O thread needs the bus virtio, and the bus is %q", bus),
	}
}

var diskSerialCharactersRule = Rule{
	ID:     "disk-serial-characters",
	Title:  "A disk's serial number has only allowed characters",
	Remedy: "Use letters, digits and _ . + - in the serial number.",
	Check:  eachDisk(diskSerialCharacters),
}

func diskSerialCharacters(d *v1.Disk, at diskAt) *field.Error {
	if d.Serial == "" || diskSerialPattern.MatchString(d.Serial) {
		return nil
	}
	return field.Invalid(at.path("serial"), d.Serial, "has characters that are not allowed")
}

var diskSerialLengthRule = Rule{
	ID:     "disk-serial-length",
	Title:  "A disk's serial number has at most 256 characters",
	Remedy: "Shorten the serial number.",
	Check:  eachDisk(diskSerialLength),
}

func diskSerialLength(d *v1.Disk, at diskAt) *field.Error {
	if len(d.Serial) <= diskSerialMax { // bytes are never fewer than characters
		return nil
	}
	if n := len([]rune(d.Serial)); n > diskSerialMax {
		return field.Invalid(at.path("serial"), string([]rune(d.Serial)[:32])+"…", fmt.Sprintf("the serial number has %d characters, more than %d", n, diskSerialMax))
	}
	return nil
}

var diskCacheKnownRule = Rule{
	ID:     "disk-cache-known",
	Title:  "The cache mode of a disk is known",
	Remedy: "Set cache to a supported value, or leave it out.",
	Check:  eachDisk(diskCacheKnown),
}

func diskCacheKnown(d *v1.Disk, at diskAt) *field.Error {
	if d.Cache == "" || slices.Contains(diskCaches, d.Cache) {
		return nil
	}
	return unknown(at.path("cache"), d.Cache, "the cache mode", diskCaches)
}

var (
	diskCaches        = []v1.DriverCache{v1.CacheNone, v1.CacheWriteThrough, v1.CacheWriteBack, cacheDirectSync}
	diskErrorPolicies = []v1.DiskErrorPolicy{v1.DiskErrorPolicyStop, v1.DiskErrorPolicyIgnore, v1.DiskErrorPolicyReport, v1.DiskErrorPolicyEnospace}
)

var diskIOKnownRule = Rule{
	ID:     "disk-io-known",
	Title:  "The I/O mode of a disk is known",
	Remedy: "Set io to a supported value, or leave it out.",
	Check:  eachDisk(diskIOKnown),
}

func diskIOKnown(d *v1.Disk, at diskAt) *field.Error {
	switch d.IO {
	case "", v1.IONative, v1.IOThreads:
		return nil
	}
	return field.NotSupported(at.path("io"), d.IO, []v1.DriverIO{v1.IONative, v1.IOThreads})
}

var diskErrorPolicyKnownRule = Rule{
	ID:     "disk-error-policy-known",
	Title:  "The error policy of a disk is known",
	Remedy: "Set errorPolicy to a supported value, or leave it out.",
	Check:  eachDisk(diskErrorPolicyKnown),
}

func diskErrorPolicyKnown(d *v1.Disk, at diskAt) *field.Error {
	if d.ErrorPolicy == nil || slices.Contains(diskErrorPolicies, *d.ErrorPolicy) {
		return nil
	}
	return unknown(at.path("errorPolicy"), *d.ErrorPolicy, "the error policy", diskErrorPolicies)
}

// matchesVolume reports whether a disk takes its block sizes from its volume.
func matchesVolume(size *v1.BlockSize) bool {
	return size.MatchVolume != nil && (size.MatchVolume.Enabled == nil || *size.MatchVolume.Enabled)
}

// customBlockSize is what a disk says of its block sizes; nil if it says nothing, or contradicts itself.
func customBlockSize(d *v1.Disk) *v1.CustomBlockSize {
	if d.BlockSize == nil || matchesVolume(d.BlockSize) {
		return nil
	}
	return d.BlockSize.Custom
}

var blockSizeOneSourceRule = Rule{
	ID:     "disk-block-size-one-source",
	Title:  "A disk's block sizes are either given or taken from the volume",
	Remedy: "Keep one of blockSize.custom and blockSize.matchVolume.",
	Check:  eachDisk(blockSizeOneSource),
}

func blockSizeOneSource(d *v1.Disk, at diskAt) *field.Error {
	if d.BlockSize == nil || d.BlockSize.Custom == nil || !matchesVolume(d.BlockSize) {
		return nil
	}
	return field.Invalid(at.path("blockSize"), "custom and matchVolume", "both are set")
}

// The faults of block sizes exclude one another: after one, the next would say the same in other words.

func logicalAbovePhysical(size *v1.CustomBlockSize) bool { return size.Logical > size.Physical }

func logicalNotSATA(d *v1.Disk, size *v1.CustomBlockSize) bool {
	_, bus := diskDevice(d)
	return bus == v1.DiskBusSATA && size.Logical != blockSizeMin
}

func discardNotMultiple(size *v1.CustomBlockSize) bool {
	return size.DiscardGranularity != nil && size.Logical != 0 && *size.DiscardGranularity%size.Logical != 0
}

var blockSizeLogicalRule = Rule{
	ID:     "disk-block-size-logical",
	Title:  "A disk's logical block size is not above the physical one",
	Remedy: "Lower the logical block size, or raise the physical one.",
	Check:  eachDisk(blockSizeLogical),
}

func blockSizeLogical(d *v1.Disk, at diskAt) *field.Error {
	size := customBlockSize(d)
	if size == nil || !logicalAbovePhysical(size) {
		return nil
	}
	return field.Invalid(at.path("blockSize", "custom", "logical"), size.Logical, fmt.Sprintf("the logical block size must not be above the physical one, which is %d", size.Physical))
}

var blockSizeSATARule = Rule{
	ID:            "disk-block-size-sata",
	Title:         "A disk on the sata bus has logical blocks of 512 bytes",
	Remedy:        "Correct the logical block size, or use the virtio or scsi bus.",
	ReadsDefaults: true,
	Check:         eachDisk(blockSizeSATA),
}

func blockSizeSATA(d *v1.Disk, at diskAt) *field.Error {
	size := customBlockSize(d)
	if size == nil || logicalAbovePhysical(size) || !logicalNotSATA(d, size) {
		return nil
	}
	return field.Invalid(at.path("blockSize", "custom", "logical"), size.Logical, fmt.Sprintf("on the sata bus the logical block size must be %d", blockSizeMin))
}

var blockSizeDiscardRule = Rule{
	ID:     "disk-block-size-discard",
	Title:  "A disk's discard granularity is a multiple of its logical block size",
	Remedy: "Correct the discard granularity or the logical block size.",
	Check:  eachDisk(blockSizeDiscard),
}

func blockSizeDiscard(d *v1.Disk, at diskAt) *field.Error {
	size := customBlockSize(d)
	if size == nil || logicalAbovePhysical(size) || logicalNotSATA(d, size) || !discardNotMultiple(size) {
		return nil
	}
	return field.Invalid(at.path("blockSize", "custom", "discardGranularity"), *size.DiscardGranularity, fmt.Sprintf("the discard granularity must be a multiple of the logical block size, which is %d", size.Logical))
}

var blockSizeRangeRule = Rule{
	ID:     "disk-block-size-range",
	Title:  "A disk's block sizes are powers of two from 512 bytes to 2 MiB",
	Remedy: "Use a common size, such as 512 or 4096.",
	Check:  blockSizeRange,
}

func blockSizeRange(s *Subject, found *Errors) {
	disks := disksOf(s)
	for i := range disks {
		size := customBlockSize(&disks[i])
		if size == nil || logicalAbovePhysical(size) || logicalNotSATA(&disks[i], size) || discardNotMultiple(size) {
			continue
		}
		for _, one := range []struct {
			name  string
			bytes uint
		}{{"logical", size.Logical}, {"physical", size.Physical}} {
			if one.bytes < blockSizeMin || one.bytes > blockSizeMax || one.bytes&(one.bytes-1) != 0 {
				path := diskAt{s, i}.path("blockSize", "custom", one.name)
				found.Add(field.Invalid(path, one.bytes, fmt.Sprintf("a block size must be a power of two from %d to %d", blockSizeMin, blockSizeMax)))
			}
		}
	}
}

var diskLUNSourceRule = Rule{
	ID:     "disk-lun-source",
	Title:  "The volume of a LUN is a PersistentVolumeClaim or a DataVolume",
	Remedy: "Use disk instead of lun, or another volume.",
	Check:  diskLUNSource,
}

func diskLUNSource(s *Subject, found *Errors) {
	var volumes map[string]*v1.Volume
	disks := disksOf(s)
	for i := range disks {
		if disks[i].LUN == nil {
			continue
		}
		if volumes == nil {
			volumes = volumesByName(s)
		}
		if volume := volumes[disks[i].Name]; volume != nil && !onClaim(volume) {
			found.Add(field.Invalid(diskAt{s, i}.path("lun"), disks[i].Name, "the volume of this name is neither a persistentVolumeClaim nor a dataVolume"))
		}
	}
}

var diskReservationBusRule = Rule{
	ID:     "disk-reservation-bus",
	Title:  "A LUN with persistent reservations is on the scsi bus",
	Remedy: "Set the LUN's bus to scsi, or remove reservation.",
	Check:  eachDisk(diskReservationBus),
}

func diskReservationBus(d *v1.Disk, at diskAt) *field.Error {
	if d.LUN == nil || !d.LUN.Reservation || d.LUN.Bus == v1.DiskBusSCSI {
		return nil
	}
	return field.Invalid(at.path("lun", "bus"), d.LUN.Bus, "persistent reservations need the bus scsi")
}

var diskReservationEnabledRule = Rule{
	ID:       "disk-reservation-enabled",
	Title:    "Persistent reservations are enabled in the cluster",
	Remedy:   "Remove reservation, or set persistentReservationConfiguration.enabled in the KubeVirt resource.",
	Security: true,
	Check:    diskReservationEnabled,
}

// diskReservationEnabled asks the configuration: the feature gate of this name does nothing any more.
func diskReservationEnabled(s *Subject, found *Errors) {
	config := s.Facts.Configuration.PersistentReservationConfiguration
	if config != nil && config.Enabled != nil && *config.Enabled {
		return
	}
	disks := disksOf(s)
	for i := range disks {
		if lun := disks[i].LUN; lun != nil && lun.Reservation {
			found.Add(field.Invalid(diskAt{s, i}.path("lun", "reservation"), true, "persistent reservations are not enabled in this cluster"))
		}
	}
}

var diskDownwardMetricsRule = Rule{
	ID:            "disk-downward-metrics",
	Title:         "A downwardMetrics volume is attached as a disk on the virtio bus",
	Remedy:        "Show the volume as a disk with the bus virtio.",
	ReadsDefaults: true,
	Check:         diskDownwardMetrics,
}

func diskDownwardMetrics(s *Subject, found *Errors) {
	if !slices.ContainsFunc(s.Spec.Volumes, func(v v1.Volume) bool { return v.DownwardMetrics != nil }) {
		return
	}
	volumes := volumesByName(s)
	disks := disksOf(s)
	for i := range disks {
		d := &disks[i]
		switch volume := volumes[d.Name]; {
		case volume == nil || volume.DownwardMetrics == nil:
		case d.Disk == nil:
			found.Add(field.Required(diskAt{s, i}.path("disk"), "a downwardMetrics volume must be shown as a disk"))
		case d.Disk.Bus != v1.DiskBusVirtio && d.Disk.Bus != "":
			found.Add(field.Invalid(diskAt{s, i}.path("disk", "bus"), d.Disk.Bus, "a downwardMetrics volume must be on the bus virtio"))
		}
	}
}
