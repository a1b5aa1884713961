package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/admissionpolicies"
)

// The expression is a YAML field.
func TestExpression(t *testing.T) {
	if diff := cmp.Diff(map[string]string{
		"none": `expression: "[]"`,
		"two":  "expression: >-\n  [\n  'a-b',\n  'c'\n  ]",
	}, map[string]string{"none": expression(nil), "two": expression([]string{"a-b", "c"})}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Writing the guards and the page again changes nothing.
func TestGenerated(t *testing.T) {
	for _, g := range targets("../docs/template-approval.md", "../docs/accounts.md") {
		content, err := os.ReadFile("../" + g.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.change(string(content))
		if err != nil {
			t.Fatal(err)
		}
		if got != string(content) {
			t.Errorf("%s is out of date; run: go generate ./admissionpolicies", g.path)
		}
	}
	if ids, err := securityRelevant(); err != nil || len(ids) == 0 {
		t.Errorf("%v, %v", ids, err)
	}
}

// A kind, its fields and its effect decide what the guard has.
func TestParts(t *testing.T) {
	kind := func(group, name string, effect admissionpolicies.Effect, guard string, fields ...admissionpolicies.GuestField) admissionpolicies.GuestKind {
		return admissionpolicies.GuestKind{GroupKind: schema.GroupKind{Group: group}, Resource: name, Effect: effect, Guard: guard, Fields: fields}
	}
	approved := admissionpolicies.TemplateApprovedOnly
	got := parts([]admissionpolicies.GuestKind{
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
