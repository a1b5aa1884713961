package validators

import (
	"strings"
	"testing"
)

func TestStartable(t *testing.T) {
	const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	const notImage = "is not a reference of an image, such as registry.example/disks/fedora:42"
	vm := func(spec string) string { return `{"spec":{"template":{"spec":` + spec + `}}}` }
	disk := func(image string) string {
		return vm(`{"volumes":[{"name":"a","containerDisk":{"image":"` + image + `"}}]}`)
	}
	invalidDisk := func(image string) ruleCase {
		return ruleCase{name: "image " + image, vm: disk(image), want: []string{
			`volume-image: spec.template.spec.volumes[0].containerDisk.image: Invalid value: "` + image + `": ` + notImage,
		}}
	}
	long := "registry.example/" + strings.Repeat("a", 1100)
	cases := []ruleCase{
		{name: "nothing", vm: vm(`{}`)},
		{name: "an image by name", vm: disk("fedora")},
		{name: "an image by tag", vm: disk("registry.example:5000/disks/fedora:42")},
		{name: "an image by digest", vm: disk("fedora" + digest)},
		{name: "an image by both", vm: disk("fedora:42" + digest)},
		invalidDisk("docker://registry.example/fedora"),
		invalidDisk("Fedora"),
		invalidDisk("registry.example/fedora:"),
		invalidDisk("fedora@sha256:abc"),
		invalidDisk("a b"),
		{name: "a long image", vm: disk(long), want: []string{
			`volume-image: spec.template.spec.volumes[0].containerDisk.image: Invalid value: "` + shortened(long) + `": ` + notImage,
		}},
		{
			name: "no image and no claim", vm: vm(`{"volumes":[{"name":"a","containerDisk":{}},{"name":"b","persistentVolumeClaim":{}},{"name":"c","persistentVolumeClaim":{"claimName":"c"}}]}`),
			want: []string{
				`volume-image: spec.template.spec.volumes[0].containerDisk.image: Required value: the container disk has no image`,
				`volume-claim-name: spec.template.spec.volumes[1].persistentVolumeClaim.claimName: Required value: the volume must name its claim`,
			},
		},
		{
			name: "a kernel", vm: vm(`{"domain":{"firmware":{"kernelBoot":{"container":{"image":"http://x"}},"uuid":"5d307ca9-b3ef-428c-8861-06e72d69f223"}}}`),
			want: []string{`volume-image: spec.template.spec.domain.firmware.kernelBoot.container.image: Invalid value: "http://x": ` + notImage},
		},
		{
			name: "a UUID that is none", vm: vm(`{"domain":{"firmware":{"uuid":"abc"}}}`),
			want: []string{`firmware-uuid: spec.template.spec.domain.firmware.uuid: Invalid value: "abc": is not a UUID`},
		},
		{name: "enough memory", vm: vm(`{"domain":{"memory":{"guest":"1M"}}}`)},
		{name: "memory below zero, which memory-not-negative reports", vm: vm(`{"domain":{"memory":{"guest":"-1Gi"}}}`)},
		{
			name: "4096 bytes of memory", vm: vm(`{"domain":{"memory":{"guest":4096}}}`),
			want: []string{`memory-guest-least: spec.template.spec.domain.memory.guest: Invalid value: "4096": must be at least 1M: it is an amount of bytes`},
		},
		{
			name: "no bytes of memory", vm: vm(`{"domain":{"memory":{"guest":0}}}`),
			want: []string{`memory-guest-least: spec.template.spec.domain.memory.guest: Invalid value: "0": must be at least 1M: it is an amount of bytes`},
		},
		{
			name: "more memory than the limit", vm: vm(`{"domain":{"memory":{"guest":"2Gi"},"resources":{"limits":{"memory":"1Gi"}}}}`),
			want: []string{`memory-guest-over-limit: spec.template.spec.domain.memory.guest: Invalid value: "2Gi": exceeds the memory limit of 1Gi: the kernel ends the VM when the guest uses it`},
		},
		{
			name: "more memory than the limit, without live updates", configuration: `{"vmRolloutStrategy":"Stage"}`,
			vm: vm(`{"domain":{"memory":{"guest":"2Gi"},"resources":{"limits":{"memory":"1Gi"}}}}`),
		},
		{name: "known actions", vm: vm(`{"domain":{"devices":{"watchdog":{"name":"w","i6300esb":{"action":"pause"},"diag288":{}}}}}`)},
		{
			name: "unknown actions", vm: vm(`{"domain":{"devices":{"watchdog":{"name":"w","i6300esb":{"action":"explode"},"diag288":{"action":"Reset"}}}}}`),
			want: []string{
				`device-watchdog-action: spec.template.spec.domain.devices.watchdog.diag288.action: Unsupported value: "Reset": supported values: "poweroff", "reset", "shutdown", "dump", "inject-nmi", "none", "pause"`,
				`device-watchdog-action: spec.template.spec.domain.devices.watchdog.i6300esb.action: Unsupported value: "explode": supported values: "poweroff", "reset", "shutdown", "dump", "inject-nmi", "none", "pause"`,
			},
		},
	}
	runCases(t, startableRules(), OnVM, cases)
}
