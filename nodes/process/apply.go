package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/utils/cpuset"

	"github.com/virtward/virtward/nodetuning"
)

// LockMemory sets the limit of locked memory of a process, and reports whether it was another one.
func (n *Node) LockMemory(id ID, bytes int64) (changed bool, err error) {
	if bytes <= 0 {
		return false, fmt.Errorf("%d bytes are no limit of locked memory", bytes)
	}
	// The descriptor keeps the number from being used again after the comparison.
	descriptor, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return false, fmt.Errorf("opening the process %d: %w", id.PID, err)
	}
	defer unix.Close(descriptor)
	if err := n.same(id); err != nil {
		return false, err
	}
	var before unix.Rlimit
	if err := unix.Prlimit(id.PID, unix.RLIMIT_MEMLOCK, nil, &before); err != nil {
		return false, fmt.Errorf("reading the limit of locked memory of the process %d: %w", id.PID, err)
	}
	wanted := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	if before == wanted {
		return false, nil
	}
	if err := unix.Prlimit(id.PID, unix.RLIMIT_MEMLOCK, &wanted, nil); err != nil {
		return false, fmt.Errorf("setting the limit of locked memory of the process %d to %d bytes: %w", id.PID, bytes, err)
	}
	return true, n.same(id)
}

// Pod reads the CPUs of the container of a process, and its threads.
func (n *Node) Pod(p *Found) (*nodetuning.Pod, error) {
	folder, err := n.folder(p)
	if err != nil {
		return nil, err
	}
	text, err := readFile(filepath.Join(folder, "cpuset.cpus.effective"))
	if err != nil {
		return nil, fmt.Errorf("reading the CPUs of the container: %w", err)
	}
	cpus, err := cpuset.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("the CPUs of the container: %w", err)
	}
	pod := &nodetuning.Pod{CPUs: cpus.List()}
	tasks := filepath.Join(n.Proc, strconv.Itoa(p.PID), "task")
	entries, err := os.ReadDir(tasks)
	if err != nil {
		return nil, fmt.Errorf("reading the threads of the process %d: %w", p.PID, err)
	}
	for _, entry := range entries[:min(len(entries), maxThreads)] {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		name, err := readFile(filepath.Join(tasks, entry.Name(), "comm"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			return nil, err
		}
		thread := nodetuning.Thread{ID: id, Name: strings.TrimSuffix(string(name), "\n")}
		if thread.CPUs, err = affinity(filepath.Join(tasks, entry.Name(), "status")); err != nil {
			return nil, err
		}
		pod.Threads = append(pod.Threads, thread)
	}
	return pod, n.same(p.ID)
}

// affinity reads the CPUs on which a thread may run.
func affinity(status string) ([]int, error) {
	text, err := readFile(status)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if list, found := strings.CutPrefix(line, "Cpus_allowed_list:"); found {
			cpus, err := cpuset.Parse(strings.TrimSpace(list))
			return cpus.List(), err
		}
	}
	return nil, fmt.Errorf("%s has no CPUs", status)
}

// housekeeping is the name of the cgroup.
const housekeeping = "housekeeping"

// Housekeep moves threads of a process into a cgroup of their own, below that of its container, with these CPUs. It reports whether it
// changed something.
func (n *Node) Housekeep(p *Found, h nodetuning.Housekeeping) (changed bool, err error) {
	folder, err := n.folder(p)
	if err != nil {
		return false, err
	}
	if err := n.same(p.ID); err != nil {
		return false, err
	}
	own := filepath.Join(folder, housekeeping)
	switch err := os.Mkdir(own, 0o750); {
	case err == nil:
		changed = true
	case !errors.Is(err, fs.ErrExist):
		return false, fmt.Errorf("making the cgroup of housekeeping: %w", err)
	}
	list := cpuset.New(h.CPUs...).String()
	for _, f := range []struct{ file, value string }{
		{filepath.Join(own, "cgroup.type"), "threaded"},
		{filepath.Join(folder, "cgroup.subtree_control"), "+cpuset"},
		{filepath.Join(own, "cpuset.cpus"), list},
	} {
		wrote, err := write(f.file, f.value)
		if err != nil {
			return changed, fmt.Errorf("%s of the cgroup: %w", filepath.Base(f.file), err)
		}
		changed = changed || wrote
	}
	text, err := readFile(filepath.Join(own, "cgroup.threads"))
	if err != nil {
		return changed, fmt.Errorf("reading the threads of housekeeping: %w", err)
	}
	there := strings.Fields(string(text))
	for _, thread := range h.Threads {
		id := strconv.Itoa(thread)
		if slices.Contains(there, id) {
			continue
		}
		err := os.WriteFile(filepath.Join(own, "cgroup.threads"), []byte(id), 0o600)
		if errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return changed, fmt.Errorf("moving the thread %d to housekeeping: %w", thread, err)
		}
		changed = true
	}
	return changed, n.same(p.ID)
}

// write writes a file of a cgroup unless it has the value.
func write(file, value string) (bool, error) {
	text, err := readFile(file)
	if err != nil {
		return false, err
	}
	if now := strings.TrimSpace(string(text)); now == value || slices.Contains(strings.Fields(now), strings.TrimPrefix(value, "+")) {
		return false, nil
	}
	return true, os.WriteFile(file, []byte(value), 0o600)
}

// folder is the cgroup of the container of a process.
func (n *Node) folder(p *Found) (string, error) {
	if p.Cgroup == "" {
		return "", errors.New("the node has no cgroup v2")
	}
	path := filepath.Clean("/" + p.Cgroup)
	if filepath.Base(path) == housekeeping {
		path = filepath.Dir(path) // its first thread was moved before
	}
	return filepath.Join(n.Cgroups, path), nil
}
