package pending

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/platform"
)

// WorstCase returns the most memory of the comparisons, of the records and of the index.
func WorstCase() []memory.Bound {
	return []memory.Bound{
		{
			// What is compared is copied when instancetypes are applied.
			Name: "pending/comparisons", Subject: "comparisons", Bytes: workers * 2 * platform.ReserveMachine,
			Reason: fmt.Sprintf("%d at the same time, each of a VM, its instance and the spec of its start: 256 KiB and 1,500 objects and lists each. Larger VMs are not compared", workers),
		},
		{
			Name: "pending/records", Subject: "records of running VMs", Bytes: maxMachines * recordBytes,
			Reason: fmt.Sprintf("%d VMs, 1 KiB each. Others have their annotation, and are not counted", maxMachines),
		},
		{
			Name: "pending/names", Subject: "names of instancetypes and preferences that VMs refer to", Bytes: maxObjects * memory.NameBytes,
			Reason: fmt.Sprintf("%d, %d bytes each; others are read after the interval", maxObjects, memory.NameBytes),
		},
	}
}
