package audit

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/evaluator"
)

// Kind is an audited kind.
type Kind struct {
	schema.GroupVersionKind
	schema.GroupVersionResource
}

// audited are the audited kinds, in their order. All are namespaced, because results are in the Report of the
// namespace.
var audited = []schema.GroupKind{
	evaluator.VirtualMachine, evaluator.VirtualMachineInstance, evaluator.ReplicaSet, evaluator.Pool, evaluator.Template,
	evaluator.Instancetype, evaluator.Preference,
}

// Kinds returns the audited kinds, in their order.
func Kinds() []Kind {
	kinds := make([]Kind, 0, len(audited))
	for _, info := range evaluator.Kinds() {
		if slices.Contains(audited, info.GroupKind()) {
			kinds = append(kinds, Kind{GroupVersionKind: info.GroupVersionKind, GroupVersionResource: info.Resource})
		}
	}
	return kinds
}
