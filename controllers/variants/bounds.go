package variants

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
)

const (
	// maxPlan is the most memory of a plan, in bytes: a template and a variant, each of at most 1.5 MiB in etcd. Their virtual
	// machines are decoded only if they have at most 5,000 objects and lists.
	maxPlan = 32 << 20
	// maxCatalogs is the memory of the names of images, in bytes: 10 catalogs of 250 images.
	maxCatalogs = 4 << 20
)

// WorstCase returns the most memory of a plan, of the names of templates, and of the catalogs.
func WorstCase() []memory.Bound {
	return []memory.Bound{{
		Name: "variants/plans", Subject: "variants of VM templates", Bytes: maxPlan + maxKnown*memory.NameBytes + maxCatalogs,
		Reason: fmt.Sprintf("a template and a variant at the same time, at most 1.5 MiB each in etcd; names of %d templates; the names of the images of catalogs", maxKnown),
	}}
}
