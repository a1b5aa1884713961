package answers_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/playground/answers"
	"github.com/virtward/virtward/rollouts"
)

const plannedVM = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: db, namespace: shop}
spec:
  runStrategy: Always
  instancetype: {name: u1}
  template:
    metadata: {labels: {app: db}}
    spec: {domain: {devices: {interfaces: [{name: default, masquerade: {}}]}}, networks: [{name: default, pod: {}}]}
`

const plannedInstancetype = `---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: u1}
spec: {cpu: {guest: 1, maxSockets: 4}, memory: {guest: 4Gi, maxGuest: 16Gi}}
`

func planOf(t *testing.T, before, after string) *answers.Plan {
	t.Helper()
	q := &answers.Question{
		Files: []answers.File{{Name: "vm.yaml", Text: after}}, Platforms: []answers.Platform{{}},
		Before: []answers.File{{Name: "vm.yaml", Text: before}},
	}
	for _, m := range answerOf(t, q).Platforms[0].Machines {
		if m.Explanation.Object.Kind == "VirtualMachine" {
			return m.Plan
		}
	}
	t.Fatal("there is no virtual machine")
	return nil
}

// A plan has what a change of the VM or of its instancetype needs, and nothing without a change.
func TestPlan(t *testing.T) {
	t.Parallel()
	before := plannedVM + plannedInstancetype
	if p := planOf(t, before, before); p == nil || p.Missing != "" || len(p.Changes) > 0 {
		t.Errorf("without a change: %+v", p)
	}
	for _, c := range []struct {
		name, old, new, field string
		takes                 rollouts.Takes
	}{
		{"memory of the instancetype", "guest: 4Gi", "guest: 8Gi", "memory", rollouts.LiveOnMigration},
		{"less memory", "guest: 4Gi", "guest: 2Gi", "memory", rollouts.Restart},
		{"another model", "masquerade: {}", "masquerade: {}, model: e1000e", "model", rollouts.Restart},
		{"a label", "{app: db}", "{app: other}", "labels", rollouts.Restart},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := planOf(t, before, strings.Replace(before, c.old, c.new, 1))
			if p.Missing != "" || len(p.Changes) != 1 || !strings.Contains(p.Changes[0].Field, c.field) || p.Changes[0].Takes != c.takes {
				t.Errorf("%+v", p)
			}
		})
	}
	halted := strings.Replace(before, "Always", "Halted", 1)
	if p := planOf(t, halted, strings.Replace(halted, "guest: 4Gi", "guest: 8Gi", 1)); len(p.Changes) != 1 || p.Changes[0].Takes != rollouts.NextStart {
		t.Errorf("of a halted VM: %+v", p)
	}
	if p := planOf(t, strings.Replace(before, "name: db", "name: other", 1), before); p.Missing != "the version that runs has no virtual machine of this name" {
		t.Errorf("%+v", p)
	}
	q := &answers.Question{Files: []answers.File{{Name: "vm.yaml", Text: before}}, Platforms: []answers.Platform{{}}}
	if m := answerOf(t, q).Platforms[0].Machines[0]; m.Plan != nil {
		t.Errorf("a plan without a version before: %+v", m.Plan)
	}
	q.Before = []answers.File{{Name: "../vm.yaml"}}
	if err := q.Check(); err == nil || !strings.HasPrefix(err.Error(), "before: files[0].name") {
		t.Error(err)
	}
}
