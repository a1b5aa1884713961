package templates

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/conformance/documented"
)

var update = flag.Bool("update", false, "write the measured table into docs/internals/conformance.md")

// page documents the agreement.
const page documented.Page = "../../docs/internals/conformance.md"

// replayAll replays all cases. Without the sources of conversions, their rows say skipped on every machine.
func replayAll(t *testing.T) *Report {
	t.Helper()
	report := NewReport(Options{})
	files, err := filepath.Glob("../testdata/templates/*.jsonl")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := report.ReplayAll(data, ""); err != nil {
			t.Fatal(err)
		}
	}
	return report
}

func TestMeasuredTable(t *testing.T) {
	report := replayAll(t)
	var table bytes.Buffer
	if err := report.Write(&table, false); err != nil {
		t.Fatal(err)
	}
	table.WriteString(report.Summary() + "\n")
	page.Figures(t, "\n## Templates: ", table.String(), *update)
}

// Every fault that makes an answer better has a row in the page.
func TestClassesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(string(page))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.ReplaceAll(string(text), "`", "")
	for _, result := range replayAll(t).Results {
		if result.Outcome == Better && !strings.Contains(words, "\n| "+result.Class+" | ") {
			t.Errorf("%s: %s has no row for the fault %q", page, result.ID, result.Class)
		}
	}
}

func TestReportCounts(t *testing.T) {
	report := NewReport(Options{})
	const right = `{"id":"right","area":"engine/x","template":{"spec":{"virtualMachine":{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a"}}}},"expect":{"virtualMachine":{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a"}}}}`
	for _, line := range []string{right, strings.Replace(strings.Replace(right, `"name":"a"`, `"name":"b"`, 1), "right", "wrong", 1), `{"id":"c","area":"wire/client"}`} {
		if err := report.Replay([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := report.Summary(), "engine 1/2 wire 0/0 capture 0/0 convert 0/0"; got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
	var out strings.Builder
	if err := report.Write(&out, false); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "other: wrong: VirtualMachine ") || !strings.Contains(out.String(), "engine/x     2      1      0       1      0\nwire/client  1      0      0       0      1\n") {
		t.Errorf("report:\n%s", out.String())
	}
	if err := report.Replay([]byte(`[]`)); err == nil || !strings.Contains(err.Error(), "not a case of templates") {
		t.Errorf("got %v", err)
	}
	if err := report.Replay([]byte(`{"id":"d","area":"engine/x","parameters":1}`)); err == nil || !strings.Contains(err.Error(), "case d: ") {
		t.Errorf("got %v", err)
	}
}
