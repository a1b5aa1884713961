package cli

import (
	"strings"
	"testing"
)

func TestPolicyApplyErrors(t *testing.T) {
	kubeconfig := api(t, clusterObjects())
	for _, c := range []struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		{"", []string{"a.yaml"}, exitUsage, `unknown argument "a.yaml": files are named with -f: see kubectl virtward policy apply --help`},
		{"", nil, exitUsage, "name a file with -f: see kubectl virtward policy apply --help"},
		{"", []string{"-f", "-", "-o", "table"}, exitUsage, "-o, --max and -n are about what the policies find, which only --dry-run shows: see kubectl virtward policy apply --help"},
		{"", []string{"-f", "-", "-o", "tap"}, exitUsage, `unknown output "tap": the known ones are table, markdown, json, yaml, junit, sarif`},
		{"", []string{"-f", "-", "--dry-run", "--max", "-1"}, exitUsage, "--max -1: a number of findings is 0 or more"},
		{plain, []string{"-f", "-"}, exitFailed, "standard input: no VirtualMachinePolicy to apply"},
		{tooMuch("Deny", ""), []string{"-f", "-"}, exitFailed, "the cluster has no VirtualMachinePolicy: Virtward is not installed there"},
		{policyObject("cap", "enforcement: 7"), []string{"-f", "-"}, exitFailed, "standard input: document 1: VirtualMachinePolicy cap: spec.enforcement: is the number 7 where a text is expected"},
		{strings.Replace(tooMuch("Deny", ""), "vm.spec", "vn.spec", 1), []string{"-f", "-"}, exitFailed, "standard input: document 1: VirtualMachinePolicy cap is broken: nothing was applied"},
	} {
		t.Run(c.want, func(t *testing.T) {
			got := call(t, c.stdin, append([]string{"policy", "apply", "--kubeconfig", kubeconfig}, c.args...)...)
			if got.code != c.code || !strings.HasSuffix("\n"+got.errOut, "\nerror: "+c.want+"\n") || got.out != "" {
				t.Errorf("code %d, output %q, errors %q, want %q", got.code, got.out, got.errOut, c.want)
			}
		})
	}
}
