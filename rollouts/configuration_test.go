package rollouts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

func configured(t *testing.T, text string) *Configuration {
	t.Helper()
	if text == "" {
		return nil
	}
	c := &Configuration{}
	if err := yaml.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfigurationWarnings(t *testing.T) {
	const (
		none  = "spec: {configuration: {}}"
		stage = "spec: {configuration: {vmRolloutStrategy: Stage}}"
		live  = "spec: {configuration: {vmRolloutStrategy: LiveUpdate}}"
		moves = "spec: {configuration: {vmRolloutStrategy: LiveUpdate}, workloadUpdateStrategy: {workloadUpdateMethods: [LiveMigrate]}}"
		p     = "spec.configuration.vmRolloutStrategy: "
		l     = "spec.configuration.liveUpdateConfiguration."
		early = "KubeVirt v1.3.1 ignores it unless the feature gate VMLiveUpdateFeatures is on. Add the gate to spec.configuration.developerConfiguration.featureGates."

		staged  = p + "With Stage, changes of sockets, guest memory, node selectors, affinity, tolerations and claims wait for a restart."
		arrives = " What KubeVirt has written to the instances of 3 virtual machines still arrives with a migration."
		flagged = p + "KubeVirt can require restarts of virtual machines whose changes are live already."
		applied = p + "With LiveUpdate, KubeVirt applies pending changes of sockets, guest memory, node selectors, affinity, tolerations and claims at once"
		forced  = p + "4 virtual machines with a change that needs a restart: if another field of them needs one, their live changes wait for it too."
		counted = p + "42 virtual machines run, 7 with pending changes (LiveOnMigration 3, Restart 4)."
	)
	guest := resource.MustParse("64Gi")
	known := Counted{Counts: &v1alpha1.RunningCounts{Complete: true, Running: 42, Pending: 7, Takes: map[string]int{"LiveOnMigration": 3, "Restart": 4}, MaxSockets: 16, MaxGuest: &guest}}
	partial := Counted{Counts: &v1alpha1.RunningCounts{Running: 1}, Unknown: "The counts are 20 minutes old"}
	for name, test := range map[string]struct {
		old, is string
		counted Counted
		want    []string
	}{
		"a new resource":                   {"", stage, known, nil},
		"no change":                        {stage, stage, known, nil},
		"the default, written":             {none, live, known, nil},
		"to Stage":                         {live, stage, known, []string{counted, staged + arrives, flagged}},
		"from the default to Stage":        {none, stage, known, []string{counted, staged + arrives, flagged}},
		"to LiveUpdate":                    {stage, live, known, []string{counted, applied + ".", p + "workloadUpdateMethods has no LiveMigrate, so sockets, memory and claims wait for migrations that you start.", forced}},
		"to LiveUpdate with LiveMigrate":   {stage, moves, known, []string{counted, applied + ", and migrates the virtual machines.", forced}},
		"nothing runs":                     {live, stage, Counted{Counts: &v1alpha1.RunningCounts{Complete: true}}, nil},
		"counts that are old and partial":  {live, stage, partial, []string{p + "at least 1 virtual machine runs, 0 with pending changes. The counts are 20 minutes old.", staged, flagged}},
		"counts that are missing":          {live, stage, Counted{Unknown: "the process virtward-rollouts has not published them"}, []string{p + "it changes while virtual machines may run. How many have pending changes is not known: the process virtward-rollouts has not published them.", staged, flagged}},
		"nothing runs, by counts too old":  {live, stage, Counted{Counts: &v1alpha1.RunningCounts{Complete: true}, Unknown: "The counts are 20 minutes old"}, []string{p + "0 virtual machines run, 0 with pending changes. The counts are 20 minutes old.", staged, flagged}},
		"before the gate was available":    {"", stage + "\nstatus: {observedKubeVirtVersion: v1.3.1}", known, []string{p + early}},
		"the gate is on":                   {"", "spec: {configuration: {vmRolloutStrategy: Stage, developerConfiguration: {featureGates: [VMLiveUpdateFeatures]}}}\nstatus: {observedKubeVirtVersion: v1.3.1}", known, nil},
		"an unknown version":               {"", stage + "\nstatus: {observedKubeVirtVersion: devel}", known, nil},
		"a ratio of 0":                     {none, "spec: {configuration: {liveUpdateConfiguration: {maxHotplugRatio: 0}}}", known, []string{l + "maxHotplugRatio: 0 has no effect. KubeVirt uses its default of 4. 1 means that nothing can be added to running virtual machines."}},
		"a ratio of 1":                     {none, "spec: {configuration: {liveUpdateConfiguration: {maxHotplugRatio: 1}}}", known, nil},
		"fewer sockets than run":           {none, "spec: {configuration: {liveUpdateConfiguration: {maxCpuSockets: 8}}}", known, []string{l + "maxCpuSockets: 8 is below the 16 sockets of a virtual machine that runs. From its next start, no sockets can be added to it."}},
		"as many sockets as run":           {none, "spec: {configuration: {liveUpdateConfiguration: {maxCpuSockets: 16}}}", known, nil},
		"sockets of 0":                     {none, "spec: {configuration: {liveUpdateConfiguration: {maxCpuSockets: 0}}}", known, []string{l + "maxCpuSockets: 0 has no effect. KubeVirt uses maxHotplugRatio."}},
		"less memory than runs":            {"", "spec: {configuration: {liveUpdateConfiguration: {maxGuest: 32Gi}}}", known, []string{l + "maxGuest: 32Gi is below the 64Gi of a virtual machine that runs. From its next start, no memory can be added to it."}},
		"memory of 0":                      {none, "spec: {configuration: {liveUpdateConfiguration: {maxGuest: '0'}}}", known, []string{l + "maxGuest: 0 means that no memory can be added to virtual machines that start."}},
		"a low limit that does not change": {"spec: {configuration: {liveUpdateConfiguration: {maxGuest: 32Gi, maxCpuSockets: 8, maxHotplugRatio: 0}}}", "spec: {configuration: {liveUpdateConfiguration: {maxGuest: 32Gi, maxCpuSockets: 8, maxHotplugRatio: 0}}}", known, nil},
		"limits without counts":            {none, "spec: {configuration: {liveUpdateConfiguration: {maxGuest: 32Gi, maxCpuSockets: 8}}}", Counted{Unknown: "x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := ConfigurationWarnings(configured(t, test.old), configured(t, test.is), "", test.counted)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, warning := range got {
				if len(warning) > 256 {
					t.Errorf("%d bytes: %s", len(warning), warning)
				}
			}
		})
	}
	if got := ConfigurationWarnings(configured(t, none), configured(t, live), "Stage", known); len(got) != 4 {
		t.Errorf("the chart's default is Stage: %q", got)
	}
}
