package rollouts

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/limits/decode"
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
			LastStarted: decoded[v1.VirtualMachineSpec](started), Desired: decoded[v1.VirtualMachine](desired),
			Running: decoded[v1.VirtualMachineInstance](instance), Facts: &f,
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
		checkFailure(t, &result)
		checkPending(t, &result, Pending(in), in)
		if in.Desired != nil && in.LastStarted != nil {
			checkSince(t, in, &result, &v1.VirtualMachine{ObjectMeta: in.Desired.ObjectMeta, Spec: *in.LastStarted})
		}
	})
}

// checkSince holds that SinceVM is only true if a plan of the earlier VM has none of the changes.
func checkSince(t *testing.T, in *Input, result *Result, earlier *v1.VirtualMachine) (certain bool) {
	t.Helper()
	if !result.SinceVM(earlier, in.Desired, in.DesiredKinds) {
		return false
	}
	was := *in
	was.Desired = earlier
	before := Plan(&was)
	if diff := cmp.Diff(*result, result.Since(&before)); diff != "" {
		t.Errorf("changes were pending before (-plan +since):\n%s", diff)
	}
	return true
}

// TestSinceVM plans each of a set of edits on top of each other one.
func TestSinceVM(t *testing.T) {
	edits := map[string]func(*v1.VirtualMachineInstanceSpec){
		"nothing":         func(*v1.VirtualMachineInstanceSpec) {},
		"host name":       func(s *v1.VirtualMachineInstanceSpec) { s.Hostname = "a" },
		"other host name": func(s *v1.VirtualMachineInstanceSpec) { s.Hostname = "b" },
		"sockets":         func(s *v1.VirtualMachineInstanceSpec) { s.Domain.CPU.Sockets = 4 },
		"too many":        func(s *v1.VirtualMachineInstanceSpec) { s.Domain.CPU.Sockets = 99 },
		"memory":          func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Memory.Guest = quantity("3Gi") },
		"firmware":        func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Firmware = &v1.Firmware{Serial: "s"} },
		"volume":          func(s *v1.VirtualMachineInstanceSpec) { s.Volumes = append(s.Volumes, claim("new", "new", true)) },
		"no disks":        func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Devices.Disks = nil },
		"selector":        func(s *v1.VirtualMachineInstanceSpec) { s.NodeSelector = map[string]string{"a": "b"} },
		"machine":         func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Machine = &v1.Machine{Type: "pc"} },
	}
	certain := map[string]bool{}
	for first, pending := range edits {
		for second, edit := range edits {
			in := running(t)
			pending(in.spec())
			earlier := in.Desired.DeepCopy()
			edit(in.spec())
			result := Plan(in)
			if checkSince(t, in, &result, earlier) {
				certain[first+", "+second] = true
			}
		}
	}
	for _, one := range []string{"nothing, host name", "nothing, sockets", "host name, other host name", "sockets, too many"} {
		if !certain[one] {
			t.Errorf("%s: is not certain without a second plan", one)
		}
	}
	for _, one := range []string{"host name, sockets", "host name, nothing", "volume, host name", "nothing, volume"} {
		if certain[one] {
			t.Errorf("%s: needs a second plan", one)
		}
	}
}

// checkFailure holds that a failure of a plan is a change.
func checkFailure(t *testing.T, result *Result) {
	t.Helper()
	named := slices.ContainsFunc(result.Changes, func(c Change) bool {
		return c.Announced == ByFailure && (c.Takes == Blocked || c.Takes == Restart)
	})
	if result.Failure != "" && !named {
		t.Errorf("no change says that KubeVirt fails at %s: %+v", result.Failure, result.Changes)
	}
}

// checkPending holds that what is pending of a running VM is the plan without what is live.
func checkPending(t *testing.T, result *Result, pending Result, in *Input) {
	t.Helper()
	want := slices.DeleteFunc(slices.Clone(result.Changes), func(c Change) bool { return c.Takes == Live || c.Takes == NextStart })
	if in.Running == nil || in.Desired == nil || len(pending.Changes) == 0 && in.stopping() {
		want = nil
	}
	if diff := cmp.Diff(want, pending.Changes, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("pending (-plan +pending):\n%s", diff)
	}
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

// decoded is nil for what is no such object, and for quantities that Virtward rejects.
func decoded[T any](data []byte) *T {
	object := new(T)
	if decode.Object(data, reflect.TypeFor[T]()) != nil || json.Unmarshal(data, &object) != nil {
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
