package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/policies/library"
)

func TestPolicyInstallList(t *testing.T) {
	table := call(t, "", "policy", "install", "--list")
	if lines := strings.Split(strings.TrimSpace(table.out), "\n"); table.code != exitOK || len(lines) != len(library.All())+1 {
		t.Errorf("code %d, %d lines for %d policies", table.code, len(lines), len(library.All()))
	}
	var all []listed
	read(t, json.Unmarshal, call(t, "", "policy", "install", "--list", "-o", "json").out, &all)
	if len(all) != len(library.All()) {
		t.Fatalf("%d policies", len(all))
	}
	for i, entry := range library.All() {
		if !strings.Contains(table.out, "\n"+entry.Name+" ") || all[i].Name != entry.Name || len(all[i].Parameters) != len(entry.Parameters) {
			t.Errorf("%s: is %+v in JSON, or is not in\n%s", entry.Name, all[i], table.out)
		}
	}
}

func TestPolicyInstallErrors(t *testing.T) {
	kubeconfig := api(t, clusterObjects())
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"memory-cap", "--list"}, exitUsage, "name a policy, or list all of them, not both: see kubectl virtward policy install --help"},
		{[]string{"--list", "-o", "sarif"}, exitUsage, `unknown output "sarif": a list is printed as table or json`},
		{nil, exitUsage, "name one policy of the library: see kubectl virtward policy install --help, and --list shows them"},
		{[]string{"memory-cup"}, exitUsage, `there is no policy "memory-cup" in the library: kubectl virtward policy install --list shows them`},
		{[]string{"memory-cap", "--enforcement", "deny"}, exitUsage, `unknown enforcement "deny": the known ones are Audit, Warn, Deny`},
		{[]string{"memory-cap", "--params", "max"}, exitUsage, "--params max: is not of the form NAME=VALUE"},
		{[]string{"memory-cap", "--params", "most=1Gi"}, exitUsage, "--params most=1Gi: there is no such parameter: the known ones are max"},
		{[]string{"vcpu-cap", "--params", "max=["}, exitUsage, "--params max=[: the value is no YAML: yaml: line 1: did not find expected node content"},
		{[]string{"memory-cap"}, exitFailed, "the cluster has no VirtualMachinePolicy: Virtward is not installed there"},
	} {
		t.Run(c.want, func(t *testing.T) {
			got := call(t, "", append([]string{"policy", "install", "--kubeconfig", kubeconfig}, c.args...)...)
			if diff := cmp.Diff(result{code: c.code, errOut: "error: " + c.want + "\n"}, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLibraryCanBeInstalled compiles every policy as it would be applied, with Audit for its enforcement.
func TestLibraryCanBeInstalled(t *testing.T) {
	kubeconfig := api(t, clusterObjects())
	for _, entry := range library.All() {
		got := call(t, "", "policy", "install", entry.Name, "--kubeconfig", kubeconfig)
		if want := "error: the cluster has no VirtualMachinePolicy: Virtward is not installed there\n"; got.errOut != want {
			t.Errorf("%s: %s", entry.Name, got.errOut)
		}
	}
}
