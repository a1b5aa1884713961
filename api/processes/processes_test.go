package processes

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTable holds what each row needs.
func TestTable(t *testing.T) {
	names := Names()
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("a name is twice in %v", names)
	}
	for _, p := range All() {
		switch {
		case !strings.HasPrefix(p.Name, prefix) || p.Purpose == "" || p.When == "":
			t.Errorf("%s has no name, no purpose or no condition: %+v", p.Name, p)
		case p.Job == (p.Resources != ""):
			t.Errorf("%s: resources %q", p.Name, p.Resources)
		case (p.Switch == "") != (p.On == nil):
			t.Errorf("%s: the value %q has no setting, or a setting has no value", p.Name, p.Switch)
		case p.Metrics != "" && !slices.ContainsFunc(p.Ports, func(group []string) bool { return slices.Contains(group, p.Metrics) }):
			t.Errorf("%s: the port of the metrics is none of %v", p.Name, p.Ports)
		}
	}
}

func TestEnable(t *testing.T) {
	values := map[string]any{"policies": map[string]any{"references": "kept"}}
	for _, p := range All() {
		if p.Name == Export || p.Name == Images || p.Name == Uninstall {
			p.Enable(values)
		}
	}
	want := map[string]any{
		"policies":     map[string]any{"references": "kept", "export": map[string]any{"enabled": true}},
		"goldenImages": map[string]any{"enabled": true},
	}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}
