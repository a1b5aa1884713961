package main

import (
	"context"
	"fmt"
	"strings"
)

// The files of the VMs that can never run, and the messages about both.
const (
	legacyFile  = "examples/rejected/vm-arm64.yaml"
	desktopFile = "examples/rejected/vm-arm64-by-preference.yaml"

	noSATA = `"sata": disks of arm64 are on a virtio or scsi bus`
	noBIOS = "arm64 boots from EFI only"
)

// legacyCauses are the causes for the first VM, by field.
var legacyCauses = []string{
	"spec.template.spec.domain.devices.disks[0].disk.bus: Unsupported value: " + noSATA + " [virtward/arm64-disk-bus]",
	"spec.template.spec.domain.firmware.bootloader.bios: Unsupported value: " + noBIOS + " [virtward/arm64-bios]",
}

// neverRuns shows a rejection with all causes, and the same findings without a cluster.
func neverRuns(ctx context.Context, s *show) error {
	s.prose(`arm64 supports neither BIOS nor SATA disks. Without Virtward, KubeVirt accepts this VM, and rejects its VMI
		when the VM starts.`)
	if err := s.reads(s.alice, legacyFile); err != nil {
		return err
	}
	if err := s.key("").isRejected(ctx, s.alice, "kubectl apply -f "+legacyFile, append(legacyCauses, `"legacy" is invalid`)...); err != nil {
		return err
	}
	output, err := s.fails(ctx, s.alice, "kubectl get vm/legacy")
	if err != nil {
		return err
	}
	if err := says(output, "NotFound"); err != nil {
		return err
	}
	s.checked("the response has both causes, each with its field and its rule, and no VM is stored.")
	return s.reported(ctx)
}

// early shows warnings about missing references and about pre-existing errors.
func early(ctx context.Context, s *show) error {
	s.prose(`A VM can be applied before the preference or the instancetype that it names. So Alice gets only a warning
		about the missing preference.`)
	if err := s.reads(s.alice, desktopFile); err != nil {
		return err
	}
	output, err := s.key("").does(ctx, s.alice, "kubectl apply -f "+desktopFile)
	if err != nil {
		return err
	}
	if err := says(output, "Warning: spec.preference", "there is no VirtualMachineClusterPreference old-pc", "desktop created"); err != nil {
		return err
	}
	if err := s.startRejected(ctx); err != nil {
		return err
	}
	s.prose(`Now the VM has errors that it did not have when Alice created it. She can still change other fields, with a
		warning: an update is rejected only for new errors, not for pre-existing ones.`)
	const update = "kubectl label vm/desktop team=blue"
	if err := s.awaitOutput(ctx, s.alice, update+" --dry-run=server", "Warning:"); err != nil {
		return err
	}
	if output, err = s.does(ctx, s.alice, update); err != nil {
		return err
	}
	const before = "(pre-existing: tolerated on update, denied on create)"
	if err := says(output, noBIOS, noSATA, before+" [virtward/arm64-bios]", before+" [virtward/arm64-disk-bus]", "desktop labeled"); err != nil {
		return err
	}
	s.prose(`Alice can also delete the VM. If she applies it again, it is rejected. The cause is at the field that names
		the preference, and the message names the field of the preference.`)
	if err := s.doesAll(ctx, s.alice, "kubectl delete -f "+desktopFile); err != nil {
		return err
	}
	return s.isRejected(ctx, s.alice, "kubectl apply -f "+desktopFile,
		"spec.preference.name: Unsupported value: "+noBIOS+" (VirtualMachineClusterPreference old-pc sets domain.firmware.bootloader.bios by its spec.firmware.preferredUseBios) [virtward/arm64-bios]",
		"spec.preference.name: Unsupported value: "+noSATA+" (VirtualMachineClusterPreference old-pc sets domain.devices.disks[0].disk.bus by its spec.devices.preferredDiskBus) [virtward/arm64-disk-bus]")
}

// startRejected creates the preference. The VMI is rejected, and KubeVirt writes an event on the VM.
func (s *show) startRejected(ctx context.Context) error {
	s.prose(`The admin creates the preference, and virt-controller creates the VMI. Now the preference exists, so the VMI
		is rejected. virt-controller writes the message into an event on the VM.`)
	if err := s.doesAll(ctx, s.admin, "kubectl apply -f examples/preference-old-pc.yaml"); err != nil {
		return err
	}
	const events = "kubectl events --for vm/desktop"
	if err := s.awaitOutput(ctx, s.alice, events, "FailedCreate"); err != nil {
		return err
	}
	output, err := s.does(ctx, s.alice, events)
	if err != nil {
		return err
	}
	return says(output, "Error creating virtual machine instance", "[virtward/arm64-disk-bus]", "[virtward/arm64-bios]")
}

// awaitOutput runs a command, without showing it, until its output has a word. Virtward and KubeVirt watch the cluster,
// so they notice a change a moment later.
func (s *show) awaitOutput(ctx context.Context, who user, line, word string) error {
	return await(ctx, func(ctx context.Context) (string, error) {
		output, err := s.call(ctx, who, line)
		if err == nil && strings.Contains(output, word) {
			return "", nil
		}
		return fmt.Sprintf("%s$ %s: no %q in: %s", who.name, line, word, output), nil
	})
}
