package validators

import (
	"testing"

	"github.com/virtward/virtward/api/architectures"
)

func TestAMD64(t *testing.T) {
	runCases(t, ForArchitecture(architectures.AMD64), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "what it has", spec: `{"domain":{"devices":{"watchdog":{"name":"w","i6300esb":{}},"video":{"type":"bochs"}}}}`},
		{
			name: "what it has not",
			spec: `{"domain":{"devices":{"watchdog":{"name":"w","diag288":{}},"video":{"type":"qxl"}}}}`,
			want: []string{
				`amd64-video: spec.domain.devices.video.type: Unsupported value: "qxl": amd64 has vga, cirrus, virtio, ramfb, bochs`,
				`amd64-watchdog: spec.domain.devices.watchdog: Unsupported value: "diag288": amd64 supports only the i6300esb watchdog`,
			},
		},
		{
			name: "both watchdogs",
			spec: `{"domain":{"devices":{"watchdog":{"name":"w","i6300esb":{},"diag288":{}}}}}`,
			want: []string{`amd64-watchdog: spec.domain.devices.watchdog: Unsupported value: "i6300esb and diag288": amd64 supports only the i6300esb watchdog`},
		},
	})
}

func TestARM64(t *testing.T) {
	runCases(t, ForArchitecture(architectures.ARM64), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{
			name: "what it has",
			spec: `{"domain":{"cpu":{"model":"host-passthrough","sockets":4},"firmware":{"bootloader":{"efi":{}}},
				"devices":{"disks":[{"name":"a","disk":{"bus":"virtio"}},{"name":"b","lun":{"bus":"scsi"}},{"name":"c","cdrom":{}},{"name":"d"}],"video":{"type":"ramfb"}}}}`,
		},
		{
			name: "what it has not",
			spec: `{"domain":{"cpu":{"model":"host-model"},"firmware":{"bootloader":{"bios":{}}},
				"devices":{"disks":[{"name":"a","disk":{"bus":"sata"}},{"name":"b","lun":{"bus":"usb"}},{"name":"c","cdrom":{"bus":"sata"}}],
				"sound":{"name":"s"},"watchdog":{"name":"w","i6300esb":{}},"video":{"type":"vga"}}}}`,
			want: []string{
				`arm64-cpu-model: spec.domain.cpu.model: Unsupported value: "host-model": arm64 guests see the host's CPU, host-passthrough`,
				`arm64-disk-bus: spec.domain.devices.disks[0].disk.bus: Unsupported value: "sata": disks of arm64 are on a virtio or scsi bus`,
				`arm64-disk-bus: spec.domain.devices.disks[1].lun.bus: Unsupported value: "usb": disks of arm64 are on a virtio or scsi bus`,
				`arm64-disk-bus: spec.domain.devices.disks[2].cdrom.bus: Unsupported value: "sata": disks of arm64 are on a virtio or scsi bus`,
				`arm64-sound: spec.domain.devices.sound: Unsupported value: "s": arm64 has no sound device`,
				`arm64-video: spec.domain.devices.video.type: Unsupported value: "vga": arm64 has virtio, ramfb`,
				`arm64-watchdog: spec.domain.devices.watchdog: Unsupported value: "w": arm64 has no watchdog`,
				`arm64-bios: spec.domain.firmware.bootloader.bios: Unsupported value: arm64 boots from EFI only`,
			},
		},
		{
			name: "a maximum of sockets, which has no effect",
			spec: `{"domain":{"cpu":{"sockets":2,"maxSockets":8}}}`,
			want: []string{`arm64-cpu-hotplug: spec.domain.cpu.maxSockets: Invalid value: 8: has no effect: KubeVirt adds no CPUs to a running guest of arm64`},
		},
		{
			name: "unknown buses and video devices",
			spec: `{"domain":{"devices":{"disks":[{"name":"a","disk":{"bus":"ide"}},{"name":"b","disk":{"bus":"usb"},"lun":{"bus":"nvme"}}],"video":{"type":"qxl"}}}}`,
			want: []string{
				`arm64-disk-bus: spec.domain.devices.disks[0].disk.bus: Unsupported value: "ide": disks of arm64 are on a virtio or scsi bus`,
				`arm64-disk-bus: spec.domain.devices.disks[1].disk.bus: Unsupported value: "usb": disks of arm64 are on a virtio or scsi bus`,
				`arm64-disk-bus: spec.domain.devices.disks[1].lun.bus: Unsupported value: "nvme": disks of arm64 are on a virtio or scsi bus`,
				`arm64-video: spec.domain.devices.video.type: Unsupported value: "qxl": arm64 has virtio, ramfb`,
			},
		},
		{name: "a video device without a type", spec: `{"domain":{"devices":{"video":{"type":""}}}}`, want: []string{
			`arm64-video: spec.domain.devices.video.type: Unsupported value: "": arm64 has virtio, ramfb`,
		}},
		{
			name: "launch security",
			spec: `{"architecture":"arm64","domain":{"launchSecurity":{"sev":{}}}}`,
			want: []string{`launch-security-architecture: spec.architecture: Invalid value: "arm64": does not support domain.launchSecurity`},
		},
		{
			name: "dedicated CPUs of two threads",
			spec: `{"architecture":"arm64","domain":{"cpu":{"cores":1,"threads":2,"dedicatedCpuPlacement":true}}}`,
			want: []string{`cpu-dedicated-threads-arm64: spec.architecture: Invalid value: "arm64": supports one thread per core of dedicated CPUs, not 2`},
		},
		{name: "dedicated CPUs of one thread", spec: `{"architecture":"arm64","domain":{"cpu":{"cores":2,"threads":1,"dedicatedCpuPlacement":true}}}`},
		{name: "two threads on shared CPUs", spec: `{"architecture":"arm64","domain":{"cpu":{"cores":1,"threads":2}}}`},
	})
}

func TestS390X(t *testing.T) {
	runCases(t, ForArchitecture(architectures.S390X), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{
			name: "what it has",
			spec: `{"domain":{"devices":{"disks":[{"name":"a","blockSize":{"matchVolume":{}}},{"name":"b","blockSize":{"custom":{"logical":512,"physical":4096}}}],
				"watchdog":{"name":"w","diag288":{}},"video":{"type":"virtio"}}}}`,
		},
		{
			name: "panic devices",
			spec: `{"architecture":"s390x","domain":{"devices":{"panicDevices":[{},{}]}}}`,
			want: []string{`device-panic-architecture: spec.domain.devices.panicDevices: Invalid value: panic devices cannot be chosen on s390x`},
		},
		{name: "no panic devices", spec: `{"architecture":"s390x","domain":{"devices":{"panicDevices":[]}}}`},
		{
			name: "what it has not",
			spec: `{"domain":{"devices":{"disks":[{"name":"a","blockSize":{"custom":{"logical":8192,"physical":8192}}}],
				"watchdog":{"name":"w"},"video":{"type":"vga"}}}}`,
			want: []string{
				`s390x-block-size: spec.domain.devices.disks[0].blockSize.custom.logical: Unsupported value: 8192: s390x supports blocks of at most 4096 bytes`,
				`s390x-block-size: spec.domain.devices.disks[0].blockSize.custom.physical: Unsupported value: 8192: s390x supports blocks of at most 4096 bytes`,
				`s390x-video: spec.domain.devices.video.type: Unsupported value: "vga": s390x has virtio`,
				`s390x-watchdog: spec.domain.devices.watchdog: Unsupported value: "": s390x supports only the diag288 watchdog`,
			},
		},
	})
}

func TestForArchitectureUnknown(t *testing.T) {
	if table := ForArchitecture("riscv64"); table != nil {
		t.Errorf("riscv64 has %d rules of its own, want none", len(table))
	}
}
