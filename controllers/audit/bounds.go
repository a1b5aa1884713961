package audit

import (
	"fmt"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/limits/memory"
)

// The memory of what is bounded in number, in bytes.
const (
	// namespaceBytes is the most that the annotations of a namespace have.
	namespaceBytes = 256 << 10
	// sizedFor are the objects that the limit of the chart is for, and subjectBytes the memory of the name and the numbers of one.
	sizedFor, subjectBytes = 100_000, 200
)

// WorstCase returns the most memory of a round, and of the results that are kept.
func WorstCase() []memory.Bound {
	return []memory.Bound{
		{
			Name: "audit/objects", Subject: "objects that are evaluated", Bytes: maxEvaluating,
			Reason: "an object reserves memory by its bytes and its number of objects and lists. A larger object is evaluated by itself",
		},
		{
			Name: "audit/evaluations", Subject: "evaluations of policies", Bytes: EvaluationMemory,
			Reason: "each reserves its memory budget ([policy-limits.md](policy-limits.md))",
		},
		{
			Name: "audit/results", Subject: "results with their messages", Bytes: auditresults.MaxHeld * auditresults.HeldBytes,
			Reason: fmt.Sprintf("%d, at most %d bytes each; of others, only the number is kept", auditresults.MaxHeld, auditresults.HeldBytes),
		},
		{
			Name: "audit/subjects", Subject: "names of the objects, and the numbers of their results", Bytes: sizedFor * subjectBytes,
			Reason: fmt.Sprintf("%d objects, %d bytes each. Give the process more memory for more", sizedFor, subjectBytes),
		},
		{
			Name: "audit/namespaces", Subject: "namespaces with their annotations", Bytes: evaluator.MaxContexts * namespaceBytes,
			Reason: fmt.Sprintf("%d, 256 KiB each; others are read again", evaluator.MaxContexts),
		},
	}
}
