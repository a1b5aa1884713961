package mutators

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/provenance"
)

// maxVCPUs is the limit of CPU hotplug if the VM has none. Machine types differ; KubeVirt uses 512.
const maxVCPUs = 512

// maxSockets leaves room for CPU hotplug, when changes are rolled out live.
func maxSockets(c *Completion) {
	cpu := c.Spec.Domain.CPU
	if !c.Facts.LiveUpdate || cpu == nil || cpu.MaxSockets != 0 {
		return
	}
	bound := c.Facts.MaxCPUSockets
	switch {
	case bound == 0:
		bound = socketsByRatio(cpu, c.Facts.MaxHotplugRatio)
	case bound < cpu.Sockets:
		bound = cpu.Sockets
	}
	provenance.Fill(c.Recorder, "domain.cpu.maxSockets", &cpu.MaxSockets, bound)
}

// socketsByRatio multiplies the sockets and keeps the product with cores and threads within maxVCPUs,
// though never below the sockets that the guest starts with.
func socketsByRatio(cpu *v1.CPU, ratio uint32) uint32 {
	bound := uint64(cpu.Sockets) * uint64(ratio)
	perSocket := uint64(cpu.Cores) * uint64(cpu.Threads)
	if perSocket > 0 && bound > maxVCPUs/perSocket {
		bound = max(maxVCPUs/perSocket, uint64(cpu.Sockets))
	}
	return uint32(min(bound, math.MaxUint32))
}

// maxGuest leaves room for memory hotplug, when changes are rolled out live and this guest can take memory
// while it runs. Where it cannot, the field stays empty and the guest starts without hotplug.
func maxGuest(c *Completion) {
	memory := c.Spec.Domain.Memory
	if !c.Facts.LiveUpdate || memory == nil || memory.MaxGuest != nil || memory.Guest == nil {
		return
	}
	bound := c.Facts.MaxGuest
	if bound == nil {
		product := saturatingProduct(memory.Guest.Value(), int64(c.Facts.MaxHotplugRatio))
		bound = resource.NewQuantity(product, resource.BinarySI)
	}
	if MemoryHotplugObstacle(c.Spec, bound) == "" {
		provenance.FillPointer(c.Recorder, "domain.memory.maxGuest", &memory.MaxGuest, bound.DeepCopy())
	}
}

func saturatingProduct(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// Memory is plugged in blocks of the size of a huge page, and not into guests below 1Gi.
const (
	blockSize        int64 = 2 << 20
	blockSize1Gi     int64 = 1 << 30
	minimumGuestSize int64 = 1 << 30
)

// MemoryHotplugObstacle says why a guest could not grow to maxGuest while it runs; empty if it could.
func MemoryHotplugObstacle(spec *v1.VirtualMachineInstanceSpec, maxGuest *resource.Quantity) string {
	domain := &spec.Domain
	if cpu := domain.CPU; cpu != nil {
		if cpu.Realtime != nil {
			return "memory cannot be hot-plugged into a realtime VM"
		}
		if cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil {
			return "memory cannot be hot-plugged into a VM with NUMA guestMappingPassthrough"
		}
	}
	if domain.LaunchSecurity != nil {
		return "memory cannot be hot-plugged into a VM with launchSecurity"
	}
	if domain.Memory == nil || domain.Memory.Guest == nil || maxGuest == nil {
		return "memory hotplug needs both memory.guest and memory.maxGuest"
	}
	if domain.Memory.Guest.Cmp(*maxGuest) > 0 {
		return "memory.guest is more than memory.maxGuest"
	}
	block := blockSize
	if h := domain.Memory.Hugepages; h != nil && h.PageSize == "1Gi" {
		block = blockSize1Gi
	}
	unit := resource.NewQuantity(block, resource.BinarySI).String()
	switch {
	case domain.Memory.Guest.Value()%block != 0:
		return "memory.guest is not a multiple of " + unit
	case maxGuest.Value()%block != 0:
		return "memory.maxGuest is not a multiple of " + unit
	case spec.Architecture != architectures.AMD64:
		return "memory can be hot-plugged on amd64 only"
	case domain.Memory.Guest.Value() < minimumGuestSize:
		return "memory can be hot-plugged into guests of at least 1Gi only"
	}
	return ""
}

// cpuTopologyStatus is the topology that the guest starts with, from which hotplug counts.
func cpuTopologyStatus(c *Completion) {
	cpu := c.Spec.Domain.CPU
	if c.Status == nil || cpu == nil || c.Status.CurrentCPUTopology != nil {
		return
	}
	c.Status.CurrentCPUTopology = &v1.CPUTopology{Sockets: cpu.Sockets, Cores: cpu.Cores, Threads: cpu.Threads}
	c.Recorder.At("status", func() { c.Recorder.Record("currentCPUTopology", c.Status.CurrentCPUTopology) })
}

// memoryStatus is the memory that the guest starts with, from which hotplug counts.
func memoryStatus(c *Completion) {
	if c.Status == nil || c.Status.Memory != nil || c.Spec.Domain.Memory == nil || c.Spec.Domain.Memory.Guest == nil {
		return
	}
	guest := c.Spec.Domain.Memory.Guest
	c.Status.Memory = &v1.MemoryStatus{GuestAtBoot: guest, GuestCurrent: guest, GuestRequested: guest}
	c.Recorder.At("status", func() { c.Recorder.Record("memory", c.Status.Memory) })
}
