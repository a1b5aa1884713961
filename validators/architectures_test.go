package validators

import (
	"testing"

	"github.com/virtward/virtward/platform"
)

func TestAMD64(t *testing.T) {
	runSpecCases(t, ForArchitecture(platform.AMD64), []specCase{
		{name: "none", spec: `{}`},
		{name: "what it has", spec: `{"domain":{"devices":{"watchdog":{"name":"w","i6300esb":{}},"video":{"type":"bochs"}}}}`},
		{
			name: "what it has not",
			spec: `{"domain":{"devices":{"watchdog":{"name":"w","diag288":{}},"video":{"type":"qxl"}}}}`,
			want: []string{
				`amd64-video: FieldValueNotSupported: spec.domain.devices.video.type: Unsupported value: "qxl": amd64 has vga, cirrus, virtio, ramfb, bochs`,
				`amd64-watchdog: FieldValueNotSupported: spec.domain.devices.watchdog: Unsupported value: "diag288": the watchdog of amd64 is an i6300esb, and nothing else`,
			},
		},
		{
			name: "both watchdogs",
			spec: `{"domain":{"devices":{"watchdog":{"name":"w","i6300esb":{},"diag288":{}}}}}`,
			want: []string{`amd64-watchdog: FieldValueNotSupported: spec.domain.devices.watchdog: Unsupported value: "i6300esb and diag288": the watchdog of amd64 is an i6300esb, and nothing else`},
		},
	})
}

func TestARM64(t *testing.T) {
	runSpecCases(t, ForArchitecture(platform.ARM64), []specCase{
		{name: "none", spec: `{}`},
		{
			name: "what it has",
			spec: `{"domain":{"cpu":{"model":"host-passthrough"},"firmware":{"bootloader":{"efi":{}}},
				"devices":{"disks":[{"name":"a","disk":{"bus":"virtio"}},{"name":"b","lun":{"bus":"scsi"}},{"name":"c","cdrom":{}},{"name":"d"}],"video":{"type":"ramfb"}}}}`,
		},
		{
			name: "what it has not",
			spec: `{"domain":{"cpu":{"model":"host-model"},"firmware":{"bootloader":{"bios":{}}},
				"devices":{"disks":[{"name":"a","disk":{"bus":"sata"}},{"name":"b","lun":{"bus":"usb"}},{"name":"c","cdrom":{"bus":"sata"}}],
				"sound":{"name":"s"},"watchdog":{"name":"w","i6300esb":{}},"video":{"type":"vga"}}}}`,
			want: []string{
				`arm64-cpu-model: FieldValueNotSupported: spec.domain.cpu.model: Unsupported value: "host-model": arm64 guests see the host's CPU, host-passthrough`,
				`arm64-disk-bus: FieldValueNotSupported: spec.domain.devices.disks[0].disk.bus: Unsupported value: "sata": disks of arm64 are on a virtio or scsi bus`,
				`arm64-disk-bus: FieldValueNotSupported: spec.domain.devices.disks[1].lun.bus: Unsupported value: "usb": disks of arm64 are on a virtio or scsi bus`,
				`arm64-disk-bus: FieldValueNotSupported: spec.domain.devices.disks[2].cdrom.bus: Unsupported value: "sata": disks of arm64 are on a virtio or scsi bus`,
				`arm64-sound: FieldValueNotSupported: spec.domain.devices.sound: Unsupported value: "s": arm64 has no sound device`,
				`arm64-video: FieldValueNotSupported: spec.domain.devices.video.type: Unsupported value: "vga": arm64 has virtio, ramfb`,
				`arm64-watchdog: FieldValueNotSupported: spec.domain.devices.watchdog: Unsupported value: "w": arm64 has no watchdog`,
				`arm64-bios: FieldValueNotSupported: spec.domain.firmware.bootloader.bios: Unsupported value: arm64 boots from EFI only`,
			},
		},
	})
}

func TestS390X(t *testing.T) {
	runSpecCases(t, ForArchitecture(platform.S390X), []specCase{
		{name: "none", spec: `{}`},
		{
			name: "what it has",
			spec: `{"domain":{"devices":{"disks":[{"name":"a","blockSize":{"matchVolume":{}}},{"name":"b","blockSize":{"custom":{"logical":512,"physical":4096}}}],
				"watchdog":{"name":"w","diag288":{}},"video":{"type":"virtio"}}}}`,
		},
		{
			name: "what it has not",
			spec: `{"domain":{"devices":{"disks":[{"name":"a","blockSize":{"custom":{"logical":8192,"physical":8192}}}],
				"watchdog":{"name":"w"},"video":{"type":"vga"}}}}`,
			want: []string{
				`s390x-block-size: FieldValueNotSupported: spec.domain.devices.disks[0].blockSize.custom.logical: Unsupported value: 8192: s390x has blocks of at most 4096 bytes`,
				`s390x-block-size: FieldValueNotSupported: spec.domain.devices.disks[0].blockSize.custom.physical: Unsupported value: 8192: s390x has blocks of at most 4096 bytes`,
				`s390x-video: FieldValueNotSupported: spec.domain.devices.video.type: Unsupported value: "vga": s390x has virtio`,
				`s390x-watchdog: FieldValueNotSupported: spec.domain.devices.watchdog: Unsupported value: "": the watchdog of s390x is a diag288, and nothing else`,
			},
		},
	})
}

func TestForArchitectureUnknown(t *testing.T) {
	if table := ForArchitecture("riscv64"); table != nil {
		t.Errorf("riscv64 has %d rules of its own, want none", len(table))
	}
}
