package validators

import "k8s.io/apimachinery/pkg/util/validation/field"

// gateOff is the finding that something needs a feature gate of KubeVirt's; nil if the cluster has it on.
func gateOff(s *Subject, gate string, path *field.Path, value any, what string) *field.Error {
	if s.Facts.GateEnabled(gate) {
		return nil
	}
	return field.Invalid(path, value, what+" needs KubeVirt's feature gate "+gate+", which is off in this cluster")
}
