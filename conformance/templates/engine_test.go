package templates

import (
	"os"
	"strings"
	"testing"
)

// replay replays the cases of a file that some areas have, and fails if more of them are other than allowed, in
// hundredths, or if there are fewer cases than there were.
func replay(t *testing.T, file, area string, allowed, least int) {
	t.Helper()
	data, err := os.ReadFile("../testdata/templates/" + file)
	if err != nil {
		t.Fatal(err)
	}
	report := NewReport(Options{Sources: os.Getenv("VIRTWARD_BUNDLES")})
	if err := report.ReplayAll(data, area); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.Write(&out, true); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if s := Summarize(report.Results); s.Total() < least || 100*s.Other > allowed*s.Total() {
		t.Errorf("%d of %d cases are other", s.Other, s.Total())
	}
}

// TestEngine holds the engine to virt-template's: at most three of a hundred cases may be other.
func TestEngine(t *testing.T) { replay(t, "engine.jsonl", "engine/", 3, 370) }
