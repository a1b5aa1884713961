package validators

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func lifecycleRules() Table {
	return Scoped(OnSpec,
		evictionStrategyRule,
		startStrategyRule,
		startPausedNoLivenessProbeRule,
	)
}

var evictionStrategyRule = Rule{
	ID:     "eviction-strategy",
	Title:  "The eviction strategy is known",
	Remedy: "Set evictionStrategy to a supported value, or leave it out for the cluster's strategy.",
	Check:  evictionStrategy,
}

// evictionStrategy evaluates the cluster's strategy where the VM names none: it is the one that would be used.
func evictionStrategy(s *Subject, found *Errors) {
	strategy, origin := s.Spec.EvictionStrategy, ""
	if strategy == nil {
		strategy, origin = s.Facts.EvictionStrategy, fmt.Sprintf("; it comes from %s", s.Facts.Source)
	}
	if strategy == nil {
		return
	}
	if slices.Contains(evictionStrategies, *strategy) {
		return
	}
	err := unknown(s.Path.Child("evictionStrategy"), *strategy, "the eviction strategy", evictionStrategies)
	err.Detail += origin
	found.Add(err)
}

var evictionStrategies = []v1.EvictionStrategy{
	v1.EvictionStrategyNone, v1.EvictionStrategyLiveMigrate, v1.EvictionStrategyLiveMigrateIfPossible, v1.EvictionStrategyExternal,
}

var startStrategyRule = Rule{
	ID:     "start-strategy",
	Title:  "The start strategy is known",
	Remedy: "Set startStrategy to Paused, or leave it out.",
	Check:  startStrategy,
}

func startStrategy(s *Subject, found *Errors) {
	strategy := s.Spec.StartStrategy
	if strategy == nil || *strategy == v1.StartStrategyPaused {
		return
	}
	found.Add(unknown(s.Path.Child("startStrategy"), *strategy, "the start strategy", []v1.StartStrategy{v1.StartStrategyPaused}))
}

var startPausedNoLivenessProbeRule = Rule{
	ID:     "start-paused-no-liveness-probe",
	Title:  "A VM that starts paused has no liveness probe",
	Remedy: "Leave out startStrategy or livenessProbe.",
	Check:  startPausedNoLivenessProbe,
}

func startPausedNoLivenessProbe(s *Subject, found *Errors) {
	strategy := s.Spec.StartStrategy
	if strategy == nil || *strategy != v1.StartStrategyPaused || s.Spec.LivenessProbe == nil {
		return
	}
	found.Add(field.Invalid(s.Path.Child("startStrategy"), *strategy, "conflicts with livenessProbe, which fails while the VM is paused"))
}
