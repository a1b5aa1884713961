package templates

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
)

// WorstCase returns the most memory of an evaluation and of the index.
func WorstCase() []memory.Bound {
	return []memory.Bound{
		{
			Name: "templates/evaluation", Subject: "evaluation of a template", Bytes: 64 << 20,
			Reason: "one at the same time, decoded, rendered and evaluated",
		},
		{
			Name: "templates/names", Subject: "names of the objects that templates wait for", Bytes: maxObjects * memory.NameBytes,
			Reason: fmt.Sprintf("%d, %d bytes each; others are read every %d seconds", maxObjects, memory.NameBytes, int(unwatched.Seconds())),
		},
	}
}
