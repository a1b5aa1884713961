package templateexport

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/ovf/transfer"
)

const (
	// stored is the largest object that etcd stores, and decoded how much more memory a decoded one needs: a template is decoded several
	// times.
	stored, decoded = 3 << 19, 24
	// perConnection is the memory of a connection with TLS and HTTP, and answered how much more memory a status needs than its JSON.
	perConnection, answered = 192 << 10, 8
)

// WorstCase returns the most memory of the exports.
func WorstCase() []memory.Bound {
	return []memory.Bound{
		{
			Name: "templateexport/exports", Subject: "exports", Bytes: workers * decoded * stored,
			Reason: fmt.Sprintf("%d at the same time; each holds its objects and its template, at most 1.5 MiB in etcd, and the plan of its server", workers),
		},
		{
			Name: "templateexport/probes", Subject: "statuses of servers", Bytes: workers * (perConnection + answered*transfer.MaxBytes),
			Reason: fmt.Sprintf("%d at the same time, of at most %d KiB each", workers, transfer.MaxBytes>>10),
		},
		{
			Name: "templateexport/names", Subject: "names of the DataVolumes that exports wait for", Bytes: maxChildren * memory.NameBytes,
			Reason: fmt.Sprintf("%d, %d bytes each; others are read every %d seconds", maxChildren, memory.NameBytes, int(unwatchedInterval.Seconds())),
		},
	}
}
