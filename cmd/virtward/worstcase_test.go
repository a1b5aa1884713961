package main

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policycounts"
	"github.com/virtward/virtward/webhooks"
	"github.com/virtward/virtward/webhooks/serving"
)

// The memory of the process without requests, in bytes: of the Go runtime and the objects created at the start (measured:
// 15 MB), and of two hundred compiled policies, for which the chart's limit is sized.
const (
	atRest   = 20 << 20
	policies = 200 * 150 << 10
	counts   = 200 * policycounts.TallyBytes
)

// TestWorstCaseMemory adds up the memory bounds of the webhooks; docs/memory.md has the table. The sum must not exceed
// the memory limit of the Go runtime.
func TestWorstCaseMemory(t *testing.T) {
	raw, err := os.ReadFile("../../charts/virtward/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Resources struct {
			Limits struct {
				Memory resource.Quantity `json:"memory"`
			} `json:"limits"`
		} `json:"resources"`
	}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for name, bytes := range map[string]int64{
		"at rest": atRest, "policies": policies, "counts of policies": counts, "bodies": webhooks.MaxBodies, "deletions": webhooks.MaxDeletions, "decoded objects": webhooks.MaxDecoded,
		"evaluations": webhooks.EvaluationMemory, "objects that are read": platform.MaxReads, "cached objects": platform.MaxCached, "decisions of SubjectAccessReviews": webhooks.MaxDecisions,
		"cluster-wide instancetypes and preferences": 2 * platform.MaxClusterWide, "metadata of namespaces": configcache.MaxNamespaces, "ConfigMaps of parameters": configcache.MaxParameters, "names of golden images": configcache.MaxClaims, "exceptions of policies": configcache.MaxExceptions, "policies that do not deny": configcache.MaxPolicies, "connections": serving.WorstCase(),
	} {
		t.Logf("%-45s %4d MiB", name, bytes>>20)
		total += bytes
	}
	limit := values.Resources.Limits.Memory.Value()
	t.Logf("%-45s %4d MiB of %d", "together", total>>20, limit>>20)
	if total > limit/100*startup.MemoryPercent {
		t.Errorf("the webhooks may use %d MiB, more than %d percent of the chart's limit of %d MiB", total>>20, startup.MemoryPercent, limit>>20)
	}
}
