package sarif

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	standardsarif "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/virtward/virtward/cli/catalogue"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/plugins"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/validators"
)

// TestBaselines validates a comparison of two runs with the schema of the standard, which a library has.
func TestBaselines(t *testing.T) {
	report := NewReport(nil, "v1")
	for _, baseline := range []Baseline{New, Unchanged, Absent, ""} {
		report.Add(Result{Rule: "policy/cap", Severity: validators.Audit, Text: "t", Name: "VirtualMachine a/b spec", Baseline: baseline})
	}
	var out bytes.Buffer
	if err := report.Write(&out); err != nil {
		t.Fatal(err)
	}
	read, err := standardsarif.FromBytes(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	run := read.Runs[0] // the library writes these unset fields, and the schema rejects them
	run.Language, run.Tool.Driver.Language, run.NewlineSequences = "en-US", "en-US", []string{"\n"}
	if err := read.Validate(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range run.Results {
		baseline := ""
		if r.BaselineState != nil {
			baseline = *r.BaselineState
		}
		got = append(got, baseline+" "+r.Level)
	}
	if diff := cmp.Diff([]string{"new note", "unchanged note", "absent note", " note"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	const help = `"text": "See: kubectl get virtualmachinepolicy cap -o yaml"`
	if described := len(run.Tool.Driver.Rules); described != 1 || !strings.Contains(out.String(), help) {
		t.Errorf("%d rules are described, and %s is looked for in\n%s", described, help, out.String())
	}
}

// TestDescriptions opens the page of each rule that has one. Policies have none.
func TestDescriptions(t *testing.T) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := catalogue.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"unreadable", plugins.Unreadable}
	for i := range entries {
		ids = append(ids, entries[i].ID)
	}
	for _, rule := range policytest.LintRules() {
		ids = append(ids, rule.ID)
	}
	for _, rule := range plugins.Rules() {
		ids = append(ids, rule.ID)
	}
	for _, id := range ids {
		_, page := describedAt(id)
		if _, err := os.Stat(filepath.Join("..", "..", "docs", page)); page == "" || err != nil {
			t.Errorf("%s has no page: %v", id, err)
		}
	}
	for id, want := range map[string][2]string{
		"policy/cap":        {"kubectl get virtualmachinepolicy cap -o yaml", ""},
		"lint/tested":       {"kubectl virtward policy lint --help", "policy-lint.md"},
		"plugin-hook-kind":  {"kubectl virtward plugin lint --help", "plugins.md"},
		"plugin-works":      {"kubectl virtward rules plugin-works", "rules/plugin-works.md"},
		"plugin-unreadable": {"kubectl virtward plugin lint --help", "plugins.md"},
	} {
		if command, page := describedAt(id); [2]string{command, page} != want {
			t.Errorf("%s: %q, %q, want %q", id, command, page, want)
		}
	}
	for version, want := range map[string]string{"v1.20.3": "v1.20.3", "v1.20.3-4-gabcdef": "main", "v1.0.0-rc.1": "main", "development": "main"} {
		if got := urlOf("rules.md", version); got != "https://github.com/virtward/virtward/blob/"+want+"/docs/rules.md" {
			t.Errorf("%s: %s", version, got)
		}
	}
}

func TestURI(t *testing.T) {
	for file, want := range map[string]string{
		"./vm.yaml": "vm.yaml", "../vm.yaml": "../vm.yaml", "a:b.yaml": "./a:b.yaml", "a%20b.yaml": "a%2520b.yaml", "/a/../b.yaml": "file:///b.yaml", "ä.yaml": "%C3%A4.yaml",
	} {
		if got := uriOf(file); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}
