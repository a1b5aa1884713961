package templateimport

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/requests"
)

// TestActive: time counts since the last progress, and not since the last message.
func TestActive(t *testing.T) {
	now := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry, now)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(lines ...string) {
		t.Helper()
		const header = "# HELP virtward_template_import_stalled_seconds Time since the last progress of the import that has made none for the longest time, by the reason of the condition Progressing.\n# TYPE virtward_template_import_stalled_seconds gauge\n"
		want := ""
		if len(lines) > 0 {
			want = header + strings.Join(lines, "\n") + "\n"
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "virtward_template_import_stalled_seconds"); err != nil {
			t.Error(err)
		}
	}
	of := func(reason, message string) *progress { p := working(reason, message); return &p }
	m.active.note("a", of(v1beta1.ReasonBlocked, "denied"), "")
	m.active.note("b", of(v1beta1.ReasonImporting, "0 of 1"), "10%")
	m.active.note("c", of(v1beta1.ReasonVerifying, "10% of the file"), "")
	now.Step(time.Minute)
	m.active.note("a", of(v1beta1.ReasonBlocked, "denied again"), "")
	m.active.note("b", of(v1beta1.ReasonImporting, "0 of 1"), "11%")
	m.active.note("c", of(v1beta1.ReasonVerifying, "20% of the file"), "")
	m.active.note("d", of(v1beta1.ReasonBlocked, "denied"), "")
	now.Step(time.Minute)
	expect(`virtward_template_import_stalled_seconds{reason="Blocked"} 120`, `virtward_template_import_stalled_seconds{reason="Importing"} 60`, `virtward_template_import_stalled_seconds{reason="Verifying"} 60`)
	if got := testutil.CollectAndCount(m.active, "virtward_template_imports_active"); got != 3 {
		t.Errorf("got %d reasons", got)
	}
	m.active.note("a", &progress{Progress: requests.Failed(v1beta1.ReasonRejected, "rejected")}, "")
	m.active.forget("d")
	m.active.note("b", of(v1beta1.ReasonCreatingTemplate, ""), "100%")
	m.active.forget("c")
	expect(`virtward_template_import_stalled_seconds{reason="CreatingTemplate"} 0`)
	m.active.forget("b")
	expect()
	for i := range maxActive + 1 {
		m.active.note(types.UID(string(rune(i+0x10000))), of(v1beta1.ReasonBlocked, ""), "")
	}
	if len(m.active.imports) != maxActive {
		t.Errorf("%d imports are kept", len(m.active.imports))
	}
}
