package mshv

import (
	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// Defaults completes VMs for mshv.
type Defaults struct {
	*mutators.BaseDefaults
}

// NewDefaults builds the provider for mshv and an architecture.
func NewDefaults(architecture string) (*Defaults, error) {
	base, err := mutators.NewBaseDefaults(architecture,
		mutators.Layer{Name: platform.MSHV},
		combined(architecture))
	if err != nil {
		return nil, err
	}
	return &Defaults{BaseDefaults: base}, nil
}

// combined is the layer of mshv on one architecture. The CPU model that VEP 97 asks for is an x86 model.
func combined(architecture string) mutators.Layer {
	layer := mutators.Layer{Name: platform.MSHV + "/" + architecture}
	if architecture == architectures.AMD64 {
		layer.Steps = []mutators.Step{
			{Name: "cpu-model", Writes: []string{"domain.cpu.model"}, Fill: cpuModel},
		}
	}
	return layer
}

// cpuModel is the hypervisor's own wish, and the cluster's model where it has none: hyperv-direct has none,
// mshv asks for qemu64-v1 (VEP 97, reference implementation of the validator).
func cpuModel(c *mutators.Completion) {
	wish := c.Facts.Hypervisor.CPUModel
	if wish == "" {
		mutators.ClusterCPUModel(c)
		return
	}
	provenance.Fill(c.Recorder, "domain.cpu.model", &provenance.Ensure(&c.Spec.Domain.CPU).Model, wish)
}
