package policytest_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/policytest"
)

const documented = `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: good}
spec:
  title: t
  description: d
  category: c
  severity: low
  remedy: r
  enforcement: Deny
  validations:
  - {expression: "vm.spec.hostname != ''", message: m, fieldPath: spec.hostname}
`

const goodSuite = `apiVersion: policy.virtward.io/v1alpha1
kind: Suite
metadata: {name: s}
tests:
- name: t
  policies: [good.yaml]
  base: vm.yaml
  cases:
  - {name: a, expect: {verdict: denied}}
`

// TestUnknownFieldsAreBounded: a search for the position of each of these fields would take minutes.
func TestUnknownFieldsAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString(documented)
	for i := range 100_000 {
		fmt.Fprintf(&text, "  field%d: 1\n", i)
	}
	read := policytest.LoadPolicies(files(map[string]string{"p.yaml": text.String()}), ".")
	if found := evaluate(t).Lint(read); len(found) != 100 || found[0].Rule != policytest.LintReadable {
		t.Errorf("%d problems", len(found))
	}
}

func TestLint(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"what is valid", map[string]string{"good.yaml": documented, "s.yaml": goodSuite}, nil},
		{"what is not tested", map[string]string{"good.yaml": documented}, []string{"good.yaml:3:12: warning: metadata.name: no suite in these files has a case for this policy lint/tested"}},
		{"what is skipped is not tested", map[string]string{"good.yaml": documented, "s.yaml": goodSuite[:len(goodSuite)-2] + ", skip: true}\n"}, []string{"good.yaml:3:12: warning: metadata.name: no suite in these files has a case for this policy lint/tested"}},
		{"what its schema excludes", map[string]string{"good.yaml": strings.Replace(documented, "{name: good}", "{name: good, finalizers: [a b]}", 1), "s.yaml": goodSuite}, []string{
			`good.yaml:3:24: metadata.finalizers: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') lint/valid`,
		}},
		{"an exception", map[string]string{"e.yaml": "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicyException\nmetadata: {name: e}\nspec: {policies: [a], virtualMachines: [b], reason: c, expires: '2040-01-01T00:00:00Z'}\n"}, nil},
		{"an exception for no virtual machine", map[string]string{"e.yaml": "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicyException\nmetadata: {name: e}\nspec: {policies: [a], reason: c, expires: '2040-01-01T00:00:00Z'}\n"}, []string{
			"e.yaml:4:1: spec: Invalid value: exactly one of virtualMachines and selector is required lint/valid",
		}},
		{"an unknown field of an exception", map[string]string{"e.yaml": "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicyException\nmetadata: {name: e}\nspec: {policies: [a], virtualMachines: [b], reason: c, expire: '2040-01-01T00:00:00Z'}\n"}, []string{
			"e.yaml:4:1: spec.expires: Required value lint/valid",
			"e.yaml:4:56: spec.expire: unknown field: did you mean expires? lint/readable",
		}},
		{"what says nothing of itself", map[string]string{"good.yaml": "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nmetadata: {name: good}\nspec:\n  enforcement: Deny\n  exceptions: [{names: [a], reason: x}]\n  validations:\n  - {expression: 'true', messageExpression: '\"x\"'}\n", "s.yaml": goodSuite}, []string{
			"good.yaml:4:1: warning: spec.title: should be set: lists and reports show it lint/documented",
			"good.yaml:4:1: warning: spec.description: should be set: it explains the purpose of the policy lint/documented",
			"good.yaml:4:1: warning: spec.category: should be set: reports are sorted by it lint/documented",
			"good.yaml:4:1: warning: spec.severity: should be set: the default is medium lint/documented",
			"good.yaml:4:1: warning: spec.remedy: should be set: it ends every message, and tells users what to do lint/documented",
			"good.yaml:6:16: warning: spec.exceptions[0]: should expire lint/expires",
			"good.yaml:8:5: warning: spec.validations[0]: should have a message: users see the expression if messageExpression fails lint/message",
		}},
		{"what does not compile", map[string]string{"bad.yaml": `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: bad}
spec:
  enforcement: Deny
  validations:
  - expression: >-
      vm.spec.hostname == 'a'
      &&  vm.spec.hostnam == 'b'
    message: m
  - {expression: "vm.spec.hostname == \"a\" && vm.spec.x == ''", message: m}
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: module}
spec:
  enforcement: Deny
  rego:
    module: |
      package x

      deny contains "x" if {
        input.vm.spec.hostnam == "b"
      }
`}, []string{
			"bad.yaml:7:5: warning: spec.validations[0]: without a fieldPath and a messageExpression, an update that makes a violation worse is admitted with a warning: it cannot be distinguished from one that does not change it lint/doubtful",
			"bad.yaml:9:18: spec.validations[0].expression: undefined field 'hostnam'; did you mean 'hostname'? lint/compiles",
			"bad.yaml:11:5: warning: spec.validations[1]: without a fieldPath and a messageExpression, an update that makes a violation worse is admitted with a warning: it cannot be distinguished from one that does not change it lint/doubtful",
			"bad.yaml:11:55: spec.validations[1].expression: undefined field 'x' lint/compiles",
			"bad.yaml:23:9: spec.rego.module: input.vm.spec has no hostnam; it has hostname, accessCredentials, affinity, architecture, dnsConfig, dnsPolicy, domain, evictionStrategy, livenessProbe, networks and 13 more lint/compiles",
		}},
		{"what cannot be read", map[string]string{
			"a.yaml": "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nmetadata: {name: a}\nspec: {enforcment: Deny}\n",
			"b.yaml": "apiVersion: policy.virtward.io/v9\nkind: VirtualMachinePolicy\n", "c.yaml": "kind: VirtualMachinePolicy # policy.virtward.io\n: {\n",
			"s.yaml": goodSuite + "  - {}\n", "other.yaml": "{{ a template }}: {",
		}, []string{
			"a.yaml:4:8: spec.enforcment: unknown field: did you mean enforcement? lint/readable",
			`b.yaml:1:1: apiVersion: no matches for kind "VirtualMachinePolicy" in version "policy.virtward.io/v9": use policy.virtward.io/v1alpha1 lint/readable`,
			"c.yaml:1:1: document 1: line 1: did not find expected key lint/readable",
			"s.yaml:10:5: tests[0].cases[1].name: must not be empty lint/readable",
			"s.yaml:10:5: tests[0].cases[1].expect: must have a verdict, violations, a message, a field, exempted policies or an error lint/readable",
		}},
		{"what surrounds a document that cannot be read", map[string]string{
			"all.yaml": "# " + goodSuite + "---\n: {\n---\n" + documented + "---\n" + strings.Replace(documented, "name: good", "name: other", 1),
			"s.yaml":   strings.Replace(goodSuite, "good.yaml", "good/all.yaml", 1),
		}, []string{
			"all.yaml:10:1: document 2: line 10: did not find expected key lint/readable",
			"all.yaml:15:12: warning: metadata.name: no suite in these files has a case for this policy lint/tested",
			"all.yaml:28:12: warning: metadata.name: no suite in these files has a case for this policy lint/tested",
		}},
		{"expressions with mistakes", map[string]string{"s.yaml": goodSuite, "good.yaml": documented + `  - expression: >-
      vm.spec.hostname != '' &&
      vm.spec.domain.memory.guest < '8Gi'
    message: m
    fieldPath: spec.domain.memory.guest
`}, []string{
			"good.yaml:15:35: warning: spec.validations[1].expression: a quantity is compared as a string, so '16Gi' is less than '2Gi': use quantity(a).compareTo(quantity(b)) lint/quantity-string",
		}},
		{"settings of rules", map[string]string{"s.yaml": `apiVersion: policy.virtward.io/v1alpha1
kind: RuleSettings
metadata: {name: mine}
spec:
  rules:
  - {rule: arm64-disk-buss, severity: Warn}
  - {rule: mac-address-format, severity: Hard}
---
apiVersion: policy.virtward.io/v1alpha1
kind: RuleSettings
metadata: {name: others}
spec:
  rules:
  - {rule: arm64-disk-bus, severity: Deny}
  - {rule: disk-name-unique, severity: Warn, raeson: x}
---
apiVersion: policy.virtward.io/v1alpha1
kind: RuleSettings
metadata: {name: last}
spec:
  rules:
  - {rule: arm64-disk-bus, severity: Deny}
`}, []string{
			`s.yaml:6:6: spec.rules[0].rule: Invalid value: "arm64-disk-buss": there is no such rule: did you mean "arm64-disk-bus"? lint/valid`,
			`s.yaml:7:6: spec.rules[1].rule: Invalid value: "mac-address-format": there is no such rule lint/valid`,
			`s.yaml:7:32: spec.rules[1].severity: Unsupported value: "Hard": supported values: "Deny", "Warn", "Off" lint/valid`,
			"s.yaml:15:46: spec.rules[1].raeson: unknown field: did you mean reason? lint/readable",
			"s.yaml:22:5: warning: spec.rules[0]: has no effect by itself: the severity of arm64-disk-bus is Deny already lint/effect",
		}},
		{"defaults of the site", map[string]string{"d.yaml": `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachineDefaults
metadata: {name: good}
spec:
  match: {objectSelector: {matchLabels: {tier: gold}}, hypervisors: [kvm]}
  template: {evictionStrategy: LiveMigrate}
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachineDefaults
metadata: {name: unknown}
spec:
  template: {domain: {cpus: {cores: 2}}}
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachineDefaults
metadata: {name: invalid}
spec:
  match: {namespaceSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}, hypervisors: [kvm, none], architectures: [arm64]}
  template: {domain: {features: {smm: {}}, firmware: {bootloader: {bios: {}}}}}
`}, []string{
			"d.yaml:12:23: spec.template.domain.cpus: Invalid value: there is no such field in the spec of a virtual machine instance lint/valid",
			"d.yaml:19:3: warning: spec.template: on kvm and arm64, a virtual machine with these defaults is denied: Unsupported value: arm64 boots from EFI only [virtward/arm64-bios] lint/defaults",
		}},
		{"a name twice", map[string]string{"good.yaml": documented, "s.yaml": goodSuite, "z.yaml": documented}, []string{
			"z.yaml:3:12: metadata.name: the policy of good.yaml has the same name: names of policies must be unique lint/readable",
			"z.yaml:3:12: warning: metadata.name: no suite in these files has a case for this policy lint/tested",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, p := range evaluate(t).Lint(policytest.LoadPolicies(files(c.files), ".")) {
				got = append(got, p.String()+" "+p.Rule)
				if !slices.ContainsFunc(policytest.LintRules(), func(r policytest.LintRule) bool {
					return r.ID == p.Rule && r.Warning == p.Warning && r.Title != "" && r.Remedy != ""
				}) {
					t.Errorf("%s is not described as it is", p.Rule)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if p := policytest.LoadPolicies(files(nil), "nowhere").Problems; len(p) != 1 || p[0].String() != "nowhere: file does not exist" {
		t.Errorf("problems %v", p)
	}
}

// TestLintDocumentation: the page lists every rule, with its severity.
func TestLintDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/policy-lint.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range policytest.LintRules() {
		severity := "error"
		if rule.Warning {
			severity = "warning"
		}
		if row := fmt.Sprintf("\n| `%s` | %s |", rule.ID, severity); !strings.Contains(string(page), row) {
			t.Errorf("the page has no row %q", row)
		}
	}
	if rows, rules := strings.Count(string(page), "\n| `lint/"), len(policytest.LintRules()); rows != rules {
		t.Errorf("%d rows, and %d rules", rows, rules)
	}
}

// TestUntested: a policy is tested by a case that was evaluated, and by nothing else.
func TestUntested(t *testing.T) {
	texts := map[string]string{"good.yaml": documented, "s.yaml": goodSuite, "vm.yaml": vmOf4Gi, "z.yaml": "# below a comment\n" + documented}
	for name, c := range map[string]struct {
		suite   string
		options policytest.Options
		want    []string
	}{
		"a case was evaluated": {goodSuite, policytest.Options{}, []string{"z.yaml:4:12: metadata.name: no case was run for the policy good"}},
		"no case was chosen":   {goodSuite, policytest.Options{Select: func(string, string) bool { return false }}, []string{"good.yaml:3:12: metadata.name: no case was run for the policy good", "z.yaml:4:12: metadata.name: no case was run for the policy good"}},
		"the case is skipped":  {goodSuite[:len(goodSuite)-2] + ", skip: true}\n", policytest.Options{}, []string{"good.yaml:3:12: metadata.name: no case was run for the policy good", "z.yaml:4:12: metadata.name: no case was run for the policy good"}},
	} {
		texts["s.yaml"] = c.suite
		report := evaluate(t).Run(t.Context(), load(t, texts), c.options)
		if diff := cmp.Diff(c.want, lines(policytest.LoadPolicies(files(texts), ".").Untested(report))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
