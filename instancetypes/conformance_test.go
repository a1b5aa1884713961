package instancetypes_test

import (
	"testing"

	"github.com/virtward/virtward/conformance"
)

// TestConformance replays recorded expansions of the real KubeVirt.
func TestConformance(t *testing.T) {
	for _, c := range recordedCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			for _, difference := range c.Check() {
				t.Error(difference)
			}
		})
	}
}

// TestConformanceSeesDifferences makes sure that the comparison can fail.
func TestConformanceSeesDifferences(t *testing.T) {
	for name, spoil := range map[string]func(*conformance.InstancetypeCase){
		"spec": func(c *conformance.InstancetypeCase) { c.Expect.Spec = []byte(`{"domain":{"devices":{}}}`) },
		"conflict": func(c *conformance.InstancetypeCase) {
			c.Expect.Conflicts = []string{"spec.template.spec.nodeSelector"}
		},
		"annotation":   func(c *conformance.InstancetypeCase) { c.Expect.Annotations = map[string]string{"a": "b"} },
		"spread":       func(c *conformance.InstancetypeCase) { c.Expect.SpreadConflict = "instancetype.spec.cpu.guest" },
		"requirements": func(c *conformance.InstancetypeCase) { c.Expect.RequirementConflicts = []string{"spec.instancetype"} },
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range recordedCases(t) {
				if c.ID != "it-basic-both-empty-preference" {
					continue
				}
				spoil(&c)
				if differences := c.Check(); len(differences) == 0 {
					t.Error("nothing differs")
				}
				return
			}
			t.Error("the case is gone")
		})
	}
}
