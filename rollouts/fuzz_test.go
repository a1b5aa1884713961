package rollouts

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/decodelimits"
	"github.com/virtward/virtward/platform"
)

// FuzzPlan holds that no input causes a panic, that two plans of one input are equal, that the input stays as it is, and
// that a plan is bounded and complete.
func FuzzPlan(f *testing.F) {
	in := running(f)
	seeds := [][]byte{encode(f, in.LastStarted), encode(f, in.Desired), encode(f, in.Running)}
	f.Add(seeds[0], seeds[1], seeds[2], true)
	in.spec().Domain.CPU.Sockets, in.spec().Domain.Memory.Guest = 4, quantity("3Gi")
	in.spec().Volumes = append(in.spec().Volumes[1:], claim("new", "new", true))
	in.Desired.Status.VolumeRequests = []v1.VirtualMachineVolumeRequest{{RemoveVolumeOptions: &v1.RemoveVolumeOptions{Name: "data"}}}
	in.Running.Status.MigratedVolumes = []v1.StorageMigratedVolumeInfo{{VolumeName: "root"}}
	f.Add(seeds[0], encode(f, in.Desired), encode(f, in.Running), false)
	f.Add([]byte(`{}`), []byte(`{"spec":{"template":{}}}`), []byte(`{"status":{"phase":"Running"}}`), true)
	f.Add([]byte(`null`), []byte(`{"spec":{"template":{"spec":{"domain":{"cpu":{},"memory":{}},"networks":[{}]}}}}`), []byte(`null`), true)
	facts := platform.Defaults(platform.Settings{})
	f.Fuzz(func(t *testing.T, started, desired, instance []byte, live bool) {
		f := *facts
		f.LiveUpdate = live
		in := &Input{
			LastStarted: decode[v1.VirtualMachineSpec](started), Desired: decode[v1.VirtualMachine](desired),
			Running: decode[v1.VirtualMachineInstance](instance), Facts: &f,
		}
		before := encode(t, in.Desired)
		result := Plan(in)
		if diff := cmp.Diff(result, Plan(in)); diff != "" {
			t.Errorf("two plans differ:\n%s", diff)
		}
		if string(before) != string(encode(t, in.Desired)) {
			t.Error("the plan has changed the VM")
		}
		if len(result.Changes) > MaxChanges {
			t.Errorf("%d changes", len(result.Changes))
		}
		for i := range result.Changes {
			checkChange(t, &result.Changes[i])
		}
	})
}

func checkChange(t *testing.T, c *Change) {
	t.Helper()
	switch c.Takes {
	case Live, LiveOnMigration, Restart, NextStart, Blocked, Never:
	default:
		t.Errorf("%s takes %q", c.Field, c.Takes)
	}
	if c.Field == "" || c.Rule == "" || c.Reason == "" || len(c.Reason) > maxReason || len(c.Old) > maxValue || len(c.New) > maxValue {
		t.Errorf("not complete, or not bounded: %+v", c)
	}
	if strings.ContainsAny(c.Old+c.New+c.Reason, "\n\r\x00") {
		t.Errorf("a text of %s has several lines", c.Field)
	}
	if needsWayOut := c.Takes == Restart || c.Takes == Blocked || c.Takes == Never; needsWayOut && c.WayOut == "" {
		t.Errorf("%s takes %s, without a way out", c.Field, c.Takes)
	}
}

func encode(t testing.TB, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// decode is nil for what is no such object, and for quantities that Virtward rejects.
func decode[T any](data []byte) *T {
	object := new(T)
	if decodelimits.Object(data, reflect.TypeFor[T]()) != nil || json.Unmarshal(data, &object) != nil {
		return nil
	}
	return object
}

// TestRevert holds that a plan is empty if the VM is as it was started and as it runs.
func TestRevert(t *testing.T) {
	in := running(t)
	in.spec().Domain.CPU.Sockets, in.spec().Hostname = 9, "x"
	if len(Plan(in).Changes) != 2 {
		t.Fatal("the edit has no effect")
	}
	in.Desired.Spec = *in.LastStarted.DeepCopy()
	result := Plan(in)
	if len(result.Changes) > 0 || result.RestartRequired != "" {
		t.Errorf("%+v", result)
	}
}

// TestBounds holds that a large change is cut, and is planned in a moment.
func TestBounds(t *testing.T) {
	in := running(t)
	for i := range 2000 {
		name := "v" + itoa(i)
		in.spec().Volumes = append(in.spec().Volumes, claim(name, name, true))
		in.spec().Domain.Devices.Disks = append(in.spec().Domain.Devices.Disks, disk(name, v1.DiskBusSCSI))
	}
	in.Desired.Spec.Template.ObjectMeta.Annotations = map[string]string{"long": strings.Repeat("x", 1<<20)}
	result := Plan(in)
	if len(result.Changes) != MaxChanges || result.Omitted != 2*2000+1-MaxChanges {
		t.Errorf("%d changes, and %d omitted", len(result.Changes), result.Omitted)
	}
	if size := len(encode(t, result)); size > MaxChanges<<10 {
		t.Errorf("%d bytes", size)
	}
}

// TestSecrets holds that no plan shows passwords.
func TestSecrets(t *testing.T) {
	in := running(t)
	in.spec().Volumes = append(in.spec().Volumes, v1.Volume{Name: "init", VolumeSource: v1.VolumeSource{
		CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "password: hunter2"},
	}})
	data := string(encode(t, Plan(in)))
	if strings.Contains(data, "hunter2") || !strings.Contains(data, "text of 17 bytes") {
		t.Error(data)
	}
}
