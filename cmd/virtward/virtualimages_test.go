package main

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/controllers/virtualimages"
)

// TestWorstCaseMemoryOfVirtualImages adds up the memory bounds of the process; docs/memory.md has the table.
func TestWorstCaseMemoryOfVirtualImages(t *testing.T) {
	raw, err := os.ReadFile("../../charts/virtward/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		VirtualImages struct {
			Limits struct {
				Imports int `json:"imports"`
			} `json:"limits"`
			Resources struct {
				Limits struct {
					Memory resource.Quantity `json:"memory"`
				} `json:"limits"`
			} `json:"resources"`
		} `json:"virtualImages"`
	}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	const idle = 30 << 20
	of := &values.VirtualImages
	total, limit := idle+virtualimages.WorstCase(probes.Running, of.Limits.Imports), of.Resources.Limits.Memory.Value()
	t.Logf("%d MiB of %d", total>>20, limit>>20)
	if total > limit/100*startup.MemoryPercent {
		t.Errorf("the process may use %d MiB, more than %d percent of the chart's limit of %d MiB", total>>20, startup.MemoryPercent, limit>>20)
	}
}
