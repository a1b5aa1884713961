package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/policies/library"
)

func TestPolicyInstallList(t *testing.T) {
	table := clitest.Call(t, "", "policy", "install", "--list")
	if lines := strings.Split(strings.TrimSpace(table.Out), "\n"); table.Code != clitest.ExitOK || len(lines) != len(library.All())+1 {
		t.Errorf("code %d, %d lines for %d policies", table.Code, len(lines), len(library.All()))
	}
	var all []struct {
		Name       string
		Parameters []struct{ Name string }
	}
	clitest.Decode(t, json.Unmarshal, clitest.Call(t, "", "policy", "install", "--list", "-o", "json").Out, &all)
	if len(all) != len(library.All()) {
		t.Fatalf("%d policies", len(all))
	}
	for i, entry := range library.All() {
		if !strings.Contains(table.Out, "\n"+entry.Name+" ") || all[i].Name != entry.Name || len(all[i].Parameters) != len(entry.Parameters) {
			t.Errorf("%s: is %+v in JSON, or is not in\n%s", entry.Name, all[i], table.Out)
		}
	}
}

func TestPolicyInstallErrors(t *testing.T) {
	kubeconfig := clitest.APIServer(t, clitest.ClusterObjects())
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"memory-cap", "--list"}, clitest.ExitUsage, "NAME and --list exclude each other: see kubectl virtward policy install --help"},
		{[]string{"--list", "-o", "sarif"}, clitest.ExitUsage, `unknown output "sarif": --list supports table and json`},
		{nil, clitest.ExitUsage, "add the name of one policy: --list lists them: see kubectl virtward policy install --help"},
		{[]string{"memory-cup"}, clitest.ExitUsage, `there is no policy "memory-cup" in the library: kubectl virtward policy install --list lists them`},
		{[]string{"memory-cap", "--enforcement", "deny"}, clitest.ExitUsage, `unknown enforcement "deny": the known ones are Audit, Warn, Deny`},
		{[]string{"memory-cap", "--params", "max"}, clitest.ExitUsage, "--params max: must have the form NAME=VALUE"},
		{[]string{"memory-cap", "--params", "most=1Gi"}, clitest.ExitUsage, "--params most=1Gi: unknown parameter: the known ones are max"},
		{[]string{"vcpu-cap", "--params", "max=["}, clitest.ExitUsage, "--params max=[: the value must be YAML: yaml: line 1: did not find expected node content"},
		{[]string{"memory-cap"}, clitest.ExitFailed, "the cluster has no VirtualMachinePolicy: Virtward is not installed there"},
	} {
		t.Run(c.want, func(t *testing.T) {
			got := clitest.Call(t, "", append([]string{"policy", "install", "--kubeconfig", kubeconfig}, c.args...)...)
			if diff := cmp.Diff(clitest.Result{Code: c.code, ErrOut: "error: " + c.want + "\n"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLibraryCanBeInstalled compiles every policy as it would be applied, with Audit for its enforcement.
func TestLibraryCanBeInstalled(t *testing.T) {
	kubeconfig := clitest.APIServer(t, clitest.ClusterObjects())
	for _, entry := range library.All() {
		got := clitest.Call(t, "", "policy", "install", entry.Name, "--kubeconfig", kubeconfig)
		if want := "error: the cluster has no VirtualMachinePolicy: Virtward is not installed there\n"; got.ErrOut != want {
			t.Errorf("%s: %s", entry.Name, got.ErrOut)
		}
	}
}
