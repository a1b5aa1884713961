package claims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

func TestOfVolume(t *testing.T) {
	claim := corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}
	hot := v1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: claim}
	for name, c := range map[string]struct {
		source v1.VolumeSource
		want   string
	}{
		"a claim":         {v1.VolumeSource{PersistentVolumeClaim: &hot}, "disk"},
		"a DataVolume":    {v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "root"}}, "root"},
		"a memory dump":   {v1.VolumeSource{MemoryDump: &v1.MemoryDumpVolumeSource{PersistentVolumeClaimVolumeSource: hot}}, "disk"},
		"an overlay":      {v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{PersistentVolumeClaim: &claim}}, ""},
		"a container":     {v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "a"}}, ""},
		"without sources": {v1.VolumeSource{}, ""},
	} {
		if got := OfVolume(&v1.Volume{VolumeSource: c.source}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := OfVolume(nil); got != "" {
		t.Errorf("no volume: %q", got)
	}
}
