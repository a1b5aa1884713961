package extension

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/test/soak"
)

// sample are the edits that add a process.
var sample = []edit{
	{"api/processes/processes.go", "\tUninstall       = \"virtward-uninstall\"\n", "\tSample          = \"virtward-sample\"\n"},
	{"api/processes/processes.go", "\treturn []Process{\n\t\t{\n\t\t\tName: Webhook,", `	sample := background(Sample, "sample", "sample")
	sample.Purpose = "is an example"
	sample.When, sample.Switch, sample.On = "with ` + "`sample.enabled`" + `", "sample.enabled", true

`},
	{"api/processes/processes.go", "\t\tvirtualImages,\n\t}\n}", "\t\tsample,\n"},
	{"cmd/virtward/main.go", "\t\tvirtualImagesCommand(), releaseCommand(),\n", "\t\tsampleCommand(),\n"},
	{"cmd/virtward/sample.go", "", `package main

import "github.com/spf13/cobra"

func sampleCommand() *cobra.Command {
	return &cobra.Command{Use: "sample", RunE: func(*cobra.Command, []string) error { return nil }}
}
`},
	{"charts/virtward/values.yaml", "\ngoldenImages:\n", `
sample:
  enabled: false
  metricsPort: 8080
  healthPort: 8081
  resources:
    requests: {cpu: 10m, memory: 32Mi}
    limits: {memory: 128Mi}
`},
	{"charts/virtward/values.schema.json", "    \"goldenImages\": {\n      \"type\": \"object\",\n      \"additionalProperties\": false,\n      \"required\": [\"enabled\"", `    "sample": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "enabled": {"type": "boolean"},
        "metricsPort": {"$ref": "#/definitions/containerPort"},
        "healthPort": {"$ref": "#/definitions/containerPort"},
        "resources": {"type": "object"}
      }
    },
`},
	{"charts/virtward/templates/sample.yaml", "", `{{- if .Values.sample.enabled }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "virtward.clusterMetadata" (list . "sample") | nindent 2 }}
rules: []
{{ include "virtward.account" (list . "sample") }}
{{ include "virtward.process" (dict "root" . "component" "sample" "values" .Values.sample "flags" "") }}
{{- end }}
`},
	{"docs/accounts.md", "## `virtward-virtualimages`\n", "## `virtward-sample`\n\nIt has no permissions.\n\n| Where | Group | Resources | Names | Verbs |\n|---|---|---|---|---|\n| none | none | none | none | none |\n\n"},
	{"docs/memory.md", "## Memory of the process of VirtualImages\n", "## Memory of the example\n\n<!-- generated: memory of virtward-sample -->\n<!-- end -->\n\n"},
	{"cmd/internal/worstcase/processes.go", "\t\t{Name: processes.VirtualImages,", "\t\t{Name: processes.Sample, Bounds: func(Values) []memory.Bound { return idleController() }},\n"},
}

// mostFilesOfProcess bounds the files that are edited by hand to add a process.
const mostFilesOfProcess = 9

// TestProcess holds that the edits apply, and how many files they need.
func TestProcess(t *testing.T) {
	applied(t, root, sample)
	if n := files(sample); n > mostFilesOfProcess {
		t.Errorf("a process needs edits of %d files, want at most %d", n, mostFilesOfProcess)
	}
}

// TestSoakProcess renders the chart with the new process, and holds that the tests of the table accept it, but not without the guard.
func TestSoakProcess(t *testing.T) {
	soak.Only(t)
	c := copyTree(t, sample)
	if c.passes("^TestAccountsAreGuarded$", "./test/chart") {
		t.Error("the process without its account in the guard is accepted")
	}
	c.run("go", "generate", "./admissionpolicies", "./cmd/internal/worstcase")
	for _, file := range []string{"charts/virtward/guards/accounts.yaml", "docs/accounts.md", "docs/memory.md"} {
		if !strings.Contains(c.read(file), "sample") {
			t.Errorf("%s lacks the process", file)
		}
	}
	c.goTest("^(TestTable|TestEnable|TestCommands|TestGenerated)$", "./api/processes", "./cmd/virtward", "./admissionpolicies/gen")
	c.goTest("^(TestTableOfProcesses|TestAccountsAreGuarded|TestPagesHaveAllProcesses|TestPage|TestFits)$", "./test/chart", "./cmd/internal/worstcase")
	c.run("go", "build", "-ldflags", "-s -w", "-o", "virtward", "./cmd/virtward")
	c.run("./virtward", "sample")
}
