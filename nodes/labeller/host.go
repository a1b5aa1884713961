package labeller

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/virtward/virtward/nodelabels"
)

// Host is where the facts of the node are read from.
type Host struct {
	// Sys and Proc are the file systems of the kernel.
	Sys, Proc fs.FS
	// Documents is the folder with libvirt's documents; empty for none. KubeVirt's virt-handler writes them.
	Documents string
	// Probe opens a device of the container.
	Probe Prober
	// Architecture of the node.
	Architecture string
}

// NewHost returns the machine on which the process runs.
func NewHost(documents string) *Host {
	return &Host{Sys: os.DirFS("/sys"), Proc: os.DirFS("/proc"), Documents: documents, Probe: Devices{Folder: "/dev"}, Architecture: runtime.GOARCH}
}

// domainCapabilities is the name that KubeVirt's virt-handler gives libvirt's domain capabilities.
const domainCapabilities = "virsh_domcapabilities.xml"

// Facts reads the facts of the node, for devices of these names. It returns an error for a document that cannot be read, so that labels
// do not vanish while it is being written.
func (h *Host) Facts(devices []string) (*nodelabels.Facts, error) {
	facts := &nodelabels.Facts{Architecture: h.Architecture, Devices: map[string]nodelabels.Device{}}
	for _, name := range devices {
		facts.Devices[name] = h.device(name)
	}
	info, err := readFile(h.Proc, "cpuinfo", nodelabels.MaxCPUInfo)
	if err != nil {
		return nil, fmt.Errorf("reading /proc/cpuinfo: %w", err)
	}
	facts.CPU = nodelabels.ParseCPUInfo(info)
	if h.Documents == "" {
		return facts, nil
	}
	file := filepath.Join(h.Documents, domainCapabilities)
	// What is beyond the limit is an error of the parser.
	text, err := readFile(os.DirFS(h.Documents), domainCapabilities, nodelabels.MaxDocument+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return facts, nil // virt-handler does not run here yet
	case err != nil:
		return nil, fmt.Errorf("reading libvirt's domain capabilities: %w", err)
	}
	document, err := nodelabels.ParseDocument(text)
	if err == nil {
		err = facts.Documents.Add(document)
	}
	if err == nil && facts.Documents.Domain == nil {
		err = errors.New("it has no domain capabilities")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return facts, nil
}

// device reads whether the kernel has registered a device. All devices of hypervisors are of its class misc, which each container sees.
func (h *Host) device(name string) nodelabels.Device {
	if _, err := fs.Stat(h.Sys, path.Join("class", "misc", name, "dev")); err != nil {
		return nodelabels.Device{}
	}
	return nodelabels.Device{Present: true, Access: h.Probe.Probe(name)}
}

// readFile reads at most so many bytes of a file.
func readFile(from fs.FS, name string, most int64) ([]byte, error) {
	file, err := from.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}
