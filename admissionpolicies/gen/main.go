package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/virtward/virtward/hypervisors"
)

// guard is the file that is rewritten; go generate runs where it is.
const guard = "rule-settings.yaml"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generating the guard of the RuleSettings:", err)
		os.Exit(1)
	}
}

func run() error {
	content, err := os.ReadFile(guard)
	if err != nil {
		return err
	}
	ids, err := securityRelevant()
	if err != nil {
		return err
	}
	written, err := rewrite(content, ids)
	if err != nil {
		return fmt.Errorf("%s: %w", guard, err)
	}
	return os.WriteFile(guard, written, 0o644)
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
