package main

import (
	"context"
	"fmt"
	"strings"
)

// The files of the VMs that could never run, and what is told of both.
const (
	legacyFile  = "examples/rejected/vm-arm64.yaml"
	desktopFile = "examples/rejected/vm-arm64-by-preference.yaml"

	noSATA = `"sata": disks of arm64 are on a virtio or scsi bus`
	noBIOS = "arm64 boots from EFI only"
)

// legacyCauses are what is wrong with the first, by field.
var legacyCauses = []string{
	"spec.template.spec.domain.devices.disks[0].disk.bus: Unsupported value: " + noSATA + " [virtward/arm64-disk-bus]",
	"spec.template.spec.domain.firmware.bootloader.bios: Unsupported value: " + noBIOS + " [virtward/arm64-bios]",
}

// neverRuns: a rejection names every cause, and a laptop knows it before the cluster does.
func neverRuns(ctx context.Context, s *show) error {
	s.prose(`On arm64 nothing boots by a BIOS, and no disk is on SATA. KubeVirt alone would accept this VM, and
		reject its VMI when it starts.`)
	if err := s.reads(s.alice, legacyFile); err != nil {
		return err
	}
	if err := s.isRejected(ctx, s.alice, "kubectl apply -f "+legacyFile, append(legacyCauses, `"legacy" is invalid`)...); err != nil {
		return err
	}
	output, err := s.fails(ctx, s.alice, "kubectl get vm/legacy")
	if err != nil {
		return err
	}
	if err := says(output, "NotFound"); err != nil {
		return err
	}
	s.checked("both causes are told at once, each with its field and its rule, and nothing is stored.")
	return s.reported(ctx)
}

// early: what is missing is warned of, and what was wrong before an update.
func early(ctx context.Context, s *show) error {
	s.prose(`A VM may be applied before the preference or the instancetype that it names. That is no fault, so Alice
		is only told what could not be checked.`)
	if err := s.reads(s.alice, desktopFile); err != nil {
		return err
	}
	output, err := s.does(ctx, s.alice, "kubectl apply -f "+desktopFile)
	if err != nil {
		return err
	}
	if err := says(output, "Warning: spec.preference", "there is no VirtualMachineClusterPreference old-pc", "desktop created"); err != nil {
		return err
	}
	if err := s.startRejected(ctx); err != nil {
		return err
	}
	s.prose(`So the VM has a fault that it did not have when Alice wrote it. She can still change it elsewhere, with a
		warning: an update is rejected for what it adds or makes worse, not for what was so before, or else nobody
		could work with what exists already.`)
	const update = "kubectl label vm/desktop team=blue"
	if err := s.awaitOutput(ctx, s.alice, update+" --dry-run=server", "Warning:"); err != nil {
		return err
	}
	if output, err = s.does(ctx, s.alice, update); err != nil {
		return err
	}
	const before = "(it was so before this update; a new object would be rejected)"
	if err := says(output, noBIOS, noSATA, before+" [virtward/arm64-bios]", before+" [virtward/arm64-disk-bus]", "desktop labeled"); err != nil {
		return err
	}
	s.prose(`It can be deleted, too. Applied again it is rejected, at the field that chose the preference, and the
		message names the field of the preference that does not fit.`)
	if err := s.doesAll(ctx, s.alice, "kubectl delete -f "+desktopFile); err != nil {
		return err
	}
	return s.isRejected(ctx, s.alice, "kubectl apply -f "+desktopFile,
		"spec.preference.name: Unsupported value: "+noBIOS+" (VirtualMachineClusterPreference old-pc sets domain.firmware.bootloader.bios by its spec.firmware.preferredUseBios) [virtward/arm64-bios]",
		"spec.preference.name: Unsupported value: "+noSATA+" (VirtualMachineClusterPreference old-pc sets domain.devices.disks[0].disk.bus by its spec.devices.preferredDiskBus) [virtward/arm64-disk-bus]")
}

// startRejected: the preference comes, the VMI is rejected, and an event of KubeVirt on the VM says so.
func (s *show) startRejected(ctx context.Context) error {
	s.prose(`The admin makes the preference, and virt-controller the VMI. Now everything is known, so the VMI is rejected.
		Virt-controller writes that answer into an event on the VM.`)
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

// awaitOutput runs a command, unseen, until its output has a word. Virtward and KubeVirt watch the cluster, and
// hear of a change a moment after it is made.
func (s *show) awaitOutput(ctx context.Context, who user, line, word string) error {
	return await(ctx, func(ctx context.Context) (string, error) {
		output, err := s.call(ctx, who, line)
		if err == nil && strings.Contains(output, word) {
			return "", nil
		}
		return fmt.Sprintf("%s$ %s: no %q in: %s", who.name, line, word, output), nil
	})
}
