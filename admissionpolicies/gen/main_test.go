package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/admissionpolicies"
)

const (
	above = "  variables:\n    - name: security\n      # generated from the rules\n"
	below = "\n    - name: entries\n      expression: \"[]\" # kept\n    - name: others\n"
	empty = `      expression: "[]"`
	two   = "      expression: >-\n        [\n        'a-b',\n        'c'\n        ]"
)

// The expression below the comment is replaced, whatever it is, and nothing else.
func TestRewrite(t *testing.T) {
	for _, c := range []struct {
		name, from, want string
		ids              []string
	}{
		{name: "none, then two", from: empty, ids: []string{"a-b", "c"}, want: two},
		{name: "two again", from: two, ids: []string{"a-b", "c"}, want: two},
		{name: "two, then none", from: two, want: empty},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := rewrite([]byte(above+c.from+below), expression(c.ids))
			if err != nil || string(got) != above+c.want+below {
				t.Errorf("%v\n%s", err, got)
			}
		})
	}
}

func TestRewriteFindsNothing(t *testing.T) {
	const want = "there is no expression below a comment that begins with generated"
	for _, text := range []string{"", "    - name: security\n" + empty + below, above, above + empty} {
		if got, err := rewrite([]byte(text), expression([]string{"a"})); err == nil || err.Error() != want {
			t.Errorf("%q became %q, error %v", text, got, err)
		}
	}
}

// Writing the guards and the page again changes nothing.
func TestGenerated(t *testing.T) {
	for _, g := range targets("../docs/template-approval.md") {
		content, err := os.ReadFile("../" + g.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.change(content)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(content) {
			t.Errorf("%s is out of date; run: go generate ./admissionpolicies", g.path)
		}
	}
	if ids, err := securityRelevant(); err != nil || len(ids) == 0 {
		t.Errorf("%v, %v", ids, err)
	}
}

// A kind, its fields and its effect decide what the guard has.
func TestBlocks(t *testing.T) {
	kind := func(group, name string, effect admissionpolicies.Effect, guard string, fields ...admissionpolicies.GuestField) admissionpolicies.GuestKind {
		return admissionpolicies.GuestKind{GroupKind: schema.GroupKind{Group: group}, Resource: name, Effect: effect, Guard: guard, Fields: fields}
	}
	approved := admissionpolicies.TemplateApprovedOnly
	got := blocks([]admissionpolicies.GuestKind{
		kind("a.io", "runners", admissionpolicies.Runs, approved, admissionpolicies.GuestField{Name: "on", Decision: admissionpolicies.Free}, admissionpolicies.GuestField{Name: "what", Decision: admissionpolicies.Kept}),
		kind("a.io", "movers", admissionpolicies.Moves, approved, admissionpolicies.GuestField{Name: "from", Decision: admissionpolicies.AtCreation}, admissionpolicies.GuestField{Name: "to", Decision: admissionpolicies.Kept}),
		kind("b.io", "others", admissionpolicies.Copies, ""),
		kind("apps", "copiers", admissionpolicies.Copies, approved),
	})
	want := map[string]string{
		"rules": "resourceRules:\n" +
			"  - apiGroups: [\"a.io\"]\n    apiVersions: [\"*\"]\n    operations: [\"CREATE\", \"UPDATE\"]\n    resources:\n      - runners\n      - runners/status\n      - movers\n      - movers/status\n" +
			"  - apiGroups: [\"apps\"]\n    apiVersions: [\"*\"]\n    operations: [\"CREATE\", \"UPDATE\"]\n    resources:\n      - copiers",
		"creatable": "expression: >-\n  {\n  'movers': ['from']\n  }",
		"free":      "expression: >-\n  {\n  'runners': ['on']\n  }[?variables.resource].orValue([])",
		"copies":    "expression: \"['copiers']\"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}

// A block keeps the indentation of its comment, and what is outside of it.
func TestInsert(t *testing.T) {
	const before, after = "a:\n  # generated x by kinds.go\n", "  # end\nb:\n"
	for _, there := range []string{"", "  old\n", "  old\n    older\n"} {
		got, err := insert([]byte(before+there+after), "x", "new:\n  newer")
		if want := before + "  new:\n    newer\n" + after; err != nil || string(got) != want {
			t.Errorf("%q: %v\n%s", there, err, got)
		}
	}
	for _, text := range []string{"", before, after, before + "# end\n"} {
		if got, err := insert([]byte(text), "x", "new"); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
}
