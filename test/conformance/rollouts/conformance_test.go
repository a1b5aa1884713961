package rollouts

import (
	"os"
	"testing"
)

func replayAll(t testing.TB) *Report {
	t.Helper()
	file, err := os.Open("../testdata/rollouts/rollout.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	report := &Report{}
	if err := report.Replay(file); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestAgreement(t *testing.T) {
	report := replayAll(t)
	t.Log(report.Cases, "cases,", report.Denied, "denied:", report.Summary())
	for _, d := range report.Differences {
		t.Logf("%s: %s: %s", d.Case, d.What, d.Text)
	}
	if report.Restart.Of < 300 || report.Restart.Share() < 0.97 {
		t.Errorf("restart %s is below 97 %%", report.Restart)
	}
	if report.Live.Of < 300 || report.Live.Share() < 0.98 {
		t.Errorf("live %s is below 98 %%", report.Live)
	}
	if report.Silent.Of < 50 || report.Silent.Share() < 1 {
		t.Errorf("silent %s is below 100 %%", report.Silent)
	}
}
