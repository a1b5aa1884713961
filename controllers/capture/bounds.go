package capture

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
)

// WorstCase returns the most memory of the captures and of the index.
func WorstCase() []memory.Bound {
	const stored, decoded = 3 << 19, 24
	return []memory.Bound{
		{
			Name: "capture/captures", Subject: "captures", Bytes: workers * decoded * stored,
			Reason: fmt.Sprintf("%d at the same time; each holds the content of a snapshot (1.5 MiB in etcd) and the template of it, up to %d times its size", workers, decoded),
		},
		{
			Name: "capture/names", Subject: "names of the objects that captures wait for", Bytes: maxChildren * memory.NameBytes,
			Reason: fmt.Sprintf("%d, %d bytes each; others are read every %d seconds", maxChildren, memory.NameBytes, int(unwatchedInterval.Seconds())),
		},
	}
}
