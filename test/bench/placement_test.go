package bench

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/placement"
)

// nodeWithLabels is a node with as many labels as virt-handler sets.
func nodeWithLabels(i int) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d", i), Labels: map[string]string{"kubevirt.io/schedulable": "true", "kubernetes.io/arch": "amd64"}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("250"), "ephemeral-storage": resource.MustParse("1Ti"),
			"devices.kubevirt.io/kvm": resource.MustParse("1k"), "devices.kubevirt.io/tun": resource.MustParse("1k"), "devices.kubevirt.io/vhost-net": resource.MustParse("1k"),
		}},
	}
	for f := range 120 {
		n.Labels[fmt.Sprint("cpu-feature.node.kubevirt.io/feature-", f)] = "true"
	}
	return n
}

// BenchmarkPlacement checks 5000 nodes, half of which cannot run the VM.
func BenchmarkPlacement(b *testing.B) {
	in := rollout(b)
	rendered, err := launcher.Render(&launcher.Input{VMI: launcher.Started(in.Running, in.Facts), Facts: in.Facts, Renderer: launcher.NewBaseRenderer(in.Running.Spec.Architecture)})
	if err != nil {
		b.Fatal(err)
	}
	cluster := &placement.Cluster{}
	for i := range 5000 {
		n := nodeWithLabels(i)
		for key, value := range rendered.Pod.Spec.NodeSelector {
			if i%2 == 0 {
				n.Labels[key] = value
			}
		}
		cluster.Nodes = append(cluster.Nodes, n)
	}
	snapshot, err := placement.NewSnapshot(cluster)
	if err != nil {
		b.Fatal(err)
	}
	subject := &placement.Subject{Pod: rendered.Pod, Launcher: rendered, VMI: in.Running}
	b.ReportAllocs()
	for b.Loop() {
		p := snapshot.Place(subject)
		if p.Fitting() != 2500 {
			b.Fatal(p.Fitting(), p.Reasons(0))
		}
	}
}
