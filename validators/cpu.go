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
	return Scoped(OnSpec,
		cpuRequestNotNegativeRule,
		cpuLimitNotNegativeRule,
		cpuRequestWithinLimitRule,
		cpuSocketsWithinMaximumRule,
		cpuFeaturePoliciesExistRule,
		dedicatedMemoryRule,
		dedicatedMemoryGuaranteedRule,
		dedicatedWholeCPUsRule,
		dedicatedCountRule,
		dedicatedGuaranteedRule,
		dedicatedTopologyRule,
		dedicatedThreadsRule,
		isolatedEmulatorDedicatedRule,
		numaDedicatedRule,
		numaHugepagesRule,
		realtimeDedicatedRule,
		realtimeNUMARule,
	)
}

// cpuPath is the path of a field of the CPU.
func cpuPath(s *Subject, names ...string) *field.Path {
	return s.Domain().Child("cpu", names...)
}

// requestPlace and limitPlace are the places of a resource's request and limit.
func requestPlace(s *Subject, name string) place { return inDomain(s, "resources", "requests", name) }

func limitPlace(s *Subject, name string) place { return inDomain(s, "resources", "limits", name) }

var cpuRequestNotNegativeRule = Rule{
	ID:     "cpu-request-not-negative",
	Title:  "The CPU request is not negative",
	Remedy: "Set resources.requests.cpu to zero or more, or leave it out.",
	Check:  cpuRequestNotNegative,
}

func cpuRequestNotNegative(s *Subject, found *Errors) {
	notNegative(requestPlace(s, "cpu"), s.Spec.Domain.Resources.Requests.Cpu(), found)
}

var cpuLimitNotNegativeRule = Rule{
	ID:     "cpu-limit-not-negative",
	Title:  "The CPU limit is not negative",
	Remedy: "Set resources.limits.cpu to zero or more, or leave it out.",
	Check:  cpuLimitNotNegative,
}

func cpuLimitNotNegative(s *Subject, found *Errors) {
	notNegative(limitPlace(s, "cpu"), s.Spec.Domain.Resources.Limits.Cpu(), found)
}

func notNegative(at place, q *resource.Quantity, found *Errors) {
	if q.Sign() >= 0 {
		return
	}
	found.Add(field.Invalid(at(), q.String(), negative))
}

var cpuRequestWithinLimitRule = Rule{
	ID:     "cpu-request-within-limit",
	Title:  "The CPU request does not exceed the limit",
	Remedy: "Lower resources.requests.cpu or raise resources.limits.cpu.",
	Check:  cpuRequestWithinLimit,
}

func cpuRequestWithinLimit(s *Subject, found *Errors) {
	resources := &s.Spec.Domain.Resources
	withinLimit(requestPlace(s, "cpu"), resources.Requests.Cpu(), resources.Limits.Cpu(), found)
}

// withinLimit compares a request with a limit; zero is no limit.
func withinLimit(at place, request, limit *resource.Quantity, found *Errors) {
	if limit.Sign() <= 0 || request.Cmp(*limit) <= 0 {
		return
	}
	found.Add(field.Invalid(at(), request.String(), fmt.Sprintf("exceeds the limit of %s", limit)))
}

var cpuSocketsWithinMaximumRule = Rule{
	ID:     "cpu-sockets-within-maximum",
	Title:  "The sockets do not exceed their maximum",
	Remedy: "Lower cpu.sockets or raise cpu.maxSockets.",
	Check:  cpuSocketsWithinMaximum,
}

func cpuSocketsWithinMaximum(s *Subject, found *Errors) {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || cpu.MaxSockets == 0 || cpu.Sockets <= cpu.MaxSockets {
		return
	}
	found.Add(field.Invalid(cpuPath(s, "sockets"), cpu.Sockets, fmt.Sprintf("exceeds the maximum of %d sockets", cpu.MaxSockets)))
}

var cpuFeaturePoliciesExistRule = Rule{
	ID:     "cpu-feature-policies",
	Title:  "The policy of a CPU feature is known",
	Remedy: "Use a supported policy, or leave it out.",
	Check:  cpuFeaturePoliciesExist,
}

func cpuFeaturePoliciesExist(s *Subject, found *Errors) {
	cpu := s.Spec.Domain.CPU
	if cpu == nil {
		return
	}
	for i := range cpu.Features {
		if policy := cpu.Features[i].Policy; policy != "" && !slices.Contains(cpuFeaturePolicies, policy) {
			found.Add(field.NotSupported(cpuPath(s, "features").Index(i).Child("policy"), policy, cpuFeaturePolicies))
		}
	}
}

// whenDedicated runs a check only for guests that get CPUs of the host for themselves.
func whenDedicated(check func(*Subject, *Errors)) func(*Subject, *Errors) {
	return func(s *Subject, found *Errors) {
		if cpu := s.Spec.Domain.CPU; cpu == nil || !cpu.DedicatedCPUPlacement {
			return
		}
		check(s, found)
	}
}

var dedicatedMemoryRule = Rule{
	ID:     "cpu-dedicated-memory",
	Title:  "A VM with dedicated CPUs sets its memory",
	Remedy: "Set memory.guest, resources.requests.memory or resources.limits.memory.",
	Check:  whenDedicated(dedicatedMemory),
}

func dedicatedMemory(s *Subject, found *Errors) {
	memory, limit := s.Spec.Domain.Memory, s.Spec.Domain.Resources.Limits.Memory()
	if limit.Sign() != 0 || requestedMemory(s).Sign() != 0 || memory != nil && memory.Hugepages != nil {
		return
	}
	found.Add(field.Invalid(limitPlace(s, "memory")(), limit.String(), "dedicated CPUs need a guaranteed pod, which needs an amount of memory"))
}

var dedicatedMemoryGuaranteedRule = Rule{
	ID:     "cpu-dedicated-memory-guaranteed",
	Title:  "With dedicated CPUs the memory request equals the limit",
	Remedy: "Set resources.requests.memory and resources.limits.memory to the same amount.",
	Check:  whenDedicated(dedicatedMemoryGuaranteed),
}

func dedicatedMemoryGuaranteed(s *Subject, found *Errors) {
	request, limit := s.Spec.Domain.Resources.Requests.Memory(), s.Spec.Domain.Resources.Limits.Memory()
	if request.Sign() <= 0 || limit.Sign() <= 0 || request.Value() == limit.Value() {
		return
	}
	found.Add(field.Invalid(requestPlace(s, "memory")(), request.String(), fmt.Sprintf("must equal the limit of %s, because dedicated CPUs need a guaranteed pod", limit)))
}

var dedicatedWholeCPUsRule = Rule{
	ID:     "cpu-dedicated-whole",
	Title:  "Dedicated CPUs are requested and limited in whole numbers",
	Remedy: "Round the CPU request and limit to whole CPUs.",
	Check:  whenDedicated(dedicatedWholeCPUs),
}

func dedicatedWholeCPUs(s *Subject, found *Errors) {
	resources := &s.Spec.Domain.Resources
	whole(requestPlace(s, "cpu"), resources.Requests.Cpu(), found)
	whole(limitPlace(s, "cpu"), resources.Limits.Cpu(), found)
}

func whole(at place, q *resource.Quantity, found *Errors) {
	rounded := q.DeepCopy()
	if q.Sign() <= 0 || rounded.RoundUp(0) {
		return
	}
	found.Add(field.Invalid(at(), q.String(), "must be a whole number, because the CPUs are dedicated"))
}

var dedicatedCountRule = Rule{
	ID:     "cpu-dedicated-count",
	Title:  "A VM with dedicated CPUs sets their number",
	Remedy: "Set cpu.cores, resources.requests.cpu or resources.limits.cpu.",
	Check:  whenDedicated(dedicatedCount),
}

func dedicatedCount(s *Subject, found *Errors) {
	resources := &s.Spec.Domain.Resources
	if resources.Requests.Cpu().Sign() != 0 || resources.Limits.Cpu().Sign() != 0 || vCPUs(s.Spec.Domain.CPU) != 0 {
		return
	}
	found.Add(field.Invalid(cpuPath(s, "dedicatedCpuPlacement"), true, "needs a number of CPUs"))
}

var dedicatedGuaranteedRule = Rule{
	ID:     "cpu-dedicated-guaranteed",
	Title:  "With dedicated CPUs the CPU request equals the limit",
	Remedy: "Set resources.requests.cpu and resources.limits.cpu to the same number.",
	Check:  whenDedicated(dedicatedGuaranteed),
}

func dedicatedGuaranteed(s *Subject, found *Errors) {
	request, limit := s.Spec.Domain.Resources.Requests.Cpu(), s.Spec.Domain.Resources.Limits.Cpu()
	if request.Sign() <= 0 || limit.Sign() <= 0 || request.Value() == limit.Value() {
		return
	}
	found.Add(field.Invalid(cpuPath(s, "dedicatedCpuPlacement"), true, fmt.Sprintf("needs a CPU request that equals the limit; they are %s and %s", request, limit)))
}

var dedicatedTopologyRule = Rule{
	ID:     "cpu-dedicated-topology",
	Title:  "The CPU request or limit agrees with the topology of dedicated CPUs",
	Remedy: "Leave out the CPU request and limit, or set them to sockets × cores × threads.",
	Check:  whenDedicated(dedicatedTopology),
}

func dedicatedTopology(s *Subject, found *Errors) {
	request, limit := s.Spec.Domain.Resources.Requests.Cpu(), s.Spec.Domain.Resources.Limits.Cpu()
	count := vCPUs(s.Spec.Domain.CPU)
	if count == 0 || request.Sign() <= 0 && limit.Sign() <= 0 || request.Value() == count || limit.Value() == count {
		return
	}
	asked := request
	if request.Sign() <= 0 {
		asked = limit
	}
	found.Add(field.Invalid(cpuPath(s, "dedicatedCpuPlacement"), true, fmt.Sprintf("needs as many CPUs as the topology has: it has %d, the request or limit is %s", count, asked)))
}

var dedicatedThreadsRule = Rule{
	ID:     "cpu-dedicated-threads",
	Title:  "Dedicated CPUs have at most two threads per core",
	Remedy: "Lower cpu.threads, and use more cores.",
	Check:  whenDedicated(dedicatedThreads),
}

func dedicatedThreads(s *Subject, found *Errors) {
	threads := s.Spec.Domain.CPU.Threads
	if threads <= maxDedicatedThreads {
		return
	}
	found.Add(field.Invalid(cpuPath(s, "dedicatedCpuPlacement"), true, fmt.Sprintf("allows at most %d threads per core, not %d", maxDedicatedThreads, threads)))
}

var isolatedEmulatorDedicatedRule = Rule{
	ID:     "cpu-isolated-emulator-dedicated",
	Title:  "An isolated emulator thread needs dedicated CPUs",
	Remedy: "Set cpu.dedicatedCpuPlacement, or leave out cpu.isolateEmulatorThread.",
	Check:  isolatedEmulatorDedicated,
}

func isolatedEmulatorDedicated(s *Subject, found *Errors) {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || !cpu.IsolateEmulatorThread || cpu.DedicatedCPUPlacement {
		return
	}
	found.Add(field.Invalid(cpuPath(s, "isolateEmulatorThread"), true, "has no effect without cpu.dedicatedCpuPlacement"))
}

// mapsNUMA reports whether the guest sees the NUMA nodes of the host.
func mapsNUMA(cpu *v1.CPU) bool {
	return cpu != nil && cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil
}

var numaDedicatedRule = Rule{
	ID:     "cpu-numa-dedicated",
	Title:  "A NUMA topology needs dedicated CPUs",
	Remedy: "Set cpu.dedicatedCpuPlacement, or leave out cpu.numa.",
	Check:  numaDedicated,
}

func numaDedicated(s *Subject, found *Errors) {
	if !mapsNUMA(s.Spec.Domain.CPU) || s.Spec.Domain.CPU.DedicatedCPUPlacement {
		return
	}
	found.Add(field.Invalid(cpuPath(s, "numa", "guestMappingPassthrough"), field.OmitValueType{}, "needs cpu.dedicatedCpuPlacement: only dedicated CPUs stay on their NUMA node"))
}

var numaHugepagesRule = Rule{
	ID:     "cpu-numa-hugepages",
	Title:  "A NUMA topology needs hugepages",
	Remedy: "Set memory.hugepages, or leave out cpu.numa.",
	Check:  numaHugepages,
}

func numaHugepages(s *Subject, found *Errors) {
	if !mapsNUMA(s.Spec.Domain.CPU) || s.Spec.Domain.Memory != nil && s.Spec.Domain.Memory.Hugepages != nil {
		return
	}
	found.Add(field.Invalid(cpuPath(s, "numa", "guestMappingPassthrough"), field.OmitValueType{}, "needs memory.hugepages: only hugepages can be bound to NUMA nodes"))
}

var realtimeDedicatedRule = Rule{
	ID:     "cpu-realtime-dedicated",
	Title:  "Realtime needs dedicated CPUs",
	Remedy: "Set cpu.dedicatedCpuPlacement, or leave out cpu.realtime.",
	Check:  realtimeDedicated,
}

func realtimeDedicated(s *Subject, found *Errors) {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || cpu.Realtime == nil || cpu.DedicatedCPUPlacement {
		return
	}
	found.Add(field.Required(cpuPath(s, "dedicatedCpuPlacement"), "cpu.realtime needs dedicated CPUs"))
}

var realtimeNUMARule = Rule{
	ID:     "cpu-realtime-numa",
	Title:  "Realtime needs a NUMA topology",
	Remedy: "Set cpu.numa.guestMappingPassthrough, or leave out cpu.realtime.",
	Check:  realtimeNUMA,
}

func realtimeNUMA(s *Subject, found *Errors) {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || cpu.Realtime == nil || mapsNUMA(cpu) {
		return
	}
	found.Add(field.Required(cpuPath(s, "numa", "guestMappingPassthrough"), "cpu.realtime needs the NUMA topology of the host"))
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
