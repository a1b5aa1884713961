package validators

import (
	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// liveUpdateRules are about spec.liveUpdateFeatures, which was part of KubeVirt's API until live updates became
// a strategy of the whole cluster (vm-rollout-strategy: "VMs using the liveUpdateFeatures will be rejected by
// the API"). No Go type has it any more, and KubeVirt's definition prunes it before any webhook, so that it is
// found in files, and on clusters whose definition keeps it.
func liveUpdateRules() Table {
	return Scoped(OnVM,
		liveUpdateFeaturesRule,
	)
}

// replacements say what became of each live update feature.
var replacements = []struct{ feature, instead string }{
	{"cpu", "set spec.template.spec.domain.cpu.maxSockets instead of cpu.maxSockets here"},
	{"memory", "set spec.template.spec.domain.memory.maxGuest instead of memory.maxGuest here"},
	{"affinity", "affinity and nodeSelector are updated live without it"},
	{"instancetype", "a change of instancetype is rolled out live without it, as far as that is possible"},
}

var liveUpdateFeaturesRule = Rule{
	ID:     "vm-live-update-features-removed",
	Title:  "A VM does not use liveUpdateFeatures, which was removed",
	Remedy: "Remove liveUpdateFeatures: the cluster's vmRolloutStrategy LiveUpdate takes its place. Limits of growth are cpu.maxSockets and memory.maxGuest in spec.template.spec.domain.",
	Check:  liveUpdateFeatures,
}

// liveUpdateFeatures names each feature with its replacement.
func liveUpdateFeatures(s *Subject, found *Errors) {
	features := gjson.GetBytes(s.Raw, "spec.liveUpdateFeatures")
	if !features.Exists() {
		return
	}
	path := specOfVM().Child("liveUpdateFeatures")
	replaced := false
	for _, r := range replacements {
		if features.Get(r.feature).Exists() {
			replaced = true
			found.Add(field.Forbidden(path.Child(r.feature), "was removed from KubeVirt: "+r.instead))
		}
	}
	if !replaced {
		found.Add(field.Forbidden(path, "was removed from KubeVirt: it has no effect"))
	}
}
