package golden

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtward/virtward/conformance"
)

// TestGoldenImages replays the recorded cases.
func TestGoldenImages(t *testing.T) {
	file, err := os.Open("../testdata/golden/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	report := NewReport()
	if err := conformance.Lines(file, report.ReplayLine); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/internals/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Differences {
		t.Logf("other: %s: %s", d.Case, d.Text)
		if !strings.Contains(string(page), "`"+d.Case+"`") {
			t.Errorf("docs/internals/conformance.md lacks the case %s", d.Case)
		}
	}
	total := report.Total()
	if text := fmt.Sprintf("Of %d applicable cases, %d are equal and\n%d are better.", total.Applicable(), total.Equal, total.Better); !strings.Contains(string(page), text) {
		t.Errorf("docs/internals/conformance.md lacks %q", text)
	}
	for _, b := range report.BetterThan {
		t.Logf("better: %s", b)
	}
	t.Log(report.Summary())
	if total.Applicable() < 250 || total.Equal*10 < total.Applicable()*7 {
		t.Errorf("%s: fewer than 70 %% are equal", report.Summary())
	}
	if (total.Equal+total.Better)*100 < total.Applicable()*95 {
		t.Errorf("%s: fewer than 95 %% are equal or better", report.Summary())
	}
}
