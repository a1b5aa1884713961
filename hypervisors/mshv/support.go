package mshv

import (
	"fmt"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// Support are mshv's lines of the capability table. KubeVirt has no checks for this hypervisor. Only
// capabilities that were shown to fail are listed.
func Support() validators.SupportTable {
	return validators.SupportTable{
		{
			Hypervisor: platform.MSHV, Level: validators.Experimental, Gate: platform.GateConfigurableHypervisor,
			Capability: validators.Capability{Name: "mshv", Title: "Microsoft's hypervisor itself"},
			Detail:     "with the gate off KubeVirt runs every VM on kvm, whatever the list says", Source: "VEP 97",
		},
		{
			Hypervisor: platform.MSHV, Architecture: architectures.AMD64, Level: validators.Unsupported,
			Capability: validators.Capability{
				Name: "other-cpu-model", Title: "A CPU model other than the hypervisor's", Uses: otherCPUModel,
			},
			Rule: "mshv-cpu-model", Title: "amd64 guests on mshv have the CPU model that the hypervisor asks for",
			Remedy: "Remove cpu.model: the hypervisor's own is the default.",
			Detail: "where the cluster names it mshv, guests have the CPU model " + platform.SeedCPUModel + "; the chart's facts.mshvCPUModel changes that",
			Source: "VEP 97, its example of a validator",
		},
	}
}

// otherCPUModel holds the guest to the hypervisor's wish, where it has one: qemu64-v1 for the mshv of VEP 97,
// nothing for KubeVirt's hyperv-direct. A guest without a model is not one of the wished for.
func otherCPUModel(s *validators.Subject) []validators.Use {
	wish, model := s.Facts.Hypervisor.CPUModel, ""
	if cpu := s.Spec.Domain.CPU; cpu != nil {
		model = cpu.Model
	}
	if wish == "" || model == wish {
		return nil
	}
	return []validators.Use{{
		Path: s.Domain().Child("cpu", "model"), Value: model,
		Detail: fmt.Sprintf("%s runs amd64 guests with the CPU model %s only", s.Facts.Hypervisor.ConfiguredName, wish),
	}}
}
