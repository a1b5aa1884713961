package rollouts

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// Configuration is the part of a KubeVirt resource that determines how changes of running VMs are rolled out.
type Configuration struct {
	Spec struct {
		Configuration struct {
			VMRolloutStrategy       *v1.VMRolloutStrategy `json:"vmRolloutStrategy"`
			LiveUpdateConfiguration *struct {
				MaxHotplugRatio *int64             `json:"maxHotplugRatio"`
				MaxCPUSockets   *int64             `json:"maxCpuSockets"`
				MaxGuest        *resource.Quantity `json:"maxGuest"`
			} `json:"liveUpdateConfiguration"`
			DeveloperConfiguration struct {
				FeatureGates []string `json:"featureGates"`
			} `json:"developerConfiguration"`
		} `json:"configuration"`
		WorkloadUpdateStrategy struct {
			WorkloadUpdateMethods []v1.WorkloadUpdateMethod `json:"workloadUpdateMethods"`
		} `json:"workloadUpdateStrategy"`
	} `json:"spec"`
	Status struct {
		ObservedKubeVirtVersion string `json:"observedKubeVirtVersion"`
	} `json:"status"`
}

// Counted is what is known of the running VMs of a cluster.
type Counted struct {
	// Counts are nil if they are not known. Then Unknown says why.
	Counts  *v1alpha1.RunningCounts
	Unknown string
}

// ConfigurationWarnings are sentences for the author of a KubeVirt resource: what a change means for running VMs, and which
// values have no effect. The old one is nil for a new resource. unset is the strategy of a resource that names none.
func ConfigurationWarnings(old, configuration *Configuration, unset v1.VMRolloutStrategy, counted Counted) []string {
	var warnings []string
	was, is := (*v1.VMRolloutStrategy)(nil), configuration.Spec.Configuration.VMRolloutStrategy
	if old != nil {
		was = old.Spec.Configuration.VMRolloutStrategy
	}
	if is != nil && (old == nil || was == nil || *was != *is || !old.gateOn()) {
		warnings = append(warnings, configuration.withoutGate()...)
	}
	if old != nil && strategyOf(was, unset) != strategyOf(is, unset) {
		warnings = append(warnings, configuration.strategyChanged(strategyOf(is, unset), counted)...)
	}
	return append(warnings, configuration.liveUpdates(old, counted)...)
}

func strategyOf(strategy *v1.VMRolloutStrategy, unset v1.VMRolloutStrategy) v1.VMRolloutStrategy {
	switch {
	case strategy != nil && *strategy != "":
		return *strategy
	case unset != "":
		return unset
	}
	return v1.VMRolloutStrategyLiveUpdate
}

const fieldStrategy = "spec.configuration.vmRolloutStrategy: "

// gateLiveUpdate is the feature gate of the strategy. It is generally available since gateAvailable.
const gateLiveUpdate = "VMLiveUpdateFeatures"

var gateAvailable = version.MustParseSemantic("1.4.0")

func (c *Configuration) gateOn() bool {
	if slices.Contains(c.Spec.Configuration.DeveloperConfiguration.FeatureGates, gateLiveUpdate) {
		return true
	}
	running, err := version.ParseSemantic(c.Status.ObservedKubeVirtVersion)
	return err != nil || !running.LessThan(gateAvailable)
}

// withoutGate warns of a strategy that has no effect in the version of KubeVirt that runs.
func (c *Configuration) withoutGate() []string {
	if c.gateOn() {
		return nil
	}
	return []string{fieldStrategy + "KubeVirt " + shortened(c.Status.ObservedKubeVirtVersion) + " ignores it unless the feature gate " + gateLiveUpdate +
		" is on. Add the gate to spec.configuration.developerConfiguration.featureGates."}
}

// strategyChanged warns of what becomes of pending changes.
func (c *Configuration) strategyChanged(is v1.VMRolloutStrategy, counted Counted) []string {
	counts := counted.Counts
	if counts != nil && counts.Complete && counts.Running == 0 && counted.Unknown == "" {
		return nil
	}
	warnings := []string{fieldStrategy + counted.sentence()}
	takes := map[string]int{}
	if counts != nil {
		takes = counts.Takes
	}
	if is == v1.VMRolloutStrategyStage {
		text := "With Stage, changes of sockets, guest memory, node selectors, affinity, tolerations and claims wait for a restart."
		if n := takes[string(LiveOnMigration)]; n > 0 {
			text += " What KubeVirt has written to the instances of " + machines(n) + " still arrives with a migration."
		}
		return append(warnings, fieldStrategy+text, fieldStrategy+"KubeVirt can require restarts of virtual machines whose changes are live already.")
	}
	text := "With LiveUpdate, KubeVirt applies pending changes of sockets, guest memory, node selectors, affinity, tolerations and claims at once"
	if c.migrates() {
		warnings = append(warnings, fieldStrategy+text+", and migrates the virtual machines.")
	} else {
		warnings = append(warnings, fieldStrategy+text+".", fieldStrategy+"workloadUpdateMethods has no LiveMigrate, so sockets, memory and claims wait for migrations that you start.")
	}
	if n := takes[string(Restart)]; n > 0 {
		warnings = append(warnings, fieldStrategy+machines(n)+" with a change that needs a restart: if another field of them needs one, their live changes wait for it too.")
	}
	return warnings
}

func (c *Configuration) migrates() bool {
	return slices.Contains(c.Spec.WorkloadUpdateStrategy.WorkloadUpdateMethods, v1.WorkloadUpdateMethodLiveMigrate)
}

func machines(n int) string {
	if n == 1 {
		return "1 virtual machine"
	}
	return itoa(n) + " virtual machines"
}

// sentence says how many VMs run, and how many of them have pending changes.
func (c Counted) sentence() string {
	if c.Counts == nil {
		return "it changes while virtual machines may run. How many have pending changes is not known: " + shortened(c.Unknown) + "."
	}
	verb := " run"
	if c.Counts.Running == 1 {
		verb = " runs"
	}
	least := ""
	if !c.Counts.Complete {
		least = "at least "
	}
	text := least + machines(c.Counts.Running) + verb + ", " + itoa(c.Counts.Pending) + " with pending changes" + kindsText(c.Counts.Takes) + "."
	if c.Unknown != "" {
		text += " " + shortened(c.Unknown) + "."
	}
	return text
}

// kindsText lists how many VMs wait for what.
func kindsText(takes map[string]int) string {
	var parts []string
	for _, kind := range []Takes{LiveOnMigration, Restart, Blocked, Never} {
		if n := takes[string(kind)]; n > 0 {
			parts = append(parts, string(kind)+" "+itoa(n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// liveUpdates warns of values of liveUpdateConfiguration that changed and have no effect, or are below what runs.
func (c *Configuration) liveUpdates(old *Configuration, counted Counted) []string {
	live := c.Spec.Configuration.LiveUpdateConfiguration
	if live == nil {
		return nil
	}
	before := *live
	before.MaxHotplugRatio, before.MaxCPUSockets, before.MaxGuest = nil, nil, nil
	if old != nil && old.Spec.Configuration.LiveUpdateConfiguration != nil {
		before = *old.Spec.Configuration.LiveUpdateConfiguration
	}
	const path = "spec.configuration.liveUpdateConfiguration."
	var warnings []string
	if ratio := live.MaxHotplugRatio; ratio != nil && *ratio < 1 && !sameNumber(before.MaxHotplugRatio, ratio) {
		warnings = append(warnings, fmt.Sprintf("%smaxHotplugRatio: %d has no effect. KubeVirt uses its default of 4. 1 means that nothing can be added to running virtual machines.", path, *ratio))
	}
	counts := counted.Counts
	if counts == nil {
		counts = &v1alpha1.RunningCounts{}
	}
	if most := live.MaxCPUSockets; most != nil && !sameNumber(before.MaxCPUSockets, most) {
		switch {
		case *most < 1:
			warnings = append(warnings, fmt.Sprintf("%smaxCpuSockets: %d has no effect. KubeVirt uses maxHotplugRatio.", path, *most))
		case int64(counts.MaxSockets) > *most:
			warnings = append(warnings, fmt.Sprintf("%smaxCpuSockets: %d is below the %d sockets of a virtual machine that runs. From its next start, no sockets can be added to it.", path, *most, counts.MaxSockets))
		}
	}
	if most := live.MaxGuest; most != nil && !equalQuantities(before.MaxGuest, most) {
		switch {
		case most.Sign() <= 0:
			warnings = append(warnings, fmt.Sprintf("%smaxGuest: %s means that no memory can be added to virtual machines that start.", path, most))
		case counts.MaxGuest != nil && counts.MaxGuest.Cmp(*most) > 0:
			warnings = append(warnings, fmt.Sprintf("%smaxGuest: %s is below the %s of a virtual machine that runs. From its next start, no memory can be added to it.", path, most, counts.MaxGuest))
		}
	}
	return warnings
}

func sameNumber(a, b *int64) bool { return a != nil && b != nil && *a == *b }
