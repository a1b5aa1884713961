package nodelabels

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
)

// Bounds of /proc/cpuinfo. Only the first processor is read, whose block has 2 KiB.
const (
	MaxCPUInfo = 64 << 10
	maxFlags   = 1024
)

// CPU are facts about the node's CPU.
type CPU struct {
	// Flags are the features that the kernel reports, in its names.
	Flags []string
}

// ParseCPUInfo reads the first processor of /proc/cpuinfo. What is beyond MaxCPUInfo is ignored.
func ParseCPUInfo(text []byte) CPU {
	var cpu CPU
	lines := bufio.NewScanner(bytes.NewReader(text[:min(len(text), MaxCPUInfo)]))
	lines.Buffer(make([]byte, 0, 4<<10), MaxCPUInfo+1)
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(lines.Text()) == "" && len(cpu.Flags) > 0 {
			break
		}
		// amd64 has flags, arm64 Features, and s390x features.
		if key := strings.ToLower(strings.TrimSpace(name)); found && (key == "flags" || key == "features") && len(cpu.Flags) == 0 {
			cpu.Flags = strings.Fields(value)
			cpu.Flags = cpu.Flags[:min(len(cpu.Flags), maxFlags)]
		}
	}
	return cpu
}

// virtualizations are the flags of hardware that runs virtual machines: of Intel, AMD and IBM.
var virtualizations = []string{"vmx", "svm", "sie"}

// labels are those of the CPU, by the name after the prefix.
func (c *CPU) labels() map[string]string {
	labels := map[string]string{}
	for _, flag := range virtualizations {
		if slices.Contains(c.Flags, flag) {
			labels["virtualization"] = flag
		}
	}
	if slices.Contains(c.Flags, "hypervisor") {
		labels["nested"] = enabled // the node is a virtual machine itself
	}
	return labels
}
