package pods

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/conformance/documented"
	"github.com/virtward/virtward/hypervisors"
)

var update = flag.Bool("update", false, "write the measured table into docs/internals/conformance.md")

const (
	page    documented.Page = "../../docs/internals/conformance.md"
	heading string          = "## Pods"
)

func replayAll(t testing.TB) *Report {
	t.Helper()
	file, err := os.Open("../testdata/pods/pod.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	report := NewReport(registry)
	if err := report.Replay(file); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestAgreement(t *testing.T) {
	report := replayAll(t)
	for _, d := range report.Differences {
		t.Logf("%s: %s", d.Case, d.Text)
	}
	if report.Total.Of < 400 || report.Total.Share() < 0.98 {
		t.Errorf("pod %s is below 98 %%", report.Total)
	}
	if diff := cmp.Diff(page.Rows(t, heading), report.Differing()); diff != "" {
		t.Errorf("cases (-documented +seen):\n%s", diff)
	}
	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	table.WriteString(report.Summary() + "\n")
	page.Figures(t, heading, table.String(), *update)
}
