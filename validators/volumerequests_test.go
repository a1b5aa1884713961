package validators

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestVolumeRequests(t *testing.T) {
	const (
		vm = `{spec: {runStrategy: Always, template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}, bootOrder: 1}]}},
  volumes: [{name: root, containerDisk: {image: os}}]}}}, status: {ready: true, volumeRequests: [%s]}}`
		hp = `{addVolumeOptions: {name: hp, disk: {disk: {bus: scsi}}, volumeSource: {dataVolume: {name: dv}}}}`
	)
	of := func(requests string) string { return fmt.Sprintf(vm, requests) }
	// TestVolumeRequestsFit looks at the rule that is left out.
	table := slices.DeleteFunc(volumeRequestRules(), func(r Rule) bool { return r.ID == "volume-request-fits" })
	runCases(t, table, OnVM, []ruleCase{
		{name: "none", vm: of("")},
		{name: "added and removed", vm: of(hp + `, {removeVolumeOptions: {name: hp}}`)},
		{name: "removed that is not there", vm: of(`{removeVolumeOptions: {name: nix}}`)},
		{
			name: "a lun in the place of the root disk", vm: of(`{removeVolumeOptions: {name: root}},
  {addVolumeOptions: {name: root2, disk: {lun: {bus: scsi}, bootOrder: 1}, volumeSource: {persistentVolumeClaim: {claimName: c}}}}`),
		},
		{
			name: "both", vm: of(`{addVolumeOptions: {name: hp, disk: {}}, removeVolumeOptions: {name: hp}}`),
			want: []string{`volume-request-one-kind: status.volumeRequests[0]: Invalid value: both addVolumeOptions and removeVolumeOptions are set`},
		},
		{
			name: "neither", vm: of(`{}`),
			want: []string{`volume-request-one-kind: status.volumeRequests[0]: Invalid value: neither addVolumeOptions nor removeVolumeOptions is set`},
		},
		{
			name: "twice", vm: of(hp + "," + hp + `, {removeVolumeOptions: {name: root}}, {removeVolumeOptions: {name: root}}`),
			want: []string{
				`volume-request-once: status.volumeRequests[1].addVolumeOptions.name: Invalid value: "hp": an earlier request already adds this volume`,
				`volume-request-once: status.volumeRequests[3].removeVolumeOptions.name: Invalid value: "root": an earlier request already removes this volume`,
			},
		},
		{
			name: "without a disk, or with one that cannot be plugged", vm: of(`{addVolumeOptions: {name: a}},
  {addVolumeOptions: {name: b, disk: {disk: {bus: sata}, dedicatedIOThread: true}}},
  {addVolumeOptions: {name: c, disk: {lun: {bus: virtio}, bootOrder: 0}}}, {addVolumeOptions: {name: d, disk: {cdrom: {bus: sata}}}}`),
			want: []string{
				`volume-request-disk: status.volumeRequests[0].addVolumeOptions.disk: Invalid value: null: the volume "a" has no disk`,
				`volume-request-disk: status.volumeRequests[1].addVolumeOptions.disk.dedicatedIOThread: Invalid value: true: needs the bus virtio`,
				`volume-request-disk: status.volumeRequests[1].addVolumeOptions.disk.disk.bus: Invalid value: "sata": must be scsi or virtio for a disk to be hot-plugged`,
				`volume-request-disk: status.volumeRequests[2].addVolumeOptions.disk.bootOrder: Invalid value: 0: must be 1 or more`,
				`volume-request-disk: status.volumeRequests[2].addVolumeOptions.disk.lun.bus: Invalid value: "virtio": must be scsi for a lun to be hot-plugged`,
				`volume-request-disk: status.volumeRequests[3].addVolumeOptions.disk: Invalid value: "": must be a disk or a lun to be hot-plugged`,
			},
		},
		{
			name: "the name of another volume", vm: of(`{addVolumeOptions: {name: root, disk: {disk: {bus: scsi}}, volumeSource: {dataVolume: {name: dv}}}}`),
			want: []string{`volume-request-name-free: status.volumeRequests[0].addVolumeOptions.name: Invalid value: "root": the template of the VM has another volume of this name`},
		},
		{
			name: "the name of another volume of the VMI", vm: of(hp),
			running: `{spec: {domain: {}, volumes: [{name: hp, persistentVolumeClaim: {claimName: c}}]}}`,
			want:    []string{`volume-request-name-free: status.volumeRequests[0].addVolumeOptions.name: Invalid value: "hp": the running VMI has another volume of this name`},
		},
		{
			name: "the same volume of the VMI", vm: of(hp),
			running: `{spec: {domain: {}, volumes: [{name: hp, dataVolume: {name: dv}}]}}`,
		},
		{
			name: "two disks of the VMI would boot first", vm: strings.Replace(of(hp), "disk: {disk: {bus: scsi}}", "disk: {disk: {bus: scsi}, bootOrder: 1}", 1),
			running: `{spec: {domain: {devices: {disks: [{name: cd, disk: {}, bootOrder: 1}]}}, volumes: [{name: cd, containerDisk: {image: os}}]}}`,
			want:    []string{`volume-requests-fit-instance: spec.template.spec.domain.devices.disks[1].bootOrder: Invalid value: 1: in the running VMI, with the volumes of status.volumeRequests: disks[0] has the same boot order`},
		},
		{
			name: "a panic device in a VMI of no architecture", vm: of(hp),
			running: `{spec: {domain: {devices: {panicDevices: [{model: isa}]}}}}`,
			want:    []string{`volume-requests-fit-instance: spec.template.spec.domain.devices.panicDevices: Invalid value: in the running VMI, with the volumes of status.volumeRequests: panic devices cannot be chosen on s390x`},
		},
		{
			name: "a panic device in a VMI of amd64", vm: of(hp),
			running: `{spec: {architecture: amd64, domain: {devices: {panicDevices: [{model: isa}]}}}}`,
		},
		{
			name: "for hugepages of an unknown size", vm: strings.Replace(of(hp), "domain: {", "domain: {memory: {hugepages: {pageSize: 2Mi}}, ", 1),
			want: []string{`volume-request-hugepages: spec.template.spec.domain.memory.guest: Required value: KubeVirt rejects volume requests if a template with hugepages does not set the memory`},
		},
		{
			name: "for hugepages of a known size",
			vm:   strings.Replace(of(hp), "domain: {", "domain: {memory: {hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 1Gi}}, ", 1),
		},
		{
			name: "while it migrates", vm: of(hp),
			running: `{spec: {domain: {}}, status: {migrationState: {startTimestamp: "2026-01-01T00:00:00Z"}}}`,
			want:    []string{`volume-request-not-migrating: status.volumeRequests: Unsupported value: volumes cannot be plugged or unplugged while the VM migrates`},
		},
		{
			name: "after it migrated", vm: of(hp),
			running: `{spec: {domain: {}}, status: {migrationState: {startTimestamp: "2026-01-01T00:00:00Z", endTimestamp: "2026-01-01T00:01:00Z"}}}`,
		},
	})
}

// TestVolumeRequestsFit leaves it to the rules of disks and volumes what they say, and looks at the place.
func TestVolumeRequestsFit(t *testing.T) {
	tc := ruleCase{vm: `{spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}, bootOrder: 1}]}},
  volumes: [{name: root, containerDisk: {image: os}}]}}},
  status: {volumeRequests: [{addVolumeOptions: {name: hp, disk: {disk: {bus: scsi}, bootOrder: 1}, volumeSource: {dataVolume: {name: dv}}}}]}}`}
	errs := all(func(found *Errors) { volumeRequestsFit(tc.subject(t), found) })
	if len(errs) != 1 || errs[0].Field != "spec.template.spec.domain.devices.disks[0].bootOrder" || !strings.HasPrefix(errs[0].Detail, "in the template as written, with the volumes of status.volumeRequests: ") {
		t.Errorf("two disks that boot first: %v", errs)
	}
	tc.vm = strings.Replace(tc.vm, "{addVolumeOptions", "{removeVolumeOptions: {name: root}}, {addVolumeOptions", 1)
	if errs := all(func(found *Errors) { volumeRequestsFit(tc.subject(t), found) }); len(errs) != 0 {
		t.Errorf("a disk that boots first in the place of another: %v", errs)
	}
}
