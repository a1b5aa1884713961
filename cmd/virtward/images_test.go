package main

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/controllers/goldenimages"
	"github.com/virtward/virtward/controllers/variants"
)

// TestWorstCaseMemoryOfImages adds up the memory bounds of the controller of golden images; docs/memory.md has the table.
func TestWorstCaseMemoryOfImages(t *testing.T) {
	raw, err := os.ReadFile("../../charts/virtward/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Images struct {
			Resources struct {
				Limits struct {
					Memory resource.Quantity `json:"memory"`
				} `json:"limits"`
			} `json:"resources"`
		} `json:"images"`
	}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	const idle = 30 << 20
	total, limit := idle+goldenimages.WorstCase()+variants.WorstCase(), values.Images.Resources.Limits.Memory.Value()
	t.Logf("%d MiB of %d", total>>20, limit>>20)
	if total > limit/100*startup.MemoryPercent {
		t.Errorf("the controller of golden images may use %d MiB, more than %d percent of the chart's limit of %d MiB", total>>20, startup.MemoryPercent, limit>>20)
	}
}
