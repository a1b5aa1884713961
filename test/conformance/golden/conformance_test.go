package golden

import (
	"os"
	"testing"

	"github.com/virtward/virtward/test/conformance"
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
	for _, d := range report.Differences {
		t.Logf("other: %s: %s", d.Case, d.Text)
	}
	for _, b := range report.BetterThan {
		t.Logf("better: %s", b)
	}
	t.Log(report.Summary())
	total := report.Total()
	if total.Applicable() < 250 || total.Equal*10 < total.Applicable()*7 {
		t.Errorf("%s: fewer than 70 %% are equal", report.Summary())
	}
	if (total.Equal+total.Better)*100 < total.Applicable()*95 {
		t.Errorf("%s: fewer than 95 %% are equal or better", report.Summary())
	}
}
