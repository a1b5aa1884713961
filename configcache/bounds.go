package configcache

import (
	"fmt"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/policycounts"
)

// The policies that the limits of the chart are sized for, and the memory of a compiled one in bytes (measured).
const (
	sizedFor      = 200
	compiledBytes = 150 << 10
)

// WorstCaseOfPolicies returns the most memory of policies and of what they name.
func WorstCaseOfPolicies() []memory.Bound {
	return []memory.Bound{
		{
			Name: "configcache/compiled", Subject: fmt.Sprintf("%d compiled policies", sizedFor), Bytes: sizedFor * compiledBytes,
			Reason: "150 KiB each. Give the process more memory for more policies",
		},
		{
			Name: "configcache/patterns", Subject: "regular expressions that policies compute", Bytes: cel.MaxRecentBytes + rego.MaxCachedBytes,
			Reason: "the last 64 of expressions in CEL, and 100 of modules in Rego, which are used again",
		},
		{
			Name: "configcache/policies", Subject: "policies that do not deny", Bytes: MaxPolicies,
			Reason: "their texts; of others, only the metadata is kept, and they are read when older ones are deleted",
		},
		{
			Name: "configcache/parameters", Subject: "ConfigMaps that policies name", Bytes: MaxParameters,
			Reason: "other ConfigMaps are not read. Policies that do not deny get at most half. If a ConfigMap is not read, the status of its policies reports it",
		},
	}
}

// WorstCaseOfCounts returns the most memory of the counts of evaluations.
func WorstCaseOfCounts() []memory.Bound {
	return []memory.Bound{{
		Name: "configcache/counts", Subject: "counts of evaluations", Bytes: sizedFor * policycounts.TallyBytes,
		Reason: fmt.Sprintf("%.1f KiB for each of %d policies: %d pairs of an expression and a reason, and %d namespaces. A report is written policy by policy",
			policycounts.TallyBytes/1024.0, sizedFor, policycounts.MaxFailures, policycounts.MaxNamespaces),
	}}
}

// WorstCaseOfNamespaces returns the most memory of the metadata of namespaces.
func WorstCaseOfNamespaces() []memory.Bound {
	return []memory.Bound{{
		Name: "configcache/namespaces", Subject: "metadata of namespaces", Bytes: MaxNamespaces,
		Reason: "above it, annotations are dropped, then labels; such a namespace is read when a request needs it",
	}}
}

// WorstCaseOfExceptions returns the most memory of exceptions of policies.
func WorstCaseOfExceptions() []memory.Bound {
	return []memory.Bound{{
		Name: "configcache/exceptions", Subject: "exceptions of policies", Bytes: MaxExceptions,
		Reason: "about 1,000; others are not active. Only users with the verb `exempt` create them",
	}}
}

// WorstCaseOfNodes returns the most memory of the nodes.
func WorstCaseOfNodes() []memory.Bound {
	return []memory.Bound{{
		Name: "configcache/nodes", Subject: "nodes", Bytes: MaxNodes,
		Reason: "only with `checks.nodes`: 6,000 nodes with 150 labels each, which are kept once for nodes of one kind. Above it, the rule `node-fits` finds nothing, and `migrationTargets` is an error",
	}, {
		Name: "configcache/moves", Subject: "migration targets by the shape of pods", Bytes: placement.MaxMovesBytes,
		Reason: "only with `checks.nodes`, for the nodes of one time; above 4,096 shapes, it begins again",
	}}
}

// WorstCaseOfCatalogs returns the most memory of the names of golden images.
func WorstCaseOfCatalogs() []memory.Bound {
	return []memory.Bound{{
		Name: "configcache/catalogs", Subject: "names of golden images", Bytes: MaxClaims,
		Reason: "at least 20,000 images; names of more catalogs are compared by the controller of golden images only",
	}}
}
