package sarif

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	standardsarif "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

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

func TestURI(t *testing.T) {
	for file, want := range map[string]string{
		"./vm.yaml": "vm.yaml", "../vm.yaml": "../vm.yaml", "a:b.yaml": "./a:b.yaml", "a%20b.yaml": "a%2520b.yaml", "/a/../b.yaml": "file:///b.yaml", "ä.yaml": "%C3%A4.yaml",
	} {
		if got := uriOf(file); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}
