package rules_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/hypervisors"
)

func TestRulesList(t *testing.T) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	all := len(registry.Rules())
	ids := func(args ...string) []string {
		t.Helper()
		got := clitest.Call(t, "", append([]string{"rules"}, args...)...)
		lines := strings.Split(strings.TrimSuffix(got.Out, "\n"), "\n")
		if got.Code != clitest.ExitOK || got.ErrOut != "" || !strings.HasPrefix(lines[0], "ID ") {
			t.Fatalf("%v: code %d, errors %q, output:\n%s", args, got.Code, got.ErrOut, got.Out)
		}
		var found []string
		for _, line := range lines[1:] {
			found = append(found, strings.Fields(line)[0])
		}
		return found
	}
	if n := len(ids()); n != all {
		t.Errorf("%d rules are listed, and there are %d", n, all)
	}
	for _, c := range []struct {
		args          []string
		with, without string
	}{
		{[]string{"--arch", "arm64"}, "arm64-disk-bus", "amd64-watchdog"},
		{[]string{"--hypervisor", "mshv", "--arch", "amd64"}, "mshv-cpu-model", "arm64-disk-bus"},
		{[]string{"--hypervisor", "hyperv-direct", "--arch", "amd64"}, "mshv-cpu-model", "arm64-disk-bus"},
		{[]string{"--hypervisor", "mshv", "--arch", "s390x"}, "s390x-video", "mshv-cpu-model"},
		{[]string{"--hypervisor", "kvm"}, "arm64-disk-bus", "mshv-cpu-model"},
		{[]string{"--scope", "vm-update"}, "vm-snapshot-volumes-kept", "arm64-disk-bus"},
		{[]string{"--scope", "vmi"}, "arm64-disk-bus", "vm-running-deprecated"},
	} {
		found := ids(c.args...)
		if !slices.Contains(found, c.with) || slices.Contains(found, c.without) || len(found) >= all {
			t.Errorf("%v: want %s and not %s, got %d of %d rules", c.args, c.with, c.without, len(found), all)
		}
	}
}

func TestOneRule(t *testing.T) {
	got := clitest.Call(t, "", "rules", "arm64-disk-bus")
	if want := "arm64-disk-bus\nDisks of arm64 are on a virtio or scsi bus.\n\nSeverity:    Deny\nApplies to:  VM, VMI\nOn:          arm64\n"; got.Code != clitest.ExitOK || !strings.HasPrefix(got.Out, want) {
		t.Errorf("code %d, errors %q, output:\n%s", got.Code, got.ErrOut, got.Out)
	}
	var entry struct{ ID, Severity string }
	if got := clitest.Call(t, "", "rules", "vm-running-deprecated", "-o", "json"); json.Unmarshal([]byte(got.Out), &entry) != nil || entry.ID != "vm-running-deprecated" || entry.Severity != "Warn" {
		t.Errorf("code %d, errors %q, output:\n%s", got.Code, got.ErrOut, got.Out)
	}
	if got := clitest.Call(t, "", "rules", "arm64-disk-bus", "-o", "markdown"); !strings.HasPrefix(got.Out, "# arm64-disk-bus\n") || !strings.Contains(got.Out, "\nThe message:\n\n```text\nspec.template.spec.domain.devices.disks[0].disk.bus: Unsupported value: \"sata\"") {
		t.Errorf("code %d, errors %q, output:\n%s", got.Code, got.ErrOut, got.Out)
	}
}

// TestExampleOfARule: with the example, the rejection is a warning.
func TestExampleOfARule(t *testing.T) {
	page := clitest.Call(t, "", "rules", "arm64-disk-bus").Out
	_, example, found := strings.Cut(page, "To make findings of arm64-disk-bus warnings in the namespace shop:\n\n")
	if !found {
		t.Fatalf("there is no example:\n%s", page)
	}
	example = strings.ReplaceAll(strings.TrimPrefix(example, "  "), "\n  ", "\n")
	if got := clitest.Call(t, clitest.VMWithSATA+"---\n"+example, "explain", "-f", "-"); got.Code != clitest.ExitOK || !strings.Contains(got.Out, "# warning: spec.template.spec.domain.devices.disks[0].disk.bus: ") {
		t.Errorf("code %d, errors %q, output:\n%s", got.Code, got.ErrOut, got.Out)
	}
}
