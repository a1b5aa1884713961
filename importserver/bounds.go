package importserver

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/ovf/transfer"
)

// decodedFactor is how much more memory a plan needs than its JSON.
const decodedFactor = 4

// connectionBytes are the buffers of an answer besides its blocks: of net/http and TLS, to the client and to the source, and of the
// decompression of a compressed disk.
const connectionBytes = 256 << 10

// directoryBytes are the largest grain directory, as bytes and as numbers.
const directoryBytes = 9 << 20

// Bounds returns the most memory of a server. Its pods are not of the chart, so no process of the chart registers it.
func Bounds() []memory.Bound {
	return []memory.Bound{
		{Name: "importserver/plan", Subject: "the plan", Bytes: decodedFactor * transfer.MaxBytes, Reason: fmt.Sprintf("%d KiB of JSON; decoded it needs four times as much", transfer.MaxBytes>>10)},
		{Name: "importserver/answers", Subject: "answers with bytes of disks", Bytes: MaxAnswers * (2*BlockBytes + connectionBytes), Reason: fmt.Sprintf("%d at the same time, each with two blocks of %d KiB and the buffers of two connections", MaxAnswers, BlockBytes>>10)},
		{Name: "importserver/decompressions", Subject: "decompression of disks", Bytes: transfer.MaxDecompressed * (transfer.MaxWindow + transfer.MaxWindow/8), Reason: fmt.Sprintf("%d disks with zstd at the same time, each with a window of at most %d MiB", transfer.MaxDecompressed, transfer.MaxWindow>>20)},
		{Name: "importserver/kept", Subject: "inspected headers", Bytes: maxKept, Reason: "what was inspected of all disks, which later bytes are compared with"},
		{Name: "importserver/inspection", Subject: "inspection of a disk", Bytes: directoryBytes, Reason: "one at a time; the grain directory of a VMDK has at most 4 MiB"},
	}
}
