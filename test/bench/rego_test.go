package bench

import (
	"fmt"
	"testing"

	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/test/build"
)

// regoLibrary are what admins write about VMs. All of them let the typical VM pass, which is what most admissions
// are, so every one is evaluated to its end.
func regoLibrary() []string {
	return []string{
		`deny contains {"msg": msg, "field": "spec.domain.memory.guest"} if {
			guest := input.vm.spec.domain.memory.guest
			units.parse_bytes(guest) > units.parse_bytes("8Gi")
			msg := sprintf("%s of memory is more than 8Gi", [guest])
		}`,
		`vcpus := cpu.sockets * cpu.cores * cpu.threads if cpu := input.vm.spec.domain.cpu
		deny contains {"msg": sprintf("%d vCPUs are more than 16", [vcpus]), "field": "spec.domain.cpu"} if vcpus > 16`,
		`allowed := ["quay.io/", "registry.local/", "ghcr.io/team/"]
		deny contains {"msg": sprintf("%s comes from a registry that is not allowed", [image]), "field": sprintf("spec.volumes[%d].containerDisk.image", [i])} if {
			some i, volume in input.vm.spec.volumes
			image := volume.containerDisk.image
			not strings.any_prefix_match(image, allowed)
		}`,
		`required := {"app", "team", "cost-centre"}
		deny contains {"msg": sprintf("labels are missing: %s", [concat(", ", missing)]), "field": "metadata.labels"} if {
			missing := required - object.keys(input.vm.metadata.labels)
			count(missing) > 0
		}`,
		`deny contains {"msg": sprintf("network %s is not allowed here", [name]), "field": sprintf("spec.networks[%d]", [i])} if {
			some i, network in input.vm.spec.networks
			name := network.multus.networkName
			not name in {"storage-net", "backup-net"}
		}`,
		`deny contains {"msg": "a manual MAC address needs a permission", "field": sprintf("spec.domain.devices.interfaces[%d].macAddress", [i])} if {
			some i, nic in input.vm.spec.domain.devices.interfaces
			nic.macAddress
		}`,
		`deny contains {"msg": "host devices are not for this namespace", "field": "spec.domain.devices.hostDevices"} if {
			count(input.vm.spec.domain.devices.hostDevices) > 0
			not startswith(input.vm.metadata.namespace, "gpu-")
		}`,
		`deny contains {"msg": sprintf("disk %s is on %s", [disk.name, disk.disk.bus]), "field": sprintf("spec.domain.devices.disks[%d].disk.bus", [i])} if {
			some i, disk in input.vm.spec.domain.devices.disks
			not disk.disk.bus in {"virtio", "scsi", "sata"}
		}`,
		`deny contains {"msg": sprintf("machine type %s is not pinned", [type]), "field": "spec.domain.machine.type"} if {
			type := input.vm.spec.domain.machine.type
			not regex.match("^(pc-)?q35", type)
		}`,
		`warn contains {"msg": "EFI is recommended", "field": "spec.domain.firmware"} if {
			input.vm.spec.domain.firmware.bootloader.bios
		}`,
		`deny contains {"msg": "secrets do not belong into cloud-init", "field": sprintf("spec.volumes[%d]", [i])} if {
			some i, volume in input.vm.spec.volumes
			contains(lower(volume.cloudInitNoCloud.userData), "password")
		}`,
		`deny contains {"msg": "host disks are not allowed", "field": sprintf("spec.volumes[%d].hostDisk", [i])} if {
			some i, volume in input.vm.spec.volumes
			volume.hostDisk
		}`,
		`deny contains {"msg": "dedicated CPUs are for the namespace realtime", "field": "spec.domain.cpu.dedicatedCpuPlacement"} if {
			input.vm.spec.domain.cpu.dedicatedCpuPlacement
			input.vm.metadata.namespace != "realtime"
		}`,
		`deny contains {"msg": "huge pages are for the namespace realtime", "field": "spec.domain.memory.hugepages"} if {
			input.vm.spec.domain.memory.hugepages
			input.vm.metadata.namespace != "realtime"
		}`,
		`deny contains {"msg": sprintf("%d disks are more than 8", [n]), "field": "spec.domain.devices.disks"} if {
			n := count(input.vm.spec.domain.devices.disks)
			n > 8
		}`,
		`names := {v.name | some v in input.vm.spec.volumes}
		deny contains {"msg": sprintf("disk %s has no volume", [d.name]), "field": sprintf("spec.domain.devices.disks[%d]", [i])} if {
			some i, d in input.vm.spec.domain.devices.disks
			not d.name in names
		}`,
		`exempt if {
			some group in input.request.userInfo.groups
			group in {"system:masters", "platform"}
		}
		deny contains {"msg": sprintf("%s may not use this priority class", [input.requester]), "field": "spec.priorityClassName"} if {
			input.vm.spec.priorityClassName == "critical"
			not exempt
		}`,
		`deny contains {"msg": "an image without a tag or with latest", "field": sprintf("spec.volumes[%d].containerDisk.image", [i])} if {
			some i, volume in input.vm.spec.volumes
			parts := split(volume.containerDisk.image, ":")
			unpinned(parts)
		}
		unpinned(parts) if count(parts) == 1
		unpinned(parts) if parts[count(parts) - 1] == "latest"`,
		`deny contains {"msg": sprintf("architecture %s is not in use here", [a]), "field": "spec.architecture"} if {
			a := input.vm.spec.architecture
			not a in input.params.architectures
		}`,
	}
}

// regoModules returns fifty modules: every policy at least twice, under different names.
func regoModules(tb testing.TB) []*rego.Module {
	tb.Helper()
	var modules []*rego.Module
	policies := regoLibrary()
	for i := range 50 {
		name := fmt.Sprintf("policy%d", i)
		m, issues := rego.Compile(name, "package "+name+"\n"+policies[i%len(policies)])
		if len(issues) > 0 {
			tb.Fatal(i, issues)
		}
		modules = append(modules, m)
	}
	return modules
}

// regoDocuments returns the documents of the creation of the typical VM.
func regoDocuments(tb testing.TB) map[string]any {
	tb.Helper()
	typical := build.Typical("db").Label("team", "blue").Label("cost-centre", "42")
	return map[string]any{
		"object": build.VMOf(typical).Obj(), "vm": complete(tb, typical.Obj()), "requester": "alice",
		"request": map[string]any{"operation": "CREATE", "namespace": "default", "userInfo": map[string]any{"username": "alice", "groups": []string{"dev"}}},
		"params":  map[string]any{"architectures": []string{"amd64", "arm64"}},
	}
}

// BenchmarkRego50 is one admission of the typical VM with fifty Rego policies. The documents are converted once.
func BenchmarkRego50(b *testing.B) {
	modules, documents := regoModules(b), regoDocuments(b)
	b.ReportAllocs()
	for b.Loop() {
		in, err := rego.NewInput(documents)
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range modules {
			if found, err := m.Eval(in, rego.Limits{}); err != nil || len(found) > 0 {
				b.Fatal(m.Name(), found, err)
			}
		}
	}
}

// BenchmarkRegoInput is the part of BenchmarkRego50 that converts the documents.
func BenchmarkRegoInput(b *testing.B) {
	documents := regoDocuments(b)
	m, issues := rego.Compile("all", "package all\ndeny contains \"no\" if { input.vm; input.request; input.requester == \"mallory\"; input.params }")
	if len(issues) > 0 {
		b.Fatal(issues)
	}
	b.ReportAllocs()
	for b.Loop() {
		in, err := rego.NewInput(documents)
		if err != nil {
			b.Fatal(err)
		}
		if found, err := m.Eval(in, rego.Limits{}); err != nil || len(found) > 0 {
			b.Fatal(found, err)
		}
	}
}

// BenchmarkRegoCompile is one policy, as when it is created or changed.
func BenchmarkRegoCompile(b *testing.B) {
	policies := regoLibrary()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, issues := rego.Compile("policy", "package policy\n"+policies[i%len(policies)]); len(issues) > 0 {
			b.Fatal(issues)
		}
	}
}
