package domain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// launcherUser is the user that virt-launcher runs as, unless the cluster has it run as root.
const launcherUser = 107

// Preview returns an instance that does not exist yet, with the status that KubeVirt's controllers would give it, and the
// assumptions that its conversion needs. What the caller has not declared is listed by Assumed as a default.
func Preview(vmi *v1.VirtualMachineInstance, host *Assumptions) (*v1.VirtualMachineInstance, *Assumptions, error) {
	if err := checkBounds(vmi); err != nil {
		return nil, nil, at(StageBounds, err)
	}
	vmi, complete := vmi.DeepCopy(), *host
	vmi.Status.RuntimeUser = launcherUser
	for i := range vmi.Spec.Volumes {
		vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, volumeStatus(&vmi.Spec.Volumes[i], host))
	}
	if isTrue(vmi.Spec.Domain.Devices.AutoattachVSOCK) {
		const firstGuest = 3 // the first address that no host has
		vmi.Status.VSOCKCID = pointer[uint32](firstGuest)
	}
	complete.previewNetworks(vmi)
	complete.previewDevices(vmi)
	if vmi.Spec.Domain.CPU != nil && vmi.IsCPUDedicated() && host.CPUSet == nil && host.NUMA == nil {
		complete.previewCPUs(vmi)
	}
	return vmi, &complete, nil
}

func volumeStatus(volume *v1.Volume, host *Assumptions) v1.VolumeStatus {
	status := v1.VolumeStatus{Name: volume.Name}
	if volume.PersistentVolumeClaim == nil && volume.DataVolume == nil {
		return status
	}
	mode := k8sv1.PersistentVolumeFilesystem
	if slices.Contains(host.BlockVolumes, volume.Name) {
		mode = k8sv1.PersistentVolumeBlock
	}
	size := k8sv1.ResourceList{k8sv1.ResourceStorage: resource.MustParse("1Gi")} // only KubeVirt's own elements have it
	status.PersistentVolumeClaimInfo = &v1.PersistentVolumeClaimInfo{VolumeMode: &mode, Capacity: size, Requests: size}
	return status
}

// previewNetworks gives NICs of passt and of SR-IOV their status, and the latter addresses.
func (a *Assumptions) previewNetworks(vmi *v1.VirtualMachineInstance) {
	info := &NetworkInfo{}
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		nic := &vmi.Spec.Domain.Devices.Interfaces[i]
		status := v1.VirtualMachineInstanceNetworkInterface{Name: nic.Name, PodInterfaceName: podInterface}
		if nic.SRIOV != nil {
			status.InfoSource = multus
			entry := NetworkInfoInterface{Network: nic.Name}
			entry.DeviceInfo.PCI.Address = fmt.Sprintf("0000:f0:%02x.0", len(info.Interfaces)%32)
			info.Interfaces = append(info.Interfaces, entry)
		}
		vmi.Status.Interfaces = append(vmi.Status.Interfaces, status)
	}
	if a.NetworkInfo == nil && len(info.Interfaces) > 0 {
		a.NetworkInfo = info
	}
}

// previewDevices gives each device of a device plugin a PCI address, unless the variable of its resource is declared.
func (a *Assumptions) previewDevices(vmi *v1.VirtualMachineInstance) {
	var resources []string
	for i := range vmi.Spec.Domain.Devices.GPUs {
		resources = append(resources, vmi.Spec.Domain.Devices.GPUs[i].DeviceName)
	}
	for i := range vmi.Spec.Domain.Devices.HostDevices {
		resources = append(resources, vmi.Spec.Domain.Devices.HostDevices[i].DeviceName)
	}
	env := maps.Clone(a.Env)
	if env == nil {
		env = map[string]string{}
	}
	for i, name := range resources {
		variable := resourceVariable(v1.PCIResourcePrefix, name)
		declared := slices.ContainsFunc([]string{v1.PCIResourcePrefix, v1.MDevResourcePrefix, v1.USBResourcePrefix}, func(prefix string) bool {
			_, found := a.Env[resourceVariable(prefix, name)]
			return found
		})
		if name != "" && !declared {
			env[variable] = strings.TrimPrefix(env[variable]+fmt.Sprintf(",0000:f1:%02x.%d", i/8%32, i%8), ",")
		}
	}
	a.Env = env
}

// previewCPUs gives the pod as many CPUs as the instance can need, in one NUMA cell.
func (a *Assumptions) previewCPUs(vmi *v1.VirtualMachineInstance) {
	sockets, cores, threads := topology(vmi)
	count := sockets*cores*threads + poolThreads(vmi) + 2 // two for the emulator
	cell := HostCell{}
	for first := uint(0); first < count; first += threads {
		var core []uint
		for cpu := first; cpu < first+threads; cpu++ {
			core = append(core, cpu)
			a.CPUSet = append(a.CPUSet, int(cpu))
		}
		cell.Cores = append(cell.Cores, core)
	}
	a.NUMA = []HostCell{cell}
}

// Clean changes a document from the form that KubeVirt passes to libvirt to the form of libvirt's schema: without what libvirt
// ignores, and with what it assumes.
func (e *Element) Clean() {
	e.clean("")
}

func (e *Element) clean(parent string) {
	switch e.Name {
	case "disk":
		e.Children = slices.DeleteFunc(e.Children, func(c *Element) bool { return c.Name == "filesystemOverhead" || c.Name == "capacity" })
	case "hostdev":
		e.setDefault("mode", "subsystem")
	case "filesystem":
		for i := range e.Attributes {
			if e.Attributes[i].Name == "accessMode" {
				e.Attributes[i].Name = "accessmode"
			}
		}
	case "clock":
		e.setDefault("offset", "utc")
	case "feature":
		if parent == "cpu" {
			e.setDefault("policy", "require")
		}
	case "source":
		e.drop(func(a Attribute) bool {
			return a.Name == "name" && e.Attribute("dev") != "" || a.Name == "dir" && a.Value == ""
		})
	case "address":
		if parent == "source" {
			e.drop(func(a Attribute) bool { return a.Name == "type" })
		}
	}
	for _, child := range e.Children {
		child.clean(e.Name)
	}
}

func (e *Element) setDefault(name, value string) {
	if _, has := e.attribute(name); !has {
		e.Attributes = append(e.Attributes, Attribute{Name: name, Value: value})
	}
}

func (e *Element) drop(which func(Attribute) bool) {
	e.Attributes = slices.DeleteFunc(e.Attributes, which)
}

// Walk calls a function with each attribute and each text of a document, in its order. Elements without any of them have an empty
// value.
func (e *Element) Walk(call func(path, value string, source Source)) { e.walk("", Source{}, call) }

func (e *Element) walk(path string, source Source, call func(path, value string, source Source)) {
	source = inherited(e.Source, source)
	if e.Text != "" || len(e.Attributes)+len(e.Children) == 0 {
		call(path, e.Text, source)
	}
	for i := range e.Attributes {
		if !strings.HasPrefix(e.Attributes[i].Name, "xmlns") {
			call(path+"@"+e.Attributes[i].Name, e.Attributes[i].Value, inherited(e.Attributes[i].Source, source))
		}
	}
	counts, seen := map[string]int{}, map[string]int{}
	for _, child := range e.Children {
		counts[child.Name]++
	}
	for _, child := range e.Children {
		at := join(path, child.Name)
		if counts[child.Name] > 1 {
			at = fmt.Sprintf("%s[%d]", at, seen[child.Name])
		}
		seen[child.Name]++
		child.walk(at, source, call)
	}
}
