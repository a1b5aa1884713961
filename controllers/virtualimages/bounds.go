package virtualimages

import (
	"fmt"

	"github.com/virtward/virtward/controllers/credentials"
	"github.com/virtward/virtward/controllers/virtualimages/copies"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
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

// WorstCase returns the most memory of the process with a number of imports at the same time.
func WorstCase(imports int) []memory.Bound {
	probes := Probes().Running
	return []memory.Bound{
		{
			Name: "virtualimages/references", Subject: "references of VMs, instances, DataVolumes and templates to images", Bytes: maxReferences * perReference,
			Reason: fmt.Sprintf("%d, at most 1.7 KiB each (measured: 830 bytes with short names). Above it, users of an image are read before its deletion only", maxReferences),
		},
		{
			Name: "virtualimages/permissions", Subject: "permissions of users in other namespaces", Bytes: maxPermissions * perPermission,
			Reason: fmt.Sprintf("%d, at most %d bytes each; further ones are read again", maxPermissions, perPermission),
		},
		{
			Name: "virtualimages/waiting", Subject: "images that wait for an import", Bytes: pools * transfers.MaxTasks * perTask,
			Reason: fmt.Sprintf("%d of each of %d kinds of import, 4 KiB each; others are observed later. They keep no certificates", transfers.MaxTasks, pools),
		},
		{
			Name: "virtualimages/sources", Subject: "sources that are read", Bytes: int64(probes+imports) * (2*credentials.MaxAuthorities + web.BufferSize + perConnection),
			Reason: fmt.Sprintf("%d whose header is read, and %d imports. Each has a buffer, a connection, and at most 256 KiB of certificates. Give the process more memory for more imports", probes, imports),
		},
		{
			Name: "virtualimages/credentials", Subject: "Secrets and ConfigMaps", Bytes: maxReads * decodes * maxStored,
			Reason: fmt.Sprintf("%d are read at the same time. A source has no more than 256 KiB of certificates, and 4 KiB for a password", maxReads),
		},
		{
			Name: "virtualimages/readers", Subject: "readers of copies", Bytes: copies.MaxReaders * (copies.BufferBytes + 2*perConnection),
			Reason: fmt.Sprintf("%d; see [virtual-images-glance.md](virtual-images-glance.md)", copies.MaxReaders),
		},
		{
			Name: "virtualimages/objects", Subject: "objects that refer to images", Bytes: int64(len(kinds)) * decodes * maxStored,
			Reason: "one of each kind at the same time, at most 1.5 MiB in etcd",
		},
		{
			Name: "virtualimages/deletions", Subject: "images that wait for their deletion", Bytes: maxQuestions*perQuestion + maxFound*perFound,
			Reason: fmt.Sprintf("%d that wait for their users to be read, 8 KiB each; others wait until these are known. One list holds %d names of users, at most %d bytes each; those of the images with the most users are read again", maxQuestions, maxFound, perFound),
		},
		{
			Name: "virtualimages/limited", Subject: "names of images that wait because of a limit", Bytes: maxLimited * memory.NameBytes,
			Reason: fmt.Sprintf("%d, %d bytes each; others are observed at an interval", maxLimited, memory.NameBytes),
		},
		{
			Name: "virtualimages/clouds", Subject: "users of images in OpenStack", Bytes: maxKnown*perKnown + maxReadings*perReading,
			Reason: fmt.Sprintf("of %d images, %d bytes each; others are read again. %d lists are read at the same time, at most 512 KiB of an answer", maxKnown, perKnown, maxReadings),
		},
		{
			Name: "virtualimages/metrics", Subject: "metrics", Bytes: 2 * maxCounted * perRecord,
			Reason: fmt.Sprintf("%d images; others are counted", maxCounted),
		},
	}
}
