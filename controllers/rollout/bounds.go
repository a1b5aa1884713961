package rollout

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
)

// WorstCase returns the most memory of rollouts: the evaluations, a page, which all workers share, the records of the virtual
// machines of a namespace, those that are planned, the outcomes, and the phases of the metrics.
func WorstCase() []memory.Bound {
	const page, records, planned, outcome, phase = 16 << 20, 8 << 20, 12 << 20, 500, 400
	return []memory.Bound{
		{
			Name: "rollout/evaluations", Subject: "evaluations of VMs in rollouts", Bytes: maxEvaluating,
			Reason: "each reserves its memory budget ([policy-limits.md](policy-limits.md))",
		},
		{Name: "rollout/page", Subject: "a page of VMs", Bytes: page, Reason: "all rollouts share it"},
		{
			Name: "rollout/plans", Subject: "VMs that are planned or written", Bytes: workers * (records + 2*planned),
			Reason: fmt.Sprintf("for each of %d rollouts at the same time, the records of its VMs 8 MiB, and two VMs that are planned, or eight that are written, 24 MiB", workers),
		},
		{
			Name: "rollout/outcomes", Subject: "outcomes and phases", Bytes: maxOutcomes*outcome + maxCounted*phase,
			Reason: fmt.Sprintf("%d outcomes and %d phases", maxOutcomes, maxCounted),
		},
	}
}
