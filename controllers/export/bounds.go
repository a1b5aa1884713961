package export

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
)

// The exported policies that the limit of the chart is sized for, and the memory of one in bytes: as the cache has it, as it
// is made, and its binding.
const (
	sizedFor      = 200
	exportedBytes = 256 << 10
)

// WorstCase returns the most memory of the exported policies.
func WorstCase() []memory.Bound {
	return []memory.Bound{{
		Name: "export/policies", Subject: "exported policies", Bytes: sizedFor * exportedBytes,
		Reason: fmt.Sprintf("%d, 256 KiB each: as the cache has it, as it is made, and its binding. Only users who may write policies with `exportTo` add to them", sizedFor),
	}}
}
