// Package offline evaluates objects outside of a cluster: with objects of files, as if they were applied, and with
// those of a cluster, if there is one.
//
// Its input is documents of files, and a client that reads a cluster. Its output is the same results as at admission,
// and notes that name skipped objects. It writes nothing.
package offline

import (
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/openapi3"

	"github.com/virtward/virtward/references"
)

// SourceCluster is the source of objects of the cluster.
const SourceCluster = "cluster"

// Cluster is the source of all objects that the files lack. It is only read.
type Cluster struct {
	Client  dynamic.Interface
	Objects references.Objects
	// Discovery has the kinds and versions that the API server serves; nil without any.
	Discovery Discovery
	// OpenAPI has the schemas that the API server publishes for all users; nil without any.
	OpenAPI openapi3.Root
	// Namespace is the namespace of objects that name none.
	Namespace string
}
