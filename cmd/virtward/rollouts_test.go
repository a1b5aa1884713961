package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/controllers/pending"
	"github.com/virtward/virtward/controllers/rollout"
	"github.com/virtward/virtward/platform"
)

// TestWorstCaseMemoryOfRollouts adds up the memory bounds of the controllers of rollouts; docs/memory.md has the table.
func TestWorstCaseMemoryOfRollouts(t *testing.T) {
	raw, err := os.ReadFile("../../charts/virtward/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Rollouts struct {
			Resources struct {
				Limits struct {
					Memory resource.Quantity `json:"memory"`
				} `json:"limits"`
			} `json:"resources"`
		} `json:"rollouts"`
	}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	const idle = 30 << 20
	total := int64(0)
	for name, bytes := range map[string]int64{
		"idle": idle, "policies": policies, "pending changes": pending.WorstCase(), "rollouts": rollout.WorstCase(), "objects that are read": platform.MaxReads, "cached objects": platform.MaxCached,
		"cluster-wide instancetypes and preferences": 2 * platform.MaxClusterWide, "metadata of namespaces": configcache.MaxNamespaces,
		"ConfigMaps of parameters": configcache.MaxParameters, "exceptions of policies": configcache.MaxExceptions, "policies that do not deny": configcache.MaxPolicies, "lists": 2 * pages.MaxBytes,
	} {
		t.Logf("%-45s %4d MiB", name, bytes>>20)
		total += bytes
	}
	limit := values.Rollouts.Resources.Limits.Memory.Value()
	t.Logf("%-45s %4d MiB of %d", "together", total>>20, limit>>20)
	if total > limit/100*startup.MemoryPercent {
		t.Errorf("the controllers of rollouts may use %d MiB, more than %d percent of the chart's limit of %d MiB", total>>20, startup.MemoryPercent, limit>>20)
	}
}

func TestRolloutsOptions(t *testing.T) {
	valid := rolloutsOptions{leader: leader{process: process{namespace: "virtward-system"}, leaseFor: 15 * time.Second}, resync: time.Minute}
	if err := valid.validate(); err != nil {
		t.Error(err)
	}
	valid.resync = time.Second
	if err := valid.validate(); err == nil || !strings.Contains(err.Error(), "--resync-interval is 1s") {
		t.Errorf("got %v", err)
	}
}
