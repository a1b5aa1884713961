package rollouts

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/conformance/documented"
	"github.com/virtward/virtward/rollouts"
)

func replayAll(t testing.TB) *Report {
	t.Helper()
	file, err := os.Open("../testdata/rollouts/rollout.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	report := NewReport()
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

var update = flag.Bool("update", false, "write the measured figures into docs/internals/rollouts.md")

const page documented.Page = "../../docs/internals/rollouts.md"

// TestDifferencesAreDocumented keeps the page complete.
func TestDifferencesAreDocumented(t *testing.T) {
	report := replayAll(t)
	var awaiting []string
	for _, text := range report.Awaiting {
		id, _, _ := strings.Cut(text, " ")
		awaiting = append(awaiting, id)
	}
	for heading, seen := range map[string][]string{
		"False alarms": report.FalseAlarms, "Blind spots": report.BlindSpots, "Changes in progress": slices.Compact(awaiting),
	} {
		slices.Sort(seen)
		if diff := cmp.Diff(page.Rows(t, "## "+heading), seen); diff != "" {
			t.Errorf("%s: cases (-documented +seen):\n%s", heading, diff)
		}
	}
}

// TestMeasured holds that the page has the figures.
func TestMeasured(t *testing.T) {
	report := replayAll(t)
	figures := fmt.Sprintf("%d cases: %s\n", report.Cases, report.Summary())
	page.Figures(t, "## What was compared", figures, *update)
}

// TestSettles holds that a plan is final: once KubeVirt has written what the plan says, the next plan says that it writes
// nothing more. Volumes that are attached again are not on the instance in between.
func TestSettles(t *testing.T) {
	file, err := os.Open("../testdata/rollouts/rollout.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	settled := 0
	err = conformance.Lines(file, func(line []byte) error {
		var c Case
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		in, err := c.Input()
		if err != nil || c.VMI == nil {
			return err
		}
		result := rollouts.Plan(in)
		patched, err := c.plannedInstance(in, &result)
		if err != nil {
			return err
		}
		data, err := json.Marshal(patched)
		if err != nil {
			return err
		}
		in.Running = &v1.VirtualMachineInstance{}
		if err := json.Unmarshal(data, in.Running); err != nil {
			return err
		}
		again := rollouts.Plan(in)
		for _, change := range again.Changes {
			if change.Patched && !slices.ContainsFunc(result.Changes, func(before rollouts.Change) bool { return before.Reattached }) {
				t.Errorf("%s: %s is patched again", c.ID, change.Field)
			}
		}
		settled++
		return nil
	})
	if err != nil || settled < 300 {
		t.Errorf("%d cases: %v", settled, err)
	}
}
