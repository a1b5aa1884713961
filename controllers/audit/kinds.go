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

// beside are the audited kinds without a virtual machine. All are namespaced, because results are in the Report of the
// namespace.
var beside = []schema.GroupKind{evaluator.Instancetype, evaluator.Preference}

// Kinds returns the audited kinds, in their order: all that carry a virtual machine, and those beside them.
func Kinds() []Kind {
	var kinds []Kind
	for _, info := range evaluator.Kinds() {
		if info.Machine || slices.Contains(beside, info.GroupKind()) {
			kinds = append(kinds, Kind{GroupVersionKind: info.GroupVersionKind, GroupVersionResource: info.Resource})
		}
	}
	return kinds
}
