package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

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
		got := call(t, "", append([]string{"rules"}, args...)...)
		lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
		if got.code != exitOK || got.errOut != "" || !strings.HasPrefix(lines[0], "ID ") {
			t.Fatalf("%v: code %d, errors %q, output:\n%s", args, got.code, got.errOut, got.out)
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
	got := call(t, "", "rules", "arm64-disk-bus")
	if want := "arm64-disk-bus\nDisks of arm64 are on a virtio or scsi bus.\n\nSeverity:    Deny\nApplies to:  VM, VMI\nOn:          arm64\n"; got.code != exitOK || !strings.HasPrefix(got.out, want) {
		t.Errorf("code %d, errors %q, output:\n%s", got.code, got.errOut, got.out)
	}
	var entry struct{ ID, Severity string }
	if got := call(t, "", "rules", "vm-running-deprecated", "-o", "json"); json.Unmarshal([]byte(got.out), &entry) != nil || entry.ID != "vm-running-deprecated" || entry.Severity != "Warn" {
		t.Errorf("code %d, errors %q, output:\n%s", got.code, got.errOut, got.out)
	}
	if got := call(t, "", "rules", "arm64-disk-bus", "-o", "markdown"); strings.Count(got.out, "\n### ") != 1 || !strings.Contains(got.out, "\n### arm64-disk-bus\n") {
		t.Errorf("code %d, errors %q, output:\n%s", got.code, got.errOut, got.out)
	}
}

// TestExampleOfARule does what it says: with it, the rejection is a warning.
func TestExampleOfARule(t *testing.T) {
	page := call(t, "", "rules", "arm64-disk-bus").out
	_, example, found := strings.Cut(page, "To make findings of arm64-disk-bus warnings in the namespace shop:\n\n")
	if !found {
		t.Fatalf("there is no example:\n%s", page)
	}
	example = strings.ReplaceAll(strings.TrimPrefix(example, "  "), "\n  ", "\n")
	if got := call(t, sata+"---\n"+example, "explain", "-f", "-"); got.code != exitOK || !strings.Contains(got.out, "# warning: spec.template.spec.domain.devices.disks[0].disk.bus: ") {
		t.Errorf("code %d, errors %q, output:\n%s", got.code, got.errOut, got.out)
	}
}
