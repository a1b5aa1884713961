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
	{"affinity", "affinity and nodeSelector are always updated live"},
	{"instancetype", "a change of instancetype is always rolled out live where possible"},
}

var liveUpdateFeaturesRule = Rule{
	ID:     "vm-live-update-features-removed",
	Title:  "A VM does not use liveUpdateFeatures, which was removed",
	Remedy: "Remove liveUpdateFeatures. The vmRolloutStrategy LiveUpdate of the KubeVirt resource replaces it.",
	Check:  liveUpdateFeatures,
}

// liveUpdateFeatures names each feature with its replacement.
func liveUpdateFeatures(s *Subject, found *Errors) {
	features := gjson.GetBytes(s.Raw, "spec.liveUpdateFeatures")
	if !features.Exists() {
		return
	}
	path := specOfVM.Child("liveUpdateFeatures")
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
