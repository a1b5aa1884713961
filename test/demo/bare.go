package main

import (
	"context"
	"errors"
)

const (
	vmiFile = "examples/vmi.yaml"
	armFile = "examples/vm-arm64.yaml"
)

// bareVMI shows the completion of a VMI.
func bareVMI() []step {
	return []step{
		{
			prose: "A VMI runs as it is stored, so it is completed when it is created. Lines with a plus were added.",
			as:    alice, tour: top, runs: []string{"kubectl apply -f " + vmiFile},
		},
		{
			do:      (*show).vmiCompleted,
			checked: "without a cluster, `kubectl virtward explain -f " + vmiFile + "` computes the same spec, apart from the UUID.",
		},
	}
}

func (s *show) vmiCompleted(ctx context.Context) error {
	written, err := s.specOfFile(vmiFile)
	if err != nil {
		return err
	}
	vmi, err := s.stored(ctx, "vmi/small")
	if err != nil {
		return err
	}
	if _, err := s.key("model|maxGuest|bus").changes(vmiFile, written, "vmi/small", vmi); err != nil {
		return err
	}
	said := &explanation{}
	if err := s.decode(ctx, "kubectl virtward explain -f "+vmiFile+" -o json", said); err != nil {
		return err
	}
	return errors.Join(
		said.filled("spec.domain.cpu.model", "host-model", "base"),
		said.filled("spec.domain.devices.disks[0].disk.bus", "sata", "amd64"),
		said.filled("spec.domain.memory.maxGuest", "4Gi", "finalize"),
		s.agrees(said, vmi))
}

// arm64 shows the defaults of another architecture.
func arm64() []step {
	return []step{
		{
			prose: `Defaults depend on the architecture. This VM sets architecture: arm64, but not the firmware, the CPU model or
				the bus of the disk.`,
			as: alice, runs: []string{"kubectl apply -f " + armFile, ready("arm")},
		},
		{
			do:      (*show).armCompleted,
			checked: "the VMI in the cluster has exactly these fields: machine type virt, EFI, the host's CPU, virtio.",
		},
	}
}

func (s *show) armCompleted(ctx context.Context) error {
	said, vmi, err := s.key("LAYER$|cpu.model|efi|disk.bus").explained(ctx, armFile, "vmi/arm")
	if err != nil {
		return err
	}
	const domain = "spec.template.spec.domain."
	return errors.Join(
		said.filled(domain+"machine.type", "virt", "arm64"),
		said.filled(domain+"cpu.model", "host-passthrough", "arm64"),
		said.filled(domain+"firmware.bootloader.efi.secureBoot", false, "arm64"),
		said.filled(domain+"devices.disks[0].disk.bus", "virtio", "arm64"),
		s.agrees(said, vmi))
}
