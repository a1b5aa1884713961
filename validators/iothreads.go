package validators

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func ioThreadRules() Table {
	return Table{
		{
			ID: "iothreads-policy", Title: "The policy of I/O threads exists", Scope: OnSpec,
			Remedy: "Use shared, auto or supplementalPool.", Check: ioThreadsPolicy,
		},
		{
			ID: "iothreads-pool-size", Title: "A pool of I/O threads has threads", Scope: OnSpec,
			Remedy: "Set ioThreads.supplementalPoolThreadCount to 1 or more.", Check: ioThreadsPoolSize,
		},
	}
}

func ioThreadsPolicy(s *Subject) field.ErrorList {
	return badIOThreadsPolicy(s.Domain().Child("ioThreadsPolicy"), s.Spec.Domain.IOThreadsPolicy)
}

func badIOThreadsPolicy(path *field.Path, policy *v1.IOThreadsPolicy) field.ErrorList {
	if policy == nil {
		return nil
	}
	switch *policy {
	case v1.IOThreadsPolicyShared, v1.IOThreadsPolicyAuto, v1.IOThreadsPolicySupplementalPool:
		return nil
	}
	return field.ErrorList{field.Invalid(path, *policy, "must be shared, auto or supplementalPool")}
}

func ioThreadsPoolSize(s *Subject) field.ErrorList {
	policy, threads := s.Spec.Domain.IOThreadsPolicy, s.Spec.Domain.IOThreads
	if policy == nil || *policy != v1.IOThreadsPolicySupplementalPool {
		return nil
	}
	path := s.Domain().Child("ioThreads", "supplementalPoolThreadCount")
	switch {
	case threads == nil || threads.SupplementalPoolThreadCount == nil:
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be set, because ioThreadsPolicy is supplementalPool")}
	case *threads.SupplementalPoolThreadCount < 1:
		return field.ErrorList{field.Invalid(path, *threads.SupplementalPoolThreadCount, "must be at least 1, because ioThreadsPolicy is supplementalPool")}
	}
	return nil
}
