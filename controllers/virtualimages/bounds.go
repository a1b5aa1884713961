package virtualimages

import (
	"github.com/virtward/virtward/controllers/credentials"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/virtualimages/copies"
	"github.com/virtward/virtward/virtualimages/source"
	"github.com/virtward/virtward/virtualimages/transfers"
)

// The memory of what is bounded in number, in bytes.
const (
	// perReference is the memory of a reference in the index (measured: 830, and 1,660 with the longest names).
	perReference = 1700
	// perTask is that of an image that waits: its spec.
	perTask = 4 << 10
	// perConnection is that of a connection with TLS and HTTP.
	perConnection = 192 << 10
	// maxStored is the largest object that etcd stores, and decoded how much more memory a decoded object needs.
	maxStored, decodes = 3 << 19, 4
	// perRecord is the memory of the metrics of an image.
	perRecord = 300
	// pools are those of the probes, of the streams, and of the probes of copies.
	pools = 3
)

// WorstCase is the memory of the process in bytes, without the Go runtime: the references to images, the images that wait, the
// permissions of their users, the sources that are read by a number of probes and imports, the Secrets and ConfigMaps that are read, the readers of copies, the
// pages, the objects that are decoded, and the metrics.
func WorstCase(probes, imports int) int64 {
	reading := int64(probes+imports) * (2*credentials.MaxAuthorities + source.BufferSize + perConnection)
	serving := int64(copies.MaxReaders) * (copies.BufferBytes + 2*perConnection)
	return maxReferences*perReference + maxPermissions*perPermission + pools*transfers.MaxTasks*perTask + reading + maxReads*decodes*maxStored + serving +
		2*pages.MaxBytes + int64(len(kinds))*decodes*maxStored + 2*maxCounted*perRecord
}
