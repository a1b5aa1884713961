package nodetuning_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/nodetuning"
	"github.com/virtward/virtward/platform"
)

func instance(t *testing.T, text string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	if err := yaml.UnmarshalStrict([]byte(text), vmi); err != nil {
		t.Fatal(err)
	}
	return vmi
}

func TestAdjustResources(t *testing.T) {
	const mebibyte = 1 << 20
	for _, tc := range []struct {
		name, vmi string
		want      int64
	}{
		{"a plain guest", `spec: {domain: {memory: {guest: 1Gi}, devices: {}}}`, 0},
		{"a host device", `spec: {domain: {memory: {guest: 1Gi}, devices: {autoattachGraphicsDevice: false, hostDevices: [{name: a, deviceName: example.org/a}]}}}`, (1024 + 256 + 1024) * mebibyte},
		{"a guest that can grow", `spec: {domain: {memory: {guest: 1Gi, maxGuest: 4Gi}, devices: {autoattachGraphicsDevice: false, gpus: [{name: a, deviceName: example.org/a}]}}}`, (4096 + 256 + 1024) * mebibyte},
		{"the target of a migration", `{spec: {domain: {memory: {guest: 1Gi}, cpu: {realtime: {}}, devices: {}}}, status: {migrationState: {targetMemoryOverhead: 300Mi}}}`, 1324 * mebibyte},
	} {
		tuner := nodetuning.NewBaseTuner(launcher.NewBaseRenderer("amd64"))
		got, err := tuner.AdjustResources(instance(t, tc.vmi), platform.Defaults(platform.Settings{}))
		if err != nil || got != tc.want {
			t.Errorf("%s: %d MiB, want %d MiB; error %v", tc.name, got/mebibyte, tc.want/mebibyte, err)
		}
	}
}

func TestHandleHousekeeping(t *testing.T) {
	const dedicated = `spec: {domain: {cpu: {dedicatedCpuPlacement: true, isolateEmulatorThread: true}, devices: {}}}`
	running := []nodetuning.Thread{
		{ID: 10, Name: "qemu-system-x86", CPUs: []int{2, 3, 4}}, {ID: 11, Name: "CPU 0/SAMPLE", CPUs: []int{2}}, {ID: 12, Name: "CPU 1/SAMPLE", CPUs: []int{3}}, {ID: 13, Name: "worker", CPUs: []int{2, 3, 4}},
	}
	for _, tc := range []struct {
		name, vmi string
		threads   []nodetuning.Thread
		want      nodetuning.Housekeeping
	}{
		{"a guest with an isolated emulator", dedicated, running, nodetuning.Housekeeping{CPUs: []int{4}, Threads: []int{10, 13}}},
		{"a guest that does not run yet", dedicated, running[:1], nodetuning.Housekeeping{}},
		{"a guest that is not pinned yet", dedicated, []nodetuning.Thread{running[0], {ID: 11, Name: "CPU 0/SAMPLE", CPUs: []int{2, 3, 4}}}, nodetuning.Housekeeping{}},
		{"a guest without an isolated emulator", `spec: {domain: {cpu: {dedicatedCpuPlacement: true}, devices: {}}}`, running, nodetuning.Housekeeping{}},
	} {
		got := nodetuning.NewBaseTuner(launcher.NewBaseRenderer("amd64")).HandleHousekeeping(instance(t, tc.vmi), &nodetuning.Pod{CPUs: []int{2, 3, 4}, Threads: tc.threads})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
