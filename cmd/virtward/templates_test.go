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
	"github.com/virtward/virtward/controllers/capture"
	"github.com/virtward/virtward/controllers/pages"
	controllertemplates "github.com/virtward/virtward/controllers/templates"
	"github.com/virtward/virtward/platform"
)

// TestWorstCaseMemoryOfTemplates adds up the memory bounds of the controllers of templates; docs/memory.md has the table.
func TestWorstCaseMemoryOfTemplates(t *testing.T) {
	raw, err := os.ReadFile("../../charts/virtward/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Templates struct {
			Controller struct {
				Resources struct {
					Limits struct {
						Memory resource.Quantity `json:"memory"`
					} `json:"limits"`
				} `json:"resources"`
			} `json:"controller"`
		} `json:"templates"`
	}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	const idle = 30 << 20
	total := idle + policies + capture.WorstCase() + controllertemplates.WorstCase() + platform.MaxReads + platform.MaxCached + 2*platform.MaxClusterWide +
		configcache.MaxNamespaces + configcache.MaxParameters + configcache.MaxPolicies + 2*pages.MaxBytes
	limit := values.Templates.Controller.Resources.Limits.Memory.Value()
	t.Logf("%d MiB of %d", total>>20, limit>>20)
	if total > limit/100*startup.MemoryPercent {
		t.Errorf("the controllers of templates may use %d MiB, more than %d percent of the chart's limit of %d MiB", total>>20, startup.MemoryPercent, limit>>20)
	}
}

func TestTemplatesOptions(t *testing.T) {
	valid := templatesOptions{leader: leader{process: process{namespace: "virtward-system"}, leaseFor: 15 * time.Second}, deadlines: capture.Deadlines{Snapshot: time.Minute, Clone: time.Hour}}
	if err := valid.validate(); err != nil {
		t.Error(err)
	}
	valid.deadlines.Clone = time.Millisecond
	if err := valid.validate(); err == nil || !strings.Contains(err.Error(), "--clone-deadline is 1ms") {
		t.Errorf("got %v", err)
	}
}
