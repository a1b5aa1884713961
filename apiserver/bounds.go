package apiserver

import (
	"fmt"

	"github.com/virtward/virtward/limits/memory"
)

// maxCluster is the memory of what the admission chain caches of the cluster that the limit of the chart is sized for.
const maxCluster = 24 << 20

// WorstCase returns the most memory of the server.
func WorstCase() []memory.Bound {
	return []memory.Bound{
		{
			Name: "apiserver/cluster", Subject: "namespaces, admission policies and webhook configurations", Bytes: maxCluster,
			Reason: "what the admission chain caches, without managed fields and without annotations above 8 KiB: about 12,000 namespaces. Give the server more memory for more",
		},
		{
			Name: "apiserver/connections", Subject: "connections and requests in progress", Bytes: MaxConnections,
			Reason: fmt.Sprintf("%d connections; a new one closes the one that was silent for longest. `--max-requests-in-flight` bounds requests", maxConnections),
		},
		{
			Name: "apiserver/bodies", Subject: "bodies of requests", Bytes: MaxSmallBodies + MaxLargeBodies,
			Reason: fmt.Sprintf("a body reserves %d times its size as it arrives, in %.0f seconds. Bodies up to 64 KiB have 16 MiB of their own", bodyCopies, bodyTimeout.Seconds()),
		},
		{
			Name: "apiserver/templates", Subject: "templates that are read", Bytes: MaxTemplates,
			Reason: fmt.Sprintf("%d at once", maxReads),
		},
		{
			Name: "apiserver/imports", Subject: "imports of which approvals name the source", Bytes: MaxImports,
			Reason: fmt.Sprintf("%d at once", maxImportReads),
		},
		{
			Name: "apiserver/renders", Subject: "VMs that are rendered and created", Bytes: MaxSmallRenders + MaxLargeRenders,
			Reason: "a request reserves memory by the size of the VM and by its number of objects. Small ones have 32 MiB of their own",
		},
	}
}
