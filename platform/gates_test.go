package platform_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/platform"
)

func TestGateEnabled(t *testing.T) {
	tests := map[string]struct {
		configuration string
		gate          string
		want          bool
	}{
		"alpha, not named":              {gate: "HostDisk"},
		"alpha, named":                  {configuration: "developerConfiguration: {featureGates: [HostDisk]}", gate: "HostDisk", want: true},
		"alpha, named and disabled":     {configuration: "developerConfiguration: {featureGates: [HostDisk], disabledFeatureGates: [HostDisk]}", gate: "HostDisk", want: true},
		"beta, not named":               {gate: "PasstBinding", want: true},
		"beta, named":                   {configuration: "developerConfiguration: {featureGates: [PasstBinding]}", gate: "PasstBinding", want: true},
		"beta, disabled":                {configuration: "developerConfiguration: {disabledFeatureGates: [PasstBinding]}", gate: "PasstBinding"},
		"generally available":           {gate: "NUMA", want: true},
		"generally available, disabled": {configuration: "developerConfiguration: {disabledFeatureGates: [NUMA]}", gate: "NUMA", want: true},
		"deprecated, not named":         {gate: "HotplugVolumes"},
		"deprecated, named":             {configuration: "developerConfiguration: {featureGates: [HotplugVolumes]}", gate: "HotplugVolumes", want: true},
		"discontinued, named":           {configuration: "developerConfiguration: {featureGates: [Macvtap]}", gate: "Macvtap"},
		"unknown, not named":            {gate: "DoesNotExist"},
		"unknown, named":                {configuration: "developerConfiguration: {featureGates: [DoesNotExist]}", gate: "DoesNotExist", want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := factsOf(t, test.configuration).GateEnabled(test.gate); got != test.want {
				t.Errorf("GateEnabled(%s) = %v, want %v", test.gate, got, test.want)
			}
		})
	}
}

func TestDiscontinuedGates(t *testing.T) {
	tests := map[string]struct {
		configuration string
		want          []string
	}{
		"none":               {},
		"others":             {configuration: "developerConfiguration: {featureGates: [HostDisk, HotplugVolumes]}"},
		"named":              {configuration: "developerConfiguration: {featureGates: [Passt, HostDisk, Macvtap]}", want: []string{"Macvtap", "Passt"}},
		"disabled":           {configuration: "developerConfiguration: {disabledFeatureGates: [Passt]}"},
		"named and disabled": {configuration: "developerConfiguration: {featureGates: [Passt], disabledFeatureGates: [Passt]}", want: []string{"Passt"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, factsOf(t, test.configuration).DiscontinuedGates()); diff != "" {
				t.Errorf("discontinued gates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGatesOfTheDefaults(t *testing.T) {
	facts := platform.Defaults(platform.Settings{})
	if facts.GateEnabled(platform.GateConfigurableHypervisor) || !facts.GateEnabled("Snapshot") {
		t.Error("the defaults do not have the gates that KubeVirt has on by itself")
	}
}

// factsOf reads the facts from a KubeVirt resource with the given configuration.
func factsOf(t *testing.T, configuration string) *platform.Facts {
	t.Helper()
	facts, err := platform.FromKubeVirt(kubeVirt(t, configuration), platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// EnabledGates agrees with GateEnabled, also for unknown gates.
func TestEnabledGates(t *testing.T) {
	facts := platform.Defaults(platform.Settings{})
	on := facts.EnabledGates()
	if !slices.IsSorted(on) || !slices.Contains(on, "LiveMigration") || slices.Contains(on, "HostDisk") {
		t.Errorf("the gates of KubeVirt's own defaults: %v", on)
	}
	for _, name := range on {
		if !facts.GateEnabled(name) {
			t.Errorf("%s is not on", name)
		}
	}
	kv := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": map[string]any{
		"developerConfiguration": map[string]any{"featureGates": []any{"HostDisk", "OfTheFuture"}, "disabledFeatureGates": []any{"Snapshot"}},
	}}}}
	facts, err := platform.FromKubeVirt(kv, platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	on = facts.EnabledGates()
	if !slices.Contains(on, "HostDisk") || !slices.Contains(on, "OfTheFuture") || slices.Contains(on, "Snapshot") {
		t.Errorf("the gates of a configuration: %v", on)
	}
}
