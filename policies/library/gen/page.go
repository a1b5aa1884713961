package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/virtward/virtward/policies/library"
)

const introduction = `# Policy library

<!-- Generated from policies/library: make generate writes it. -->

The library has policies for common requirements, each with parameters and a test suite. A policy is active only after you
install it. Introduce it in four steps:

1. Preview the virtual machines that would violate it:

   %[1]s%[1]s%[1]ssh
   kubectl virtward policy install memory-cap --params max=32Gi --enforcement Deny --dry-run
   %[1]s%[1]s%[1]s

2. Install it with %[1]senforcement: Audit%[1]s, the default, so that violations appear only in reports:

   %[1]s%[1]s%[1]ssh
   kubectl virtward policy install memory-cap --params max=32Gi
   %[1]s%[1]s%[1]s

   Or add it to the values of the [chart](../charts/virtward/README.md#policies-of-the-library), with the same result:

   <!-- file: values.yaml -->
   %[1]s%[1]s%[1]syaml
   library:
     policies:
       memory-cap:
         params: {max: 32Gi}
   %[1]s%[1]s%[1]s

   <!-- run: helm template virtward charts/virtward --namespace virtward-system --set image.repository=virtward --values values.yaml -->

3. Fix the violations, or add an exception with a reason and an end to %[1]sspec.exceptions%[1]s. For exceptions, start a
   policy of your own with its suite: %[1]skubectl virtward policy new our-memory-cap --from memory-cap%[1]s. It has %[1]senforcement: Deny%[1]s:
   change it to %[1]sAudit%[1]s or %[1]sWarn%[1]s first.
4. Set the enforcement to %[1]sWarn%[1]s, and then to %[1]sDeny%[1]s. Pre-existing violations are tolerated on update, unless they get
   worse.

To make a policy deny, you need [the verb enforce](policy-rights.md). The suites are also examples for your own tests:
%[1]skubectl virtward policy test policies/library%[1]s runs all of them.

The column *effective* marks policies that depend on the effective VM. If they evaluated the manifest, they would allow some
violations, or deny valid VMs.

`

// page returns the page about the library: a table of all policies, and a section for each.
func page(entries []library.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, introduction, "`")
	b.WriteString("| Policy | Requirement | Category | Severity | Language | Effective | Parameters |\n|---|---|---|---|---|---|---|\n")
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
		fmt.Fprintf(&b, "*Effective:* it evaluates %s.\n\n", e.Effective)
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

// longest is the size of the longest default that the table shows, in bytes.
const longest = 60

// parameters lists the parameters of a policy, with short defaults.
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

// cell escapes text for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
