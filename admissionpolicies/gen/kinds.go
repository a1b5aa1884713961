package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/texts/blocks"
)

// approvedOnly is the guard of approved-only namespaces.
const approvedOnly = "template-approved-only.yaml"

// parts are the blocks of the guard that follow from the table of kinds, by their names.
func parts(kinds []admissionpolicies.GuestKind) map[string]string {
	guarded := slices.DeleteFunc(slices.Clone(kinds), func(k admissionpolicies.GuestKind) bool { return k.Guard != admissionpolicies.TemplateApprovedOnly })
	return map[string]string{
		"rules":     resourceRules(guarded),
		"creatable": "expression: >-\n" + celMap(guarded, creatableFields),
		"free":      "expression: >-\n" + celMap(guarded, freeFields) + "[?variables.resource].orValue([])",
		"copies":    "expression: \"" + celList(copies(guarded)) + "\"",
	}
}

// resourceRules are the rules of the API server: every kind with its status, for each group.
func resourceRules(kinds []admissionpolicies.GuestKind) string {
	var b strings.Builder
	b.WriteString("resourceRules:")
	group := ""
	for i, k := range kinds {
		if i == 0 || k.Group != group {
			group = k.Group
			fmt.Fprintf(&b, "\n  - apiGroups: [%q]\n    apiVersions: [\"*\"]\n    operations: [\"CREATE\", \"UPDATE\"]\n    resources:", group)
		}
		fmt.Fprintf(&b, "\n      - %s", k.Resource)
		if !strings.Contains(group, ".") { // kinds of Kubernetes
			continue
		}
		fmt.Fprintf(&b, "\n      - %s/status", k.Resource)
	}
	return b.String()
}

// creatableFields are those that a new object can have; nil if users cannot create one.
func creatableFields(k *admissionpolicies.GuestKind) []string {
	if !k.Creatable() {
		return nil
	}
	return fieldsOf(k, admissionpolicies.AtCreation, admissionpolicies.Free)
}

// freeFields are those that users can change.
func freeFields(k *admissionpolicies.GuestKind) []string {
	return fieldsOf(k, admissionpolicies.Free)
}

func fieldsOf(k *admissionpolicies.GuestKind, decisions ...admissionpolicies.Decision) []string {
	var names []string
	for _, f := range k.Fields {
		if slices.Contains(decisions, f.Decision) {
			names = append(names, f.Name)
		}
	}
	return names
}

// copies are the resources that only copy virtual machines, and that users cannot create.
func copies(kinds []admissionpolicies.GuestKind) []string {
	var resources []string
	for i := range kinds {
		if kinds[i].Effect == admissionpolicies.Copies && !kinds[i].Creatable() {
			resources = append(resources, kinds[i].Resource)
		}
	}
	return resources
}

// celMap is a CEL map from resources to names of fields, without the resources that have none.
func celMap(kinds []admissionpolicies.GuestKind, fields func(*admissionpolicies.GuestKind) []string) string {
	var entries []string
	for i := range kinds {
		if names := fields(&kinds[i]); len(names) > 0 {
			entries = append(entries, fmt.Sprintf("  '%s': %s", kinds[i].Resource, celList(names)))
		}
	}
	return "  {\n" + strings.Join(entries, ",\n") + "\n  }"
}

func celList(texts []string) string { return "['" + strings.Join(texts, "', '") + "']" }

// rewriteKinds writes the blocks into the guard.
func rewriteKinds(text string, kinds []admissionpolicies.GuestKind) (string, error) {
	written := parts(kinds)
	for _, name := range slices.Sorted(maps.Keys(written)) {
		var err error
		if text, err = blocks.YAML(text, name, written[name]); err != nil {
			return "", err
		}
	}
	return text, nil
}

// rewritePage writes the tables into the page.
func rewritePage(page string, kinds []admissionpolicies.GuestKind) (string, error) {
	page, err := blocks.Markdown(page, "kinds", kindTable(kinds))
	if err != nil {
		return "", err
	}
	return blocks.Markdown(page, "fields", fieldTable(kinds))
}

func kindTable(kinds []admissionpolicies.GuestKind) string {
	var b strings.Builder
	b.WriteString("| Kind | Can | Guard | Because |\n|---|---|---|---|\n")
	for _, k := range kinds {
		guard := "none"
		if k.Guard != "" {
			guard = "`" + k.Guard + "`"
		}
		fmt.Fprintf(&b, "| %s (`%s`) | %s | %s | %s |\n", k.Kind, k.Group, k.Effect, guard, k.Because)
	}
	return b.String()
}

func fieldTable(kinds []admissionpolicies.GuestKind) string {
	var b strings.Builder
	b.WriteString("| Kind | Field of the spec | Can | Users |\n|---|---|---|---|\n")
	for _, k := range kinds {
		for _, f := range k.Fields {
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", k.Kind, f.Name, f.Effect, f.Decision)
		}
	}
	return b.String()
}
