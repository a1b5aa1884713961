package policy_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

func TestPolicyApplyErrors(t *testing.T) {
	kubeconfig := clitest.APIServer(t, clitest.ClusterObjects())
	for _, c := range []struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		{"", []string{"a.yaml"}, clitest.ExitUsage, `unknown argument "a.yaml": use -f for files: see kubectl virtward policy apply --help`},
		{"", nil, clitest.ExitUsage, "add a file with -f: see kubectl virtward policy apply --help"},
		{"", []string{"-f", "-", "-o", "table"}, clitest.ExitUsage, "--output, --max and --namespace require --dry-run: see kubectl virtward policy apply --help"},
		{"", []string{"-f", "-", "-o", "tap"}, clitest.ExitUsage, `unknown output "tap": the known ones are table, markdown, json, yaml, junit, sarif, github`},
		{"", []string{"-f", "-", "--dry-run", "--max", "-1"}, clitest.ExitUsage, "--max -1: must be 0 or more"},
		{clitest.VM, []string{"-f", "-"}, clitest.ExitFailed, "standard input: no VirtualMachinePolicy to apply"},
		{clitest.MemoryPolicy("Deny", ""), []string{"-f", "-"}, clitest.ExitFailed, "the cluster has no VirtualMachinePolicy: Virtward is not installed there"},
		{clitest.Policy("cap", "enforcement: 7"), []string{"-f", "-"}, clitest.ExitFailed, "standard input: document 1: VirtualMachinePolicy cap: spec.enforcement: is the number 7 where a text is expected: nothing was applied"},
		{clitest.MemoryPolicy("Deny", ""), []string{"-f", "-", "-l", "team=a"}, clitest.ExitFailed, `standard input: no VirtualMachinePolicy to apply, with the labels "team=a"`},
		{clitest.MemoryPolicy("Deny", ""), []string{"-f", "-", "-l", "team!=a"}, clitest.ExitFailed, "the cluster has no VirtualMachinePolicy: Virtward is not installed there"},
		{clitest.Policy("cap", "enforcement: deny, validations: [{expression: 'true', message: m}]"), []string{"-f", "-"}, clitest.ExitFailed, `standard input: document 1: VirtualMachinePolicy cap: spec.enforcement: Unsupported value: "deny": supported values: "Deny", "Warn", "Audit": nothing was applied`},
		{strings.Replace(clitest.MemoryPolicy("Deny", ""), "vm.spec", "vn.spec", 1), []string{"-f", "-"}, clitest.ExitFailed, "standard input: document 1: VirtualMachinePolicy cap is broken: nothing was applied"},
	} {
		t.Run(c.want, func(t *testing.T) {
			got := clitest.Call(t, c.stdin, append([]string{"policy", "apply", "--kubeconfig", kubeconfig}, c.args...)...)
			if got.Code != c.code || !strings.HasSuffix("\n"+got.ErrOut, "\nerror: "+c.want+"\n") || got.Out != "" {
				t.Errorf("code %d, output %q, errors %q, want %q", got.Code, got.Out, got.ErrOut, c.want)
			}
		})
	}
}

// TestPolicyApplyRecursive: without -R, the policies of subdirectories are not read; with -R, they are, and suites beside them
// are skipped silently.
func TestPolicyApplyRecursive(t *testing.T) {
	kubeconfig := clitest.APIServer(t, clitest.ClusterObjects())
	inFolder(t, map[string]string{"policies/team/cap/policy.yaml": clitest.MemoryPolicy("Deny", ""), "policies/team/cap/suite.yaml": capSuite, "one/policy.yaml": clitest.MemoryPolicy("Deny", "")})
	const sent = "error: the cluster has no VirtualMachinePolicy: Virtward is not installed there\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-f", "policies"}, "error: policies: the directory holds no .yaml, .yml or .json files: use -R to read its subdirectories\n"},
		{[]string{"-R", "-f", "policies"}, sent},
		{[]string{"--recursive", "-f", "one"}, sent},
	} {
		got := clitest.Call(t, "", append([]string{"policy", "apply", "--kubeconfig", kubeconfig}, c.args...)...)
		if got.Code != clitest.ExitFailed || got.ErrOut != c.want {
			t.Errorf("%v: code %d, errors %q, want %q", c.args, got.Code, got.ErrOut, c.want)
		}
	}
}
