package validators

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
)

// specCase is a spec of a VMI, as JSON, and what a table says of it: id, type and message of each finding.
type specCase struct {
	name string
	spec string
	// configuration is the KubeVirt resource's, as JSON; KubeVirt's defaults if empty.
	configuration string
	want          []string
}

// runSpecCases checks each case, and that the cases hold a finding of every rule of the table.
func runSpecCases(t *testing.T, table Table, cases []specCase) {
	t.Helper()
	denied := map[string]bool{}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := &Subject{Facts: configuredFacts(t, tc.configuration), Spec: &v1.VirtualMachineInstanceSpec{}, Path: field.NewPath("spec")}
			if err := json.Unmarshal([]byte(tc.spec), s.Spec); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range table.Check(s, OnSpec) {
				denied[f.Rule] = true
				got = append(got, fmt.Sprintf("%s: %s: %s", f.Rule, string(f.Error.Type), f.Error.Error()))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
	for i := range table {
		if !denied[table[i].ID] {
			t.Errorf("no case has a finding of %s", table[i].ID)
		}
	}
}

func configuredFacts(t *testing.T, configuration string) *platform.Facts {
	t.Helper()
	if configuration == "" {
		return platform.Defaults(platform.Settings{})
	}
	kv := &unstructured.Unstructured{Object: map[string]any{}}
	if err := json.Unmarshal(fmt.Appendf(nil, `{"spec":{"configuration":%s}}`, configuration), &kv.Object); err != nil {
		t.Fatal(err)
	}
	facts, err := platform.FromKubeVirt(kv, platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func TestFirmware(t *testing.T) {
	runSpecCases(t, firmwareRules(), []specCase{
		{name: "none", spec: `{}`},
		{name: "empty", spec: `{"domain":{"firmware":{}}}`},
		{name: "an empty bootloader", spec: `{"domain":{"firmware":{"bootloader":{}}}}`},
		{name: "BIOS", spec: `{"domain":{"firmware":{"bootloader":{"bios":{}}}}}`},
		{
			name: "both bootloaders",
			spec: `{"domain":{"firmware":{"bootloader":{"bios":{},"efi":{"secureBoot":false}}}}}`,
			want: []string{`firmware-one-bootloader: FieldValueInvalid: spec.domain.firmware.bootloader: Invalid value: bios and efi are both set, and a VM boots from one of them`},
		},
		{name: "EFI without secure boot", spec: `{"domain":{"firmware":{"bootloader":{"efi":{"secureBoot":false}}}}}`},
		{name: "secure boot with SMM", spec: `{"domain":{"features":{"smm":{}},"firmware":{"bootloader":{"efi":{}}}}}`},
		{name: "secure boot with TDX", spec: `{"domain":{"launchSecurity":{"tdx":{}},"firmware":{"bootloader":{"efi":{}}}}}`},
		{
			name: "secure boot by default, without SMM",
			spec: `{"domain":{"firmware":{"bootloader":{"efi":{}}}}}`,
			want: []string{`firmware-secure-boot-smm: FieldValueInvalid: spec.domain: Invalid value: firmware.bootloader.efi asks for secure boot, which is on unless secureBoot is false, and features.smm, without which there is none, is not enabled`},
		},
		{
			name: "secure boot with SMM disabled",
			spec: `{"domain":{"features":{"smm":{"enabled":false}},"firmware":{"bootloader":{"efi":{"secureBoot":true}}}}}`,
			want: []string{`firmware-secure-boot-smm: FieldValueInvalid: spec.domain: Invalid value: firmware.bootloader.efi.secureBoot is true, and features.smm, without which there is none, is not enabled`},
		},
		{name: "ACPI table of a Secret", spec: `{"domain":{"firmware":{"acpi":{"slicNameRef":"slic"}}},"volumes":[{"name":"slic","secret":{"secretName":"s"}}]}`},
		{
			name: "ACPI without a table",
			spec: `{"domain":{"firmware":{"acpi":{}}}}`,
			want: []string{`firmware-acpi-table-named: FieldValueInvalid: spec.domain.firmware.acpi: Invalid value: neither slicNameRef nor msdmNameRef is set, so there is no table to add`},
		},
		{
			name: "ACPI tables of nowhere and of a ConfigMap",
			spec: `{"domain":{"firmware":{"acpi":{"slicNameRef":"a","msdmNameRef":"b"}}},"volumes":[{"name":"b","configMap":{"name":"c"}}]}`,
			want: []string{
				`firmware-acpi-table-secret: FieldValueInvalid: spec.domain.firmware.acpi.msdmNameRef: Invalid value: "b": the volume of this name is not one of a Secret`,
				`firmware-acpi-table-secret: FieldValueInvalid: spec.domain.firmware.acpi.slicNameRef: Invalid value: "a": there is no volume of this name`,
			},
		},
		{name: "a kernel", spec: `{"domain":{"firmware":{"kernelBoot":{"kernelArgs":"quiet","container":{"image":"i","kernelPath":"/boot/vmlinuz/"}}}}}`},
		{
			name: "arguments without a kernel",
			spec: `{"domain":{"firmware":{"kernelBoot":{"kernelArgs":"quiet"}}}}`,
			want: []string{`firmware-kernel-arguments: FieldValueInvalid: spec.domain.firmware.kernelBoot.kernelArgs: Invalid value: "quiet": kernelBoot.container is not set, and the kernel of the VM's own disk takes no arguments from here`},
		},
		{
			name: "an empty container",
			spec: `{"domain":{"firmware":{"kernelBoot":{"container":{}}}}}`,
			want: []string{
				`firmware-kernel-files: FieldValueRequired: spec.domain.firmware.kernelBoot.container: Required value: kernelPath, initrdPath or both say what of the image to boot`,
				`firmware-kernel-image: FieldValueRequired: spec.domain.firmware.kernelBoot.container.image: Required value: the image that the kernel is in`,
			},
		},
		{
			name: "paths that are none",
			spec: `{"domain":{"firmware":{"kernelBoot":{"container":{"image":"i","kernelPath":"/","initrdPath":"/boot/../x"}}}}}`,
			want: []string{
				`firmware-kernel-path: FieldValueInvalid: spec.domain.firmware.kernelBoot.container.initrdPath: Invalid value: "/boot/../x": a plain absolute path is expected, such as /x`,
				`firmware-kernel-path: FieldValueInvalid: spec.domain.firmware.kernelBoot.container.kernelPath: Invalid value: "/": it is the root of the image, not a file in it`,
			},
		},
		{
			name: "a relative path",
			spec: `{"domain":{"firmware":{"kernelBoot":{"container":{"image":"i","kernelPath":"vmlinuz"}}}}}`,
			want: []string{`firmware-kernel-path: FieldValueInvalid: spec.domain.firmware.kernelBoot.container.kernelPath: Invalid value: "vmlinuz": a plain absolute path is expected, such as /vmlinuz`},
		},
	})
}
