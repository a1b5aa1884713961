package sample

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// Support are sample's lines of the capability table.
func Support() validators.SupportTable {
	return validators.SupportTable{
		{
			Hypervisor: Name, Level: validators.Unsupported,
			Capability: validators.Capability{Name: "tpm", Title: "A TPM", Uses: tpm},
			Rule:       "sample-tpm", Title: "There is no TPM on sample", Remedy: "Remove devices.tpm.",
			Detail: "sample has no TPM", Source: "sample's manual",
		},
		{
			Hypervisor: Name, Architecture: architectures.ARM64, Level: validators.Unsupported,
			Capability: validators.Capability{Name: "hugepages", Title: "Memory from hugepages", Uses: hugepages},
			Rule:       "sample-arm64-hugepages", Title: "Memory of arm64 guests on sample is not from hugepages",
			Remedy: "Remove memory.hugepages, or run the VM on amd64 or s390x.",
			Detail: "sample has hugepages on amd64 and s390x only", Source: "sample's manual",
		},
		{
			Hypervisor: Name, Architecture: architectures.AMD64, Level: validators.Deprecated,
			Capability: validators.Capability{Name: "bios-by-choice", Title: "Booting from BIOS, where one says so", Uses: bios},
			Rule:       "sample-amd64-bios", Title: "sample will drop BIOS", Remedy: "Set firmware.bootloader.efi.",
			Detail: "the next sample boots from EFI only", Source: "sample's plans",
		},
		{
			Hypervisor: Name, Level: validators.Experimental, Gate: platform.GateConfigurableHypervisor,
			Capability: validators.Capability{Name: "realtime", Title: "Realtime guests", Uses: realtime},
			Rule:       "sample-realtime", Title: "Realtime guests on sample need a feature gate",
			Remedy: "Remove cpu.realtime, or have the feature gate that the message names enabled in the KubeVirt resource.",
			Detail: "realtime guests are an experiment on sample", Source: "sample's manual",
		},
	}
}

func tpm(s *validators.Subject) []validators.Use {
	if s.Spec.Domain.Devices.TPM == nil {
		return nil
	}
	return []validators.Use{{Path: s.Devices().Child("tpm"), Value: field.OmitValueType{}}}
}

func hugepages(s *validators.Subject) []validators.Use {
	memory := s.Spec.Domain.Memory
	if memory == nil || memory.Hugepages == nil {
		return nil
	}
	return []validators.Use{{Path: s.Domain().Child("memory", "hugepages"), Value: memory.Hugepages.PageSize}}
}

func bios(s *validators.Subject) []validators.Use {
	firmware := s.Spec.Domain.Firmware
	if firmware == nil || firmware.Bootloader == nil || firmware.Bootloader.BIOS == nil {
		return nil
	}
	return []validators.Use{{Path: s.Domain().Child("firmware", "bootloader", "bios"), Value: field.OmitValueType{}}}
}

func realtime(s *validators.Subject) []validators.Use {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || cpu.Realtime == nil {
		return nil
	}
	return []validators.Use{{Path: s.Domain().Child("cpu", "realtime"), Value: field.OmitValueType{}}}
}
