package validators

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHotplug(t *testing.T) {
	const (
		controller = "system:serviceaccount:kubevirt:kubevirt-controller"
		handler    = "system:serviceaccount:kubevirt:kubevirt-handler"
		utility    = `{"developerConfiguration":{"featureGates":["UtilityVolumes"]}}`
		cpu        = "cpu: {sockets: 1, maxSockets: 4}"
		rootDisk   = "{name: root, disk: {bus: virtio}}"
		hpDisk     = "{name: hp, disk: {bus: scsi}}"
		rootVolume = "{name: root, persistentVolumeClaim: {claimName: r}}"
		hpVolume   = "{name: hp, dataVolume: {name: dv}}"
		status     = "{volumeStatus: [{name: root, target: vda}, {name: hp, target: sda, hotplugVolume: {}}]}"
	)
	vmi := func(disks, volumes, rest string) string {
		return fmt.Sprintf("{spec: {domain: {%s, devices: {disks: [%s]}}, volumes: [%s]%s}, status: %s}", cpu, disks, volumes, rest, status)
	}
	both := func(parts ...string) string { return strings.Join(parts, ", ") }
	root, plugged := vmi(rootDisk, rootVolume, ""), vmi(both(rootDisk, hpDisk), both(rootVolume, hpVolume), "")

	runCases(t, hotplugRules(), OnVMIUpdate, []ruleCase{
		{name: "a user changes nothing", oldVMI: plugged, vmi: plugged},
		{name: "KubeVirt plugs a volume", requester: controller, oldVMI: root, vmi: plugged},
		{name: "KubeVirt unplugs a volume", requester: controller, oldVMI: plugged, vmi: root},
		{
			name: "a user changes the spec", oldVMI: root,
			vmi: strings.Replace(vmi(both(rootDisk, hpDisk), rootVolume, ", hostname: x"), "maxSockets: 4", "maxSockets: 8", 1),
			want: []string{
				"hotplug-spec-by-kubevirt: spec.domain.cpu: Unsupported value: only KubeVirt changes the spec of a VMI",
				"hotplug-spec-by-kubevirt: spec.domain.devices.disks: Unsupported value: only KubeVirt changes the spec of a VMI",
				"hotplug-spec-by-kubevirt: spec.hostname: Unsupported value: only KubeVirt changes the spec of a VMI",
			},
		},
		{
			name:   "a user changes labels",
			oldVMI: `{metadata: {labels: {kubevirt.io/nodeName: a, app: x}}, spec: {domain: {}}}`,
			vmi:    `{metadata: {labels: {kubevirt.io/created-by: b, app: y}}, spec: {domain: {}}}`,
			want: []string{
				"hotplug-labels-by-kubevirt: metadata.labels[kubevirt.io/created-by]: Unsupported value: only KubeVirt adds, changes or removes this label",
				"hotplug-labels-by-kubevirt: metadata.labels[kubevirt.io/nodeName]: Unsupported value: only KubeVirt adds, changes or removes this label",
			},
		},
		{
			name: "KubeVirt changes labels", requester: controller,
			oldVMI: `{spec: {domain: {}}}`, vmi: `{metadata: {labels: {kubevirt.io/created-by: b}}, spec: {domain: {}}}`,
		},
		{
			name: "virt-handler on the node of a VMI", requester: handler, node: "n1",
			oldVMI: `{spec: {domain: {}}, status: {nodeName: n1}}`, vmi: `{spec: {domain: {}}, status: {nodeName: n1, phase: Running}}`,
		},
		{
			name: "virt-handler on the node that a VMI migrates to", requester: handler, node: "n2",
			oldVMI: `{spec: {domain: {}}, status: {nodeName: n1, migrationState: {targetNode: n2}}}`, vmi: `{spec: {domain: {}}, status: {nodeName: n2, migrationState: {targetNode: n2}}}`,
		},
		{
			name: "virt-handler on another node", requester: handler, node: "n3",
			oldVMI: `{spec: {domain: {}}, status: {nodeName: n1}}`, vmi: `{spec: {domain: {}}, status: {nodeName: n3}}`,
			want: []string{`hotplug-handler-own-node: status.nodeName: Invalid value: "n1": the virt-handler of node "n3" may not change a VMI that neither runs there nor migrates there`},
		},
		{
			name: "virt-handler on another node, unrestricted", requester: handler, node: "n3",
			configuration: `{"developerConfiguration":{"disabledFeatureGates":["NodeRestriction"]}}`,
			oldVMI:        `{spec: {domain: {}}, status: {nodeName: n1}}`, vmi: `{spec: {domain: {}}, status: {nodeName: n3}}`,
		},
		{
			name: "virt-handler with a token of no node", requester: handler,
			oldVMI: `{spec: {domain: {}}, status: {nodeName: n1}}`, vmi: `{spec: {domain: {}}, status: {nodeName: n1}}`,
			want: []string{`hotplug-handler-own-node: status.nodeName: Invalid value: "n1": the token of virt-handler names no node`},
		},
		{
			name: "virt-handler chooses a target", requester: handler, node: "n1",
			oldVMI: `{spec: {domain: {}}, status: {nodeName: n1}}`, vmi: `{spec: {domain: {}}, status: {nodeName: n1, migrationState: {targetNode: n2}}}`,
			want: []string{`hotplug-handler-target-node: status.migrationState.targetNode: Invalid value: "n2": virt-handler may not choose the node that a VMI migrates to`},
		},
		{
			name: "more sockets, more memory", requester: controller,
			oldVMI: `{spec: {domain: {cpu: {sockets: 1, maxSockets: 4}, memory: {guest: 1Gi, maxGuest: 4Gi}}}}`,
			vmi:    `{spec: {domain: {cpu: {sockets: 2, maxSockets: 4}, memory: {guest: 2Gi, maxGuest: 4096Mi}}}}`,
		},
		{
			name: "other bounds", requester: controller,
			oldVMI: `{spec: {domain: {cpu: {sockets: 1, maxSockets: 4}, memory: {guest: 1Gi, maxGuest: 4Gi}}}}`,
			vmi:    `{spec: {domain: {cpu: {sockets: 1, maxSockets: 8}, memory: {guest: 1Gi, maxGuest: 8Gi}}}}`,
			want: []string{
				"hotplug-max-sockets-kept: spec.domain.cpu.maxSockets: Invalid value: 8: must stay 4 while the VMI runs",
				`hotplug-max-guest-kept: spec.domain.memory.maxGuest: Invalid value: "8Gi": must stay 4Gi while the VMI runs`,
			},
		},
		{
			name: "a spec without a CPU", requester: controller, oldVMI: `{spec: {domain: {}}}`, vmi: `{spec: {domain: {}, hostname: x}}`,
			want: []string{"hotplug-max-sockets-kept: spec.domain.cpu: Required value: the spec of a VMI without a CPU topology cannot be changed"},
		},
		{
			name: "a disk of another name", requester: controller, oldVMI: root, vmi: vmi(both(rootDisk, "{name: x, disk: {bus: scsi}}"), both(rootVolume, hpVolume), ""),
			want: []string{
				`hotplug-volumes-paired: spec.domain.devices.disks[1].name: Invalid value: "x": there is no volume of this name`,
				`hotplug-volumes-paired: spec.volumes[1].name: Invalid value: "hp": no disk or filesystem uses the volume`,
			},
		},
		{
			name: "two disks of one volume", requester: controller, oldVMI: root, vmi: vmi(both(rootDisk, rootDisk), rootVolume, ""),
			want: []string{`hotplug-volumes-paired: spec.domain.devices.disks[1].name: Invalid value: "root": the volume is used by spec.domain.devices.disks[0] already`},
		},
		{name: "a drive without a disc", requester: controller, oldVMI: root, vmi: vmi(both(rootDisk, "{name: tray, cdrom: {bus: sata}}"), rootVolume, "")},
		{
			name: "a drive without a disc and without the gate", requester: controller, oldVMI: root, vmi: vmi(both(rootDisk, "{name: tray, cdrom: {bus: sata}}"), rootVolume, ""),
			configuration: `{"developerConfiguration":{"disabledFeatureGates":["DeclarativeHotplugVolumes"]}}`,
			want:          []string{`hotplug-volumes-paired: spec.domain.devices.disks[1].name: Invalid value: "tray": there is no volume of this name`},
		},
		{
			name: "a disc into a drive", requester: controller,
			oldVMI: vmi(both(rootDisk, "{name: hp, cdrom: {bus: sata}}"), rootVolume, ""),
			vmi:    vmi(both(rootDisk, "{name: hp, cdrom: {bus: sata}}"), both(rootVolume, hpVolume), ""),
		},
		{name: "a memory dump needs no disk", requester: controller, oldVMI: root, vmi: vmi(rootDisk, both(rootVolume, "{name: dump, memoryDump: {claimName: d}}"), "")},
		{
			name: "the root volume is removed", requester: controller, oldVMI: root, vmi: vmi("", "", ""),
			want: []string{`hotplug-permanent-volumes-kept: spec.volumes: Invalid value: "root": the VMI started with this volume, which cannot be removed while it runs`},
		},
		{
			name: "the root volume is changed", requester: controller, oldVMI: root, vmi: vmi(rootDisk, "{name: root, persistentVolumeClaim: {claimName: x}}", ""),
			want: []string{`hotplug-permanent-volumes-kept: spec.volumes[0]: Invalid value: "root": the VMI started with this volume, which cannot be changed while it runs`},
		},
		{
			name: "the root disk is changed", requester: controller, oldVMI: root, vmi: vmi("{name: root, disk: {bus: scsi}}", rootVolume, ""),
			want: []string{`hotplug-permanent-volumes-kept: spec.domain.devices.disks[0]: Invalid value: "root": the disk of this volume cannot be changed while the VMI runs`},
		},
		{
			name: "a new volume with the name of a permanent one", requester: controller, oldVMI: vmi("", "", ""), vmi: root,
			want: []string{`hotplug-permanent-volumes-kept: spec.volumes[0].name: Invalid value: "root": the VMI's status has a volume of this name that is not hot-plugged`},
		},
		{
			name: "the root volume migrates", requester: controller, oldVMI: root,
			vmi: strings.Replace(vmi(rootDisk, "{name: root, persistentVolumeClaim: {claimName: x}}", ""), "status: {", "status: {migratedVolumes: [{volumeName: root}], ", 1),
		},
		{
			name: "a plugged volume and its disk are changed", requester: controller, oldVMI: plugged,
			vmi: vmi(both(rootDisk, "{name: hp, disk: {bus: virtio}}"), both(rootVolume, "{name: hp, dataVolume: {name: x}}"), ""),
			want: []string{
				`hotplug-plugged-volumes-kept: spec.domain.devices.disks[1]: Invalid value: "hp": the disk of this volume cannot be changed while the VMI runs`,
				`hotplug-plugged-volumes-kept: spec.volumes[1]: Invalid value: "hp": a hot-plugged volume cannot be changed`,
			},
		},
		{
			name: "a container disk is plugged", requester: controller, oldVMI: root, vmi: vmi(both(rootDisk, hpDisk), both(rootVolume, "{name: hp, containerDisk: {image: os}}"), ""),
			want: []string{`hotplug-volume-source: spec.volumes[1]: Invalid value: "hp": this source cannot be hot-plugged`},
		},
		{
			name: "a disk that cannot be plugged", requester: controller, oldVMI: root, vmi: vmi(both(rootDisk, "{name: hp, disk: {bus: sata}}"), both(rootVolume, hpVolume), ""),
			want: []string{`hotplug-disk: spec.domain.devices.disks[1].disk.bus: Invalid value: "sata": must be scsi or virtio for a disk to be hot-plugged`},
		},
		{
			name: "utility volumes without the gate", requester: controller, oldVMI: root, vmi: vmi(rootDisk, rootVolume, ", utilityVolumes: [{name: u, claimName: c}]"),
			want: []string{"hotplug-utility-volumes-gate: spec.utilityVolumes: Invalid value: need KubeVirt's feature gate UtilityVolumes"},
		},
		{name: "a utility volume", requester: controller, configuration: utility, oldVMI: root, vmi: vmi(rootDisk, rootVolume, ", utilityVolumes: [{name: u, claimName: c}]")},
		{
			name: "utility volumes without names and claims, and with those of others", requester: controller, configuration: utility, oldVMI: root,
			vmi: vmi(rootDisk, rootVolume, ", utilityVolumes: [{name: '', claimName: ''}, {name: root, claimName: c}, {name: u, claimName: c}, {name: u, claimName: d}]"),
			want: []string{
				`hotplug-utility-volumes: spec.utilityVolumes[0].claimName: Required value: the utility volume "" needs a PersistentVolumeClaim`,
				"hotplug-utility-volumes: spec.utilityVolumes[0].name: Required value: a utility volume needs a name",
				`hotplug-utility-volumes: spec.utilityVolumes[1].name: Duplicate value: "root"`,
				`hotplug-utility-volumes: spec.utilityVolumes[3].name: Duplicate value: "u"`,
			},
		},
		{
			name: "a utility volume is changed", requester: controller, configuration: utility,
			oldVMI: vmi(rootDisk, rootVolume, ", utilityVolumes: [{name: u, claimName: c}]"), vmi: vmi(rootDisk, rootVolume, ", utilityVolumes: [{name: u, claimName: d}]"),
			want: []string{`hotplug-utility-volumes-kept: spec.utilityVolumes[0]: Invalid value: "u": a utility volume cannot be changed`},
		},
	})
}

// TestHotplugLeavesOldFaults holds that what was wrong before keeps KubeVirt from nothing, and that it may not grow.
func TestHotplugLeavesOldFaults(t *testing.T) {
	const controller = "system:serviceaccount:kubevirt:kubevirt-controller"
	vmi := func(sockets int, disks, volumes, utility string) string {
		return fmt.Sprintf("{spec: {domain: {cpu: {sockets: %d, maxSockets: 8}, devices: {disks: [%s]}}, volumes: [%s], utilityVolumes: [%s]}, status: {volumeStatus: [{name: twice}]}}",
			sockets, disks, volumes, utility)
	}
	const (
		gate    = `{"developerConfiguration":{"featureGates":["UtilityVolumes"]}}`
		noGate  = ""
		disks   = "{name: gone, disk: {bus: virtio}}, {name: twice, disk: {bus: virtio}}, {name: twice, disk: {bus: virtio}}"
		volumes = "{name: unused, containerDisk: {image: os}}, {name: twice, containerDisk: {image: a}}, {name: twice, containerDisk: {image: b}}"
		utility = "{name: '', claimName: ''}, {name: unused, claimName: c}, {name: twice, claimName: c}"
	)
	old := vmi(1, disks, volumes, utility)
	for _, tc := range []ruleCase{
		{name: "CPU hotplug", configuration: gate, vmi: vmi(2, disks, volumes, utility)},
		{name: "CPU hotplug, after the gate was switched off", configuration: noGate, vmi: vmi(2, disks, volumes, utility)},
		{
			name: "CPU hotplug, in another order", configuration: gate,
			vmi: vmi(2, "{name: twice, disk: {bus: virtio}}, {name: twice, disk: {bus: virtio}}, {name: gone, disk: {bus: virtio}}",
				"{name: twice, containerDisk: {image: b}}, {name: unused, containerDisk: {image: os}}, {name: twice, containerDisk: {image: a}}",
				"{name: twice, claimName: c}, {name: unused, claimName: c}, {name: '', claimName: ''}"),
		},
		{name: "fewer faults", configuration: gate, vmi: vmi(1, "{name: twice, disk: {bus: virtio}}", volumes, "{name: twice, claimName: c}")},
		{
			name: "more of the same", configuration: gate,
			vmi: vmi(1, "{name: gone, disk: {bus: virtio}}, {name: gone, disk: {bus: virtio}}, {name: twice, disk: {bus: virtio}}, {name: twice, disk: {bus: virtio}}, {name: twice, disk: {bus: virtio}}",
				volumes, utility+", {name: u, claimName: ''}, {name: unused, claimName: c}"),
			want: []string{
				`hotplug-volumes-paired: spec.domain.devices.disks[1].name: Invalid value: "gone": there is no volume of this name`,
				`hotplug-volumes-paired: spec.domain.devices.disks[4].name: Invalid value: "twice": the volume is used by spec.domain.devices.disks[2] already`,
				`hotplug-utility-volumes: spec.utilityVolumes[3].claimName: Required value: the utility volume "u" needs a PersistentVolumeClaim`,
				`hotplug-utility-volumes: spec.utilityVolumes[4].name: Duplicate value: "unused"`,
			},
		},
		{
			name: "another utility volume without the gate", configuration: noGate, vmi: vmi(1, disks, volumes, utility+", {name: u, claimName: d}"),
			want: []string{"hotplug-utility-volumes-gate: spec.utilityVolumes: Invalid value: need KubeVirt's feature gate UtilityVolumes"},
		},
		{
			name: "one of the two volumes becomes another", configuration: gate, vmi: vmi(1, disks, strings.Replace(volumes, "image: b", "image: c", 1), utility),
			want: []string{`hotplug-permanent-volumes-kept: spec.volumes[2]: Invalid value: "twice": the VMI started with this volume, which cannot be changed while it runs`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.oldVMI, tc.requester = old, controller
			if diff := cmp.Diff(tc.want, messages(hotplugRules().Check(tc.subject(t), OnVMIUpdate))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHotplugOfNothing holds that no rule needs more than a VMI and what it was.
func TestHotplugOfNothing(t *testing.T) {
	for _, requester := range []string{"", "system:serviceaccount:kubevirt:kubevirt-handler"} {
		tc := ruleCase{vmi: `{spec: {domain: {}}}`, requester: requester}
		if found := hotplugRules().Check(tc.subject(t), OnVMIUpdate); len(found) != 0 {
			t.Errorf("by %q: %v", requester, found)
		}
	}
}
