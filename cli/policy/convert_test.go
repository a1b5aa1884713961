package policy_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/clitest"
)

const nativeCap = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: cap}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [kubevirt.io], apiVersions: [v1], operations: [CREATE], resources: [virtualmachines]}
  validations:
  - {expression: "object.spec.template.spec.domain.?cpu.?cores.orValue(1) <= 4", message: at most 4 cores}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: cap}
spec: {policyName: cap, validationActions: [Deny]}
`

const convertedCap = `# Converted from ValidatingAdmissionPolicy cap with the binding cap.
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata:
  name: cap
spec:
  enforcement: Deny
  failurePolicy: Fail
  match:
    kinds:
    - VirtualMachine
    operations:
    - CREATE
  validations:
  - expression: object.spec.template.spec.domain.?cpu.?cores.orValue(1) <= 4
    message: at most 4 cores
    fieldPath: spec.template.spec.domain.cpu.cores
`

const patternCap = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: cap}
spec:
  validationFailureAction: Enforce
  rules:
  - name: cores
    match: {any: [{resources: {kinds: [VirtualMachine]}}]}
    validate: {message: at most 4 cores, pattern: {spec: {template: {spec: {domain: {=(cpu): {cores: "<=4"}}}}}}}
`

const regoCap = `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: cap}
spec:
  crd: {spec: {names: {kind: Cap}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package cap
      violation[{"msg": "too many cores"}] { input.review.object.spec.template.spec.domain.cpu.cores > input.parameters.cores }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Cap
metadata: {name: cap}
spec:
  match: {kinds: [{apiGroups: [kubevirt.io], kinds: [VirtualMachine]}]}
  parameters: {cores: 4}
`

// TestPolicyConvertSuite writes tests of a rule in patterns, which policy test runs. Without Kyverno, and with results that differ, the
// rule is not proved.
func TestPolicyConvertSuite(t *testing.T) {
	for _, c := range []struct {
		name, engine, want string
		code               int
	}{
		{"without an engine", "", "not proved: add --engine", clitest.ExitFailed},
		{"the same results", "exit 0", "has the same results", 0},
		{"other results", "echo Want pass, got fail; exit 1", "Want pass, got fail", clitest.ExitFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFolder(t, map[string]string{"x.yaml": patternCap, "engine": "#!/bin/sh\n" + c.engine + "\n"})
			args := []string{"policy", "convert", "-f", "x.yaml", "--suite", "tests"}
			if c.engine != "" {
				if err := os.Chmod("engine", 0o700); err != nil { //nolint:gosec // a program
					t.Fatal(err)
				}
				args = append(args, "--engine", "./engine")
			}
			if got := clitest.Call(t, "", args...); got.Code != c.code || !strings.Contains(got.ErrOut, c.want) {
				t.Errorf("%+v", got)
			}
			if got := clitest.Call(t, "", "policy", "test", "tests"); got.Code != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("Gatekeeper", func(t *testing.T) {
		inFolder(t, map[string]string{"x.yaml": regoCap, "gator": "#!/bin/sh\ntest $1 = verify && test -f $2\n", "kyverno": "#!/bin/sh\nexit 1\n"})
		for _, program := range []string{"gator", "kyverno"} {
			if err := os.Chmod(program, 0o700); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
		}
		if got := clitest.Call(t, "", "policy", "convert", "-f", "x.yaml", "--suite", "tests", "--engine", "./kyverno", "--engine", "./gator"); got.Code != 0 || !strings.Contains(got.ErrOut, "./gator has the same results") {
			t.Errorf("%+v", got)
		}
		if got := clitest.Call(t, "", "policy", "convert", "-f", "x.yaml", "--suite", "tests", "--engine", "./kyverno"); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "not proved: add --engine gator") {
			t.Errorf("%+v", got)
		}
		if got := clitest.Call(t, "", "policy", "test", "tests"); got.Code != 0 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("an engine that does not end", func(t *testing.T) {
		inFolder(t, map[string]string{"x.yaml": patternCap, "engine": "#!/bin/sh\nsleep 600 &\nwait\n"})
		if err := os.Chmod("engine", 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		if got := clitest.Call(t, "", "policy", "convert", "-f", "x.yaml", "--suite", "tests", "--engine", "./engine", "--timeout", "2s"); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "not complete after 2s") {
			t.Errorf("%+v", got)
		}
	})
	for _, args := range [][]string{{"--timeout", "1s"}, {"--suite", "tests", "--timeout", "-1s"}} {
		if got := clitest.Call(t, "", append([]string{"policy", "convert", "-f", "x.yaml"}, args...)...); got.Code != clitest.ExitUsage || !strings.Contains(got.ErrOut, "--timeout is the time for the tests") {
			t.Errorf("%+v", got)
		}
	}
	inFolder(t, map[string]string{"x.yaml": patternCap})
	if got := clitest.Call(t, "", "policy", "convert", "-f", "x.yaml", "--engine", "kyverno"); got.Code != clitest.ExitUsage || !strings.Contains(got.ErrOut, "add --suite") {
		t.Errorf("%+v", got)
	}
}

// TestPolicyConvert shows the exit codes and the output.
func TestPolicyConvert(t *testing.T) {
	annotated := strings.Replace(nativeCap, "  validations:", "  auditAnnotations: [{key: a, valueExpression: \"'b'\"}]\n  validations:", 1)
	commented := strings.Replace(convertedCap, "  validations:", "  # NOT CONVERTED: the audit annotation a has no equivalent: every violation is in the audit annotations\n  # of Virtward\n  validations:", 1)
	for _, c := range []struct {
		name, file string
		args       []string
		want       clitest.Result
	}{
		{"completely", nativeCap, []string{"-f", "x.yaml"}, clitest.Result{Out: convertedCap}},
		{"with a part that has no equivalent", annotated, []string{"-f", "."}, clitest.Result{
			Code: clitest.ExitFailed, Out: commented,
			ErrOut: "warning: x.yaml: document 1: ValidatingAdmissionPolicy cap with the binding cap: spec.validations: the audit annotation a has no equivalent: every violation is in the audit annotations of Virtward\n" +
				"error: 1 policy is written and 1 object is not converted completely\n",
		}},
		{"a quantity that is repaired", strings.Replace(nativeCap, "object.spec.template.spec.domain.?cpu.?cores.orValue(1) <= 4", "object.spec.template.spec.domain.?memory.?guest.orValue('1Gi') == '8192Mi'", 1), []string{"-f", "x.yaml"}, clitest.Result{
			Out: strings.NewReplacer("  - expression: object.spec.template.spec.domain.?cpu.?cores.orValue(1) <= 4", "  - # Note: the original compares texts: here, quantity() compares amounts, because documents have\n"+
				"    # quantities in canonical form, such as 8Gi for 8192Mi\n    expression: (isQuantity(object.spec.template.spec.domain.?memory.?guest.orValue('1Gi')) && quantity(object.spec.template.spec.domain.?memory.?guest.orValue('1Gi')) == quantity('8192Mi'))", "domain.cpu.cores", "domain.memory.guest").Replace(convertedCap),
			ErrOut: "note: x.yaml: document 1: ValidatingAdmissionPolicy cap with the binding cap: spec.validations[0].expression: the original compares texts: here, quantity() compares amounts, because documents have quantities in canonical form, such as 8Gi for 8192Mi\n",
		}},
		{"a finding that is not repaired", strings.Replace(nativeCap, "object.spec.template.spec.domain.?cpu.?cores.orValue(1) <= 4", "object.spec.template.spec.domain.?memory.?guest.orValue('1Gi').endsWith('Mi')", 1), []string{"-f", "x.yaml"}, clitest.Result{
			Code: clitest.ExitFailed,
			Out: strings.NewReplacer("  - expression: object.spec.template.spec.domain.?cpu.?cores.orValue(1) <= 4", "  - # CHECK: the text of a quantity is its canonical form, such as '8Gi' for 8192Mi: use quantity() to\n"+
				"    # read the amount [lint/quantity-string]\n    expression: object.spec.template.spec.domain.?memory.?guest.orValue('1Gi').endsWith('Mi')", "domain.cpu.cores", "domain.memory.guest").Replace(convertedCap),
			ErrOut: "warning: x.yaml: document 1: ValidatingAdmissionPolicy cap with the binding cap: spec.validations[0].expression: the text of a quantity is its canonical form, such as '8Gi' for 8192Mi: use quantity() to read the amount\n" +
				"error: 1 policy is written and 1 object is not converted completely\n",
		}},
		{"another engine", "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: a}\nspec: {rules: [{name: r, match: {resources: {kinds: [VirtualMachine]}}, validate: {pattern: {}}}]}\n", []string{"-f", "x.yaml"}, clitest.Result{
			Code: clitest.ExitFailed,
			Out:  "# Converted from ClusterPolicy a.\n# NOT CONVERTED: a part of its patterns (validate.pattern, validate.anyPattern) has no equivalent:\n# docs/from-kyverno.md has the same requirements as VirtualMachinePolicies; every object passes the\n# pattern\n",
			ErrOut: "warning: x.yaml: document 1: ClusterPolicy a: a part of its patterns (validate.pattern, validate.anyPattern) has no equivalent: docs/from-kyverno.md has the same requirements as VirtualMachinePolicies; every object passes the pattern\n" +
				"error: 0 policies are written and 1 object is not converted completely\n",
		}},
		{"no policy", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", []string{"-f", "x.yaml"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: "note: x.yaml: document 1: ConfigMap a: skipped: it is not a policy\nerror: x.yaml: no policy to convert\n",
		}},
		{"no file", nativeCap, nil, clitest.Result{Code: clitest.ExitUsage, ErrOut: "error: add a file with -f: see kubectl virtward policy convert --help\n"}},
		{"an argument", nativeCap, []string{"x.yaml"}, clitest.Result{Code: clitest.ExitUsage, ErrOut: "error: unknown argument \"x.yaml\": use -f for files: see kubectl virtward policy convert --help\n"}},
		{"an unknown output", nativeCap, []string{"-f", "x.yaml", "-o", "toml"}, clitest.Result{Code: clitest.ExitUsage, ErrOut: "error: unknown output \"toml\": the known ones are yaml, json\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFolder(t, map[string]string{"x.yaml": c.file})
			if diff := cmp.Diff(c.want, clitest.Call(t, "", append([]string{"policy", "convert"}, c.args...)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		var report struct {
			Results []struct {
				Source string
				Policy struct{ Metadata struct{ Name string } }
			}
		}
		got := clitest.Call(t, nativeCap, "policy", "convert", "-f", "-", "-o", "json")
		clitest.Decode(t, json.Unmarshal, got.Out, &report)
		if len(report.Results) != 1 || report.Results[0].Policy.Metadata.Name != "cap" {
			t.Errorf("%+v", report)
		}
	})
	t.Run("the result is valid", func(t *testing.T) {
		inFolder(t, map[string]string{"policy.yaml": convertedCap})
		if got := clitest.Call(t, "", "policy", "lint", "policy.yaml"); got.Code != clitest.ExitOK {
			t.Errorf("%+v", got)
		}
	})
}
