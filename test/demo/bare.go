package main

import (
	"context"
	"errors"
)

const vmiFile = "examples/vmi.yaml"

// bareVMI shows the completion of a VMI.
func bareVMI(ctx context.Context, s *show) error {
	s.prose(`A VMI runs as it is stored, so it is completed when it is created. Lines with a plus were added.`)
	if err := s.key("").doesAll(ctx, s.alice, "kubectl apply -f "+vmiFile); err != nil {
		return err
	}
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
	if err := s.decode(ctx, s.alice, "kubectl virtward explain -f "+vmiFile+" -o json", said); err != nil {
		return err
	}
	err = errors.Join(
		said.filled("spec.domain.cpu.model", "host-model", "base"),
		said.filled("spec.domain.devices.disks[0].disk.bus", "sata", "amd64"),
		said.filled("spec.domain.memory.maxGuest", "4Gi", "finalize"),
		s.agrees(said, vmi))
	if err != nil {
		return err
	}
	s.checked("without a cluster, `kubectl virtward explain -f %s` computes the same spec, apart from the UUID.", vmiFile)
	return nil
}

// arm64 shows the defaults of another architecture.
func arm64(ctx context.Context, s *show) error {
	s.prose(`Defaults depend on the architecture. This VM sets architecture: arm64, but not the firmware, the CPU model or
		the bus of the disk.`)
	const file = "examples/vm-arm64.yaml"
	if err := s.doesAll(ctx, s.alice, "kubectl apply -f "+file); err != nil {
		return err
	}
	if err := s.runs(ctx, "arm"); err != nil {
		return err
	}
	said, vmi, err := s.key("LAYER$|cpu.model|efi|disk.bus").explained(ctx, file, "vmi/arm")
	if err != nil {
		return err
	}
	const domain = "spec.template.spec.domain."
	err = errors.Join(
		said.filled(domain+"machine.type", "virt", "arm64"),
		said.filled(domain+"cpu.model", "host-passthrough", "arm64"),
		said.filled(domain+"firmware.bootloader.efi.secureBoot", false, "arm64"),
		said.filled(domain+"devices.disks[0].disk.bus", "virtio", "arm64"),
		s.agrees(said, vmi))
	if err != nil {
		return err
	}
	s.checked("the VMI in the cluster has exactly these fields: machine type virt, EFI, the host's CPU, virtio.")
	return nil
}
