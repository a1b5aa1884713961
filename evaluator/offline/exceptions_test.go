package offline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
)

const exemptedFile = `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: caps}
spec: {enforcement: Deny, validations: [{expression: "false", message: never}]}
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicyException
metadata: {name: granted, namespace: shop}
spec: {policies: [caps], virtualMachines: [db], reason: year's end, expires: "2026-12-31T00:00:00Z"}
`

// The time of the files decides which exceptions are active.
func TestTimeOfExceptions(t *testing.T) {
	end := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	const named = "exceptions.yaml: document 2: VirtualMachinePolicyException shop/granted is not active: spec.expires: Invalid value: \"2026-12-31T00:00:00Z\": "
	for name, c := range map[string]struct {
		now    time.Time
		most   time.Duration
		active int
		notes  []string
	}{
		"a second before its end":   {end.Add(-time.Second), offline.DefaultMaxException, 1, nil},
		"at its end":                {end, offline.DefaultMaxException, 0, []string{named + "must be in the future"}},
		"as long as it can be":      {end.Add(-offline.DefaultMaxException), offline.DefaultMaxException, 1, nil},
		"longer":                    {end.Add(-offline.DefaultMaxException - time.Second), offline.DefaultMaxException, 0, []string{named + "must be at most 90 days in the future"}},
		"longer, and another bound": {end.AddDate(-1, 0, 0), 366 * 24 * time.Hour, 1, nil},
		"longer, and no bound":      {end.AddDate(-10, 0, 0), 0, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := manifests.ReadParts(t.Context(), "exceptions.yaml", strings.NewReader(exemptedFile))
			if err != nil {
				t.Fatal(err)
			}
			files := offline.Sort(content)
			files.Now, files.MaxException = c.now, c.most
			w, err := offline.New(t.Context(), files, nil, platform.Defaults(platform.Settings{}), "default")
			if err != nil {
				t.Fatal(err)
			}
			if got := w.Policies().Exceptions().Active("shop", c.now); got != c.active {
				t.Errorf("%d active exceptions", got)
			}
			if diff := cmp.Diff(c.notes, w.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}
