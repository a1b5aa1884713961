package plugins_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/plugins"
)

// TestLint holds what each rule reports, and at which field.
func TestLint(t *testing.T) {
	for _, c := range []struct {
		rule, spec, field, message string
	}{
		{"plugin-hook-kind", `domainHooks: [{}]`, "spec.domainHooks[0]", "needs cel or sidecar"},
		{"plugin-hook-kind", `domainHooks: [{cel: {expression: 'Domain{}'}, sidecar: {socketPath: /var/run/kubevirt-plugin/p/s}}]`, "spec.domainHooks[0]", "and not both"},
		{"plugin-hook-kind", `domainHooks: [{cel: {expression: ''}}]`, "spec.domainHooks[0].cel.expression", "is empty"},
		{"plugin-failure-strategy", `domainHooks: [{failureStrategy: Retry, cel: {expression: 'Domain{}'}}]`, "spec.domainHooks[0].failureStrategy", `"Retry" is neither Fail nor Ignore`},
		{"plugin-condition", `{condition: vmi.spec.domain != null, domainHooks: [{cel: {expression: 'Domain{}'}}]}`, "spec.condition", "undefined field 'spec'"},
		{"plugin-condition", `domainHooks: [{condition: vmi.Name, cel: {expression: 'Domain{}'}}]`, "spec.domainHooks[0].condition", "of the type string"},
		{"plugin-condition", `domainHooks: [{condition: '[1]` + strings.Repeat(".map(a, {a: a})", 30) + `.size() > 0', cel: {expression: 'Domain{}'}}]`, "spec.domainHooks[0].condition", "lists and maps are too deep"},
		{"plugin-condition-of-two-languages", `{condition: vmi.Name == "a", nodeHooks: [{socket: /s, permittedHooks: [PreVMStart]}]}`, "spec.condition", "undefined field 'Name'"},
		{"plugin-expression", `domainHooks: [{cel: {expression: 'Domain{Titel: "a"}'}}]`, "spec.domainHooks[0].cel.expression", "line 1, column 13: undefined field 'Titel'"},
		{"plugin-returns-domain", `domainHooks: [{cel: {expression: 'vmi.Name == "a" ? Domain{Title: "a"} : domainSpec'}}]`, "spec.domainHooks[0].cel.expression", "can return the variable domainSpec"},
		{"plugin-node-condition", `nodeHooks: [{socket: /s, permittedHooks: [PreVMStart], condition: vmi.Name == "a"}]`, "spec.nodeHooks[0].condition", "undefined field 'Name'"},
		{"plugin-hook-point", `nodeHooks: [{socket: /s, permittedHooks: [PostMigrationSource]}]`, "spec.nodeHooks[0].permittedHooks[0]", `never calls a hook at "PostMigrationSource"`},
		{"plugin-hook-point", `nodeHooks: [{socket: /s, permittedHooks: []}]`, "spec.nodeHooks[0].permittedHooks", "name at least one"},
		{"plugin-socket", `domainHooks: [{sidecar: {socketPath: /var/run/kubevirt-plugin/other/s}}]`, "spec.domainHooks[0].sidecar.socketPath", "only sockets below /var/run/kubevirt-plugin/p/"},
		{"plugin-socket", `domainHooks: [{sidecar: {socketPath: /var/run/kubevirt-plugin/p/../s}}]`, "spec.domainHooks[0].sidecar.socketPath", "is not an absolute path without .."},
		{"plugin-socket", `nodeHooks: [{socket: run/s, permittedHooks: [PreVMStart]}]`, "spec.nodeHooks[0].socket", "is not an absolute path"},
		{"plugin-socket", `nodeHooks: [{socket: /` + strings.Repeat("a", 120) + `, permittedHooks: [PreVMStart]}]`, "spec.nodeHooks[0].socket", "longer than 107 bytes"},
		{"plugin-without-hooks", `{}`, "spec", "no effect"},
		{"plugin-ignored-field", `domainHooks: [{timeout: 5s, cel: {expression: 'Domain{}'}}]`, "spec.domainHooks[0].timeout", "no timeout"},
		{"plugin-ignored-field", `{failureStrategy: Ignore, nodeHooks: [{socket: /s, permittedHooks: [PreVMStart]}]}`, "spec.nodeHooks[0].failureStrategy", "does not read the strategy of its plugin"},
		{"plugin-replaces-list", `domainHooks: [{cel: {expression: 'Domain{Devices: DomainDeviceList{Disks: [DomainDisk{}]}}'}}]`, "spec.domainHooks[0].cel.expression", "replaces the list Devices.Disks"},
		{"plugin-not-previewed", `domainHooks: [{cel: {expression: 'Domain{Title: domainSpec.Metadata.XML}'}}]`, "spec.domainHooks[0].cel.expression", "libvirtxml.Domain.Metadata"},
		{"plugin-not-previewed", `domainHooks: [{sidecar: {socketPath: /var/run/kubevirt-plugin/p/s}}]`, "spec.domainHooks[0].sidecar", "cannot be previewed"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			spec := c.spec
			if spec[0] != '{' {
				spec = "{" + spec + "}"
			}
			problems := plugins.Lint(read(t, `[{apiVersion: plugin.kubevirt.io/v1alpha1, kind: Plugin, metadata: {name: p}, spec: `+spec+`}]`))
			if c.rule != "plugin-not-previewed" { // every sidecar has it
				problems = slices.DeleteFunc(problems, func(p plugins.Problem) bool { return p.Rule == "plugin-not-previewed" })
			}
			if len(problems) != 1 || problems[0].Rule != c.rule || problems[0].Field != c.field || !strings.Contains(problems[0].Message, c.message) {
				t.Errorf("%+v, want %s at %s", problems, c.message, c.field)
			}
		})
	}
}

// TestConflicts holds which writes of two plugins take away each other.
func TestConflicts(t *testing.T) {
	for _, c := range []struct{ first, second, element string }{
		{`Domain{Title: "a"}`, `Domain{Title: "b"}`, "Title"},
		{`Domain{Title: "a"}`, `Domain{Description: "b"}`, ""},
		{`Domain{Title: "a"}`, `Domain{Title: domainSpec.Title + "b"}`, ""},
		{`Domain{CPU: DomainCPU{Mode: "a"}}`, `Domain{CPU: DomainCPU{Model: DomainCPUModel{Value: "b"}}}`, ""},
		{`Domain{CPU: DomainCPU{Mode: "a"}}`, `Domain{CPU: null}`, "CPU.Mode"},
		{`Domain{CPU: null}`, `Domain{CPU: DomainCPU{Mode: "a"}}`, "CPU.Mode"},
		{`Domain{CPU: DomainCPU{Mode: "a"}}`, `vmi.Name == "a" ? Domain{} : Domain{CPU: DomainCPU{Mode: "b"}}`, "CPU.Mode"},
		{`Domain{Devices: DomainDeviceList{Sounds: [DomainSound{}]}}`, `Domain{Devices: DomainDeviceList{Sounds: [DomainSound{}]}}`, "Devices.Sounds"},
		{`Domain{Devices: DomainDeviceList{Sounds: [DomainSound{}]}}`, `Domain{Devices: DomainDeviceList{Sounds: domainSpec.Devices.Sounds + [DomainSound{}]}}`, ""},
	} {
		list := read(t, fmt.Sprintf(`
- {apiVersion: plugin.kubevirt.io/v1alpha1, kind: Plugin, metadata: {name: b}, spec: {domainHooks: [{cel: {expression: %q}}]}}
- {apiVersion: plugin.kubevirt.io/v1alpha1, kind: Plugin, metadata: {name: a}, spec: {domainHooks: [{cel: {expression: %q}}]}}`, c.second, c.first))
		problems := plugins.Lint(list)
		at := slices.IndexFunc(problems, func(p plugins.Problem) bool { return p.Rule == "plugin-conflict" })
		switch {
		case c.element == "" && at >= 0:
			t.Errorf("%s, %s: %+v", c.first, c.second, problems[at])
		case c.element != "" && (at < 0 || problems[at].Plugin != "b" || problems[at].Message != "it overwrites "+c.element+", which the plugin a writes before"):
			t.Errorf("%s, %s: %+v, want %s", c.first, c.second, problems, c.element)
		}
	}
}

// TestRules holds that the rules have all that documents and logs show.
func TestRules(t *testing.T) {
	ids := map[string]bool{}
	for _, rule := range plugins.Rules() {
		if ids[rule.ID] || rule.Title == "" || rule.Remedy == "" {
			t.Errorf("%+v", rule)
		}
		ids[rule.ID] = true
	}
}

// TestPage holds that the page has each rule as it is.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range plugins.Rules() {
		severity := "error"
		if rule.Warning {
			severity = "warning"
		}
		if row := fmt.Sprintf("| `%s` | %s | %s | %s |\n", rule.ID, severity, rule.Title, rule.Remedy); !strings.Contains(string(page), row) {
			t.Errorf("docs/plugins.md has no %s", row)
		}
	}
}
