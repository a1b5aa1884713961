package migrations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/migrations"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	one := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), one); err != nil {
		t.Fatal(err)
	}
	return one
}

func TestBlockers(t *testing.T) {
	facts := platform.Defaults(platform.Settings{})
	for _, c := range []struct{ name, vmi, want string }{
		{"nothing", `{spec: {networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}}, status: {conditions: [{type: LiveMigratable, status: "True"}]}}`, ""},
		{
			"a claim", `{spec: {volumes: [{name: c, containerDisk: {image: x}}, {name: d, dataVolume: {name: root}}]}, status: {volumeStatus: [{name: d, persistentVolumeClaimInfo: {claimName: root, accessModes: [ReadWriteOnce]}}], conditions: [{type: LiveMigratable, status: "False", reason: DisksNotLiveMigratable, message: same}]}}`,
			"DisksNotLiveMigratable spec.volumes[1]: the claim root of the volume d is not ReadWriteMany",
		},
		{"a shared claim", `{spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: root}}]}, status: {volumeStatus: [{name: d, persistentVolumeClaimInfo: {claimName: root, accessModes: [ReadWriteMany]}}]}}`, ""},
		{"a file of the node", `{spec: {volumes: [{name: d, hostDisk: {path: /x, type: Disk}}]}}`, "DisksNotLiveMigratable spec.volumes[0]: the disk d is a file of the node"},
		{"a bridge", `{spec: {networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, bridge: {}}]}}}}`, "InterfaceNotLiveMigratable spec.domain.devices.interfaces[0]: the interface a connects the pod network with a bridge"},
		{"a bridge that may move", `{metadata: {annotations: {kubevirt.io/allow-pod-bridge-network-live-migration: ""}}, spec: {networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, bridge: {}}]}}}}`, ""},
		{"a bridge to another network", `{spec: {networks: [{name: a, multus: {networkName: office}}], domain: {devices: {interfaces: [{name: a, bridge: {}}]}}}}`, ""},
		{"a plugin", `{spec: {domain: {devices: {interfaces: [{name: a, binding: {name: passt}}]}}}}`, "InterfaceNotLiveMigratable spec.domain.devices.interfaces[0]: the network binding plugin passt of the interface a does not support migration"},
		{
			"devices", `{spec: {domain: {launchSecurity: {sev: {}}, devices: {hostDevices: [{name: h, deviceName: e/h}], disks: [{name: d, lun: {reservation: true}}]}, features: {hypervPassthrough: {}}, cpu: {model: host-passthrough}}}}`,
			"HostDeviceNotLiveMigratable spec.domain.devices.hostDevices[0]: it has the host device e/h\nSEVNotLiveMigratable spec.domain.launchSecurity: its memory is encrypted by the node with SEV\nPersistentReservationNotLiveMigratable spec.domain.devices.disks[0].lun.reservation: the disk d has SCSI reservations\nHypervPassthroughNotLiveMigratable spec.domain.features.hypervPassthrough: it takes the Hyper-V features of its node\nCPUModeLiveMigratable spec.domain.cpu.model: it has the CPU of its node, which other nodes need not have",
		},
		{"a GPU", `{spec: {domain: {devices: {gpus: [{name: g, deviceName: e/g}]}}}}`, "HostDeviceNotLiveMigratable spec.domain.devices.gpus[0]: it has the GPU e/g"},
		{"SNP", `{spec: {domain: {launchSecurity: {snp: {}}}}}`, "SEVNotLiveMigratable spec.domain.launchSecurity: its memory is encrypted by the node with SEV"},
		{"TDX", `{spec: {domain: {launchSecurity: {tdx: {}}}}}`, "TDXNotLiveMigratable spec.domain.launchSecurity: its memory is encrypted by the node with TDX"},
		{"Secure Execution", `{spec: {architecture: s390x, domain: {launchSecurity: {}}}}`, "SecureExecutionNotLiveMigratable spec.domain.launchSecurity: its memory is encrypted by the node with Secure Execution"},
		{"no encryption", `{spec: {architecture: amd64, domain: {launchSecurity: {}}}}`, ""},
		{"reenlightenment", `{spec: {domain: {features: {hyperv: {reenlightenment: {enabled: true}}}}}}`, "NoTSCFrequencyNotLiveMigratable spec.domain.features.hyperv.reenlightenment: it needs a fixed frequency of the time stamp counter, which no node had when it started"},
		{"no reenlightenment", `{spec: {domain: {features: {hyperv: {reenlightenment: {enabled: false}}}}}}`, ""},
		{"a frequency", `{spec: {domain: {features: {hyperv: {reenlightenment: {enabled: true}}}}}, status: {topologyHints: {tscFrequency: 2100000000}}}`, ""},
		{"a frequency of zero", `{spec: {domain: {cpu: {features: [{name: invtsc, policy: require}]}}}, status: {topologyHints: {tscFrequency: 0}}}`, "NoTSCFrequencyNotLiveMigratable spec.domain.cpu.features: it needs a fixed frequency of the time stamp counter, which no node had when it started"},
		{"a migration", `{status: {migrationState: {migrationUid: m, targetNode: b}}}`, "MigrationInProgress status.migrationState: it migrates already to b"},
		{"a migration that failed", `{status: {migrationState: {migrationUid: m, targetNode: b, failed: true}}}`, ""},
		{"a migration that completed", `{status: {migrationState: {migrationUid: m, targetNode: b, completed: true}}}`, ""},
		{
			"a migration of a volume", `{spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: new}}]}, status: {volumeStatus: [{name: d, persistentVolumeClaimInfo: {claimName: new, accessModes: [ReadWriteOnce]}}], migratedVolumes: [{volumeName: d, sourcePVCInfo: {claimName: old}, destinationPVCInfo: {claimName: new}}], migrationState: {migrationUid: m}}}`,
			"MigrationInProgress status.migrationState: it migrates already, with 1 volume",
		},
		{
			"a volume that stays", `{spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: new}}, {name: e, persistentVolumeClaim: {claimName: stays}}]}, status: {volumeStatus: [{name: e, persistentVolumeClaimInfo: {claimName: stays, accessModes: [ReadWriteOnce]}}], migratedVolumes: [{volumeName: d, destinationPVCInfo: {claimName: new}}]}}`,
			"DisksNotLiveMigratable spec.volumes[1]: the claim stays of the volume e is not ReadWriteMany",
		},
		{"only the condition", `{status: {conditions: [{type: LiveMigratable, status: "False", reason: HotplugNotLiveMigratable, message: no hotplug}]}}`, "HotplugNotLiveMigratable : KubeVirt says: no hotplug"},
	} {
		var lines []string
		for _, b := range migrations.Blockers(&migrations.Machine{VMI: read[v1.VirtualMachineInstance](t, c.vmi)}, facts) {
			lines = append(lines, fmt.Sprintf("%s %s: %s", b.Reason, b.Field, b.Text))
		}
		if diff := cmp.Diff(c.want, strings.Join(lines, "\n")); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

const nodes = `
- metadata: {name: a, labels: {kubernetes.io/hostname: a, host-model-cpu.node.kubevirt.io/Haswell: "true", host-model-required-features.node.kubevirt.io/aes: "true", cpu-model.node.kubevirt.io/Haswell: "true", cpu-model.node.kubevirt.io/Penryn: "true"}}
  status: {allocatable: {memory: 16Gi, pods: "10"}}
- metadata: {name: b, labels: {kubernetes.io/hostname: b, cpu-model-migration.node.kubevirt.io/Haswell: "true", cpu-feature.node.kubevirt.io/aes: "true", cpu-model.node.kubevirt.io/Haswell-noTSX: "true", cpu-model.node.kubevirt.io/Penryn: "true"}}
  status: {allocatable: {memory: 3Gi, pods: "10"}}
- metadata: {name: c, labels: {kubernetes.io/hostname: c}}
  status: {allocatable: {memory: 16Gi, pods: "10"}}
`

// machine is one with 2Gi of memory on the node a.
func machine(t *testing.T, name, spec string) migrations.Machine {
	t.Helper()
	return migrations.Machine{
		VMI: read[v1.VirtualMachineInstance](t, `{metadata: {namespace: shop, name: `+name+`, uid: uid-`+name+`}, spec: `+spec+`, status: {nodeName: a}}`),
		Pod: read[corev1.Pod](t, `{metadata: {namespace: shop, name: virt-launcher-`+name+`, labels: {kubevirt.io/created-by: uid-`+name+`}}, spec: {nodeName: a, containers: [{name: compute, resources: {requests: {memory: 2Gi}}}]}}`),
	}
}

func cluster(t *testing.T, machines ...migrations.Machine) *placement.Cluster {
	t.Helper()
	c := &placement.Cluster{}
	if err := yaml.UnmarshalStrict([]byte(nodes), &c.Nodes); err != nil {
		t.Fatal(err)
	}
	for _, m := range machines {
		c.Pods = append(c.Pods, m.Pod)
	}
	return c
}

// TestDeviceClaims: an instance moves only to nodes on which the devices of its ResourceClaims are.
func TestDeviceClaims(t *testing.T) {
	m := machine(t, "db", `{domain: {cpu: {model: Penryn}}, resourceClaims: [{name: a, resourceClaimName: fpga}]}`)
	m.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: new("fpga")}}
	for nodes, want := range map[string]string{
		"{allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}}}":                  "[] []",
		"{allocation: {nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: [b]}]}]}}}": "[c] []",
		"{allocation: {}}": "[b c] []",
		"{}":               "[b c] [the ResourceClaim fpga]",
	} {
		of := cluster(t, m)
		of.DeviceClaims = []*resourcev1.ResourceClaim{read[resourcev1.ResourceClaim](t, "{metadata: {namespace: shop, name: fpga}, status: "+nodes+"}")}
		snapshot, err := placement.NewSnapshot(of)
		if err != nil {
			t.Fatal(err)
		}
		r := migrations.Check(&m, snapshot, platform.Defaults(platform.Settings{}))
		if got := fmt.Sprint(r.Targets, " ", r.NotChecked); got != want {
			t.Errorf("%s: %s, want %s", nodes, got, want)
		}
	}
}

// TestTargets: a guest with the CPU model of the host moves only to nodes that can take it, and never to its own.
func TestTargets(t *testing.T) {
	facts := platform.Defaults(platform.Settings{})
	for spec, want := range map[string]string{`{domain: {cpu: {model: host-model}}}`: "[b]", `{domain: {cpu: {model: Penryn}}}`: "[b c]"} {
		m := machine(t, "db", spec)
		s, err := placement.NewSnapshot(cluster(t, m))
		if err != nil {
			t.Fatal(err)
		}
		r := migrations.Check(&m, s, facts)
		if got := fmt.Sprint(r.Targets); got != want || !r.Migratable() || r.TargetCount != len(r.Targets) || r.EvictionStrategy != v1.EvictionStrategyNone {
			t.Errorf("%s: %s, %+v", spec, got, r)
		}
		if m.Pod.Spec.NodeName != "a" || m.Pod.Spec.Affinity != nil {
			t.Error("the pod was changed")
		}
	}
}

// TestDrain: of two machines, the only node has room for one.
func TestDrain(t *testing.T) {
	facts := platform.Defaults(platform.Settings{})
	first, second, third := machine(t, "first", `{domain: {}}`), machine(t, "second", `{domain: {}}`), machine(t, "third", `{domain: {devices: {gpus: [{name: g, deviceName: e/g}]}}}`)
	moved, err := migrations.Drain("a", []migrations.Machine{third, second, first}, cluster(t, first, second, third), facts)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range moved {
		got = append(got, fmt.Sprintf("%s to %q, displaced %v, %d blockers", m.Name, m.To, m.Displaced, len(m.Blockers)))
	}
	want := []string{`first to "b", displaced false, 0 blockers`, `second to "", displaced true, 0 blockers`, `third to "", displaced false, 1 blockers`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if stranded := migrations.Stranded(moved); len(stranded) != 2 || stranded[0].Name != "second" {
		t.Errorf("stranded are %v", stranded)
	}
}

// TestDrainOfMigrating: an instance that migrates already goes where its migration goes, and one without a target to a node with room.
func TestDrainOfMigrating(t *testing.T) {
	facts := platform.Defaults(platform.Settings{})
	first, second := machine(t, "first", `{domain: {}}`), machine(t, "second", `{domain: {}}`)
	first.VMI.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{MigrationUID: "m", TargetNode: "c"}
	second.VMI.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{MigrationUID: "n"}
	moved, err := migrations.Drain("a", []migrations.Machine{first, second}, cluster(t, first, second), facts)
	if err != nil {
		t.Fatal(err)
	}
	if len(moved) != 2 || moved[0].To != "c" || moved[1].To != "b" || moved[0].Migratable() {
		t.Errorf("moved: %+v", moved)
	}
	n, err := migrations.Targets(&first, facts, func(bool) (int, bool, error) { return 2, true, nil })
	if n != 2 || err != nil {
		t.Errorf("%d targets, %v", n, err)
	}
}

// TestCopiedVolumes: the pod on the target has the claims to which volumes are copied, not those of the source.
func TestCopiedVolumes(t *testing.T) {
	m := machine(t, "db", `{domain: {cpu: {model: Penryn}}, volumes: [{name: d, persistentVolumeClaim: {claimName: new}}]}`)
	m.Pod.Spec.Volumes = read[corev1.PodSpec](t, `{containers: [], volumes: [{name: d, persistentVolumeClaim: {claimName: old}}]}`).Volumes
	c := cluster(t, m)
	for _, name := range []string{"old", "new"} {
		c.Claims = append(c.Claims, read[corev1.PersistentVolumeClaim](t, `{metadata: {namespace: shop, name: `+name+`, annotations: {pv.kubernetes.io/bind-completed: "yes"}}, spec: {accessModes: [ReadWriteOnce], volumeName: pv-`+name+`}, status: {phase: Bound}}`))
		c.Volumes = append(c.Volumes, read[corev1.PersistentVolume](t, `{metadata: {name: pv-`+name+`}}`))
	}
	s, err := placement.NewSnapshot(c)
	if err != nil {
		t.Fatal(err)
	}
	facts := platform.Defaults(platform.Settings{})
	if r := migrations.Check(&m, s, facts); r.TargetCount != 0 || r.Groups[0].Kind != placement.AttachedElsewhere {
		t.Errorf("without a migration of volumes: %+v", r)
	}
	m.VMI.Status.MigratedVolumes = []v1.StorageMigratedVolumeInfo{{VolumeName: "d", DestinationPVCInfo: &v1.PersistentVolumeClaimInfo{ClaimName: "new"}}}
	if r := migrations.Check(&m, s, facts); fmt.Sprint(r.Targets) != "[b c]" || !r.Migratable() {
		t.Errorf("with it: %+v", r)
	}
}

func TestModels(t *testing.T) {
	c := cluster(t)
	both := migrations.CommonModels([]map[string]string{c.Nodes[0].Labels, c.Nodes[1].Labels})
	if diff := cmp.Diff([]string{"Penryn"}, both); diff != "" {
		t.Error(diff)
	}
	if none := migrations.CommonModels(nil); len(none) != 0 {
		t.Errorf("no nodes have %v in common", none)
	}
	for want, models := range map[string][]string{"": {"unknown"}, "Haswell": {"Haswell-noTSX", "Haswell", "Penryn"}, "EPYC-Rome": {"EPYC", "EPYC-Rome", "Opteron_G5"}, "Skylake-Client-IBRS": {"Broadwell", "Skylake-Client-IBRS"}} {
		if got := migrations.Highest(models); got != want {
			t.Errorf("of %v, the highest is %q", models, got)
		}
	}
}
