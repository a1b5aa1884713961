package templateimport

import (
	"fmt"

	"github.com/virtward/virtward/controllers/credentials"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/compressions/xz"
	"github.com/virtward/virtward/sources/signatures"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
)

const (
	// maxReadings and maxVerifications bound the appliances that are read at the same time.
	maxReadings, maxVerifications = 2, 8
	// maxPolls bounds the requests at the same time for the progress of copies.
	maxPolls = 2
	// maxHeld bounds the readings whose results are not used yet, and maxHeldOfOne those of one namespace: a namespace with slow sources
	// does not take the places of others.
	maxHeld, maxHeldOfOne = 16, 2
	// parsed is how much more memory a descriptor needs than its bytes, parsedManifest and parsedConfig those of an artifact, and
	// parsedRules the rules of signatures.
	parsed, parsedManifest, parsedConfig, parsedRules = 12, 20, 50, 16
	// perFile is the memory of a file of an appliance.
	perFile = 2 << 10
	// perTask is that of an import that waits.
	perTask = 4 << 10
	// perActive is that of the last progress of an import.
	perActive = 512
	// perKey is that of the key of a pod, with its certificate.
	perKey = 2 << 10
	// perConnection is that of a connection with TLS and HTTP.
	perConnection = 192 << 10
	// stored is the largest object that etcd stores, and decoded how much more memory a decoded one needs.
	stored, decoded = 3 << 19, 8
)

// The memory of a reading: of a descriptor with the blocks of its file, or of an artifact with the window of a disk.
const (
	ofDescriptor = parsed*ovf.MaxBytes + web.MaxBlocks*web.BlockSize
	// ofDecompression is that of a compressed file which is verified.
	ofDecompression = transfer.MaxWindow + transfer.MaxWindow/8
	ofArtifact      = 2*parsedManifest*artifacts.MaxGuarded + parsedConfig*imports.MaxTemplate + 2*transfer.MaxWindow + parsedManifest*artifacts.MaxBundle
)

// WorstCase returns the most memory of the imports.
func WorstCase() []memory.Bound {
	return []memory.Bound{
		{
			Name: "templateimport/imports", Subject: "imports", Bytes: workers * decoded * stored,
			Reason: fmt.Sprintf("%d at the same time; each holds its objects, one of at most 1.5 MiB at a time", workers),
		},
		{
			Name: "templateimport/readings", Subject: "descriptors that are read", Bytes: maxReadings * (max(ofDescriptor, ofArtifact) + perConnection + credentials.MaxAuthorities),
			Reason: fmt.Sprintf("%d at the same time; a descriptor has at most 4 MiB, and needs up to %d times as much; 4 MiB of its file are kept. An artifact with its signature needs about as much", maxReadings, parsed),
		},
		{
			Name: "templateimport/polls", Subject: "progress of copies", Bytes: maxPolls * perConnection,
			Reason: fmt.Sprintf("%d requests at the same time", maxPolls),
		},
		{
			Name: "templateimport/results", Subject: "results of readings", Bytes: maxHeld * (imports.MaxTemplate + ovf.MaxFiles*perFile + credentials.MaxAuthorities),
			Reason: fmt.Sprintf("%d; %d of a namespace; each has a template of at most 512 KiB and at most 1000 files. Others wait", maxHeld, maxHeldOfOne),
		},
		{
			Name: "templateimport/verifications", Subject: "files that are verified", Bytes: maxVerifications * (web.BufferSize + perConnection + max(ovf.MaxFiles*perFile+ofDecompression, parsedManifest*artifacts.MaxGuarded)),
			Reason: fmt.Sprintf("%d at the same time, with a buffer of 256 KiB each, and with a window of zstd or a dictionary of xz of at most %d MiB for a compressed file", maxVerifications, transfer.MaxWindow>>20),
		},
		{
			Name: "templateimport/dictionary", Subject: "dictionary of xz", Bytes: web.BufferSize + perConnection + ovf.MaxFiles*perFile + transfer.MaxDictionary + xz.MaxBuffers,
			Reason: fmt.Sprintf("one more file, with a dictionary of more than %d MiB, is verified at a time. It has at most %d MiB", transfer.MaxWindow>>20, transfer.MaxDictionary>>20),
		},
		{
			Name: "templateimport/signatures", Subject: "rules of signatures", Bytes: parsedRules * signatures.MaxRequirements,
			Reason: fmt.Sprintf("at most 1 MiB of keys and trusted roots, which need up to %d times as much", parsedRules),
		},
		{
			Name: "templateimport/waiting", Subject: "imports that wait to be read or verified", Bytes: transfers.MaxTasks*perTask + maxHeld*perTask,
			Reason: fmt.Sprintf("%d, 4 KiB each; others are observed later", transfers.MaxTasks),
		},
		{
			Name: "templateimport/active", Subject: "imports with metrics of their progress", Bytes: maxActive * perActive,
			Reason: fmt.Sprintf("%d, %d bytes each; others have no such metrics", maxActive, perActive),
		},
		{
			Name: "templateimport/keys", Subject: "keys of the pods of claims", Bytes: maxKeys * perKey,
			Reason: fmt.Sprintf("%d, %d KiB each; others wait", maxKeys, perKey>>10),
		},
		{
			Name: "templateimport/names", Subject: "names of the objects that imports wait for", Bytes: maxChildren * memory.NameBytes,
			Reason: fmt.Sprintf("%d, %d bytes each; others are read every %d seconds", maxChildren, memory.NameBytes, int(unwatchedInterval.Seconds())),
		},
	}
}
