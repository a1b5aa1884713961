package main

import "slices"

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
func neverRuns() []step {
	return []step{
		{
			prose: `arm64 supports neither BIOS nor SATA disks. Without Virtward, KubeVirt accepts this VM, and rejects its VMI
				when the VM starts.`,
			as: alice, reads: legacyFile, tour: top, rejects: "kubectl apply -f " + legacyFile, says: slices.Concat(legacyCauses, []string{`"legacy" is invalid`}),
		},
		{
			as: alice, hidden: true, rejects: "kubectl get vm/legacy", says: []string{"NotFound"},
			checked: "the response has both causes, each with its field and its rule, and no VM is stored.",
		},
		{do: (*show).reported},
	}
}

// early shows warnings about missing references and about pre-existing errors.
func early() []step {
	const (
		apply  = "kubectl apply -f " + desktopFile
		events = "kubectl events --for vm/desktop"
		update = "kubectl label vm/desktop team=blue"
		before = "(pre-existing: tolerated on update, denied on create)"
	)
	return []step{
		{
			prose: `A VM can be applied before the preference or the instancetype that it names. So Alice gets only a warning
				about the missing preference.`,
			as: alice, reads: desktopFile, tour: top, runs: []string{apply},
			says: []string{"Warning: spec.preference", "there is no VirtualMachineClusterPreference old-pc", "desktop created"},
		},
		{
			prose: `The admin creates the preference, and virt-controller creates the VMI. Now the preference exists, so the VMI
				is rejected. virt-controller writes the message into an event on the VM.`,
			as: admin, runs: []string{"kubectl apply -f examples/preference-old-pc.yaml"},
		},
		{
			as: alice, await: events, until: "FailedCreate", runs: []string{events},
			says: []string{"Error creating virtual machine instance", "[virtward/arm64-disk-bus]", "[virtward/arm64-bios]"},
		},
		{
			prose: `Now the VM has errors that it did not have when Alice created it. She can still change other fields, with a
				warning: an update is rejected only for new errors, not for pre-existing ones.`,
			as: alice, await: update + " --dry-run=server", until: "Warning:", runs: []string{update},
			says: []string{noBIOS, noSATA, before + " [virtward/arm64-bios]", before + " [virtward/arm64-disk-bus]", "desktop labeled"},
		},
		{
			prose: `Alice can also delete the VM. If she applies it again, it is rejected. The cause is at the field that names
				the preference, and the message names the field of the preference.`,
			as: alice, runs: []string{"kubectl delete -f " + desktopFile},
		},
		{
			as: alice, rejects: apply,
			says: []string{
				"spec.preference.name: Unsupported value: " + noBIOS + " (VirtualMachineClusterPreference old-pc sets domain.firmware.bootloader.bios by its spec.firmware.preferredUseBios) [virtward/arm64-bios]",
				"spec.preference.name: Unsupported value: " + noSATA + " (VirtualMachineClusterPreference old-pc sets domain.devices.disks[0].disk.bus by its spec.devices.preferredDiskBus) [virtward/arm64-disk-bus]",
			},
		},
	}
}
