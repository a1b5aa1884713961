package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/virtward/virtward/policies/library"
)

const introduction = `# The library of policies

<!-- Generated from policies/library: make generate writes it. -->

Policies that many clusters want, each with parameters and with a suite that says what it does. None of them is in
force before you install it. See first, then enforce:

1. Ask whom of the machines that you have it would hit:

   %[1]s%[1]s%[1]ssh
   kubectl virtward policy install memory-cap --params max=32Gi --enforcement Deny --dry-run
   %[1]s%[1]s%[1]s

2. Install it for reports only (%[1]senforcement: Audit%[1]s), which is what happens unless you say otherwise:

   %[1]s%[1]s%[1]ssh
   kubectl virtward policy install memory-cap --params max=32Gi
   %[1]s%[1]s%[1]s

   Or name it in the values of the [chart](../charts/virtward/README.md#policies-of-the-library), which does the same:

   %[1]s%[1]s%[1]syaml
   library:
     policies:
       memory-cap:
         params: {max: 32Gi}
   %[1]s%[1]s%[1]s

3. Mend what it finds, or write down why it may stay, and until when: that takes a copy of your own from
   [policies/library](../policies/library), which has %[1]sspec.exceptions%[1]s. The files there deny: set %[1]sAudit%[1]s or %[1]sWarn%[1]s
   until you mean it.
4. Set the enforcement to %[1]sWarn%[1]s, and then to %[1]sDeny%[1]s. What exists keeps what it has: a violation that an update does
   not make worse is a warning.

Whoever makes a policy deny needs [a right for that](policy-rights.md). Each suite is also an example of how to test
policies of your own: %[1]skubectl virtward policy test policies/library%[1]s runs them all.

The column *effective* tells of the policies that judge what nobody wrote into the VM: a policy that sees the YAML as it
is written would let these VMs pass, or refuse others without reason.

`

// page is the page about the library: a table of all policies, and a chapter for each.
func page(entries []library.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, introduction, "`")
	b.WriteString("| Policy | What it wants | Category | Severity | Language | Effective | Parameters |\n|---|---|---|---|---|---|---|\n")
	for i := range entries {
		e := &entries[i]
		fmt.Fprintf(&b, "| [%[1]s](#%[1]s) | %s | %s | %s | %s | %s | %s |\n",
			e.Name, cell(e.Title), e.Category, e.Severity, e.Language, mark(e.Effective != ""), cell(parameters(e)))
	}
	for i := range entries {
		b.WriteString(chapter(&entries[i]))
	}
	return b.String()
}

func chapter(e *library.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n**%s.** %s, severity %s, in %s, for %s.\n\n", e.Name, e.Title, capital(e.Category), e.Severity, e.Language, kinds(e))
	fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(e.Policy.Spec.Description))
	if e.Effective != "" {
		fmt.Fprintf(&b, "*Effective:* it sees %s.\n\n", e.Effective)
	}
	fmt.Fprintf(&b, "*Remedy:* %s\n\n", e.Policy.Spec.Remedy)
	fmt.Fprintf(&b, "[Policy](../policies/library/%[1]s/%[2]s), [suite](../policies/library/%[1]s/%[3]s)\n", e.Name, library.PolicyFile, library.SuiteFile)
	return b.String()
}

func kinds(e *library.Entry) string {
	names := make([]string, 0, len(e.Policy.Spec.Match.Kinds))
	for _, kind := range e.Policy.Spec.Match.Kinds {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}

// longest is what a default may have to stand in the table, in bytes.
const longest = 60

// parameters are those of a policy, with the defaults that are short.
func parameters(e *library.Entry) string {
	names := make([]string, 0, len(e.Parameters))
	for _, p := range e.Parameters {
		name := "`" + p.Name + "`"
		var text bytes.Buffer
		if json.Compact(&text, []byte(p.Default)) == nil && text.Len() <= longest {
			name += " (`" + text.String() + "`)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func mark(yes bool) string {
	if yes {
		return "yes"
	}
	return ""
}

// cell is text that does not end a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
