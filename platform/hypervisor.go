package platform

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The names of the hypervisors in the registry.
const (
	KVM  = "kvm"
	MSHV = "mshv"
)

// SeedCPUModel is the CPU model of all guests on mshv in the reference implementation of VEP 97.
const SeedCPUModel = "qemu64-v1"

// Hypervisor runs all VMs of the cluster. VEP 97 allows one hypervisor for each cluster.
type Hypervisor struct {
	// Name in the registry: kvm or mshv.
	Name string `json:"name"`
	// ConfiguredName is the name in the KubeVirt resource: hyperv-direct and mshv are the same hypervisor.
	ConfiguredName string `json:"configuredName"`
	// Device is the extended resource that a VM's pod requests, such as devices.kubevirt.io/kvm.
	Device string `json:"device"`
	// VirtType is libvirt's domain type: kvm or hyperv.
	VirtType string `json:"virtType"`
	// CPUModel is the default CPU model of amd64 guests; empty if the hypervisor sets none.
	CPUModel string `json:"cpuModel,omitempty"`
}

// known maps each name in a KubeVirt resource to its hypervisor. The names kvm and
// hyperv-direct are in KubeVirt since 1.8, mshv is in VEP 97.
var known = map[string]Hypervisor{
	"kvm":           {Name: KVM, ConfiguredName: "kvm", Device: "devices.kubevirt.io/kvm", VirtType: "kvm"},
	"hyperv-direct": {Name: MSHV, ConfiguredName: "hyperv-direct", Device: "devices.kubevirt.io/mshv", VirtType: "hyperv"},
	"mshv":          {Name: MSHV, ConfiguredName: "mshv", Device: "devices.kubevirt.io/mshv", VirtType: "hyperv", CPUModel: SeedCPUModel},
}

// HypervisorByName returns a hypervisor by its name in the KubeVirt resource.
func HypervisorByName(name string) (Hypervisor, error) {
	h, ok := known[name]
	if !ok {
		return Hypervisor{}, fmt.Errorf("unknown hypervisor %q: the known ones are %s", name, strings.Join(HypervisorNames(), ", "))
	}
	return h, nil
}

// HypervisorNames returns the names that HypervisorByName accepts, sorted.
func HypervisorNames() []string {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// hypervisorEntry is an entry of the list, in either form.
type hypervisorEntry struct {
	name, device, virtType string
}

// hypervisorEntries reads spec.configuration.hypervisors (KubeVirt 1.8 or later) or, if it is absent,
// spec.configuration.hypervisor (VEP 97's form, which also has the device and libvirt's type).
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

// selectHypervisor selects the hypervisor as VEP 97 specifies: kvm for an empty list or if the gate is off, otherwise the
// only entry. An invalid list selects kvm, with a warning. A list without the gate selects kvm with a note, because
// KubeVirt does the same.
func selectHypervisor(configuration map[string]any, gateEnabled bool) (h Hypervisor, warning, note string) {
	entries, field := hypervisorEntries(configuration)
	kvm := known[KVM]
	switch {
	case len(entries) == 0:
		return kvm, "", ""
	case !gateEnabled:
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
