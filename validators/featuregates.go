package validators

import (
	"strings"

	"github.com/virtward/virtward/api/architectures"
)

// gatedSupport is what KubeVirt runs behind a feature gate, or has dropped, on every hypervisor and architecture
// that has it. Rules of the shared tables check it.
func gatedSupport() SupportTable {
	experimental := []struct{ name, title, gate, rule, detail string }{
		{"vsock", "VSOCK, by autoattachVSOCK", gateVSOCK, "device-vsock-gate", "a socket between host and guest"},
		{"downward-metrics-device", "The device for host metrics", gateDownwardMetrics, "device-downward-metrics-gate", "metrics of the host, over a virtio port"},
		{"downward-metrics-volume", "A downwardMetrics volume", gateDownwardMetrics, "volume-downward-metrics-gate", "metrics of the host, on a disk"},
		{"reboot-policy", "A reboot policy", gateRebootPolicy, "device-reboot-policy-gate", "what a reboot of the guest does to the VM"},
		{"host-devices", "Host devices", gateHostDevices, "hostdevice-gate", "devices of the node, passed through"},
		{"dra-gpus", "GPUs from claims", gateGPUsWithDRA, "dra-device-gate", "GPUs that dynamic resource allocation hands out"},
		{"dra-host-devices", "Host devices from claims", gateHostDevicesWithDRA, "dra-device-gate", "host devices that dynamic resource allocation hands out"},
		{"dra-networks", "Networks from claims", gateNetworkDevicesWithDRA, "dra-network-gate", "network devices that dynamic resource allocation hands out"},
		{"reserved-overhead", "A reserved memory overhead", gateReservedOverhead, "memory-reserved-overhead-gate", "memory of the pod beside that of the guest"},
		{"host-disk", "A hostDisk volume", gateHostDisk, "volume-host-disk-gate", "a file of the node as a disk"},
		{"container-path", "A containerPath volume", gateContainerPathVolumes, "volume-container-path-gate", "a folder of the pod as a filesystem"},
		{"storage-filesystems", "A filesystem on a PersistentVolumeClaim or a DataVolume", gateVirtioFSStorageVolumes, "filesystem-storage-gate", "storage shared by virtiofs"},
		{"empty-cdrom", "A CD-ROM drive without a volume", gateDeclarativeHotplugVolumes, "disk-has-volume", "a drive into which a disk is put later"},
		{"passt-binding", "An interface with a passtBinding", "PasstBinding", "interface-passt-gate", "the pod network, without a bridge"},
		{"port-ranges", "Ranges of ports of an interface", "PortRangesSpec", "interface-port-ranges-gate", "ports that are forwarded by ranges"},
		{"ignition", "Ignition data in an annotation", "ExperimentalIgnitionSupport", "metadata-ignition-gate", "data for the first boot of CoreOS"},
		{"sidecars", "Hook sidecars in an annotation", "Sidecar", "metadata-sidecar-gate", "containers that change the domain before it starts"},
		{"wait-as-receiver", "The run strategy WaitAsReceiver", gateDecentralizedMigration, "vm-run-strategy-known", "a VM that waits for one of another cluster"},
	}
	lines := make(SupportTable, 0, len(experimental)+7)
	for _, e := range experimental {
		lines = append(lines, Support{
			Capability: Capability{Name: e.name, Title: e.title}, Level: Experimental, Gate: e.gate,
			Rule: e.rule, Detail: e.detail, Source: byAdmission,
		})
	}
	for _, p := range []protection{sev, snp, tdx} {
		lines = append(lines, Support{
			Architecture: architectures.AMD64, Level: Experimental, Gate: p.gate(), Capability: Capability{Name: strings.ToLower(string(p)), Title: "Launch security by " + string(p)},
			Rule: "launch-security-feature-gate", Detail: "memory that the host cannot read", Source: byAdmission,
		})
	}
	lines = append(lines, Support{
		Architecture: architectures.ARM64, Level: Experimental, Gate: gateGraceIOVirtualization, Capability: Capability{Name: "grace-gpus", Title: "NVIDIA Grace GPUs"},
		Rule: "hostdevice-grace-gate", Detail: "they need the gates PCINUMAAwareTopology and IOMMUFD too", Source: byAdmission,
	})
	for _, binding := range droppedBindings {
		lines = append(lines, Support{
			Capability: Capability{Name: "binding-" + binding.name, Title: "An interface with the binding " + binding.name}, Level: Unsupported,
			Rule: "interface-binding-discontinued", Detail: "KubeVirt has dropped it; use " + binding.instead, Source: byAdmission,
		})
	}
	return lines
}
