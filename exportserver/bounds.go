package exportserver

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/vmdk"
)

// decodedFactor is how much more memory a plan needs than its JSON.
const decodedFactor = 8

// Bounds returns the most memory of a server.
func Bounds() []memory.Bound {
	return []memory.Bound{
		{
			Name: "exportserver/plan", Subject: "plan and descriptor", Bytes: decodedFactor * transfer.MaxBytes,
			Reason: fmt.Sprintf("at most %d KiB of JSON, decoded and as XML", transfer.MaxBytes>>10),
		},
		{
			Name: "exportserver/tables", Subject: "sizes of the grains of disks", Bytes: MaxTables * vmdk.TableBytes,
			Reason: fmt.Sprintf("%d bytes for 32 MiB of a disk that are not zeros, at most %d GiB of all disks", vmdk.TableBytes, MaxTables*32/1024),
		},
		{
			Name: "exportserver/blocks", Subject: "blocks of disks at URLs", Bytes: maxOpen * web.MaxRangedBytes,
			Reason: fmt.Sprintf("of the %d disks that were read last", maxOpen),
		},
		{
			Name: "exportserver/answers", Subject: "downloads", Bytes: downloads(),
			Reason: fmt.Sprintf("%d at the same time, each with the grains that are read, compressed and sent", MaxAnswers),
		},
	}
}

// downloads bounds the memory of all downloads. An artifact needs a compressor for each, and has no tables.
func downloads() int64 {
	return max(MaxAnswers*vmdk.PipelineBytes, MaxAnswers*oci.CompressorBytes-MaxTables*vmdk.TableBytes)
}
