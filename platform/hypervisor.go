package platform

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The names under which hypervisors are registered.
const (
	KVM  = "kvm"
	MSHV = "mshv"
)

// SeedCPUModel is the CPU model that VEP 97's reference implementation asks of every guest on mshv.
const SeedCPUModel = "qemu64-v1"

// Hypervisor is the engine that runs every VM of this cluster (VEP 97 allows one).
type Hypervisor struct {
	// Name is the name it is registered under: kvm or mshv.
	Name string `json:"name"`
	// ConfiguredName is its name in the KubeVirt resource: hyperv-direct and mshv are the same hypervisor.
	ConfiguredName string `json:"configuredName"`
	// Device is the extended resource that a VM's pod asks for, such as devices.kubevirt.io/kvm.
	Device string `json:"device"`
	// VirtType is libvirt's domain type: kvm or hyperv.
	VirtType string `json:"virtType"`
	// CPUModel is the model that this hypervisor asks of amd64 guests; empty where it has no wish of its own.
	CPUModel string `json:"cpuModel,omitempty"`
}

// known maps every name a KubeVirt resource may carry to the hypervisor behind it. The names kvm and
// hyperv-direct are KubeVirt's since 1.8, mshv is VEP 97's.
var known = map[string]Hypervisor{
	"kvm":           {Name: KVM, ConfiguredName: "kvm", Device: "devices.kubevirt.io/kvm", VirtType: "kvm"},
	"hyperv-direct": {Name: MSHV, ConfiguredName: "hyperv-direct", Device: "devices.kubevirt.io/mshv", VirtType: "hyperv"},
	"mshv":          {Name: MSHV, ConfiguredName: "mshv", Device: "devices.kubevirt.io/mshv", VirtType: "hyperv", CPUModel: SeedCPUModel},
}

// HypervisorByName finds a hypervisor by a name that a KubeVirt resource may carry.
func HypervisorByName(name string) (Hypervisor, error) {
	h, ok := known[name]
	if !ok {
		return Hypervisor{}, fmt.Errorf("unknown hypervisor %q: the known ones are %s", name, strings.Join(HypervisorNames(), ", "))
	}
	return h, nil
}

// HypervisorNames are the names that HypervisorByName knows, sorted.
func HypervisorNames() []string {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// hypervisorEntry is one entry of the list, in either form.
type hypervisorEntry struct {
	name, device, virtType string
}

// hypervisorEntries reads spec.configuration.hypervisors (KubeVirt ≥ 1.8) and, where that is absent,
// spec.configuration.hypervisor (VEP 97's form, which carries the device and libvirt's type as well).
func hypervisorEntries(configuration map[string]any) (entries []hypervisorEntry, field string) {
	for _, field := range []string{"hypervisors", "hypervisor"} {
		value, found := configuration[field]
		if !found || value == nil {
			continue
		}
		list, isList := value.([]any)
		if !isList {
			return []hypervisorEntry{{}}, field // an entry without a name, which no hypervisor has
		}
		if len(list) == 0 {
			continue
		}
		entries := make([]hypervisorEntry, 0, len(list))
		for _, item := range list {
			values, _ := item.(map[string]any)
			var e hypervisorEntry
			e.name, _, _ = unstructured.NestedString(values, "name")
			e.device, _, _ = unstructured.NestedString(values, "hypervisorDevice")
			e.virtType, _, _ = unstructured.NestedString(values, "virtType")
			entries = append(entries, e)
		}
		return entries, field
	}
	return nil, ""
}

// selectHypervisor applies VEP 97's selection: an empty list or a closed gate means kvm; one entry is allowed.
// What cannot be honoured falls back to kvm: with a warning where that is a guess, with a note where it is
// how KubeVirt itself behaves.
func selectHypervisor(configuration map[string]any, gateOpen bool) (h Hypervisor, warning, note string) {
	entries, field := hypervisorEntries(configuration)
	kvm := known[KVM]
	switch {
	case len(entries) == 0:
		return kvm, "", ""
	case !gateOpen:
		return kvm, "", fmt.Sprintf("spec.configuration.%s has no effect: the feature gate %s is not enabled, so VMs run on kvm", field, GateConfigurableHypervisor)
	case len(entries) > 1:
		return kvm, fmt.Sprintf("the KubeVirt resource lists %d hypervisors in spec.configuration.%s where one is allowed, so kvm is assumed", len(entries), field), ""
	}
	h, err := HypervisorByName(entries[0].name)
	if err != nil {
		return kvm, fmt.Sprintf("the KubeVirt resource names an %s, so kvm is assumed", err), ""
	}
	if d := entries[0].device; d != "" {
		h.Device = d
		if !strings.Contains(d, "/") {
			h.Device = "devices.kubevirt.io/" + d
		}
	}
	if t := entries[0].virtType; t != "" {
		h.VirtType = t
	}
	return h, "", ""
}
