package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/virtward/virtward/addresses"
	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/hypervisors"
)

// target is a file with generated parts. go generate runs where the guards are.
type target struct {
	path   string
	change func(content []byte) ([]byte, error)
}

// targets are the guards, and the page about approved-only namespaces.
func targets(page string) []target {
	kinds := admissionpolicies.GuestKinds()
	return []target{
		{"rule-settings.yaml", expressionOf(securityRules)},
		{"virtual-images.yaml", expressionOf(publicAddress)},
		{approvedOnly, func(content []byte) ([]byte, error) { return rewriteKinds(content, kinds) }},
		{page, func(content []byte) ([]byte, error) {
			written, err := rewritePage(string(content), kinds)
			return []byte(written), err
		}},
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen PAGE")
		os.Exit(2)
	}
	for _, t := range targets(os.Args[1]) {
		if err := t.write(); err != nil {
			fmt.Fprintf(os.Stderr, "generating %s: %v\n", t.path, err)
			os.Exit(1)
		}
	}
}

func (t *target) write() error {
	content, err := os.ReadFile(t.path)
	if err != nil {
		return err
	}
	written, err := t.change(content)
	if err != nil {
		return err
	}
	return os.WriteFile(t.path, written, 0o644)
}

// expressionOf replaces the expression below a comment. expression is a YAML field.
func expressionOf(expression func() (string, error)) func([]byte) ([]byte, error) {
	return func(content []byte) ([]byte, error) {
		generated, err := expression()
		if err != nil {
			return nil, err
		}
		return rewrite(content, generated)
	}
}

// securityRules are the ids of the security-relevant rules.
func securityRules() (string, error) {
	ids, err := securityRelevant()
	return expression(ids), err
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

// perLine is the number of networks in a line.
const perLine = 6

// publicAddress is the expression that a host is a name, a permitted address, or an address in no special network. CEL accepts no
// IPv4 address in the form of IPv6, so it has no network of these.
func publicAddress() (string, error) {
	list := slices.DeleteFunc(addresses.SpecialNetworks(), func(s addresses.Special) bool { return s.Network.Addr().Is4In6() })
	var b strings.Builder
	b.WriteString("      expression: >-\n        !isIP(variables.host) || variables.networks.exists(n, cidr(n).containsIP(variables.host)) ||\n" +
		"        ip(variables.host).isGlobalUnicast() && ![\n")
	for line := range slices.Chunk(list, perLine) {
		b.WriteString("       ")
		for i := range line {
			fmt.Fprintf(&b, " '%s',", line[i].Network)
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), ",\n") + "\n        ].exists(n, cidr(n).containsIP(variables.host))", nil
}

// heading is how the comment above the generated expression begins; end is where the next variable begins.
const (
	heading = "\n      # generated "
	end     = "\n    - name: "
)

// rewrite replaces the expression below the comment.
func rewrite(content []byte, generated string) ([]byte, error) {
	before, rest, found := bytes.Cut(content, []byte(heading))
	comment, rest, commented := bytes.Cut(rest, []byte("\n"))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !commented || !ended {
		return nil, errors.New("there is no expression below a comment that begins with generated")
	}
	return slices.Concat(before, []byte(heading), comment, []byte("\n"+generated), []byte(end), after), nil
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
