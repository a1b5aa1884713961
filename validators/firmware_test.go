package validators

import "testing"

func TestFirmware(t *testing.T) {
	runCases(t, firmwareRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "empty", spec: `{"domain":{"firmware":{}}}`},
		{name: "an empty bootloader", spec: `{"domain":{"firmware":{"bootloader":{}}}}`},
		{name: "BIOS", spec: `{"domain":{"firmware":{"bootloader":{"bios":{}}}}}`},
		{
			name: "both bootloaders",
			spec: `{"domain":{"firmware":{"bootloader":{"bios":{},"efi":{"secureBoot":false}}}}}`,
			want: []string{`firmware-one-bootloader: spec.domain.firmware.bootloader: Invalid value: bios and efi are both set`},
		},
		{name: "EFI without secure boot", spec: `{"domain":{"firmware":{"bootloader":{"efi":{"secureBoot":false}}}}}`},
		{name: "secure boot with SMM", spec: `{"domain":{"features":{"smm":{}},"firmware":{"bootloader":{"efi":{}}}}}`},
		{name: "secure boot with TDX", spec: `{"domain":{"launchSecurity":{"tdx":{}},"firmware":{"bootloader":{"efi":{}}}}}`},
		{
			name: "secure boot by default, without SMM",
			spec: `{"domain":{"firmware":{"bootloader":{"efi":{}}}}}`,
			want: []string{`firmware-secure-boot-smm: spec.domain: Invalid value: Secure Boot, which is on by default, requires features.smm.enabled: true`},
		},
		{
			name: "secure boot on arm64",
			spec: `{"architecture":"arm64","domain":{"firmware":{"bootloader":{"efi":{"secureBoot":true}}}}}`,
			want: []string{`firmware-secure-boot-smm: spec.domain: Invalid value: arm64 has no Secure Boot: Secure Boot requires system management mode, which only amd64 has`},
		},
		{
			name: "secure boot with SMM disabled",
			spec: `{"domain":{"features":{"smm":{"enabled":false}},"firmware":{"bootloader":{"efi":{"secureBoot":true}}}}}`,
			want: []string{`firmware-secure-boot-smm: spec.domain: Invalid value: Secure Boot requires features.smm.enabled: true`},
		},
		{name: "ACPI table of a Secret", spec: `{"domain":{"firmware":{"acpi":{"slicNameRef":"slic"}}},"volumes":[{"name":"slic","secret":{"secretName":"s"}}]}`},
		{
			name: "ACPI without a table",
			spec: `{"domain":{"firmware":{"acpi":{}}}}`,
			want: []string{`firmware-acpi-table-named: spec.domain.firmware.acpi: Invalid value: neither slicNameRef nor msdmNameRef is set`},
		},
		{
			name: "ACPI tables of nowhere and of a ConfigMap",
			spec: `{"domain":{"firmware":{"acpi":{"slicNameRef":"a","msdmNameRef":"b"}}},"volumes":[{"name":"b","configMap":{"name":"c"}}]}`,
			want: []string{
				`firmware-acpi-table-secret: spec.domain.firmware.acpi.msdmNameRef: Invalid value: "b": the volume of this name has no Secret`,
				`firmware-acpi-table-secret: spec.domain.firmware.acpi.slicNameRef: Invalid value: "a": there is no volume of this name`,
			},
		},
		{name: "a kernel", spec: `{"domain":{"firmware":{"kernelBoot":{"kernelArgs":"quiet","container":{"image":"i","kernelPath":"/boot/vmlinuz/"}}}}}`},
		{
			name: "arguments without a kernel",
			spec: `{"domain":{"firmware":{"kernelBoot":{"kernelArgs":"quiet"}}}}`,
			want: []string{`firmware-kernel-arguments: spec.domain.firmware.kernelBoot.kernelArgs: Invalid value: kernelBoot.container is not set, and only its kernel gets these arguments`},
		},
		{
			name: "an empty container",
			spec: `{"domain":{"firmware":{"kernelBoot":{"container":{}}}}}`,
			want: []string{
				`firmware-kernel-files: spec.domain.firmware.kernelBoot.container: Required value: neither kernelPath nor initrdPath is set`,
				`firmware-kernel-image: spec.domain.firmware.kernelBoot.container.image: Required value: the image that the kernel is in`,
			},
		},
		{
			name: "paths that are none",
			spec: `{"domain":{"firmware":{"kernelBoot":{"container":{"image":"i","kernelPath":"/","initrdPath":"/boot/../x"}}}}}`,
			want: []string{
				`firmware-kernel-path: spec.domain.firmware.kernelBoot.container.initrdPath: Invalid value: "/boot/../x": is not a plain absolute path, such as /x`,
				`firmware-kernel-path: spec.domain.firmware.kernelBoot.container.kernelPath: Invalid value: "/": is the root directory, not a file`,
			},
		},
		{
			name: "a relative path",
			spec: `{"domain":{"firmware":{"kernelBoot":{"container":{"image":"i","kernelPath":"vmlinuz"}}}}}`,
			want: []string{`firmware-kernel-path: spec.domain.firmware.kernelBoot.container.kernelPath: Invalid value: "vmlinuz": is not a plain absolute path, such as /vmlinuz`},
		},
	})
}
