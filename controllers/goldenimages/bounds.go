package goldenimages

import (
	"fmt"

	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/images"
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

// WorstCase is the memory of the controller, in bytes: the objects of a catalog and what is planned for them, the catalog
// with its status before and after, the DataImportCrons of its entries, the nodes, the pages, the metrics, and the manifests.
func WorstCase() int64 {
	return decoded*(2*maxObjects+3*maxCatalog+int64(len(images.Architectures))*maxCatalog) + maxNodes*maxNode + 2*pages.MaxBytes + maxImages*perImage + maxManifests*perManifest + int64(reads.Running)*perRead
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
