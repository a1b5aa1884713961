package validators

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func ioThreadRules() Table {
	return Scoped(OnSpec,
		ioThreadsPolicyRule,
		ioThreadsPoolSizeRule,
	)
}

var ioThreadsPolicyRule = Rule{
	ID:     "iothreads-policy",
	Title:  "The policy of I/O threads is known",
	Remedy: "Set ioThreadsPolicy to a supported value, or leave it out.",
	Check:  ioThreadsPolicy,
}

func ioThreadsPolicy(s *Subject, found *Errors) {
	badIOThreadsPolicy(inDomain(s, "ioThreadsPolicy"), s.Spec.Domain.IOThreadsPolicy, found)
}

func badIOThreadsPolicy(at place, policy *v1.IOThreadsPolicy, found *Errors) {
	if policy != nil && !slices.Contains(ioThreadsPolicies, *policy) {
		found.Add(unknown(at(), *policy, "the policy", ioThreadsPolicies))
	}
}

var ioThreadsPolicies = []v1.IOThreadsPolicy{v1.IOThreadsPolicyShared, v1.IOThreadsPolicyAuto, v1.IOThreadsPolicySupplementalPool}

var ioThreadsPoolSizeRule = Rule{
	ID:     "iothreads-pool-size",
	Title:  "A pool of I/O threads has threads",
	Remedy: "Set ioThreads.supplementalPoolThreadCount to 1 or more.",
	Check:  ioThreadsPoolSize,
}

func ioThreadsPoolSize(s *Subject, found *Errors) {
	policy, threads := s.Spec.Domain.IOThreadsPolicy, s.Spec.Domain.IOThreads
	if policy == nil || *policy != v1.IOThreadsPolicySupplementalPool {
		return
	}
	path := s.Domain().Child("ioThreads", "supplementalPoolThreadCount")
	switch {
	case threads == nil || threads.SupplementalPoolThreadCount == nil:
		found.Add(field.Invalid(path, field.OmitValueType{}, "must be set, because ioThreadsPolicy is supplementalPool"))
	case *threads.SupplementalPoolThreadCount < 1:
		found.Add(field.Invalid(path, *threads.SupplementalPoolThreadCount, "must be at least 1, because ioThreadsPolicy is supplementalPool"))
	}
}
