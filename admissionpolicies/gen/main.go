package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/virtward/virtward/addresses"
	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/texts/blocks"
)

// target is a file with generated parts. go generate runs where the guards are.
type target struct {
	path   string
	change func(text string) (string, error)
}

// targets are the guards, the page about approved-only namespaces and the one about accounts.
func targets(page, accounts string) []target {
	kinds := admissionpolicies.GuestKinds()
	return []target{
		{"rule-settings.yaml", func(text string) (string, error) {
			ids, err := securityRelevant()
			if err != nil {
				return "", err
			}
			return blocks.YAML(text, "security", expression(ids))
		}},
		{"virtual-images.yaml", func(text string) (string, error) { return blocks.YAML(text, "networks", publicAddress()) }},
		{"accounts.yaml", func(text string) (string, error) { return rewriteAccounts(text, processes.All()) }},
		{accounts, func(text string) (string, error) {
			return blocks.Markdown(text, "accounts", accountTable(processes.All()))
		}},
		{approvedOnly, func(text string) (string, error) { return rewriteKinds(text, kinds) }},
		{page, func(text string) (string, error) { return rewritePage(text, kinds) }},
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen PAGE-OF-KINDS PAGE-OF-ACCOUNTS")
		os.Exit(2)
	}
	for _, t := range targets(os.Args[1], os.Args[2]) {
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
	written, err := t.change(string(content))
	if err != nil {
		return err
	}
	return os.WriteFile(t.path, []byte(written), 0o644)
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

// publicAddress is the expression that a host is a name, a permitted address, or an address in no special network, as a YAML field.
// CEL accepts no IPv4 address in the form of IPv6, so it has no network of these.
func publicAddress() string {
	list := slices.DeleteFunc(addresses.SpecialNetworks(), func(s addresses.Special) bool { return s.Network.Addr().Is4In6() })
	var b strings.Builder
	b.WriteString("expression: >-\n  !isIP(variables.host) || variables.networks.exists(n, cidr(n).containsIP(variables.host)) ||\n" +
		"  ip(variables.host).isGlobalUnicast() && ![\n")
	for line := range slices.Chunk(list, perLine) {
		b.WriteString(" ")
		for i := range line {
			fmt.Fprintf(&b, " '%s',", line[i].Network)
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), ",\n") + "\n  ].exists(n, cidr(n).containsIP(variables.host))"
}

// expression is the CEL list of the ids as a YAML field, one id a line.
func expression(ids []string) string {
	if len(ids) == 0 {
		return `expression: "[]"`
	}
	return "expression: >-\n  [\n  '" + strings.Join(ids, "',\n  '") + "'\n  ]"
}
