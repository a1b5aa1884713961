package validators

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScopeNames(t *testing.T) {
	for _, c := range []struct {
		scope Scope
		want  string
	}{
		{OnSpec, "VM, VMI"},
		{OnVM, "VM"},
		{OnSpec | OnVM, "VM, VMI"},
		{OnVMUpdate | OnVM, "VM, VM update"},
		{OnVMI, "VMI"},
		{OnVMIUpdate, "VMI update (hotplug)"},
		{OnInstancetype | OnPreference, "instancetype, preference"},
		{0, ""},
	} {
		if got := c.scope.String(); got != c.want {
			t.Errorf("scope %b is called %q, want %q", uint(c.scope), got, c.want)
		}
	}
}

// TestEveryScopeHasAName holds of the scopes of every rule, one by one, and no two names are the same.
func TestEveryScopeHasAName(t *testing.T) {
	rules, err := Base()
	if err != nil {
		t.Fatal(err)
	}
	for i := range rules {
		for bit := Scope(1); bit != 0; bit <<= 1 {
			if rules[i].Scope&bit != 0 && len(bit.Names()) == 0 {
				t.Errorf("scope %b of %s has no name", uint(bit), rules[i].ID)
			}
		}
	}
	seen := map[string]bool{}
	for _, n := range ScopeNames() {
		if seen[n.Name] || seen[n.Word] && n.Word != n.Name || n.Name == "" || n.Word == "" || n.Scopes == 0 {
			t.Errorf("%+v lacks something, or is a name of another one too", n)
		}
		seen[n.Name], seen[n.Word] = true, true
	}
}

func TestFind(t *testing.T) {
	table := Table{{ID: "arm64-disk-bus", Title: "t"}, {ID: "arm64-bios"}, {ID: "cpu-limit"}}
	if rule, err := table.Find("arm64-disk-bus"); err != nil || rule.Title != "t" {
		t.Errorf("got %q, %v", rule.Title, err)
	}
	got := map[string]string{}
	long := strings.Repeat("entirely-different", 20)
	for _, id := range []string{"arm64-disc-bus", "disk-bus", "cpu-limti", "entirely-different", long} {
		if _, err := table.Find(id); err != nil {
			got[id] = err.Error()
		}
	}
	want := map[string]string{
		"arm64-disc-bus":     `there is no rule "arm64-disc-bus": did you mean "arm64-disk-bus"?`,
		"disk-bus":           `there is no rule "disk-bus": did you mean "arm64-disk-bus"?`,
		"cpu-limti":          `there is no rule "cpu-limti": did you mean "cpu-limit"?`,
		"entirely-different": `there is no rule "entirely-different"`,
		long:                 fmt.Sprintf("there is no rule %q", long),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
