package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/virtward/virtward/controllers/audit"
	"github.com/virtward/virtward/controllers/capture"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/exceptionstatus"
	"github.com/virtward/virtward/controllers/goldenimages"
	"github.com/virtward/virtward/controllers/pending"
	"github.com/virtward/virtward/controllers/policystatus"
	"github.com/virtward/virtward/controllers/rollout"
	"github.com/virtward/virtward/controllers/templateexport"
	"github.com/virtward/virtward/controllers/templateimport"
	"github.com/virtward/virtward/controllers/templates"
	"github.com/virtward/virtward/controllers/variants"
	"github.com/virtward/virtward/controllers/virtualimages"
)

var update = flag.Bool("update", false, "write the tables of docs/events.md")

// TestEvents compares docs/events.md with the tables of the controllers. Each reason is in a table once.
func TestEvents(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Events\n\n<!-- Generated from the tables of the controllers: go test ./cmd/virtward -run TestEvents -update writes it. -->\n\n" +
		"Virtward creates Events on the objects below. `kubectl describe` shows them. Each one reports a transition. If the object has a status, the status has the transition first.\n")
	for _, of := range []struct {
		object string
		table  events.Table
	}{
		{"VirtualMachines: pending changes", pending.Events},
		{"Audited objects", audit.Events},
		{"VirtualMachinePolicies", policystatus.Events},
		{"VirtualMachinePolicyExceptions", exceptionstatus.Events},
		{"VirtualMachineTemplates", templates.Events},
		{"VirtualMachineTemplates with variants for architectures", variants.Events},
		{"VirtualMachineTemplateRequests", capture.Events},
		{"VirtualMachineTemplateImports", templateimport.Events},
		{"VirtualMachineTemplateExports", templateexport.Events},
		{"VirtualMachineRollouts", rollout.Events},
		{"GoldenImageCatalogs", goldenimages.Events},
		{"VirtualImages", virtualimages.Events},
	} {
		fmt.Fprintf(&page, "\n## %s\n\n| Reason | Type | When |\n|---|---|---|\n", of.object)
		seen := map[string]bool{}
		for _, k := range of.table {
			if seen[k.Reason] || k.Reason == "" || k.When == "" || k.Type != corev1.EventTypeNormal && k.Type != corev1.EventTypeWarning {
				t.Errorf("%s: %+v", of.object, k)
			}
			seen[k.Reason] = true
			fmt.Fprintf(&page, "| `%s` | %s | %s |\n", k.Reason, k.Type, k.When)
		}
	}
	file := filepath.Join("..", "..", "docs", "events.md")
	if *update {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page.String(), string(stored)); diff != "" {
		t.Errorf("docs/events.md, written by go test ./cmd/virtward -run TestEvents -update (-want +got):\n%s", diff)
	}
}
