package templates

import (
	"os"
	"strings"
	"testing"
)

// At most five of a hundred cases may be other.
func TestCapture(t *testing.T) {
	data, err := os.ReadFile("../testdata/templates/capture.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	report := NewReport(Options{})
	if err := report.ReplayAll(data, "capture/"); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.Write(&out, true); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if s := report.Total("capture"); s.Total() < 50 || 100*s.Other > 5*s.Total() {
		t.Errorf("%d of %d cases are other", s.Other, s.Total())
	}
}
