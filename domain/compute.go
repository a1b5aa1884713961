package domain

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	k8sv1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// cpu makes the vCPUs, the CPU model and its features, and a NUMA cell if memory is shared.
func cpu(b *Build) error {
	sockets, cores, threads := topology(b.VMI)
	count, source := b.VCPUs, b.VMI.Spec.Domain.CPU
	if source != nil && source.MaxSockets != 0 && b.Architecture.CPUHotplug {
		sockets = uint(source.MaxSockets)
		count = sockets * cores * threads
		b.Domain.VCPUs = &DomainVCPUs{VCPU: make([]DomainVCPUsVCPU, count)}
		for id := range b.Domain.VCPUs.VCPU {
			b.Domain.VCPUs.VCPU[id] = DomainVCPUsVCPU{
				ID: uint(id), Enabled: yesNo(uint(id) < b.VCPUs), Hotpluggable: yesNo(uint(id) >= cores*threads),
			}
		}
		b.from("vcpus", fieldCPU+"maxSockets")
		b.from("cpu/topology@sockets", fieldCPU+"maxSockets")
	} else {
		b.from("cpu/topology@sockets", fieldCPU+"sockets")
	}
	b.from("cpu/topology@cores", fieldCPU+"cores")
	b.from("cpu/topology@threads", fieldCPU+"threads")
	b.from("vcpu", fieldDomain+"cpu")
	made := &DomainCPU{Topology: &DomainCPUTopology{Sockets: sockets, Cores: cores, Threads: threads}}
	b.Domain.CPU = made
	b.Domain.VCPU = &DomainVCPU{Placement: "static", Value: count}
	b.cpuModel(made, source)
	b.cpuFeatures(made, source)
	b.sharedCell(made, count)
	return nil
}

func (b *Build) cpuModel(made *DomainCPU, source *v1.CPU) {
	model := v1.CPUModeHostModel
	if source != nil && source.Model != "" {
		model = source.Model
	}
	b.from("cpu@mode", fieldCPU+"model")
	b.from("cpu/model", fieldCPU+"model")
	switch host := model == v1.CPUModeHostModel || model == v1.CPUModeHostPassthrough; {
	case host && b.CrossArchitecture:
		made.Mode, made.Model = "custom", "max"
	case host:
		made.Mode = model
	default:
		made.Mode, made.Model = "custom", model
	}
}

// cpuFeatures adds the features. Named models disable mpx, without which libvirt rejects some of them on newer CPUs.
func (b *Build) cpuFeatures(made *DomainCPU, source *v1.CPU) {
	if source == nil {
		return
	}
	mpx := b.Architecture.MPX && source.Model != v1.CPUModeHostModel && source.Model != v1.CPUModeHostPassthrough
	for i := range source.Features {
		feature := &source.Features[i]
		mpx = mpx && feature.Name != "mpx"
		made.Features = append(made.Features, DomainCPUFeature{Name: feature.Name, Policy: feature.Policy})
	}
	if mpx {
		made.Features = append(made.Features, DomainCPUFeature{Name: "mpx", Policy: "disable"})
	}
	b.from("cpu/feature", fieldCPU+"features")
}

// sharedCell adds the NUMA cell that memory from memfd needs.
func (b *Build) sharedCell(made *DomainCPU, count uint) {
	if !b.Architecture.Memfd || !b.needsMemfd() || b.VMI.Spec.Domain.CPU != nil && b.VMI.Spec.Domain.CPU.NUMA != nil {
		return
	}
	const kibibyte = 1024
	made.Numa = &DomainNuma{Cell: []DomainCell{{
		CPUs: fmt.Sprintf("0-%d", int64(count)-1), Memory: uint64(max(virtualMemory(b.VMI).Value(), 0)) / kibibyte, Unit: "KiB", //nolint:gosec // count is bounded
	}}}
	b.from("cpu/numa", fieldDomain+"memory")
}

// needsMemfd reports whether the memory is shared with other processes, or has huge pages.
func (b *Build) needsMemfd() bool {
	memory := b.VMI.Spec.Domain.Memory
	return memory != nil && memory.Hugepages != nil && b.VMI.Annotations[v1.MemfdMemoryBackend] != "false" || b.sharesMemory()
}

// sharesMemory reports whether virtiofsd or passt reads the guest's memory.
func (b *Build) sharesMemory() bool {
	devices := &b.VMI.Spec.Domain.Devices
	for i := range devices.Filesystems {
		if devices.Filesystems[i].Virtiofs != nil {
			return true
		}
	}
	for i := range devices.Interfaces {
		if devices.Interfaces[i].PasstBinding != nil {
			return true
		}
	}
	return false
}

// virtualMemory returns the memory of the guest.
func virtualMemory(vmi *v1.VirtualMachineInstance) *resource.Quantity {
	if m := vmi.Spec.Domain.Memory; m != nil && m.Guest != nil {
		return m.Guest
	}
	requested, found := vmi.Spec.Domain.Resources.Requests[k8sv1.ResourceMemory]
	if limit, limited := vmi.Spec.Domain.Resources.Limits[k8sv1.ResourceMemory]; limited && !found {
		return &limit
	}
	return &requested
}

// bytesOf returns a quantity in bytes.
func bytesOf(quantity *resource.Quantity, field string) (uint64, error) {
	value, whole := quantity.AsInt64()
	if !whole {
		value = quantity.Value() - 1 // Value rounds up
	}
	if value < 0 {
		return 0, failf(field, "%s is negative", quantity)
	}
	return uint64(value), nil
}

func memory(b *Build) error {
	source := b.VMI.Spec.Domain.Memory
	guest, field := virtualMemory(b.VMI), fieldDomain+"memory.guest"
	if source != nil && source.MaxGuest != nil && (source.Guest == nil || !source.Guest.Equal(*source.MaxGuest)) {
		if source.Guest == nil {
			return failf(field, "memory with a maximum needs memory.guest")
		}
		most, err := bytesOf(source.MaxGuest, fieldDomain+"memory.maxGuest")
		if err != nil {
			return err
		}
		b.Domain.MaximumMemory = &DomainMaxMemory{Unit: "b", Value: most}
		b.from("maxMemory", fieldDomain+"memory.maxGuest")
	}
	value, err := bytesOf(guest, field)
	if err != nil {
		return err
	}
	b.Domain.Memory = &DomainMemory{Unit: "b", Value: value}
	b.from("memory", field)
	return nil
}

func memoryBacking(b *Build) error {
	source := b.VMI.Spec.Domain.Memory
	huge, shared := source != nil && source.Hugepages != nil, b.sharesMemory()
	if !huge && !shared {
		return nil
	}
	made := &DomainMemoryBacking{}
	if huge {
		made.MemoryHugePages = &DomainMemoryHugepages{}
		b.from("memoryBacking/hugepages", fieldDomain+"memory.hugepages")
	}
	if shared {
		made.MemoryAccess = &DomainMemoryAccess{Mode: "shared"}
	}
	if b.Architecture.Memfd && b.needsMemfd() {
		made.MemorySource = &DomainMemorySource{Type: "memfd"}
	}
	b.Domain.MemoryBacking = made
	b.from("memoryBacking", fieldDomain+"memory")
	return nil
}

// ioThreads are the I/O threads of an instance.
type ioThreads struct {
	// count is the number of all, and auto that of those that disks share.
	count, auto uint
	// pool is the number of threads that every virtio disk uses; 0 for none.
	pool uint
	used bool
}

func isDedicated(disk *v1.Disk) bool { return isTrue(disk.DedicatedIOThread) }

// poolThreads returns the number of threads of the supplemental pool; 0 without one.
func poolThreads(vmi *v1.VirtualMachineInstance) uint {
	policy, threads := vmi.Spec.Domain.IOThreadsPolicy, vmi.Spec.Domain.IOThreads
	if policy == nil || *policy != v1.IOThreadsPolicySupplementalPool || threads == nil || threads.SupplementalPoolThreadCount == nil {
		return 0
	}
	return uint(*threads.SupplementalPoolThreadCount)
}

// threadsOf counts the I/O threads.
func threadsOf(vmi *v1.VirtualMachineInstance) ioThreads {
	policy, list := vmi.Spec.Domain.IOThreadsPolicy, vmi.Spec.Domain.Devices.Disks
	dedicated := 0
	for i := range list {
		if isDedicated(&list[i]) {
			dedicated++
		}
	}
	if policy == nil && dedicated == 0 {
		return ioThreads{}
	}
	if pool := poolThreads(vmi); pool > 0 {
		return ioThreads{count: pool, pool: pool, used: true}
	}
	auto := len(list) - dedicated
	if limit := threadLimit(vmi); int64(auto+dedicated) > limit {
		auto = max(int(limit)-dedicated, 1)
	}
	return ioThreads{count: uint(auto + dedicated), auto: uint(auto), used: true}
}

// threadLimit returns how many I/O threads the policy allows before disks share them.
func threadLimit(vmi *v1.VirtualMachineInstance) int64 {
	policy := vmi.Spec.Domain.IOThreadsPolicy
	switch {
	case policy == nil, *policy == v1.IOThreadsPolicyShared:
		return 1
	case *policy != v1.IOThreadsPolicyAuto:
		return 0
	case isolated(vmi):
		return 1
	}
	cpus := int64(1)
	if request, found := vmi.Spec.Domain.Resources.Requests[k8sv1.ResourceCPU]; found {
		cpus = request.Value()
	} else if limit, found := vmi.Spec.Domain.Resources.Limits[k8sv1.ResourceCPU]; found {
		cpus = limit.Value()
	}
	const perCPU = 2
	return min(cpus, MaxVCPUs) * perCPU
}

func ioThreadCount(b *Build) error {
	b.Domain.IOThreads = b.ioThreads.count
	b.from("iothreads", fieldDomain+"ioThreadsPolicy")
	return nil
}
