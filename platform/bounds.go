package platform

import "github.com/virtward/virtward/limits/memory"

// WorstCase returns the most memory of the objects that virtual machines refer to.
func WorstCase() []memory.Bound {
	return []memory.Bound{
		{
			Name: "platform/reads", Subject: "objects that VMs refer to", Bytes: MaxReads,
			Reason: "a request reserves memory before it reads them, and releases it at its end: of 16 MiB for small objects, and of 24 MiB for VMs, instances and the specs of starts. " +
				"What policies read of them through `references`, at most 576 KiB for an evaluation, is in this memory",
		},
		{
			Name: "platform/cache", Subject: "cache of such objects", Bytes: MaxCached,
			Reason: "bounded in bytes; entries last a second, ControllerRevisions, the specs of starts and the decoded specs of running instances ten minutes. " +
				"An instance is always read: its spec is found by the digest of what was read. For typed specs, each object and list counts 24 bytes more",
		},
		{
			Name: "platform/clusterwide", Subject: "cluster-wide instancetypes and preferences", Bytes: 2 * MaxClusterWide,
			Reason: "4 MiB of each kind are kept; others are read when a VM names them",
		},
	}
}
