package labels

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/virtward/virtward/conformance/documented"
)

var update = flag.Bool("update", false, "write the measured figures into docs/internals/conformance.md")

const page documented.Page = "../../docs/internals/conformance.md"

func TestAgreement(t *testing.T) {
	file, err := os.Open("../testdata/labels/labels.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	report := NewReport()
	if err := report.Replay(file); err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Differences {
		t.Logf("%s: %s", d.Case, d.Text)
	}
	if report.Total.Of < 50 || report.Total.Share() < 0.98 {
		t.Errorf("%s is below 98 %%", report.Summary())
	}
	if diff := cmp.Diff(page.Rows(t, "## Labels of nodes"), report.Differing(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("cases (-documented +seen):\n%s", diff)
	}
	page.Figures(t, "## Labels of nodes", report.Summary()+"\n", *update)
}
