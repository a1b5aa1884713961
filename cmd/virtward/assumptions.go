package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
)

// assumptions has the flags about a cluster whose KubeVirt resource names no value. All processes that evaluate objects
// must have the same, so that they have the same results.
type assumptions struct {
	rolloutStrategy string
	mshvCPUModel    string
}

func (a *assumptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&a.rolloutStrategy, "rollout-strategy", "", "vmRolloutStrategy to assume if the KubeVirt resource names none: LiveUpdate or Stage; by default LiveUpdate, as in KubeVirt")
	flags.StringVar(&a.mshvCPUModel, "mshv-cpu-model", "auto", "CPU model of amd64 guests on mshv: a model; none, for the default of the cluster; or auto, which is "+platform.SeedCPUModel+" for the hypervisor name mshv and none for hyperv-direct")
}

func (a *assumptions) validate() error {
	if !slices.Contains([]string{"", string(v1.VMRolloutStrategyLiveUpdate), string(v1.VMRolloutStrategyStage)}, a.rolloutStrategy) {
		return fmt.Errorf("--rollout-strategy is %q: it must be LiveUpdate, Stage or empty", a.rolloutStrategy)
	}
	return nil
}

func (a *assumptions) settings() platform.Settings {
	return platform.Settings{RolloutStrategy: v1.VMRolloutStrategy(a.rolloutStrategy), MSHVCPUModel: a.mshvCPUModel}
}
