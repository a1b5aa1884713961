package conformance

import "testing"

func TestRealPath(t *testing.T) {
	for odd, want := range map[string]string{
		"spec.hostname": "spec.hostname",
		"spec.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight":                           "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
		"spec.template.spec.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace":        "spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaces[0]",
		"spec.topologySpreadConstraints.labelSelector.matchLabels":                                              "spec.topologySpreadConstraints[0].labelSelector.matchLabels",
		"spec.template.spec.topologySpreadConstraints[2].{topologyKey, whenUnsatisfiable}":                      "spec.template.spec.topologySpreadConstraints[2]",
		"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels": "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels",
	} {
		if got := RealPath(odd); got != want {
			t.Errorf("RealPath(%q) = %q, want %q", odd, got, want)
		}
	}
}
