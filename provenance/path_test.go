package provenance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSteps(t *testing.T) {
	for text, want := range map[string][]string{
		"":                  {},
		"spec":              {"spec"},
		"spec.disks[0].bus": {"spec", "disks", "0", "bus"},
		"metadata.labels[app.kubernetes.io/name]": {"metadata", "labels", "app.kubernetes.io/name"},
		"requests[cpu].x":                         {"requests", "cpu", "x"},
		"open[never":                              {"open", "never"},
		"[0][1]":                                  {"0", "1"},
	} {
		if diff := cmp.Diff(want, Steps(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
