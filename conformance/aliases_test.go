package conformance

import (
	"fmt"
	"testing"
)

func TestAliases(t *testing.T) {
	const (
		disks     = "spec.domain.devices.disks"
		template  = "spec.template.spec"
		createVM  = kindVM + " CREATE"
		required1 = "requiredDuringSchedulingIgnoredDuringExecution[1]"
	)
	for _, test := range []struct {
		causeType, kubeVirt, virtward, request string
		want                                   bool
	}{
		{invalid, "spec.hostname", "spec.hostname", createVMI, true},
		{invalid, "spec.hostname", template + ".hostname", createVM, false},
		{invalid, "spec.GPUs", "spec.domain.devices.gpus", createVMI, true},
		{invalid, template + ".GPUs", template + ".domain.devices.gpus", createVM, true},
		{invalid, template + ".GPUs", "spec.domain.devices.gpus", createVM, false},
		{invalid, "spec.acpi.slicNameRef", "spec.domain.firmware.acpi.slicNameRef", createVMI, true},
		{invalid, "spec.acpi.slicNameRef", "spec.domain.firmware.acpi.msdmNameRef", createVMI, false},
		{invalid, template + "[1].bootOrder", template + ".domain.devices.interfaces[1].bootOrder", createVM, true},
		{invalid, "spec[1].bootOrder", "spec.domain.devices.interfaces[0].bootOrder", createVMI, false},
		{invalid, "spec.podAffinity." + required1 + ".topologyKey", "spec.affinity.podAffinity." + required1 + ".topologyKey", createVMI, true},
		{invalid, "spec.podAffinity." + required1 + ".topologyKey", "spec.affinity.podAntiAffinity." + required1 + ".topologyKey", createVMI, false},
		{invalid, "spec.podAntiAffinity." + required1 + ".namespace", "spec.affinity.podAntiAffinity." + required1 + ".namespaces[3]", createVMI, true},
		{invalid, "spec.podAntiAffinity." + required1 + ".namespace", "spec.affinity.podAntiAffinity." + required1 + ".topologyKey", createVMI, false},
		{duplicate, template + ".topologySpreadConstraints[2].{topologyKey, whenUnsatisfiable}", template + ".topologySpreadConstraints[2]", createVM, true},
		{invalid, "spec.topologySpreadConstraints.labelSelector.matchLabels", "spec.topologySpreadConstraints[4].labelSelector.matchLabels", createVMI, true},
		{invalid, "spec.domain.features.hyperv.domain.features.hyperv.ipi", "spec.domain.features.hyperv.ipi", createVMI, true},

		{invalid, disks + ".domain.devices.disks.disk[2].pciAddress", disks + "[2].disk.pciAddress", createVMI, true},
		{notSupported, disks + ".domain.devices.disks[0]", disks + "[0].dedicatedIOThread", createVMI, true},
		{invalid, disks + ".domain.devices.disks[0]", disks + "[0].dedicatedIOThread", createVMI, false},
		{notSupported, disks + ".domain.devices.disks[0].io", disks + "[0].io", createVMI, true},
		{notSupported, disks + ".domain.devices.disks[0].io", disks + "[1].io", createVMI, false},
		{invalid, disks + ".luns.reservation", disks + "[7].lun.reservation", createVMI, true},
		{invalid, disks + ".luns.reservation", disks + "[7].lun.bus", createVMI, false},
		{invalid, "spec.domain.volumes[3].containerPath.path", "spec.volumes[3].containerPath.path", createVMI, true},
		{required, "spec.volumes[0].name", "spec.volumes[0].dataVolume.name", createVMI, true},
		{invalid, "spec.volumes[0].name", "spec.volumes[0].dataVolume.name", createVMI, false},

		{invalid, "spec", "spec.domain.devices.interfaces[0].dhcpOptions.privateOptions[1].option", createVMI, true},
		{invalid, "spec", "spec.domain.devices.interfaces[0].dhcpOptions.ntpServers[1]", createVMI, false},
		{invalid, "nameservers", template + ".dnsConfig.nameservers[2]", createVM, true},
		{required, "nameservers", "spec.dnsConfig.nameservers", createVMI, true},
		{required, "nameservers", "spec.dnsConfig.nameservers[2]", createVMI, false},
		{invalid, "searchDomains", "spec.dnsConfig.searches", createVMI, true},
		{invalid, "searchDomains", "spec.dnsConfig.nameservers", createVMI, false},

		{required, "spec.dataVolumeTemplate[2]", "spec.dataVolumeTemplates[2]", createVM, true},
		{required, "spec.dataVolumeTemplate[2]", "spec.dataVolumeTemplates[1]", createVM, false},
		{invalid, "spec.dataVolumeTemplates[2]", "spec.dataVolumeTemplates[2].metadata.namespace", createVM, true},
		{invalid, "spec.dataVolumeTemplate[0].PVC.Storage", "spec.dataVolumeTemplates[0].spec", createVM, true},
		{invalid, "spec.dataVolumeTemplate[0].source", "spec.dataVolumeTemplates[0].spec.sourceRef", createVM, true},
		{invalid, "spec.dataVolumeTemplate[0].source", "spec.dataVolumeTemplates[0].spec", createVM, false},

		{invalid, "Status.volumeRequests", "status.volumeRequests[3].addVolumeOptions.name", updateVM, true},
		{invalid, "Status.volumeRequests", "spec.volumes[3]", updateVM, false},
		{notSupported, "spec", "status.volumeRequests", updateVM, true},
		{invalid, disks + "[1].bootOrder", "status.volumeRequests[0].addVolumeOptions.disk.bootOrder", updateVM, true},
		{invalid, disks + "[1].bootOrder", disks + "[4].bootOrder", updateVMI, false},

		{required, "", "spec.domain.memory", createVMI, true},
		{required, "", "spec.domain.cpu", createVMI, false},
		{notSupported, "", template + ".domain.devices.interfaces[0].passt", createVM, true},
		{notSupported, "", template + ".domain.devices.interfaces[0].bridge", createVM, false},
		{notSupported, "", "spec.hostname", updateVMI, true},
		{notSupported, "", "spec.hostname", createVMI, false},
		{notSupported, "", "metadata.labels[kubevirt.io/nodeName]", updateVMI, true},
		{notSupported, "", "metadata.annotations[kubevirt.io/nodeName]", updateVMI, false},
		{invalid, "", "spec.volumes", updateVMI, true},
		{invalid, "", "spec.volumes[1].name", updateVMI, true},
		{invalid, "", "spec.volumesAndMore", updateVMI, false},
		{invalid, "", "spec.volumes", createVMI, false},
		{invalid, "", "spec.domain.cpu.sockets", updateVMI, false},

		{invalid, "spec.a, spec.b", "spec.b", createVMI, true},
		{invalid, "spec.a, spec.b", "spec.c", createVMI, false},
		{invalid, "annotations.example.com/a", "spec.template.metadata.annotations[example.com/a]", createVM, true},
		{invalid, "annotations.example.com/a", "spec.template.metadata.annotations[example.com/b]", createVM, false},
	} {
		t.Run(fmt.Sprintf("%q is %s", test.kubeVirt, test.virtward), func(t *testing.T) {
			got := same(Cause{Field: test.kubeVirt, Type: test.causeType}, Cause{Field: test.virtward, Type: test.causeType}, test.request)
			if got != test.want {
				t.Errorf("as %s of a %s: %v, want %v", test.causeType, test.request, got, test.want)
			}
		})
	}
	if same(Cause{Field: "spec.hostname", Type: invalid}, Cause{Field: "spec.hostname", Type: required}, createVMI) {
		t.Error("causes of two types are the same")
	}
}
