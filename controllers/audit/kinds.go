package audit

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/evaluator"
)

// Kind is a kind that is audited.
type Kind struct {
	schema.GroupVersionKind
	schema.GroupVersionResource
}

// audited are the kinds that are audited, in their order: those whose objects are in a namespace, whose Report can
// hold their results.
var audited = []schema.GroupKind{
	evaluator.VirtualMachine, evaluator.VirtualMachineInstance, evaluator.ReplicaSet, evaluator.Pool,
	evaluator.Instancetype, evaluator.Preference,
}

// Kinds are those that are audited, in their order.
func Kinds() []Kind {
	kinds := make([]Kind, 0, len(audited))
	for _, info := range evaluator.Kinds() {
		if slices.Contains(audited, info.GroupKind()) {
			kinds = append(kinds, Kind{GroupVersionKind: info.GroupVersionKind, GroupVersionResource: info.Resource})
		}
	}
	return kinds
}
