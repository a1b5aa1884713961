package webhooks

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
)

// WorstCase returns the most memory of requests and of decisions.
func WorstCase() []memory.Bound {
	return []memory.Bound{
		{
			Name: "webhooks/bodies", Subject: "bodies of requests", Bytes: MaxBodies,
			Reason: "a body of more than 16 KiB reserves its size before it is read, and is kept up to three times",
		},
		{
			Name: "webhooks/decoded", Subject: "decoded objects", Bytes: MaxDecoded,
			Reason: "a request reserves memory before it is decoded, by its bytes and its number of objects and lists",
		},
		{
			Name: "webhooks/deletions", Subject: "deletions", Bytes: MaxDeletions,
			Reason: "bodies of up to 64 KiB, their decoded objects, and the policies for them. Larger deletions use the memory of the other requests",
		},
		{
			Name: "webhooks/evaluations", Subject: "evaluations of policies", Bytes: EvaluationMemory,
			Reason: "each reserves its memory budget ([policy-limits.md](policy-limits.md))",
		},
		{
			Name: "webhooks/decisions", Subject: "decisions of SubjectAccessReviews", Bytes: MaxDecisions,
			Reason: fmt.Sprintf("%d decisions are cached for %.0f seconds; one with a reason of more than 1 KiB is not cached", maxDecisions, decisionTTL.Seconds()),
		},
	}
}
