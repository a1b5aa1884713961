package main

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/webhooks"
	"github.com/virtward/virtward/webhooks/serving"
)

// What the process takes without any request, in bytes: the Go runtime and what is made at its start (15 MB were
// measured), and the compiled policies, of which the chart's limit is right for two hundred.
const (
	atRest   = 20 << 20
	policies = 200 * 150 << 10
)

// TestTheWorstCaseFits adds up all that the webhooks may hold at once; docs/memory.md shows the table. It is below what
// the garbage collector is told to keep to.
func TestTheWorstCaseFits(t *testing.T) {
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
		"at rest": atRest, "policies": policies, "bodies": webhooks.MaxBodies, "decoded objects": webhooks.MaxDecoded,
		"evaluations": webhooks.EvaluationMemory, "objects that are read": platform.MaxReads, "objects that are remembered": platform.MaxCached, "decisions of SubjectAccessReviews": webhooks.MaxDecisions,
		"cluster-wide instancetypes and preferences": 2 * platform.MaxClusterWide, "metadata of namespaces": configcache.MaxNamespaces, "ConfigMaps of parameters": configcache.MaxParameters, "connections": serving.WorstCase(),
	} {
		t.Logf("%-45s %4d MiB", name, bytes>>20)
		total += bytes
	}
	limit := values.Resources.Limits.Memory.Value()
	t.Logf("%-45s %4d MiB of %d", "together", total>>20, limit>>20)
	if total > limit/100*memoryPercent {
		t.Errorf("the webhooks may hold %d MiB, and the chart limits them to %d percent of %d MiB", total>>20, memoryPercent, limit>>20)
	}
}
