package rollouts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWarnings(t *testing.T) {
	const onlyAtStart = "KubeVirt applies this field only when the VM starts."
	restart := func(field string) Change {
		return Change{Field: field, Takes: Restart, Reason: onlyAtStart, WayOut: wayOutRestart}
	}
	var many, reasons []Change
	for i := range 9 {
		many = append(many, restart(fmt.Sprintf("f%d", i)))
		reasons = append(reasons, Change{Field: fmt.Sprintf("f%d", i), Takes: Blocked, Reason: fmt.Sprintf("R%d.", i)})
	}
	for name, c := range map[string]struct {
		result Result
		stage  bool
		want   []string
	}{
		"nothing":       {},
		"live":          {result: Result{Changes: []Change{{Field: "a", Takes: Live, Reason: "R."}}}},
		"being stopped": {result: Result{Changes: []Change{{Field: "a", Takes: NextStart, Reason: "R."}}}},
		"a restart":     {result: Result{Changes: []Change{restart("a")}}, want: []string{"a: takes effect when the VM restarts. " + onlyAtStart}},
		"two restarts":  {result: Result{Changes: []Change{restart("a"), restart("b")}}, want: []string{"a: takes effect when the VM restarts. " + onlyAtStart + " 1 more field needs the same restart."}},
		"merged":        {result: Result{Changes: many[:8]}, want: []string{"f0: takes effect when the VM restarts. " + onlyAtStart + " 7 more fields need the same restart."}},
		"a migration":   {result: Result{Changes: []Change{{Field: "a", Takes: LiveOnMigration, Reason: "R.", WayOut: "W."}}}, want: []string{"a: takes effect with a live migration. R. W."}},
		"another value": {result: Result{Changes: []Change{{Field: "a", Takes: Never, Reason: "R."}, {Field: "b", Takes: Never, Reason: "R."}}}, want: []string{"a: has no effect. R. This applies to 1 more field."}},
		"Stage": {
			result: Result{Changes: append([]Change{{Field: "s", Takes: LiveOnMigration}, {Field: "n", Takes: Never, Reason: "R."}}, many...)}, stage: true,
			want: []string{"The rollout strategy of the cluster is Stage. These changes take effect when the VM restarts: s, f0, f1 and 7 more.", "n: has no effect. R."},
		},
		"as many reasons as are shown": {result: Result{Changes: reasons[:8]}, want: []string{
			"f0: is blocked. R0.", "f1: is blocked. R1.", "f2: is blocked. R2.", "f3: is blocked. R3.", "f4: is blocked. R4.", "f5: is blocked. R5.", "f6: is blocked. R6.", "f7: is blocked. R7.",
		}},
		"more reasons, and omitted fields": {result: Result{Changes: reasons, Omitted: 10}, want: []string{
			"f0: is blocked. R0.", "f1: is blocked. R1.", "f2: is blocked. R2.", "f3: is blocked. R3.", "f4: is blocked. R4.", "f5: is blocked. R5.", "f6: is blocked. R6.",
			"12 more fields differ from what runs: kubectl virtward rollout plan shows them.",
		}},
		"a long field": {result: Result{Changes: []Change{restart(strings.Repeat("x", 300))}}, want: []string{strings.Repeat("x", 253) + "…: takes effect when the VM restarts. " + onlyAtStart}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.result.Warnings(c.stage)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if len(c.want) > MaxWarnings {
				t.Errorf("%d warnings exceed the bound of %d", len(c.want), MaxWarnings)
			}
		})
	}
}

func TestSince(t *testing.T) {
	before := Result{Changes: []Change{{Field: "same", New: "1", Takes: Restart}, {Field: "value", New: "1", Takes: Restart}, {Field: "answer", New: "1", Takes: LiveOnMigration}, {Field: "reverted", New: "1", Takes: Restart}}, Omitted: 2}
	after := Result{Changes: []Change{{Field: "same", New: "1", Takes: Restart}, {Field: "value", New: "2", Takes: Restart}, {Field: "answer", New: "1", Takes: Restart}, {Field: "new", Takes: Never}}, Omitted: 3}
	got := after.Since(&before)
	if diff := cmp.Diff([]string{"value", "answer"}, got.Fields(Restart)); diff != "" || len(got.Changes) != 3 || got.Omitted != 3 || !got.Pending() {
		t.Errorf("%+v\n%s", got, diff)
	}
	if len(after.Changes) != 4 || after.Changes[0].Field != "same" {
		t.Errorf("the plan changed: %+v", after.Changes)
	}
	after.Omitted = 0
	if got := after.Since(&after); got.Pending() || len(got.Fields(Never)) != 0 {
		t.Errorf("an equal plan: %+v", got)
	}
}
