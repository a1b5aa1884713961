package process_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/nodes/process"
	"github.com/virtward/virtward/nodetuning"
)

const pod = types.UID("0a1b2c3d-0000-4000-8000-00000000000f")

// kernel is a simulator of /proc and of cgroup v2.
type kernel struct {
	process.Node

	t *testing.T
}

func newKernel(t *testing.T) *kernel {
	t.Helper()
	return &kernel{Node: process.Node{Proc: t.TempDir(), Cgroups: t.TempDir()}, t: t}
}

func (k *kernel) write(text string, path ...string) {
	k.t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kernel) read(path ...string) string {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		k.t.Fatal(err)
	}
	return string(text)
}

// process adds a process that the simulator has.
func (k *kernel) process(pid int, name, cgroup string, started uint64) {
	id := strconv.Itoa(pid)
	k.write(cgroup, k.Proc, id, "cgroup")
	k.write(fmt.Sprintf("%d (%s) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %d 99\n", pid, name, started), k.Proc, id, "stat")
}

// real adds a process of this machine under another name and cgroup. Its start time is the real one.
func (k *kernel) real(pid int, name, cgroup string) {
	stat := k.read("/proc", strconv.Itoa(pid), "stat")
	k.write(cgroup, k.Proc, strconv.Itoa(pid), "cgroup")
	k.write(stat[:strings.Index(stat, "(")+1]+name+stat[strings.LastIndex(stat, ")"):], k.Proc, strconv.Itoa(pid), "stat")
}

// child starts a process that waits.
func child(t *testing.T) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sleep", "600")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return command
}

const (
	systemd = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_0000_4000_8000_00000000000f.slice/cri-containerd-aaaa.scope\n"
	another = "0::/kubepods.slice/kubepods-burstable-podffffffff_0000_4000_8000_00000000000f.slice/cri-containerd-bbbb.scope\n"
)

func TestFind(t *testing.T) {
	const starter = 7
	for _, tc := range []struct {
		name    string
		fill    func(*kernel)
		want    int
		running bool
	}{
		{"a guest", func(k *kernel) { k.process(20, "qemu-system-x86", systemd, 500) }, 20, true},
		{"a guest of a kubelet with cgroupfs", func(k *kernel) {
			k.process(20, "qemu-kvm", "0::/kubepods/burstable/pod"+string(pod)+"/aaaa\n", 500)
		}, 20, true},
		{"a guest on a node with cgroup v1", func(k *kernel) {
			k.process(20, "qemu-kvm", "5:cpuset:/kubepods/pod"+string(pod)+"/aaaa\n3:memory:/kubepods/pod"+string(pod)+"/aaaa\n", 500)
		}, 20, true},
		{"only the process that starts it", func(*kernel) {}, starter, false},
		{"a guest of another pod", func(k *kernel) { k.process(20, "qemu-system-x86", another, 500) }, starter, false},
		{"a name with parentheses", func(k *kernel) { k.process(20, "qemu-system) S (", systemd, 500) }, 20, true},
	} {
		k := newKernel(t)
		k.process(starter, "virtqemud", systemd, 400)
		k.process(8, "virt-launcher", systemd, 300)
		k.write("", k.Proc, "self")
		tc.fill(k)
		found, running, err := k.Find(pod)
		if err != nil || found.PID != tc.want || running != tc.running || running && found.Started != 500 {
			t.Errorf("%s: %+v, running %t, error %v", tc.name, found, running, err)
		}
	}
	k := newKernel(t)
	if _, _, err := k.Find(pod); !errors.Is(err, process.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	for _, uid := range []types.UID{"", "a", types.UID("../" + strings.Repeat("a", 40))} {
		if _, _, err := k.Find(uid); err == nil || !strings.Contains(err.Error(), "is no UID of a pod") {
			t.Errorf("%q: error %v", uid, err)
		}
	}
}

// TestLockMemory sets the limit of a real process.
func TestLockMemory(t *testing.T) {
	k, command := newKernel(t), child(t)
	k.real(command.Process.Pid, "qemu-system-x86", systemd)
	found, _, err := k.Find(pod)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} { // a second call changes nothing
		if changed, err := k.LockMemory(found.ID, 48<<10); err != nil || changed != want {
			t.Errorf("call %d: changed %t, error %v", i, changed, err)
		}
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(command.Process.Pid, unix.RLIMIT_MEMLOCK, nil, &limit); err != nil || limit.Cur != 48<<10 || limit.Max != 48<<10 {
		t.Errorf("limit %+v, error %v", limit, err)
	}
	// Another process with the number is not changed.
	other := found.ID
	other.Started++
	if _, err := k.LockMemory(other, 32<<10); err == nil || !strings.Contains(err.Error(), "another one has its number") {
		t.Errorf("error %v", err)
	}
	if _, err := k.LockMemory(found.ID, 0); err == nil {
		t.Error("no limit is a limit")
	}
	_ = command.Process.Kill()
	_ = command.Wait()
	if _, err := k.LockMemory(found.ID, 32<<10); err == nil {
		t.Error("a process that has ended has a limit")
	}
}

// TestHousekeep moves a thread in a simulated cgroup: this machine's cgroups cannot be written in tests.
func TestHousekeep(t *testing.T) {
	k := newKernel(t)
	k.process(20, "qemu-system-x86", systemd, 500)
	for id, thread := range map[string]string{"20": "qemu-system-x86\n", "21": "CPU 0/SAMPLE\n"} {
		k.write(thread, k.Proc, "20", "task", id, "comm")
		k.write("Name:\ta\nCpus_allowed_list:\t"+map[string]string{"20": "2-4", "21": "2-3"}[id]+"\n", k.Proc, "20", "task", id, "status")
	}
	folder := filepath.Join(k.Cgroups, strings.TrimSpace(strings.TrimPrefix(systemd, "0::")))
	k.write("2-4\n", folder, "cpuset.cpus.effective")
	k.write("cpu memory\n", folder, "cgroup.subtree_control")
	for _, file := range []string{"cgroup.type", "cpuset.cpus", "cgroup.threads"} {
		k.write("", folder, "housekeeping", file)
	}
	found, _, err := k.Find(pod)
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.Pod(&found)
	want := &nodetuning.Pod{CPUs: []int{2, 3, 4}, Threads: []nodetuning.Thread{{ID: 20, Name: "qemu-system-x86", CPUs: []int{2, 3, 4}}, {ID: 21, Name: "CPU 0/SAMPLE", CPUs: []int{2, 3}}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("error %v, pod (-want +got):\n%s", err, diff)
	}
	for i, want := range []bool{true, false} {
		if changed, err := k.Housekeep(&found, nodetuning.Housekeeping{CPUs: []int{4}, Threads: []int{20}}); err != nil || changed != want {
			t.Errorf("call %d: changed %t, error %v", i, changed, err)
		}
		k.write("cpu memory cpuset\n", folder, "cgroup.subtree_control") // as the kernel shows it
	}
	for file, want := range map[string]string{"cgroup.type": "threaded", "cpuset.cpus": "4", "cgroup.threads": "20"} {
		if got := k.read(folder, "housekeeping", file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	found.Cgroup = ""
	if _, err := k.Housekeep(&found, nodetuning.Housekeeping{CPUs: []int{4}, Threads: []int{20}}); err == nil || err.Error() != "the node has no cgroup v2" {
		t.Errorf("error %v", err)
	}
}

// FuzzFind holds that no content of /proc panics.
func FuzzFind(f *testing.F) {
	f.Add(systemd, "20 (qemu-kvm) S 1 2 3")
	f.Fuzz(func(t *testing.T, cgroup, stat string) {
		k := newKernel(t)
		k.write(cgroup, k.Proc, "20", "cgroup")
		k.write(stat, k.Proc, "20", "stat")
		_, _, _ = k.Find(pod)
	})
}
