package evaluator

import (
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/plugins"
)

// WorstCaseOfPlugins returns the most memory of an admission of Plugins.
func WorstCaseOfPlugins() []memory.Bound {
	return []memory.Bound{{
		Name: "evaluator/plugins", Subject: "Plugins of KubeVirt", Bytes: plugins.MaxAdmission,
		Reason: "two environments of CEL, of 1 MiB together, since the first Plugin, and the expressions of one Plugin, of at most 16 KiB: others wait",
	}}
}
