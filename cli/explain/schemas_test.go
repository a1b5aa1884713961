package explain_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/clitest"
)

// differing are recorded answers of KubeVirt about schemas that explain does not share, and why.
var differing = map[string]string{
	"schema-no-devices":          "a warning: the webhook rejects it, although it would fill the object",
	"schema-null-volumes":        "the API server drops null before it calls webhooks",
	"schema-null-cpu":            "the API server drops null before it calls webhooks",
	"schema-vm-template-no-spec": "a VM without memory never starts",
	"schema-vm-template-empty":   "a VM without memory never starts",
}

// TestExplainAgreesWithKubeVirtsSchemas replays the recorded objects that KubeVirt's webhook compares with its schema.
func TestExplainAgreesWithKubeVirtsSchemas(t *testing.T) {
	var different []string
	cases := recorded(t, func(c *recordedCase) bool { return c.Area == "schema" })
	for _, c := range cases {
		got := clitest.Call(t, string(c.Object), "explain", "-f", "-")
		if allowed := got.Code == clitest.ExitOK; allowed != c.Expect.Allowed {
			different = append(different, c.ID)
		}
	}
	if len(cases) < 50 {
		t.Errorf("only %d cases", len(cases))
	}
	var want []string
	for id := range differing {
		want = append(want, id)
	}
	slices.Sort(want)
	slices.Sort(different)
	if diff := cmp.Diff(want, different); diff != "" {
		t.Errorf("(-documented +different):\n%s", diff)
	}
}
