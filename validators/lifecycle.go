package validators

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func lifecycleRules() Table {
	return Table{
		{
			ID: "eviction-strategy", Title: "The eviction strategy exists", Scope: OnSpec,
			Remedy: "Use None, LiveMigrate, LiveMigrateIfPossible or External.", Check: evictionStrategy,
		},
		{
			ID: "start-strategy", Title: "The start strategy exists", Scope: OnSpec,
			Remedy: "Set startStrategy to Paused, or leave it out.", Check: startStrategy,
		},
		{
			ID: "start-paused-no-liveness-probe", Title: "A VM that starts paused has no liveness probe", Scope: OnSpec,
			Remedy: "Leave out startStrategy or livenessProbe.", Check: startPausedNoLivenessProbe,
		},
	}
}

// evictionStrategy evaluates the cluster's strategy where the VM names none: it is the one that would be used.
func evictionStrategy(s *Subject) field.ErrorList {
	strategy, origin := s.Spec.EvictionStrategy, ""
	if strategy == nil {
		strategy, origin = s.Facts.EvictionStrategy, fmt.Sprintf("; it comes from %s", s.Facts.Source)
	}
	if strategy == nil {
		return nil
	}
	switch *strategy {
	case v1.EvictionStrategyNone, v1.EvictionStrategyLiveMigrate, v1.EvictionStrategyLiveMigrateIfPossible, v1.EvictionStrategyExternal:
		return nil
	}
	return field.ErrorList{field.Invalid(s.Path.Child("evictionStrategy"), *strategy, "must be None, LiveMigrate, LiveMigrateIfPossible or External"+origin)}
}

func startStrategy(s *Subject) field.ErrorList {
	strategy := s.Spec.StartStrategy
	if strategy == nil || *strategy == v1.StartStrategyPaused {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Path.Child("startStrategy"), *strategy, "must be Paused, or be left out")}
}

func startPausedNoLivenessProbe(s *Subject) field.ErrorList {
	strategy := s.Spec.StartStrategy
	if strategy == nil || *strategy != v1.StartStrategyPaused || s.Spec.LivenessProbe == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Path.Child("startStrategy"), *strategy, "does not go with livenessProbe: the probe would fail while the VM is paused")}
}
