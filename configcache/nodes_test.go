package configcache

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/test/isolated"
)

// labelledNode is a node with as many labels as those of KubeVirt, of one of 4 kinds of machines.
func labelledNode(i int) *corev1.Node {
	name := fmt.Sprintf("worker-%05d.cluster.example.com", i)
	node := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"a": "b"}, Labels: map[string]string{
			"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": fmt.Sprint("zone-", i%3),
			"topology.kubernetes.io/region": "here", "node.kubernetes.io/instance-type": "m.large", "instance-id": fmt.Sprint("i-", i), "disk": "ssd",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "dedicated", Value: "vms", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				"cpu": resource.MustParse("64"), "memory": *resource.NewQuantity(256<<30+int64(i)<<12, resource.BinarySI), "pods": resource.MustParse("250"), "ephemeral-storage": resource.MustParse("1Ti"),
				"hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("0"), "devices.kubevirt.io/kvm": resource.MustParse("1k"),
				"devices.kubevirt.io/tun": resource.MustParse("1k"), "devices.kubevirt.io/vhost-net": resource.MustParse("1k"),
			},
			Images: []corev1.ContainerImage{{Names: []string{"a"}}},
		},
	}
	for f := range 150 {
		if f%4 != i%4 {
			node.Labels[fmt.Sprint("cpu-feature.node.kubevirt.io/feature-", f)] = "true"
		}
	}
	return node
}

func untyped(t testing.TB, object any) *unstructured.Unstructured {
	t.Helper()
	fields, err := kruntime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: fields}
}

// filled are nodes in a cache that does not watch.
func filled(t testing.TB, limit int64, count int, tooMany func(all, kept int)) *Nodes {
	t.Helper()
	n, err := newNodes(fake.NewSimpleDynamicClient(kruntime.NewScheme()), limit, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), tooMany)
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		kept, err := n.keep(untyped(t, labelledNode(i)))
		if err == nil {
			err = n.informer.GetStore().Add(kept)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestNodesAreBounded: 5,000 nodes fit, take less than they are counted for, and are found by all of their labels.
func TestNodesAreBounded(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	before := isolated.Heap()
	n := filled(t, MaxNodes, 5000, func(all, kept int) { t.Errorf("%d of %d nodes are kept", kept, all) })
	first, second := n.build(), n.build()
	used, counted := isolated.Heap()-before, n.budget.Used()
	t.Logf("%d KiB, counted %d KiB, %d sets of labels", used>>10, counted>>10, len(n.shared))
	if first == nil || second == nil || used > counted {
		t.Errorf("the nodes take %d bytes, and are counted as %d", used, counted)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"cpu-feature.node.kubevirt.io/feature-7": "true", "topology.kubernetes.io/zone": "zone-1"},
		Tolerations:  []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
	}}
	placed := first.Place(&placement.Subject{Pod: pod})
	if placed.Len() != 5000 || placed.Fitting() != 1250 || placed.Never() {
		t.Errorf("%d of %d nodes fit", placed.Fitting(), placed.Len())
	}
	pod.Spec.NodeSelector["instance-id"] = "i-3"
	if placed := first.Place(&placement.Subject{Pod: pod}); placed.Fitting() != 0 || !placed.Never() {
		t.Errorf("%d nodes fit", placed.Fitting())
	}
	runtime.KeepAlive(n)
}

// TestTooManyNodes: nodes beyond the bound are reported once, and then nothing is said of any.
func TestTooManyNodes(t *testing.T) {
	var reports []string
	n := filled(t, 64<<10, 100, func(all, kept int) { reports = append(reports, fmt.Sprint(all, kept > 0 && kept < all)) })
	first, second := n.build(), n.build()
	if first != nil || second != nil || len(reports) != 1 || reports[0] != "100 true" {
		t.Errorf("reports: %v", reports)
	}
	if used := n.budget.Used(); used > 64<<10 {
		t.Errorf("%d bytes are used", used)
	}
	for _, object := range n.informer.GetStore().List()[10:] {
		_ = n.informer.GetStore().Delete(object)
		n.budget.Set(object.(*keptNode).Name, 0)
	}
	for i := range 10 {
		kept, _ := n.keep(untyped(t, labelledNode(i)))
		_ = n.informer.GetStore().Update(kept)
	}
	n.forget()
	if len(n.shared) > 4 {
		t.Errorf("%d sets of labels", len(n.shared))
	}
}

// TestNodesChange: what no placement reads changes nothing.
func TestNodesChange(t *testing.T) {
	n := filled(t, MaxNodes, 0, nil)
	of := func(change func(*corev1.Node)) any {
		node := labelledNode(1)
		change(node)
		kept, err := n.keep(untyped(t, node))
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	was := of(func(*corev1.Node) {})
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		same   bool
	}{
		"a condition": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready"}}
			n.ResourceVersion = "2"
		}, true},
		"own label":    {func(n *corev1.Node) { n.Labels["disk"] = "hdd" }, false},
		"shared label": {func(n *corev1.Node) { n.Labels["gpu"] = "true" }, false},
		"allocatable":  {func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("8") }, false},
		"taint":        {func(n *corev1.Node) { n.Spec.Taints = nil }, false},
	} {
		if got := sameNode(was, of(c.change)); got != c.same {
			t.Errorf("%s: same is %t", name, got)
		}
	}
}
