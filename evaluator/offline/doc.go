// Package offline evaluates objects outside of a cluster: with what files hold, as if they had been applied already, and
// then with what a cluster holds, if there is one.
//
// What enters: documents of files, and a client that reads a cluster. What leaves: the same results as at admission,
// and notes about what of the files and of the cluster was not considered. It writes nothing.
package offline

import (
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/references"
)

// SourceCluster is the source of documents that no file holds.
const SourceCluster = "cluster"

// The kinds of kubevirt.io that are known by name.
const (
	kindVMI      = "VirtualMachineInstance"
	kindKubeVirt = "KubeVirt"
)

// Cluster is where everything is read that the files do not hold. It is only read.
type Cluster struct {
	Client  dynamic.Interface
	Objects references.Objects
	// Namespace of objects that name none.
	Namespace string
}
