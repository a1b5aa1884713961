package domain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	v1 "kubevirt.io/api/core/v1"
)

// Assumptions are what is declared about the node and the pod that an instance runs in. The zero value is a node that has the
// device of the hypervisor and all firmware, and nothing else.
type Assumptions struct {
	// HostArch is the architecture of the node; empty for that of the instance.
	HostArch string `json:"hostArch,omitempty"`
	// HypervisorDevice says whether the pod has /dev/kvm or /dev/mshv; nil for true.
	HypervisorDevice *bool `json:"hypervisorDevice,omitempty"`
	// Firmware are the names of the files in the folder of the firmware; nil for all that KubeVirt's images have.
	Firmware []string `json:"firmware,omitempty"`
	// CPUSet are the CPUs that the pod has for itself.
	CPUSet []int `json:"cpuSet,omitempty"`
	// NUMA are the NUMA cells of the node.
	NUMA []HostCell `json:"numa,omitempty"`
	// BlockVolumes are volumes that are block devices in the pod, beside those whose claim has the volume mode Block.
	BlockVolumes []string `json:"blockVolumes,omitempty"`
	// ContainerDiskFormats are the formats of container disks by volume: qcow2 if it is not named.
	ContainerDiskFormats map[string]string `json:"containerDiskFormats,omitempty"`
	// NoDirectIO are volumes whose file system lacks O_DIRECT.
	NoDirectIO []string `json:"noDirectIO,omitempty"`
	// PreallocatedImages are volumes whose image is allocated in full.
	PreallocatedImages []string `json:"preallocatedImages,omitempty"`
	// PodMTU is the MTU of the pod's interfaces; 0 for 1500.
	PodMTU uint `json:"podMTU,omitempty"`
	// PodMACs are the MAC addresses of the pod's interfaces by network. Without one, the n-th network has 02:00:00:00:00:0n.
	PodMACs map[string]string `json:"podMACs,omitempty"`
	// Env are the variables that device plugins set: PCI_RESOURCE_…, MDEV_PCI_RESOURCE_… and USB_RESOURCE_….
	Env map[string]string `json:"env,omitempty"`
	// NetworkInfo is the content of the file network-info of the downward API, with the addresses of SR-IOV devices.
	NetworkInfo *NetworkInfo `json:"networkInfo,omitempty"`
	// DRA are the metadata files of resource claims, by their paths below the folder.
	DRA map[string]string `json:"dra,omitempty"`
	// PCINUMANodes are the NUMA nodes of PCI devices by address.
	PCINUMANodes map[string]string `json:"pciNUMANodes,omitempty"`
	// IOMMUFD says that virt-launcher has a file descriptor of iommufd.
	IOMMUFD bool `json:"iommufd,omitempty"`
	// LogVerbosity is VIRT_LAUNCHER_LOG_VERBOSITY of the pod.
	LogVerbosity string `json:"logVerbosity,omitempty"`
	// Files are files that exist in the pod before the conversion.
	Files map[string]string `json:"files,omitempty"`
	// BlockSize is that of the file systems of the pod; 0 for 4096.
	BlockSize uint `json:"blockSize,omitempty"`
}

// HostCell is a NUMA cell of the node.
type HostCell struct {
	ID        uint     `json:"id"`
	MemoryKiB uint64   `json:"memoryKiB,omitempty"`
	Cores     [][]uint `json:"cores"`
	// Distances are those to NUMA cells, by their ids.
	Distances map[uint]uint64 `json:"distances,omitempty"`
}

// NetworkInfo has the devices of networks.
type NetworkInfo struct {
	Interfaces []NetworkInfoInterface `json:"interfaces"`
}

// NetworkInfoInterface is the device of a network.
type NetworkInfoInterface struct {
	Network    string `json:"network"`
	DeviceInfo struct {
		PCI struct {
			Address string `json:"pci-address"`
		} `json:"pci"`
	} `json:"deviceInfo"`
}

// Assumption is something that a domain depends on, and that only the node knows.
type Assumption struct {
	// Name is the field of Assumptions, and Value what is assumed.
	Name, Value string
	// Declared says that the caller declared it. Otherwise it is the default.
	Declared bool
}

func (a *Assumptions) hasDevice() bool { return a.HypervisorDevice == nil || *a.HypervisorDevice }

// hasFirmware reports whether the folder of the firmware has a file.
func (a *Assumptions) hasFirmware(name string) bool {
	return a.Firmware == nil || slices.Contains(a.Firmware, name)
}

// pathHas reports whether one of the names is a part of a path.
func pathHas(names []string, file string) bool {
	if len(names) == 0 {
		return false
	}
	for part := range strings.SplitSeq(file, "/") {
		if part != "" && (slices.Contains(names, part) || slices.Contains(names, strings.TrimSuffix(part, path.Ext(part)))) {
			return true
		}
	}
	return false
}

// resourceVariable is the variable of a resource: PCI_RESOURCE_NVIDIA_COM_GPU.
func resourceVariable(prefix, resource string) string {
	return prefix + "_" + strings.NewReplacer("/", "_", ".", "_").Replace(strings.ToUpper(resource))
}

// Assumed lists what the domain of an instance depends on: the assumptions that its conversion reads, with the values of a. The
// parameter declared has those that the caller declared. The list is sorted.
func (a *Assumptions) Assumed(vmi *v1.VirtualMachineInstance, declared *Assumptions, converter Converter) []Assumption {
	var list []Assumption
	add := func(name string, declared bool, value any) {
		list = append(list, Assumption{Name: name, Value: textOfAny(value), Declared: declared})
	}
	devices := &vmi.Spec.Domain.Devices
	if features := vmi.Spec.Domain.Features; features != nil && features.Hyperv != nil {
		add("hypervFeatures", false, enlightenments(features.Hyperv, converter))
	}
	add("hostArch", a.HostArch != "", cmp.Or(a.HostArch, vmi.Spec.Architecture))
	add("hypervisorDevice", a.HypervisorDevice != nil, a.hasDevice())
	if vmi.IsBootloaderEFI() {
		firmware := any(a.Firmware)
		if a.Firmware == nil {
			firmware = "all files of KubeVirt's images"
		}
		add("firmware", a.Firmware != nil, firmware)
	}
	if vmi.Spec.Domain.CPU != nil && vmi.IsCPUDedicated() {
		add("cpuSet", declared.CPUSet != nil, a.CPUSet)
		add("numa", declared.NUMA != nil, a.NUMA)
	}
	if len(vmi.Spec.Domain.Devices.Disks) > 0 {
		add("blockVolumes", a.BlockVolumes != nil, a.BlockVolumes)
		add("noDirectIO", a.NoDirectIO != nil, a.NoDirectIO)
		add("preallocatedImages", a.PreallocatedImages != nil, a.PreallocatedImages)
	}
	if slices.ContainsFunc(vmi.Spec.Volumes, func(v v1.Volume) bool { return v.ContainerDisk != nil }) {
		formats := any(a.ContainerDiskFormats)
		if a.ContainerDiskFormats == nil {
			formats = "qcow2"
		}
		add("containerDiskFormats", a.ContainerDiskFormats != nil, formats)
	}
	if len(devices.Interfaces) > 0 {
		add("podMTU", a.PodMTU != 0, cmp.Or(a.PodMTU, defaultMTU))
		if slices.ContainsFunc(devices.Interfaces, func(i v1.Interface) bool { return i.MacAddress == "" }) {
			addresses := any(a.PodMACs)
			if a.PodMACs == nil {
				addresses = "02:00:00:00:00:01 for the first network, and so on"
			}
			add("podMACs", a.PodMACs != nil, addresses)
		}
	}
	if slices.ContainsFunc(devices.Interfaces, func(i v1.Interface) bool { return i.SRIOV != nil }) {
		add("networkInfo", declared.NetworkInfo != nil, a.NetworkInfo)
	}
	if len(devices.GPUs)+len(devices.HostDevices) > 0 {
		add("env", declared.Env != nil, a.Env)
		add("dra", a.DRA != nil, a.DRA)
		add("iommufd", a.IOMMUFD, a.IOMMUFD)
		add("pciNUMANodes", a.PCINUMANodes != nil, a.PCINUMANodes)
	}
	slices.SortFunc(list, func(x, y Assumption) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// enlightenments are those of an instance that a node must have.
func enlightenments(source *v1.FeatureHyperv, converter Converter) []string {
	var names []string
	known := converter.GetHypervFeatures()
	for _, e := range encode("hyperv", reflect.ValueOf(hyperv(source)).Elem()).Children {
		if e.Attribute("state") == "on" && slices.Contains(known, e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// maxValue bounds the text of an assumption, in bytes.
const maxValue = 200

// textOfAny is a value as JSON; none for an empty one.
func textOfAny(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(err)
	}
	text := string(data)
	switch {
	case text == "null", text == "[]", text == "{}":
		return "none"
	case len(text) > maxValue:
		text = text[:maxValue]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
		return text + "…"
	}
	return text
}
