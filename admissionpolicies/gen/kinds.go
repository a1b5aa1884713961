package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/virtward/virtward/admissionpolicies"
)

// approvedOnly is the guard of approved-only namespaces.
const approvedOnly = "template-approved-only.yaml"

// The markers around the generated tables of the page.
const (
	beginKinds  = "<!-- The kinds: make generate writes them. -->\n"
	beginFields = "<!-- The fields: make generate writes them. -->\n"
	endTable    = "<!-- End of the generated table. -->\n"
)

// blocks are the parts of the guard that follow from the table of kinds, by their names.
func blocks(kinds []admissionpolicies.GuestKind) map[string]string {
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

// insert replaces what is between the comment that begins a block and the one that ends it, with the indentation of the first.
func insert(content []byte, name, block string) ([]byte, error) {
	begin := "# generated " + name + " by kinds.go\n"
	before, rest, found := bytes.Cut(content, []byte(begin))
	indent := before[bytes.LastIndexByte(before, '\n')+1:]
	end := "\n" + string(indent) + "# end\n"
	// The block can be empty.
	_, after, ended := bytes.Cut(slices.Concat([]byte("\n"), rest), []byte(end))
	if !found || !ended {
		return nil, fmt.Errorf("there is no block between %q and # end", strings.TrimSpace(begin))
	}
	indented := string(indent) + strings.ReplaceAll(block, "\n", "\n"+string(indent))
	return slices.Concat(before, []byte(begin), []byte(indented), []byte(end), after), nil
}

// rewriteKinds writes the blocks into the guard.
func rewriteKinds(content []byte, kinds []admissionpolicies.GuestKind) ([]byte, error) {
	written := blocks(kinds)
	for _, name := range []string{"rules", "creatable", "free", "copies"} {
		var err error
		if content, err = insert(content, name, written[name]); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// rewritePage writes the tables into the page.
func rewritePage(page string, kinds []admissionpolicies.GuestKind) (string, error) {
	for begin, table := range map[string]string{beginKinds: kindTable(kinds), beginFields: fieldTable(kinds)} {
		before, rest, found := strings.Cut(page, begin)
		_, after, ended := strings.Cut(rest, endTable)
		if !found || !ended {
			return "", fmt.Errorf("the markers %q and %q are missing", strings.TrimSpace(begin), strings.TrimSpace(endTable))
		}
		page = before + begin + table + endTable + after
	}
	return page, nil
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
