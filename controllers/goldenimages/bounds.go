package goldenimages

import (
	"fmt"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/limits/memory"
)

// Bounds of what is in memory at a time: one catalog is planned at a time.
const (
	// maxObjects bounds the JSON of the DataImportCrons and DataSources of one catalog. 200 images of three architectures have
	// about 4 MiB.
	maxObjects = 8 << 20
	// maxCatalog is the largest object that etcd stores.
	maxCatalog = 3 << 19
	// decoded is how much more memory a decoded object needs than its JSON.
	decoded = 4
	// maxNodes and maxNode are the nodes that the chart's limit is for, and the memory of one: its labels and taints.
	maxNodes, maxNode = 5000, 4 << 10
	// perImage is the memory of the metrics of an image: its names, and three imports.
	perImage = 1 << 10
)

// WorstCase returns the most memory of the controller.
func WorstCase() []memory.Bound {
	return []memory.Bound{
		{
			Name: "goldenimages/objects", Subject: "DataImportCrons and DataSources of a catalog, and what is planned for them", Bytes: decoded * 2 * maxObjects,
			Reason: "8 MiB of JSON; decoded objects need up to four times as much. 200 images of three architectures have about 4 MiB. Above it, the catalog has the reason `TooLarge`",
		},
		{
			Name: "goldenimages/catalog", Subject: "the catalog, its status, and the DataImportCrons of its entries", Bytes: decoded * (3 + int64(len(architectures.Names()))) * maxCatalog,
			Reason: "1.5 MiB in etcd",
		},
		{
			Name: "goldenimages/nodes", Subject: "nodes", Bytes: maxNodes * maxNode,
			Reason: fmt.Sprintf("%d, with their labels, taints and architectures only: 4 KiB each. Give the process more memory for more", maxNodes),
		},
		{
			Name: "goldenimages/metrics", Subject: "metrics", Bytes: maxImages * perImage,
			Reason: fmt.Sprintf("%d images, 1 KiB each; others are counted", maxImages),
		},
		{
			Name: "goldenimages/manifests", Subject: "manifests", Bytes: maxManifests*perManifest + int64(reads.Running)*perRead,
			Reason: fmt.Sprintf("%d answers and errors, %d KiB each; %d reads at the same time, 8 MiB each: an answer has at most 256 KiB, and the Secret and the ConfigMap of an entry 1 MiB each", maxManifests, perManifest>>10, reads.Running),
		},
	}
}

// errTooLarge is the error of a catalog whose objects do not fit.
var errTooLarge = fmt.Errorf("the DataImportCrons and DataSources of the catalog have more than %d MiB: divide the catalog, or delete large objects", maxObjects>>20)

// budget counts the bytes of the objects of a catalog.
type budget int

func (b *budget) take(size int) error {
	if *b += budget(size); *b > maxObjects {
		return errTooLarge
	}
	return nil
}
