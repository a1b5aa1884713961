package sample

import (
	"strings"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/nodetuning"
)

// NewTuner builds the tuner of processes on nodes for sample, whose threads for the guest have other names than those of kvm.
func NewTuner(_ string, renderer launcher.ResourceRenderer) nodetuning.DomainTuner {
	tuner := nodetuning.NewBaseTuner(renderer)
	tuner.RunsGuest = func(name string) bool { return strings.HasPrefix(name, "vcpu-") }
	return tuner
}
