package validators

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/limits/decode"
)

// gateReservedOverhead is the feature gate of memory.reservedOverhead.
const gateReservedOverhead = "ReservedOverheadMemlock"

// leastMemory is the least that a VM can ask for.
var leastMemory = resource.MustParse("1M")

func memoryRules() Table {
	return Scoped(OnSpec,
		memoryAmountRule,
		memoryRequestLeastRule,
		memoryLimitNotNegativeRule,
		memoryRequestWithinLimitRule,
		memoryGuestWithinLimitRule,
		hugepagesSizeRule,
		hugepagesMultipleRule,
		reservedOverheadGateRule,
	)
}

var memoryAmountRule = Rule{
	ID:      "memory-amount",
	Title:   "A VM must request memory",
	Remedy:  "Set memory.guest, memory.hugepages or resources.requests.memory.",
	AtStart: true,
	Check:   memoryAmount,
}

func memoryAmount(s *Subject, found *Errors) {
	memory := s.Spec.Domain.Memory
	if len(s.Conflicts) > 0 { // nothing of an instancetype was applied
		return
	}
	if s.Spec.Domain.Resources.Requests.Memory().Sign() != 0 || memory != nil && (memory.Guest != nil || memory.Hugepages != nil) {
		return
	}
	found.Add(field.Required(s.Domain().Child("memory"), "the VM requests no memory"))
}

var memoryRequestLeastRule = Rule{
	ID:     "memory-request-least",
	Title:  "The memory request is not negative, and at least 1M",
	Remedy: "Raise resources.requests.memory, or leave it out.",
	Check:  memoryRequestLeast,
}

func memoryRequestLeast(s *Subject, found *Errors) {
	at, request := requestPlace(s, "memory"), s.Spec.Domain.Resources.Requests.Memory()
	if request.Sign() <= 0 {
		notNegative(at, request, found)
		return
	}
	if request.Cmp(leastMemory) >= 0 {
		return
	}
	found.Add(field.Invalid(at(), request.String(), fmt.Sprintf("must be at least %s", &leastMemory)))
}

var memoryLimitNotNegativeRule = Rule{
	ID:     "memory-limit-not-negative",
	Title:  "The memory limit is not negative",
	Remedy: "Set resources.limits.memory to zero or more, or leave it out.",
	Check:  memoryLimitNotNegative,
}

func memoryLimitNotNegative(s *Subject, found *Errors) {
	notNegative(limitPlace(s, "memory"), s.Spec.Domain.Resources.Limits.Memory(), found)
}

var memoryRequestWithinLimitRule = Rule{
	ID:     "memory-request-within-limit",
	Title:  "The memory request does not exceed the limit",
	Remedy: "Lower resources.requests.memory or raise resources.limits.memory.",
	Check:  memoryRequestWithinLimit,
}

func memoryRequestWithinLimit(s *Subject, found *Errors) {
	resources := &s.Spec.Domain.Resources
	withinLimit(requestPlace(s, "memory"), resources.Requests.Memory(), resources.Limits.Memory(), found)
}

var memoryGuestWithinLimitRule = Rule{
	ID:     "memory-guest-within-limit",
	Title:  "The guest's memory does not exceed the limit",
	Remedy: "Lower memory.guest or raise resources.limits.memory.",
	Check:  memoryGuestWithinLimit,
}

// memoryGuestWithinLimit does not hold under live updates: there the guest may grow, and KubeVirt raises the
// limit with it.
func memoryGuestWithinLimit(s *Subject, found *Errors) {
	memory, limit := s.Spec.Domain.Memory, s.Spec.Domain.Resources.Limits.Memory()
	if s.Facts.LiveUpdate || memory == nil || memory.Guest == nil || limit.Sign() == 0 || memory.Guest.Cmp(*limit) <= 0 {
		return
	}
	found.Add(field.Invalid(s.Domain().Child("memory", "guest"), memory.Guest.String(), fmt.Sprintf("exceeds the memory limit of %s", limit)))
}

// requestedMemory is the memory that the pod asks for: the request, or else what the guest has.
func requestedMemory(s *Subject) *resource.Quantity {
	request, memory := s.Spec.Domain.Resources.Requests.Memory(), s.Spec.Domain.Memory
	if request.IsZero() && memory != nil && memory.Guest != nil {
		return memory.Guest
	}
	return request
}

// pageSize is the size of hugepages in bytes; 0 if there are none, or if their size is none.
func pageSize(hugepages *v1.Hugepages) int64 {
	if hugepages == nil || !decode.Parsable(hugepages.PageSize) {
		return 0
	}
	size, err := resource.ParseQuantity(hugepages.PageSize)
	if err != nil || size.Sign() < 0 {
		return 0
	}
	return size.Value()
}

// hugepagesOf are the hugepages that the guest's memory is made of; nil if it is made of ordinary ones.
func hugepagesOf(s *Subject) *v1.Hugepages {
	if s.Spec.Domain.Memory == nil {
		return nil
	}
	return s.Spec.Domain.Memory.Hugepages
}

var hugepagesSizeRule = Rule{
	ID:     "memory-hugepages-size",
	Title:  "The size of hugepages is an amount of memory",
	Remedy: "Set memory.hugepages.pageSize to a size that the nodes have, such as 2Mi or 1Gi.",
	Check:  hugepagesSize,
}

func hugepagesSize(s *Subject, found *Errors) {
	badPageSize(inDomain(s, "memory", "hugepages", "pageSize"), hugepagesOf(s), found)
}

func badPageSize(at place, hugepages *v1.Hugepages, found *Errors) {
	if hugepages == nil || pageSize(hugepages) > 0 {
		return
	}
	found.Add(field.Invalid(at(), hugepages.PageSize, "is not an amount of memory above zero"))
}

var hugepagesMultipleRule = Rule{
	ID:     "memory-hugepages-multiple",
	Title:  "The memory is a multiple of the hugepages",
	Remedy: "Set memory.guest, or the memory request if there is one, to a multiple of memory.hugepages.pageSize.",
	Check:  hugepagesMultiple,
}

func hugepagesMultiple(s *Subject, found *Errors) {
	notWholePages(requestPlace(s, "memory"), requestedMemory(s), hugepagesOf(s), found)
}

func notWholePages(at place, asked *resource.Quantity, hugepages *v1.Hugepages, found *Errors) {
	size := pageSize(hugepages)
	if size == 0 || asked.Sign() == 0 {
		return // no hugepages, or one of them; a bad size was said already
	}
	var problem string
	switch bytes := asked.Value(); {
	case bytes < size:
		problem = "is less than one hugepage of"
	case bytes%size != 0:
		problem = "is not a multiple of the hugepages' size of"
	default:
		return
	}
	found.Add(field.Invalid(at(), asked.String(), fmt.Sprintf("the memory %s %s", problem, hugepages.PageSize)))
}

var reservedOverheadGateRule = Rule{
	ID:       "memory-reserved-overhead-gate",
	Title:    "A reserved overhead needs the feature gate ReservedOverheadMemlock",
	Remedy:   "Remove memory.reservedOverhead, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    reservedOverheadGate,
}

func reservedOverheadGate(s *Subject, found *Errors) {
	memory := s.Spec.Domain.Memory
	if memory == nil || memory.ReservedOverhead == nil {
		return
	}
	found.Add(gateOff(s, gateReservedOverhead, s.Domain().Child("memory", "reservedOverhead"), field.OmitValueType{}, "a reserved overhead"))
}
