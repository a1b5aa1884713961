package validators

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Feature gates that volumes depend on.
const (
	gateContainerPathVolumes   = "ContainerPathVolumes"
	gateHostDisk               = "HostDisk"
	gateVirtioFSStorageVolumes = "EnableVirtioFsStorageVolumes"
)

// reservedContainerPaths are where KubeVirt's own parts of the pod are: what is below, and what only begins
// like them, is no guest's business.
var reservedContainerPaths = []string{"/var/run/kubevirt", "/var/run/libvirt"}

func volumeRules() Table {
	return append(Scoped(OnSpec,
		volumeCountRule,
		volumeNamesUniqueRule,
		volumeOneSourceRule,
		volumeDataVolumeNameRule,
		volumeConfigMapNameRule,
		volumeSecretNameRule,
		volumeServiceAccountNameRule,
		volumeOneServiceAccountRule,
		volumeOneDownwardMetricsRule,
		volumeOneMemoryDumpRule,
		volumeDownwardMetricsGateRule,
		volumeContainerDiskPathRule,
		volumeHostDiskGateRule,
		volumeHostDiskPathRule,
		volumeHostDiskTypeRule,
		volumeHostDiskCapacityRule,
		volumeContainerPathGateRule,
		volumeContainerPathDeviceRule,
		volumeContainerPathReservedRule,
		filesystemStorageGateRule,
		utilityVolumesLaterRule,
		serviceAccountNameRule,
		serviceAccountVolumeRule,
	), Scoped(OnVMI, volumeIsShownRule)...)
}

// volumeAt is the position of a volume. The path is made only for a finding.
type volumeAt struct {
	s     *Subject
	index int
}

func (at volumeAt) path(names ...string) *field.Path {
	path := at.s.Path.Child("volumes").Index(at.index)
	for _, name := range names {
		path = path.Child(name)
	}
	return path
}

// volumesOf are the volumes to look at one by one: none where the lists are so long that only their length
// matters.
func volumesOf(s *Subject) []v1.Volume {
	if tooLong(s) {
		return nil
	}
	return s.Spec.Volumes
}

// eachVolume makes a rule of a check of one volume.
func eachVolume(check func(*v1.Volume, volumeAt) *field.Error) func(*Subject, *Errors) {
	return func(s *Subject, found *Errors) {
		volumes := volumesOf(s)
		for i := range volumes {
			found.Add(check(&volumes[i], volumeAt{s, i}))
		}
	}
}

var volumeOneServiceAccountRule = Rule{
	ID:     "volume-one-service-account",
	Title:  "A VM has at most one serviceAccount volume",
	Remedy: "Keep one serviceAccount volume and its disk: a pod runs as one ServiceAccount.",
	Check:  atMostOneVolume("serviceAccount", func(v *v1.Volume) bool { return v.ServiceAccount != nil }),
}

var volumeOneDownwardMetricsRule = Rule{
	ID:     "volume-one-downward-metrics",
	Title:  "A VM has at most one downwardMetrics volume",
	Remedy: "Keep one downwardMetrics volume and its disk: all of them would show the same.",
	Check:  atMostOneVolume("downwardMetrics", func(v *v1.Volume) bool { return v.DownwardMetrics != nil }),
}

var volumeOneMemoryDumpRule = Rule{
	ID:     "volume-one-memory-dump",
	Title:  "A VM has at most one memoryDump volume",
	Remedy: "Keep one memoryDump volume, and dump again after the first one is done.",
	Check:  atMostOneVolume("memoryDump", func(v *v1.Volume) bool { return v.MemoryDump != nil }),
}

// atMostOneVolume makes a rule of a source that only one volume may have.
func atMostOneVolume(source string, has func(*v1.Volume) bool) func(*Subject, *Errors) {
	return func(s *Subject, found *Errors) {
		volumes := volumesOf(s)
		var names []string
		for i := range volumes {
			if has(&volumes[i]) {
				names = append(names, volumes[i].Name)
			}
		}
		if len(names) < 2 {
			return
		}
		found.Add(field.Invalid(s.Path.Child("volumes"), listed(names), fmt.Sprintf("%d volumes have the source %s", len(names), source)))
	}
}

// volumesByName finds volumes; of those with the same name, the last.
func volumesByName(s *Subject) map[string]*v1.Volume {
	volumes := make(map[string]*v1.Volume, len(s.Spec.Volumes))
	for i := range s.Spec.Volumes {
		volumes[s.Spec.Volumes[i].Name] = &s.Spec.Volumes[i]
	}
	return volumes
}

// onClaim reports whether a volume is stored in a PersistentVolumeClaim of its own.
func onClaim(v *v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.DataVolume != nil }

func diskNames(s *Subject) map[string]bool {
	names := make(map[string]bool, len(s.Spec.Domain.Devices.Disks))
	for i := range s.Spec.Domain.Devices.Disks {
		names[s.Spec.Domain.Devices.Disks[i].Name] = true
	}
	return names
}

func filesystemNames(s *Subject) map[string]bool {
	names := make(map[string]bool, len(s.Spec.Domain.Devices.Filesystems))
	for i := range s.Spec.Domain.Devices.Filesystems {
		names[s.Spec.Domain.Devices.Filesystems[i].Name] = true
	}
	return names
}

var volumeCountRule = Rule{
	ID:     "volume-count",
	Title:  "A VM has at most 256 volumes",
	Remedy: "Remove volumes, or spread the data over several VMs.",
	Check:  volumeCount,
}

func volumeCount(s *Subject, found *Errors) {
	if n := len(s.Spec.Volumes); n > storageListMax {
		found.Add(field.Invalid(s.Path.Child("volumes"), n, fmt.Sprintf("a VM may have at most %d volumes", storageListMax)))
	}
}

var volumeNamesUniqueRule = Rule{
	ID:     "volume-names-unique",
	Title:  "No two volumes have the same name",
	Remedy: "Rename one of the volumes, and its disk with it.",
	Check:  volumeNamesUnique,
}

func volumeNamesUnique(s *Subject, found *Errors) {
	volumes := volumesOf(s)
	eachRepeated(len(volumes), func(i int) string { return volumes[i].Name }, func(i, first int) *field.Error {
		return field.Invalid(volumeAt{s, i}.path("name"), volumes[i].Name, fmt.Sprintf("volumes[%d] already has this name", first))
	}, found)
}

// volumeSources are the sources that a volume has, in the order of the API.
func volumeSources(v *v1.Volume) (sources []string) {
	for _, one := range []struct {
		name string
		set  bool
	}{
		{"hostDisk", v.HostDisk != nil},
		{"persistentVolumeClaim", v.PersistentVolumeClaim != nil},
		{"cloudInitNoCloud", v.CloudInitNoCloud != nil},
		{"cloudInitConfigDrive", v.CloudInitConfigDrive != nil},
		{"sysprep", v.Sysprep != nil},
		{"containerDisk", v.ContainerDisk != nil},
		{"ephemeral", v.Ephemeral != nil},
		{"emptyDisk", v.EmptyDisk != nil},
		{"dataVolume", v.DataVolume != nil},
		{"configMap", v.ConfigMap != nil},
		{"secret", v.Secret != nil},
		{"downwardAPI", v.DownwardAPI != nil},
		{"serviceAccount", v.ServiceAccount != nil},
		{"downwardMetrics", v.DownwardMetrics != nil},
		{"memoryDump", v.MemoryDump != nil},
		{"containerPath", v.ContainerPath != nil},
	} {
		if one.set {
			sources = append(sources, one.name)
		}
	}
	return sources
}

var volumeOneSourceRule = Rule{
	ID:     "volume-one-source",
	Title:  "A volume has one source",
	Remedy: "Set exactly one source. Add a volume for each other source.",
	Check:  eachVolume(volumeOneSource),
}

func volumeOneSource(v *v1.Volume, at volumeAt) *field.Error {
	switch sources := volumeSources(v); len(sources) {
	case 1:
		return nil
	case 0:
		return field.Invalid(at.path(), v.Name, "the volume has no source, such as persistentVolumeClaim or containerDisk")
	default:
		return field.Invalid(at.path(), v.Name, fmt.Sprintf("the volume has %d sources (%s)", len(sources), strings.Join(sources, ", ")))
	}
}

var volumeIsShownRule = Rule{
	ID:     "volume-is-shown",
	Title:  "Each volume is attached as a disk or a filesystem",
	Remedy: "Add a disk or a filesystem with the name of the volume, or remove the volume.",
	Check:  volumeIsShown,
}

// volumeIsShown is for VMIs: what a VM does not show, KubeVirt adds a disk for when it starts. Memory dumps
// are left out: no guest sees them.
func volumeIsShown(s *Subject, found *Errors) {
	volumes := volumesOf(s)
	if len(volumes) == 0 {
		return
	}
	disks, filesystems := diskNames(s), filesystemNames(s)
	for i := range volumes {
		if v := &volumes[i]; v.MemoryDump == nil && !disks[v.Name] && !filesystems[v.Name] {
			found.Add(field.Invalid(volumeAt{s, i}.path("name"), v.Name, "there is neither a disk nor a filesystem with this name"))
		}
	}
}

var volumeDataVolumeNameRule = Rule{
	ID:     "volume-data-volume-name",
	Title:  "A dataVolume volume names its DataVolume",
	Remedy: "Set dataVolume.name to the name of a DataVolume in the namespace.",
	Check:  eachVolume(volumeDataVolumeName),
}

func volumeDataVolumeName(v *v1.Volume, at volumeAt) *field.Error {
	if v.DataVolume == nil || v.DataVolume.Name != "" {
		return nil
	}
	return field.Required(at.path("dataVolume", "name"), "the volume must name its DataVolume")
}

var volumeConfigMapNameRule = Rule{
	ID:     "volume-config-map-name",
	Title:  "A configMap volume names its ConfigMap",
	Remedy: "Set configMap.name to the name of a ConfigMap in the namespace.",
	Check:  eachVolume(volumeConfigMapName),
}

func volumeConfigMapName(v *v1.Volume, at volumeAt) *field.Error {
	if v.ConfigMap == nil || v.ConfigMap.Name != "" {
		return nil
	}
	return field.Invalid(at.path("configMap", "name"), "", "the volume must name its ConfigMap")
}

var volumeSecretNameRule = Rule{
	ID:     "volume-secret-name",
	Title:  "A secret volume names its Secret",
	Remedy: "Set secret.secretName to the name of a Secret in the namespace.",
	Check:  eachVolume(volumeSecretName),
}

func volumeSecretName(v *v1.Volume, at volumeAt) *field.Error {
	if v.Secret == nil || v.Secret.SecretName != "" {
		return nil
	}
	return field.Invalid(at.path("secret", "secretName"), "", "the volume must name its Secret")
}

var volumeServiceAccountNameRule = Rule{
	ID:     "volume-service-account-name",
	Title:  "A serviceAccount volume names its ServiceAccount",
	Remedy: "Set serviceAccount.serviceAccountName to the name of a ServiceAccount in the namespace.",
	Check:  eachVolume(volumeServiceAccountName),
}

func volumeServiceAccountName(v *v1.Volume, at volumeAt) *field.Error {
	if v.ServiceAccount == nil || v.ServiceAccount.ServiceAccountName != "" {
		return nil
	}
	return field.Invalid(at.path("serviceAccount", "serviceAccountName"), "", "the volume must name its ServiceAccount")
}

var volumeDownwardMetricsGateRule = Rule{
	ID:       "volume-downward-metrics-gate",
	Title:    "A downwardMetrics volume needs the feature gate DownwardMetrics",
	Remedy:   "Remove the volume and its disk, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    eachVolume(volumeDownwardMetricsGate),
}

func volumeDownwardMetricsGate(v *v1.Volume, at volumeAt) *field.Error {
	if v.DownwardMetrics == nil {
		return nil
	}
	return gateOff(at.s, gateDownwardMetrics, at.path(), v.Name, "downwardMetrics")
}

var volumeContainerDiskPathRule = Rule{
	ID:       "volume-container-disk-path",
	Title:    "The path in a container disk is absolute and plain",
	Remedy:   "Write the path of the image file in the container, like /disk/fedora.qcow2, or leave it out.",
	Security: true,
	Check:    eachVolume(volumeContainerDiskPath),
}

// volumeContainerDiskPath lets a closing slash pass, as KubeVirt does.
func volumeContainerDiskPath(v *v1.Volume, at volumeAt) *field.Error {
	if v.ContainerDisk == nil || v.ContainerDisk.Path == "" {
		return nil
	}
	switch given := v.ContainerDisk.Path; {
	case given == "/":
		return field.Invalid(at.path("containerDisk"), given, "path must be that of a file, not the root directory")
	case path.Join("/", given) != strings.TrimSuffix(given, "/"):
		return field.Invalid(at.path("containerDisk"), given, "path must be absolute, without '.', '..' and doubled slashes")
	}
	return nil
}

var volumeHostDiskGateRule = Rule{
	ID:       "volume-host-disk-gate",
	Title:    "A hostDisk volume needs the feature gate HostDisk",
	Remedy:   "Use a PersistentVolumeClaim, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    eachVolume(volumeHostDiskGate),
}

func volumeHostDiskGate(v *v1.Volume, at volumeAt) *field.Error {
	if v.HostDisk == nil {
		return nil
	}
	return gateOff(at.s, gateHostDisk, at.path(), v.Name, "hostDisk")
}

var volumeHostDiskPathRule = Rule{
	ID:     "volume-host-disk-path",
	Title:  "A hostDisk volume has a path",
	Remedy: "Set hostDisk.path to the file of the disk on the node.",
	Check:  eachVolume(volumeHostDiskPath),
}

func volumeHostDiskPath(v *v1.Volume, at volumeAt) *field.Error {
	if v.HostDisk == nil || v.HostDisk.Path != "" {
		return nil
	}
	return &field.Error{Type: field.ErrorTypeNotFound, Field: at.path("hostDisk", "path").String(), BadValue: "", Detail: "the volume has no path on the node"}
}

var volumeHostDiskTypeRule = Rule{
	ID:     "volume-host-disk-type",
	Title:  "The type of a hostDisk volume is known",
	Remedy: "Set hostDisk.type to Disk if the file exists, else to DiskOrCreate.",
	Check:  eachVolume(volumeHostDiskType),
}

func volumeHostDiskType(v *v1.Volume, at volumeAt) *field.Error {
	if v.HostDisk == nil || v.HostDisk.Type == v1.HostDiskExists || v.HostDisk.Type == v1.HostDiskExistsOrCreate {
		return nil
	}
	return unknown(at.path("hostDisk", "type"), v.HostDisk.Type, "the type", []v1.HostDiskType{v1.HostDiskExists, v1.HostDiskExistsOrCreate})
}

var volumeHostDiskCapacityRule = Rule{
	ID:     "volume-host-disk-capacity",
	Title:  "Only a hostDisk that may be created has a capacity",
	Remedy: "Remove the capacity, or set hostDisk.type to DiskOrCreate.",
	Check:  eachVolume(volumeHostDiskCapacity),
}

func volumeHostDiskCapacity(v *v1.Volume, at volumeAt) *field.Error {
	if v.HostDisk == nil || v.HostDisk.Type != v1.HostDiskExists || v.HostDisk.Capacity.IsZero() {
		return nil
	}
	return field.Invalid(at.path("hostDisk", "capacity"), v.HostDisk.Capacity.String(), "a disk of the type Disk already exists")
}

var volumeContainerPathGateRule = Rule{
	ID:       "volume-container-path-gate",
	Title:    "A containerPath volume needs the feature gate ContainerPathVolumes",
	Remedy:   "Remove the volume and its filesystem, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    eachVolume(volumeContainerPathGate),
}

func volumeContainerPathGate(v *v1.Volume, at volumeAt) *field.Error {
	if v.ContainerPath == nil {
		return nil
	}
	return gateOff(at.s, gateContainerPathVolumes, at.path(), v.Name, "containerPath")
}

var volumeContainerPathDeviceRule = Rule{
	ID:     "volume-container-path-device",
	Title:  "A containerPath volume is attached as a filesystem",
	Remedy: "Add a filesystem with the name of the volume, and remove the disk of that name.",
	Check:  volumeContainerPathDevice,
}

func volumeContainerPathDevice(s *Subject, found *Errors) {
	var disks, filesystems map[string]bool
	volumes := volumesOf(s)
	for i := range volumes {
		v := &volumes[i]
		if v.ContainerPath == nil {
			continue
		}
		if disks == nil {
			disks, filesystems = diskNames(s), filesystemNames(s)
		}
		switch {
		case disks[v.Name]:
			found.Add(field.Invalid(volumeAt{s, i}.path(), v.Name, "a containerPath volume is attached as a filesystem, never as a disk"))
		case !filesystems[v.Name]:
			found.Add(field.Invalid(volumeAt{s, i}.path(), v.Name, "a containerPath volume needs a filesystem with its name"))
		}
	}
}

var volumeContainerPathReservedRule = Rule{
	ID:       "volume-container-path-reserved",
	Title:    "A containerPath volume is outside KubeVirt's directories",
	Remedy:   "Use another path, which is mounted for the guest.",
	Security: true,
	Check:    eachVolume(volumeContainerPathReserved),
}

func volumeContainerPathReserved(v *v1.Volume, at volumeAt) *field.Error {
	if v.ContainerPath == nil {
		return nil
	}
	given := path.Clean(v.ContainerPath.Path)
	for _, reserved := range reservedContainerPaths {
		if strings.HasPrefix(given, reserved) {
			return field.Invalid(at.path("containerPath", "path"), v.ContainerPath.Path, reserved+" is reserved for KubeVirt")
		}
	}
	return nil
}

var filesystemStorageGateRule = Rule{
	ID:       "filesystem-storage-gate",
	Title:    "A filesystem on a PersistentVolumeClaim or DataVolume needs the feature gate EnableVirtioFsStorageVolumes",
	Remedy:   "Show the volume as a disk, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    filesystemStorageGate,
}

// filesystemStorageGate: for storage volumes the filesystem is served by a process with more rights.
func filesystemStorageGate(s *Subject, found *Errors) {
	filesystems := s.Spec.Domain.Devices.Filesystems
	if len(filesystems) == 0 || tooLong(s) {
		return
	}
	volumes := volumesByName(s)
	var names []string
	for i := range filesystems {
		if v := volumes[filesystems[i].Name]; v != nil && onClaim(v) {
			names = append(names, v.Name)
		}
	}
	if names == nil {
		return
	}
	found.Add(gateOff(s, gateVirtioFSStorageVolumes, s.Devices().Child("filesystems"), listed(names), "a filesystem on a persistentVolumeClaim or dataVolume"))
}

var utilityVolumesLaterRule = Rule{
	ID:     "utility-volumes-later",
	Title:  "Utility volumes are added only to a running VM",
	Remedy: "Remove utilityVolumes: KubeVirt adds them itself while the VM runs.",
	Check:  utilityVolumesLater,
}

func utilityVolumesLater(s *Subject, found *Errors) {
	if len(s.Spec.UtilityVolumes) == 0 {
		return
	}
	found.Add(field.Invalid(s.Path.Child("utilityVolumes"), len(s.Spec.UtilityVolumes), "a VM cannot start with utility volumes"))
}

var serviceAccountNameRule = Rule{
	ID:     "service-account-name",
	Title:  "serviceAccountName is a valid name",
	Remedy: "Use the name of a ServiceAccount in the namespace.",
	Check:  serviceAccountName,
}

func serviceAccountName(s *Subject, found *Errors) {
	name := s.Spec.ServiceAccountName
	if name == "" || len(validation.IsDNS1123Subdomain(name)) == 0 {
		return
	}
	found.Add(field.Invalid(s.Path.Child("serviceAccountName"), name, "no ServiceAccount can have this name"))
}

var serviceAccountVolumeRule = Rule{
	ID:       "service-account-volume",
	Title:    "serviceAccountName and the serviceAccount volume name the same ServiceAccount",
	Remedy:   "Correct or remove one of them: a pod runs as one ServiceAccount.",
	Security: true,
	Check:    serviceAccountVolume,
}

// serviceAccountVolume reports the first other ServiceAccount by name, at any index.
func serviceAccountVolume(s *Subject, found *Errors) {
	name := s.Spec.ServiceAccountName
	if name == "" {
		return
	}
	volumes, other := volumesOf(s), -1
	for i := range volumes {
		account := volumes[i].ServiceAccount
		if account != nil && account.ServiceAccountName != name && (other < 0 || account.ServiceAccountName < volumes[other].ServiceAccount.ServiceAccountName) {
			other = i
		}
	}
	if other < 0 {
		return
	}
	found.Add(field.Invalid(s.Path.Child("serviceAccountName"), name,
		fmt.Sprintf("volumes[%d] names the ServiceAccount %q", other, shortened(volumes[other].ServiceAccount.ServiceAccountName))))
}
