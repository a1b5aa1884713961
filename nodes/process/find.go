package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of what is read of the node.
const (
	maxProcesses = 100_000
	maxFile      = 64 << 10
	maxThreads   = 16_384
)

// ID identifies a process.
type ID struct {
	PID int
	// Started is the time of its start in ticks of the kernel's clock.
	Started uint64
}

// Found is a process of a pod.
type Found struct {
	ID
	// Name of the program, at most 15 bytes.
	Name string
	// Cgroup is its path in the hierarchy of cgroup v2, such as /kubepods.slice/…; empty on nodes with cgroup v1.
	Cgroup string
}

// Node has the file systems of the kernel.
type Node struct {
	// Proc is /proc with the processes of the whole node, and Cgroups its hierarchy of cgroup v2.
	Proc, Cgroups string
}

// Programs are those of which the guest runs in, and those that start it, by their names.
var (
	guests   = []string{"qemu-system", "qemu-kvm"}
	starters = []string{"virtqemud"}
)

// ErrNotFound means that the pod has no such process on this node.
var ErrNotFound = errors.New("no process of the pod runs the guest")

// Find returns the process of a pod that runs the guest, or else the one that will start it, whose limits the guest inherits. The
// second one exists before the guest, also on the target of a migration.
func (n *Node) Find(pod types.UID) (found Found, running bool, err error) {
	if len(pod) < 32 || strings.ContainsAny(string(pod), "/\x00\n") {
		return Found{}, false, fmt.Errorf("%q is no UID of a pod", pod)
	}
	entries, err := os.ReadDir(n.Proc)
	if err != nil {
		return Found{}, false, fmt.Errorf("reading the processes of the node: %w", err)
	}
	var starter *Found
	for _, entry := range entries[:min(len(entries), maxProcesses)] {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cgroup, within := n.cgroupOf(pid, pod)
		if !within {
			continue
		}
		p, err := n.read(pid)
		if err != nil {
			continue // it has ended
		}
		p.Cgroup = cgroup
		switch {
		case hasPrefix(p.Name, guests):
			return p, true, nil
		case hasPrefix(p.Name, starters) && starter == nil:
			starter = &p
		}
	}
	if starter != nil {
		return *starter, false, nil
	}
	return Found{}, false, ErrNotFound
}

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// cgroupOf returns the path of a process in cgroup v2, and whether one of its cgroups is that of the pod. Kubelets with systemd write
// the UID with underscores.
func (n *Node) cgroupOf(pid int, pod types.UID) (path string, within bool) {
	text, err := readFile(filepath.Join(n.Proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", false
	}
	plain, systemd := "pod"+string(pod), "pod"+strings.ReplaceAll(string(pod), "-", "_")
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[0] == "0" {
			path = parts[2]
		}
		for step := range strings.SplitSeq(parts[2], "/") {
			step = strings.TrimSuffix(step, ".slice")
			if step == plain || step == systemd || strings.HasSuffix(step, "-"+systemd) {
				within = true
			}
		}
	}
	return path, within
}

// read reads the name and the start time of a process.
func (n *Node) read(pid int) (Found, error) {
	text, err := readFile(filepath.Join(n.Proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return Found{}, err
	}
	// The name is in parentheses, and can have any character.
	begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if begin < 0 || end < begin {
		return Found{}, fmt.Errorf("the process %d has no name", pid)
	}
	fields := strings.Fields(string(text[end+1:]))
	const started = 19 // the 22nd field, of which two are before
	if len(fields) <= started {
		return Found{}, fmt.Errorf("the process %d has no start time", pid)
	}
	at, err := strconv.ParseUint(fields[started], 10, 64)
	if err != nil {
		return Found{}, fmt.Errorf("the start time of the process %d: %w", pid, err)
	}
	return Found{ID: ID{PID: pid, Started: at}, Name: string(text[begin+1 : end])}, nil
}

// same returns an error if another process has the number now.
func (n *Node) same(id ID) error {
	now, err := n.read(id.PID)
	switch {
	case err != nil:
		return fmt.Errorf("the process %d has ended: %w", id.PID, err)
	case now.Started != id.Started:
		return fmt.Errorf("the process %d has ended, and another one has its number", id.PID)
	}
	return nil
}

func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxFile))
}
