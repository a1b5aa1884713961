package conformance

import "testing"

func TestAtOddPlace(t *testing.T) {
	tests := map[string]struct {
		kubeVirt, ours string
		want           bool
	}{
		"no field":                          {"", "spec.hostname", true},
		"a volume request":                  {"Status.volumeRequests", "status.volumeRequests[3].addVolumeOptions.name", true},
		"not a volume request":              {"Status.volumeRequests", "spec.volumes[3]", false},
		"the boot order of a request":       {"spec.domain.devices.disks[1].bootOrder", "status.volumeRequests[0].addVolumeOptions.disk.bootOrder", true},
		"a boot order of any index":         {"spec.domain.devices.disks[1].bootOrder", "spec.domain.devices.disks[4].bootOrder", true},
		"a DataVolume template":             {"spec.dataVolumeTemplate[2]", "spec.dataVolumeTemplates[2]", true},
		"another DataVolume template":       {"spec.dataVolumeTemplate[2]", "spec.dataVolumeTemplates[1]", false},
		"the namespace of a template":       {"spec.dataVolumeTemplates[2]", "spec.dataVolumeTemplates[2].metadata.namespace", true},
		"the target of a template":          {"spec.dataVolumeTemplate[0].PVC.Storage", "spec.dataVolumeTemplates[0].spec", true},
		"the source of a template":          {"spec.dataVolumeTemplate[0].source", "spec.dataVolumeTemplates[0].spec.sourceRef", true},
		"something else of a template":      {"spec.dataVolumeTemplate[0].source", "spec.dataVolumeTemplates[0].spec", false},
		"one of several paths":              {"spec.a, spec.b", "spec.b", true},
		"none of several paths":             {"spec.a, spec.b", "spec.c", false},
		"the same path is not an odd place": {"spec.a", "spec.a", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := atOddPlace(test.kubeVirt, test.ours); got != test.want {
				t.Errorf("atOddPlace(%q, %q) = %v, want %v", test.kubeVirt, test.ours, got, test.want)
			}
		})
	}
}
