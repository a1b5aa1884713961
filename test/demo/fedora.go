package main

import (
	"context"
	"errors"
)

const fedoraFile = "examples/vm-fedora.yaml"

// fedora shows what is written, what is stored in the VM, and what runs.
func fedora() []step {
	return []step{
		{
			prose: `The admin creates an instancetype and a preference for the whole cluster. Alice writes a VM that names both,
				with few other fields.`,
			as: admin, runs: []string{"kubectl apply -f examples/instancetype-u1-medium.yaml -f examples/preference-fedora.yaml"},
		},
		{as: alice, reads: fedoraFile, runs: []string{"kubectl apply -f " + fedoraFile}},
		{
			prose: `The stored VM has its architecture and machine type, which must not change later, and no other defaults: a VM
				that restarts next year gets the defaults of next year. (KubeVirt adds the firmware's UUID and the empty
				resources.)`,
			do: (*show).fedoraStored,
		},
		{as: alice, runs: []string{ready("fedora")}},
		{
			prose: `The VMI of virt-controller is complete. The CLI shows which layer set each field. It uses the same code as the webhooks:`,
			do:    (*show).fedoraExplained,
		},
	}
}

func (s *show) fedoraStored(ctx context.Context) error {
	written, err := s.specOfFile(fedoraFile)
	if err != nil {
		return err
	}
	vm, err := s.stored(ctx, "vm/fedora")
	if err != nil {
		return err
	}
	if _, err := s.changes(fedoraFile, written, "vm/fedora (spec.template)", vm); err != nil {
		return err
	}
	return errors.Join(
		expect(vm, "amd64", "architecture"),
		expect(vm, "q35", "domain", "machine", "type"),
		expect(vm, nil, "domain", "cpu"),
		expect(vm, nil, "domain", "memory"))
}

func (s *show) fedoraExplained(ctx context.Context) error {
	said, vmi, err := s.key(`LAYER$|cpu.cores |disk.bus|maxGuest`).explained(ctx, fedoraFile, "vmi/fedora")
	if err != nil {
		return err
	}
	const template = "spec.template.spec."
	err = errors.Join(
		said.filled(template+"domain.memory.guest", "4Gi", "instancetype/u1.medium"),
		said.filled(template+"domain.devices.interfaces[0].model", "virtio", "preference/fedora"),
		said.filled(template+"domain.machine.type", "q35", "amd64"),
		said.filled(template+"domain.memory.maxGuest", "16Gi", "finalize"),
		s.agrees(said, vmi))
	if err != nil {
		return err
	}
	s.checked("the VMI in the cluster has these %d fields with these values, and no others were filled.", len(said.Changes))
	return nil
}
