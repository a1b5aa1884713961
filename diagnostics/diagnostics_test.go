package diagnostics_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/diagnostics"
)

func TestString(t *testing.T) {
	for want, p := range map[string]diagnostics.Problem{
		"spec.rego.module:2:3: no":     {Field: "spec.rego.module", Line: 2, Column: 3, Message: "no"},
		"spec.match: warning: unusual": {Field: "spec.match", Message: "unusual", Warning: true},
		"2:3: no":                      {Line: 2, Column: 3, Message: "no"},
		"no":                           {Message: "no"},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestInAndSummary(t *testing.T) {
	got := diagnostics.In("spec", []diagnostics.Problem{
		{Message: "doubtful", Warning: true},
		{Field: "variables[0].name", Line: 1, Column: 2, Message: strings.Repeat("a", 2000)},
		{Message: "another"},
	})
	diagnostics.SortBySeverity(got)
	want := []diagnostics.Problem{
		{Field: "spec.variables[0].name", Line: 1, Column: 2, Message: strings.Repeat("a", 1021) + "…"},
		{Field: "spec", Message: "another"},
		{Field: "spec", Message: "doubtful", Warning: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !diagnostics.Broken(got) || diagnostics.Broken(got[2:]) {
		t.Error("only an error breaks a policy")
	}
	for want, problems := range map[string][]diagnostics.Problem{
		"": got[2:], "spec: another": got[1:], want[0].String() + " (and 1 more problems)": got,
	} {
		if summary := diagnostics.Summary(problems); summary != want {
			t.Errorf("got %q, want %q", summary, want)
		}
	}
	if status := (diagnostics.Problem{Field: strings.Repeat("f", 600), Line: 1 << 40}).Status(); len(status.Field) != 512 || status.Line != 1<<30 {
		t.Errorf("a status of %d bytes, line %d", len(status.Field), status.Line)
	}
}
