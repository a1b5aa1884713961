package validators

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// maxDedicatedThreads is how many threads of a guest's core can be siblings on one core of the host.
const maxDedicatedThreads = 2

// cpuFeaturePolicies are libvirt's; an empty one means require.
var cpuFeaturePolicies = []string{"force", "require", "optional", "disable", "forbid"}

func cpuRules() Table {
	return Table{
		{
			ID: "cpu-request-not-negative", Title: "The CPU request is not negative", Scope: OnSpec,
			Remedy: "Set resources.requests.cpu to zero or more, or leave it out.", Check: cpuRequestNotNegative,
		},
		{
			ID: "cpu-limit-not-negative", Title: "The CPU limit is not negative", Scope: OnSpec,
			Remedy: "Set resources.limits.cpu to zero or more, or leave it out.", Check: cpuLimitNotNegative,
		},
		{
			ID: "cpu-request-within-limit", Title: "The CPU request does not exceed the limit", Scope: OnSpec,
			Remedy: "Lower resources.requests.cpu or raise resources.limits.cpu.", Check: cpuRequestWithinLimit,
		},
		{
			ID: "cpu-sockets-within-maximum", Title: "The sockets do not exceed their maximum", Scope: OnSpec,
			Remedy: "Lower cpu.sockets or raise cpu.maxSockets.", Check: cpuSocketsWithinMaximum,
		},
		{
			ID: "cpu-feature-policies", Title: "CPU features have policies that exist", Scope: OnSpec,
			Remedy: "Use force, require, optional, disable or forbid.", Check: cpuFeaturePoliciesExist,
		},
		{
			ID: "cpu-dedicated-memory", Title: "Dedicated CPUs come with an amount of memory", Scope: OnSpec,
			Remedy: "Set memory.guest, resources.requests.memory or resources.limits.memory.", Check: whenDedicated(dedicatedMemory),
		},
		{
			ID: "cpu-dedicated-memory-guaranteed", Title: "With dedicated CPUs the memory request equals the limit", Scope: OnSpec,
			Remedy: "Set resources.requests.memory and resources.limits.memory to the same amount.", Check: whenDedicated(dedicatedMemoryGuaranteed),
		},
		{
			ID: "cpu-dedicated-whole", Title: "Dedicated CPUs are requested and limited in whole numbers", Scope: OnSpec,
			Remedy: "Round the CPU request and limit to whole CPUs.", Check: whenDedicated(dedicatedWholeCPUs),
		},
		{
			ID: "cpu-dedicated-count", Title: "Dedicated CPUs have a number", Scope: OnSpec,
			Remedy: "Set cpu.cores, resources.requests.cpu or resources.limits.cpu.", Check: whenDedicated(dedicatedCount),
		},
		{
			ID: "cpu-dedicated-guaranteed", Title: "With dedicated CPUs the CPU request equals the limit", Scope: OnSpec,
			Remedy: "Set resources.requests.cpu and resources.limits.cpu to the same number.", Check: whenDedicated(dedicatedGuaranteed),
		},
		{
			ID: "cpu-dedicated-topology", Title: "The CPU request or limit agrees with the topology of dedicated CPUs", Scope: OnSpec,
			Remedy: "Leave out the CPU request and limit, or set them to sockets × cores × threads.", Check: whenDedicated(dedicatedTopology),
		},
		{
			ID: "cpu-dedicated-threads", Title: "Dedicated CPUs have at most two threads per core", Scope: OnSpec,
			Remedy: "Set cpu.threads to 1 or 2, and use more cores.", Check: whenDedicated(dedicatedThreads),
		},
		{
			ID: "cpu-isolated-emulator-dedicated", Title: "An isolated emulator thread comes with dedicated CPUs", Scope: OnSpec,
			Remedy: "Set cpu.dedicatedCpuPlacement, or leave out cpu.isolateEmulatorThread.", Check: isolatedEmulatorDedicated,
		},
		{
			ID: "cpu-numa-dedicated", Title: "A NUMA topology comes with dedicated CPUs", Scope: OnSpec,
			Remedy: "Set cpu.dedicatedCpuPlacement, or leave out cpu.numa.", Check: numaDedicated,
		},
		{
			ID: "cpu-numa-hugepages", Title: "A NUMA topology comes with hugepages", Scope: OnSpec,
			Remedy: "Set memory.hugepages, or leave out cpu.numa.", Check: numaHugepages,
		},
		{
			ID: "cpu-realtime-dedicated", Title: "Realtime comes with dedicated CPUs", Scope: OnSpec,
			Remedy: "Set cpu.dedicatedCpuPlacement, or leave out cpu.realtime.", Check: realtimeDedicated,
		},
		{
			ID: "cpu-realtime-numa", Title: "Realtime comes with a NUMA topology", Scope: OnSpec,
			Remedy: "Set cpu.numa.guestMappingPassthrough, or leave out cpu.realtime.", Check: realtimeNUMA,
		},
	}
}

// cpuPath is the path of a field of the CPU.
func cpuPath(s *Subject, names ...string) *field.Path {
	return s.Domain().Child("cpu", names...)
}

// requestPath and limitPath are the paths of a resource's request and limit.
func requestPath(s *Subject, name string) *field.Path {
	return s.Domain().Child("resources", "requests", name)
}

func limitPath(s *Subject, name string) *field.Path {
	return s.Domain().Child("resources", "limits", name)
}

func cpuRequestNotNegative(s *Subject) field.ErrorList {
	return notNegative(requestPath(s, "cpu"), s.Spec.Domain.Resources.Requests.Cpu())
}

func cpuLimitNotNegative(s *Subject) field.ErrorList {
	return notNegative(limitPath(s, "cpu"), s.Spec.Domain.Resources.Limits.Cpu())
}

func notNegative(path *field.Path, q *resource.Quantity) field.ErrorList {
	if q.Sign() >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, q.String(), negative)}
}

func cpuRequestWithinLimit(s *Subject) field.ErrorList {
	resources := &s.Spec.Domain.Resources
	return withinLimit(requestPath(s, "cpu"), resources.Requests.Cpu(), resources.Limits.Cpu())
}

// withinLimit compares a request with a limit; zero is no limit.
func withinLimit(path *field.Path, request, limit *resource.Quantity) field.ErrorList {
	if limit.Sign() <= 0 || request.Cmp(*limit) <= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, request.String(), fmt.Sprintf("exceeds the limit of %s", limit))}
}

func cpuSocketsWithinMaximum(s *Subject) field.ErrorList {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || cpu.MaxSockets == 0 || cpu.Sockets <= cpu.MaxSockets {
		return nil
	}
	return field.ErrorList{field.Invalid(cpuPath(s, "sockets"), cpu.Sockets, fmt.Sprintf("exceeds the maximum of %d sockets", cpu.MaxSockets))}
}

func cpuFeaturePoliciesExist(s *Subject) (found field.ErrorList) {
	cpu := s.Spec.Domain.CPU
	if cpu == nil {
		return nil
	}
	for i := range cpu.Features {
		if policy := cpu.Features[i].Policy; policy != "" && !slices.Contains(cpuFeaturePolicies, policy) {
			found = append(found, field.NotSupported(cpuPath(s, "features").Index(i).Child("policy"), policy, cpuFeaturePolicies))
		}
	}
	return found
}

// whenDedicated runs a check only for guests that get CPUs of the host for themselves.
func whenDedicated(check func(*Subject) field.ErrorList) func(*Subject) field.ErrorList {
	return func(s *Subject) field.ErrorList {
		if cpu := s.Spec.Domain.CPU; cpu == nil || !cpu.DedicatedCPUPlacement {
			return nil
		}
		return check(s)
	}
}

func dedicatedMemory(s *Subject) field.ErrorList {
	memory, limit := s.Spec.Domain.Memory, s.Spec.Domain.Resources.Limits.Memory()
	if limit.Sign() != 0 || askedMemory(s).Sign() != 0 || memory != nil && memory.Hugepages != nil {
		return nil
	}
	return field.ErrorList{field.Invalid(limitPath(s, "memory"), limit.String(), "dedicated CPUs need a guaranteed pod, and so memory.guest, memory.hugepages, or a memory request or limit")}
}

func dedicatedMemoryGuaranteed(s *Subject) field.ErrorList {
	request, limit := s.Spec.Domain.Resources.Requests.Memory(), s.Spec.Domain.Resources.Limits.Memory()
	if request.Sign() <= 0 || limit.Sign() <= 0 || request.Value() == limit.Value() {
		return nil
	}
	return field.ErrorList{field.Invalid(requestPath(s, "memory"), request.String(), fmt.Sprintf("must equal the limit of %s, because dedicated CPUs need a guaranteed pod", limit))}
}

func dedicatedWholeCPUs(s *Subject) (found field.ErrorList) {
	resources := &s.Spec.Domain.Resources
	found = append(found, whole(requestPath(s, "cpu"), resources.Requests.Cpu())...)
	return append(found, whole(limitPath(s, "cpu"), resources.Limits.Cpu())...)
}

func whole(path *field.Path, q *resource.Quantity) field.ErrorList {
	rounded := q.DeepCopy()
	if q.Sign() <= 0 || rounded.RoundUp(0) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, q.String(), "must be a whole number, because the CPUs are dedicated")}
}

func dedicatedCount(s *Subject) field.ErrorList {
	resources := &s.Spec.Domain.Resources
	if resources.Requests.Cpu().Sign() != 0 || resources.Limits.Cpu().Sign() != 0 || vCPUs(s.Spec.Domain.CPU) != 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(cpuPath(s, "dedicatedCpuPlacement"), true, "needs a number of CPUs: a topology, a CPU request or a CPU limit")}
}

func dedicatedGuaranteed(s *Subject) field.ErrorList {
	request, limit := s.Spec.Domain.Resources.Requests.Cpu(), s.Spec.Domain.Resources.Limits.Cpu()
	if request.Sign() <= 0 || limit.Sign() <= 0 || request.Value() == limit.Value() {
		return nil
	}
	return field.ErrorList{field.Invalid(cpuPath(s, "dedicatedCpuPlacement"), true, fmt.Sprintf("needs a CPU request that equals the limit; they are %s and %s", request, limit))}
}

func dedicatedTopology(s *Subject) field.ErrorList {
	request, limit := s.Spec.Domain.Resources.Requests.Cpu(), s.Spec.Domain.Resources.Limits.Cpu()
	count := vCPUs(s.Spec.Domain.CPU)
	if count == 0 || request.Sign() <= 0 && limit.Sign() <= 0 || request.Value() == count || limit.Value() == count {
		return nil
	}
	asked := request
	if request.Sign() <= 0 {
		asked = limit
	}
	return field.ErrorList{field.Invalid(cpuPath(s, "dedicatedCpuPlacement"), true, fmt.Sprintf("needs as many CPUs as the topology has: it has %d, the request or limit is %s", count, asked))}
}

func dedicatedThreads(s *Subject) field.ErrorList {
	threads := s.Spec.Domain.CPU.Threads
	if threads <= maxDedicatedThreads {
		return nil
	}
	return field.ErrorList{field.Invalid(cpuPath(s, "dedicatedCpuPlacement"), true, fmt.Sprintf("allows at most %d threads per core, not %d", maxDedicatedThreads, threads))}
}

func isolatedEmulatorDedicated(s *Subject) field.ErrorList {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || !cpu.IsolateEmulatorThread || cpu.DedicatedCPUPlacement {
		return nil
	}
	return field.ErrorList{field.Invalid(cpuPath(s, "isolateEmulatorThread"), true, "has no effect without cpu.dedicatedCpuPlacement")}
}

// mapsNUMA reports whether the guest sees the NUMA nodes of the host.
func mapsNUMA(cpu *v1.CPU) bool {
	return cpu != nil && cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil
}

func numaDedicated(s *Subject) field.ErrorList {
	if !mapsNUMA(s.Spec.Domain.CPU) || s.Spec.Domain.CPU.DedicatedCPUPlacement {
		return nil
	}
	return field.ErrorList{field.Invalid(cpuPath(s, "numa", "guestMappingPassthrough"), field.OmitValueType{}, "needs cpu.dedicatedCpuPlacement: only dedicated CPUs stay on their NUMA node")}
}

func numaHugepages(s *Subject) field.ErrorList {
	if !mapsNUMA(s.Spec.Domain.CPU) || s.Spec.Domain.Memory != nil && s.Spec.Domain.Memory.Hugepages != nil {
		return nil
	}
	return field.ErrorList{field.Invalid(cpuPath(s, "numa", "guestMappingPassthrough"), field.OmitValueType{}, "needs memory.hugepages: only hugepages can be bound to NUMA nodes")}
}

func realtimeDedicated(s *Subject) field.ErrorList {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || cpu.Realtime == nil || cpu.DedicatedCPUPlacement {
		return nil
	}
	return field.ErrorList{field.Required(cpuPath(s, "dedicatedCpuPlacement"), "cpu.realtime needs dedicated CPUs")}
}

func realtimeNUMA(s *Subject) field.ErrorList {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || cpu.Realtime == nil || mapsNUMA(cpu) {
		return nil
	}
	return field.ErrorList{field.Required(cpuPath(s, "numa", "guestMappingPassthrough"), "cpu.realtime needs the NUMA topology of the host")}
}

// vCPUs is the number of CPUs of a topology: the product of what is given of it, and 0 if nothing is.
func vCPUs(cpu *v1.CPU) int64 {
	var count uint64
	for _, factor := range []uint32{cpu.Sockets, cpu.Cores, cpu.Threads} {
		switch {
		case factor == 0:
		case count == 0:
			count = uint64(factor)
		default:
			var overflow uint64
			if overflow, count = bits.Mul64(count, uint64(factor)); overflow != 0 {
				return math.MaxInt64
			}
		}
	}
	return int64(min(count, math.MaxInt64))
}
