package main

import (
	"context"
	"errors"
)

const vmiFile = "examples/vmi.yaml"

// bareVMI: the whole completion, before and after.
func bareVMI(ctx context.Context, s *show) error {
	s.prose(`A VMI runs as it is stored, so it is completed as a whole when it is created. Lines with a plus are
		what was added.`)
	if err := s.doesAll(ctx, s.alice, "kubectl apply -f "+vmiFile); err != nil {
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
	if _, err := s.changes(vmiFile, written, "vmi/small", vmi); err != nil {
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
	s.checked("`kubectl virtward explain -f %s`, without any cluster, computes this very spec, but for the UUID.", vmiFile)
	return nil
}

// arm64: another architecture has other defaults.
func arm64(ctx context.Context, s *show) error {
	s.prose(`The architecture decides too. This VM says architecture: arm64, and nothing of the firmware, the CPU's
		model or the disk's bus.`)
	const file = "examples/vm-arm64.yaml"
	if err := s.doesAll(ctx, s.alice, "kubectl apply -f "+file); err != nil {
		return err
	}
	if err := s.runs(ctx, "arm"); err != nil {
		return err
	}
	said, vmi, err := s.explained(ctx, file, "vmi/arm")
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
