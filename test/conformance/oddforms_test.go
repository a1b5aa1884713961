package conformance

import "testing"

func TestOddForms(t *testing.T) {
	const invalid, required, unsupported = "FieldValueInvalid", "FieldValueRequired", "FieldValueNotSupported"
	for _, test := range []struct {
		kubeVirt, causeType, ours string
		want                      bool
	}{
		{"spec.hostname", invalid, "spec.hostname", true},
		{"spec[1].bootOrder", invalid, "spec.domain.devices.interfaces[1].bootOrder", true},
		{"spec.template.spec[1].bootOrder", invalid, "spec.template.spec.domain.devices.interfaces[1].bootOrder", true},
		{"spec.domain.devices.disks.domain.devices.disks.disk[2].pciAddress", invalid, "spec.domain.devices.disks[2].disk.pciAddress", true},
		{"spec.domain.devices.disks.domain.devices.disks[0]", unsupported, "spec.domain.devices.disks[0].dedicatedIOThread", true},
		{"spec.domain.devices.disks.domain.devices.disks[0].io", unsupported, "spec.domain.devices.disks[0].io", true},
		{"spec.domain.devices.disks.domain.devices.disks[0].io", unsupported, "spec.domain.devices.disks[1].io", false},
		{"spec.domain.devices.disks.luns.reservation", invalid, "spec.domain.devices.disks[7].lun.reservation", true},
		{"spec.domain.volumes[3].containerPath.path", invalid, "spec.volumes[3].containerPath.path", true},
		{"spec.volumes[0].name", required, "spec.volumes[0].dataVolume.name", true},
		{"spec.volumes[0].name", invalid, "spec.volumes[0].dataVolume.name", false},
	} {
		kubeVirt, ours := Cause{Field: test.kubeVirt, Type: test.causeType}, Cause{Field: test.ours, Type: test.causeType}
		if got := kubeVirt.is(ours); got != test.want {
			t.Errorf("%s is %s (%s): %v, want %v", test.kubeVirt, test.ours, test.causeType, got, test.want)
		}
	}
}
