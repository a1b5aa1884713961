package validators_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/test/conformance"
)

// tally counts cases, and those that agree: on whether the object is allowed, and on every cause.
type tally struct{ cases, allowed, full int }

// TestConformance replays the recorded cases of the areas in $AREAS (all of them if empty) through the rules,
// logs what differs from KubeVirt's answers, and holds them to the share that must agree.
func TestConformance(t *testing.T) {
	c := newChecker(t)
	wanted := strings.Fields(strings.ReplaceAll(os.Getenv("AREAS"), ",", " "))
	all, differing := &tally{}, []string(nil)
	for _, line := range recordedCases(t) {
		var recorded conformance.AdmissionCase
		if err := json.Unmarshal(line, &recorded); err != nil {
			t.Fatal(err)
		}
		if !recorded.JudgesAdmission() || len(wanted) > 0 && !slices.Contains(wanted, recorded.Area) {
			continue
		}
		causes, err := recorded.Causes(c.pipeline, c.base)
		if err != nil { // the API server refuses what does not decode
			t.Logf("%s: %v", recorded.ID, err)
			causes = []conformance.Cause{{}}
		}
		differences := recorded.CauseDifferences(causes)
		if len(differences) > 0 {
			differing = append(differing, recorded.ID)
		}
		for _, d := range differences {
			t.Logf("%s: %s", recorded.ID, d)
		}
		all.cases++
		if (len(causes) == 0) == recorded.Expect.Allowed {
			all.allowed++
		}
		if len(differences) == 0 {
			all.full++
		}
	}
	t.Logf("%d cases: %d agree in full, %d on whether it is allowed", all.cases, all.full, all.allowed)
	if len(wanted) > 0 {
		return
	}
	if all.cases < 1000 || all.allowed*100 < all.cases*98 || all.full*100 < all.cases*95 {
		t.Errorf("of %d cases, %d agree on whether the object is allowed and %d in full: want 98 and 95 percent", all.cases, all.allowed, all.full)
	}
	slices.Sort(differing)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(deliberate)), differing); diff != "" {
		t.Errorf("cases that differ (-deliberate +measured):\n%s", diff)
	}
}

// deliberate are the cases in which the rules are meant to differ from KubeVirt, and why.
var deliberate = map[string]string{
	"vm-arch-unsupported":                             "checked when the VM is applied, not only when it starts",
	"vm-hyperv-deps-not-checked":                      "checked when the VM is applied, not only when it starts",
	"vm-discontinued-macvtap":                         "every finding is told, not just the first",
	"vm-discontinued-macvtap-gate":                    "every finding is told, not just the first",
	"vm-discontinued-slirp-update":                    "a VM with this binding could never start, on an update either",
	"vm-update-feature-gate-discontinued-not-checked": "a VM with this binding could never start, on an update either",
	"vm-status-volreq-ready-vmi-no-arch-panic":        "the running VMI was judged when it was created",
	"vm-status-volreq-ready-vmi-no-arch-threads":      "the running VMI was judged when it was created",
}

func recordedCases(t *testing.T) [][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "test", "conformance", "testdata", "admission.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}
