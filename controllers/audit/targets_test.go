package audit

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/reports"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/test/build"
)

// capable are nodes that could run an instance of the CPU model Haswell; only the first two are for Penryn too.
func capable(t testing.TB, count int) *placement.Snapshot {
	t.Helper()
	const text = `
metadata: {labels: {kubernetes.io/arch: amd64, kubevirt.io/schedulable: "true", machine-type.node.kubevirt.io/q35: "true", cpu-model.node.kubevirt.io/Haswell: "true"}}
status: {allocatable: {cpu: "8", memory: 16Gi, ephemeral-storage: 100Gi, pods: "110", devices.kubevirt.io/kvm: 1k, devices.kubevirt.io/tun: 1k, devices.kubevirt.io/vhost-net: 1k}}
`
	cluster := &placement.Cluster{Unknown: placement.Nothing()}
	for i := range count {
		node := &corev1.Node{}
		if i == 0 || i == 1 {
			if err := yaml.UnmarshalStrict([]byte(text), node); err != nil {
				t.Fatal(err)
			}
			node.Labels[v1.CPUModelLabel+"Penryn"] = "true"
		} else {
			node = cluster.Nodes[0].DeepCopy()
			delete(node.Labels, v1.CPUModelLabel+"Penryn")
		}
		node.Name = fmt.Sprint("node-", i)
		cluster.Nodes = append(cluster.Nodes, node)
	}
	snapshot, err := placement.NewSnapshot(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// instance is one that runs.
func instance(name, cpu string) *v1.VirtualMachineInstance {
	vmi := build.VMI(name).Namespace("shop").Memory("1Gi").Obj()
	vmi.Spec.Domain.CPU = &v1.CPU{Model: cpu}
	vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface()}
	vmi.Status.Phase, vmi.Status.NodeName = v1.Running, "node-0"
	return vmi
}

// TestMigrationTargets: the metric counts running instances by how many nodes could receive them, and their results have it too.
func TestMigrationTargets(t *testing.T) {
	s := newScene(t, map[string]string{"all": `{enforcement: Audit, validations: [{expression: "false", message: no}]}`})
	const kind = "VirtualMachineInstance"
	disk := func(vmi *v1.VirtualMachineInstance, modes ...corev1.PersistentVolumeAccessMode) *v1.VirtualMachineInstance {
		vmi.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "root"}}}}
		if len(modes) > 0 {
			vmi.Status.VolumeStatus = []v1.VolumeStatus{{Name: "d", PersistentVolumeClaimInfo: &v1.PersistentVolumeClaimInfo{ClaimName: "root", AccessModes: modes}}}
		}
		return vmi
	}
	said := instance("kubevirt-says", "Haswell")
	said.Status.Conditions = []v1.VirtualMachineInstanceCondition{{Type: v1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionFalse, Reason: v1.VirtualMachineInstanceReasonNoTSCFrequencyMigratable}}
	waits := instance("waits", "Haswell")
	waits.Status.Phase = v1.Scheduling
	for _, vmi := range []*v1.VirtualMachineInstance{
		instance("haswell", "Haswell"), instance("penryn", "Penryn"), instance("epyc", "EPYC"), disk(instance("local", "Haswell"), corev1.ReadWriteOnce),
		disk(instance("shared", "Haswell"), corev1.ReadWriteMany), disk(instance("no-status", "Haswell")), said, waits,
	} {
		s.cluster.put(t, vmi, kind)
	}
	removed := s.cluster.put(t, instance("removed", "EPYC"), kind)

	s.round(t)
	const metric = "virtward_instances_by_migration_targets"
	equal(t, "without nodes", map[string]float64{}, s.metric(t, metric))
	s.nodes = capable(t, 4)
	s.clock.Step(time.Hour)
	s.round(t)
	equal(t, "instances", map[string]float64{"none": 4, "one": 1, "several": 2, "unknown": 1}, s.metric(t, metric))
	got := map[string]string{}
	for _, r := range s.shelf.all["shop"].Results {
		if r.Policy == "all" {
			got[r.Subjects[0].Name] = r.Properties[reports.TargetsProperty]
		}
	}
	equal(t, "results", map[string]string{
		"haswell": "some", "penryn": "some", "epyc": "none", "local": "none", "shared": "some", "no-status": "unknown", "kubevirt-says": "none", "waits": "", "removed": "none",
	}, got)

	delete(s.cluster.objects, removed)
	s.do(t.Context(), task{keys: []auditresults.Key{removed}, publish: true})
	equal(t, "one is gone", map[string]float64{"none": 3, "one": 1, "several": 2, "unknown": 1}, s.metric(t, metric))
}

// TestCostOfMigrationTargets: with 5,000 nodes, instances of few shapes cost little more than without nodes. It prints the figures.
func TestCostOfMigrationTargets(t *testing.T) {
	const instances = 2000
	s := newScene(t, nil)
	for i := range instances {
		s.cluster.put(t, instance(fmt.Sprintf("vm-%04d", i), "Haswell"), "VirtualMachineInstance")
	}
	took := func() time.Duration {
		began := time.Now()
		s.clock.Step(time.Hour)
		s.round(t)
		return time.Since(began)
	}
	took()
	without := took()
	s.nodes = capable(t, 5000)
	with := took()
	t.Logf("%d instances: %v without nodes, %v with 5,000", instances, without, with)
	equal(t, "instances", map[string]float64{"none": 0, "one": 0, "several": instances, "unknown": 0}, s.metric(t, "virtward_instances_by_migration_targets"))
	if with > 4*without+time.Second {
		t.Errorf("%v with nodes, %v without", with, without)
	}
}
