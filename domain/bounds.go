package domain

import (
	"math/bits"

	k8sv1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// The bounds of a domain. Every other list has at most as many elements as a list of the instance, whose size the API server
// bounds. KubeVirt has no bounds, and libvirt rejects such domains: QEMU has at most 4096 vCPUs.
const (
	// MaxVCPUs is the number of vCPUs, with those that can be plugged.
	MaxVCPUs = 4096
	// MaxIOThreads is the number of I/O threads, and MaxDiskIOThreads that of all disks together.
	MaxIOThreads     = 4096
	MaxDiskIOThreads = 65_536
)

// checkBounds rejects instances whose domain would have too many elements, before any is made.
func checkBounds(vmi *v1.VirtualMachineInstance) error {
	sockets, cores, threads := topology(vmi)
	field := fieldDomain + "cpu"
	if cpu := vmi.Spec.Domain.CPU; cpu != nil && uint(cpu.MaxSockets) > sockets {
		sockets, field = uint(cpu.MaxSockets), fieldCPU+"maxSockets"
	}
	if count := saturating(saturating(sockets, cores), threads); count > MaxVCPUs {
		return failf(field, "%d sockets, %d cores and %d threads are more than %d vCPUs", sockets, cores, threads, MaxVCPUs)
	}
	if threads := poolThreads(vmi); threads > MaxIOThreads || saturating(threads, uint(len(vmi.Spec.Domain.Devices.Disks))) > MaxDiskIOThreads {
		return failf(fieldDomain+"ioThreads.supplementalPoolThreadCount", "%d is more than %d I/O threads, or than %d of all disks", threads, MaxIOThreads, MaxDiskIOThreads)
	}
	return nil
}

// saturating multiplies, up to the largest number.
func saturating(a, b uint) uint {
	if high, low := bits.Mul(a, b); high == 0 {
		return low
	}
	return ^uint(0)
}

// topology returns the current sockets, cores and threads of an instance. Without any of them, its CPU limit or request is the
// number of sockets.
func topology(vmi *v1.VirtualMachineInstance) (sockets, cores, threads uint) {
	sockets, cores, threads = 1, 1, 1
	cpu := vmi.Spec.Domain.CPU
	if cpu == nil || cpu.Cores == 0 && cpu.Sockets == 0 && cpu.Threads == 0 {
		resources := &vmi.Spec.Domain.Resources
		quantity, found := resources.Limits[k8sv1.ResourceCPU]
		if !found {
			quantity, found = resources.Requests[k8sv1.ResourceCPU]
		}
		if found {
			sockets = uint(uint32(quantity.Value())) //nolint:gosec // KubeVirt truncates it, and checkBounds bounds it
		}
		return sockets, cores, threads
	}
	if cpu.Cores != 0 {
		cores = uint(cpu.Cores)
	}
	if cpu.Threads != 0 {
		threads = uint(cpu.Threads)
	}
	if cpu.Sockets != 0 {
		sockets = uint(cpu.Sockets)
	}
	return sockets, cores, threads
}

// Size is how large the domain of an instance is.
type Size struct {
	// VCPUs are those with the ones that can be plugged, IOThreads those of all disks together, and Devices the volumes,
	// networks and devices.
	VCPUs, IOThreads, Devices uint64
}

// SizeOf returns the size of the domain of an instance. Numbers beyond the bounds are 0: the instance has no domain then.
func SizeOf(vmi *v1.VirtualMachineInstance) Size {
	sockets, cores, threads := topology(vmi)
	spec := &vmi.Spec
	if cpu := spec.Domain.CPU; cpu != nil {
		sockets = max(sockets, uint(cpu.MaxSockets))
	}
	d := &spec.Domain.Devices
	return Size{
		VCPUs:     within(saturating(saturating(sockets, cores), threads), MaxVCPUs),
		IOThreads: within(saturating(poolThreads(vmi), uint(len(d.Disks))), MaxDiskIOThreads),
		Devices: uint64(len(d.Disks) + len(d.Interfaces) + len(d.GPUs) + len(d.HostDevices) + len(d.Filesystems) + len(d.Inputs) +
			len(spec.Volumes) + len(spec.Networks) + len(spec.ResourceClaims)),
	}
}

func within(count, bound uint) uint64 {
	if count > bound {
		return 0
	}
	return uint64(count)
}
