package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/hypervisors"
)

// guard is the file that has the ids of rules; go generate runs where it is.
const guard = "rule-settings.yaml"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen PAGE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "generating the guards:", err)
		os.Exit(1)
	}
}

// run writes the ids of rules, and the table of kinds into the guard of approved-only namespaces and into its page.
func run(page string) error {
	ids, err := securityRelevant()
	if err != nil {
		return err
	}
	kinds := admissionpolicies.GuestKinds()
	for file, change := range map[string]func([]byte) ([]byte, error){
		guard:        func(content []byte) ([]byte, error) { return rewrite(content, ids) },
		approvedOnly: func(content []byte) ([]byte, error) { return rewriteKinds(content, kinds) },
		page: func(content []byte) ([]byte, error) {
			written, err := rewritePage(string(content), kinds)
			return []byte(written), err
		},
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		written, err := change(content)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, written, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// securityRelevant are the ids of the rules of every hypervisor and architecture that are marked so, sorted.
func securityRelevant() ([]string, error) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, rule := range registry.Rules() {
		if rule.Security {
			ids = append(ids, rule.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// heading is how the comment above the generated expression begins; end is where the next variable begins.
const (
	heading = "\n      # generated "
	end     = "\n    - name: "
)

// rewrite replaces the expression below the comment.
func rewrite(content []byte, ids []string) ([]byte, error) {
	before, rest, found := bytes.Cut(content, []byte(heading))
	comment, rest, commented := bytes.Cut(rest, []byte("\n"))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !commented || !ended {
		return nil, errors.New("there is no expression below a comment that begins with generated")
	}
	return slices.Concat(before, []byte(heading), comment, []byte("\n"+expression(ids)), []byte(end), after), nil
}

// expression is the CEL list of the ids as a YAML field, one id a line.
func expression(ids []string) string {
	if len(ids) == 0 {
		return `      expression: "[]"`
	}
	var b strings.Builder
	b.WriteString("      expression: >-\n        [\n")
	for i, id := range ids {
		comma := ","
		if i == len(ids)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "        '%s'%s\n", id, comma)
	}
	b.WriteString("        ]")
	return b.String()
}
