package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/placement"
)

func tscNodes(t *testing.T, text string) *placement.Snapshot {
	t.Helper()
	var nodes []*corev1.Node
	if err := yaml.UnmarshalStrict([]byte(text), &nodes); err != nil {
		t.Fatal(err)
	}
	s, err := placement.NewSnapshot(&placement.Cluster{Nodes: nodes, Unknown: placement.Nothing()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tscNode is a node of which the counter has a frequency, with more labels.
func tscNode(name, hz, more string) string {
	return `
- metadata: {name: ` + name + `, labels: {kubevirt.io/schedulable: "true", cpu-timer.node.kubevirt.io/tsc-frequency: "` + hz + `"` + more + `}}
  status: {allocatable: {pods: "10"}}`
}

// TestTSCFrequency: the frequency is near the lowest of the cluster, and preferably one that is used or that several nodes have.
func TestTSCFrequency(t *testing.T) {
	const used = `, scheduling.node.kubevirt.io/tsc-frequency-2100400000: "true"`
	minimum := func(hz int64) *int64 { return &hz }
	for name, c := range map[string]struct {
		nodes   string
		minimum *int64
		want    int64
	}{
		"no node":                {nodes: "[]"},
		"no frequency":           {nodes: tscNode("a", "fast", "")},
		"the lowest":             {nodes: tscNode("a", "2900000000", "") + tscNode("b", "2100000000", ""), want: 2100000000},
		"of several":             {nodes: tscNode("a", "2100000000", "") + tscNode("b", "2100100000", "") + tscNode("c", "2100100000", ""), want: 2100100000},
		"of several, far away":   {nodes: tscNode("a", "2100000000", "") + tscNode("b", "2900000000", "") + tscNode("c", "2900000000", ""), want: 2100000000},
		"in use":                 {nodes: tscNode("a", "2100000000", used) + tscNode("b", "2100100000", "") + tscNode("c", "2100100000", ""), want: 2100400000},
		"in use, far away":       {nodes: tscNode("a", "2000000000", "") + tscNode("b", "2900000000", used), want: 2000000000},
		"configured":             {nodes: tscNode("a", "2900000000", ""), minimum: minimum(2000000000), want: 2000000000},
		"not on a cordoned node": {nodes: tscNode("a", "2900000000", "") + tscNode("b", "2100000000", "") + "\n  spec: {unschedulable: true}", want: 2900000000},
	} {
		if got := tscNodes(t, c.nodes).TSCFrequency(c.minimum); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestTSCLabels: a node that can have the frequency lacks the label only until virt-controller sets it; another one lacks it for good.
func TestTSCLabels(t *testing.T) {
	const label = "scheduling.node.kubevirt.io/tsc-frequency-2100000000"
	s := tscNodes(t, tscNode("has", "2100000000", `, `+label+`: "true"`)+tscNode("near", "2100500000", "")+tscNode("far", "2100600000", "")+
		tscNode("scales", "2900000000", `, cpu-timer.node.kubevirt.io/tsc-scalable: "true"`)+tscNode("slow", "2000000000", `, cpu-timer.node.kubevirt.io/tsc-scalable: "true"`)+`
- metadata: {name: unknown}
  status: {allocatable: {pods: "10"}}`)
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{label: "true"}}}
	p := s.Place(&placement.Subject{Pod: pod})
	var got []string
	for i := range p.Len() {
		line := fmt.Sprintf("%s fits %v, could %v", p.Node(i), p.Fits(i), p.Could(i))
		for _, r := range p.Reasons(i) {
			line += ": " + r.Text + "; " + r.Change
		}
		got = append(got, line)
	}
	want := []string{
		"far fits false, could false: the time stamp counter of the node has 2100600000 Hz, and the guest needs 2100000000 Hz; add a node with that frequency",
		"has fits true, could true",
		"near fits false, could true: the node can have a time stamp counter of 2100000000 Hz, but virt-controller has not labelled it yet; wait for virt-controller",
		"scales fits false, could true: the node can have a time stamp counter of 2100000000 Hz, but virt-controller has not labelled it yet; wait for virt-controller",
		"slow fits false, could false: the time stamp counter of the node has 2000000000 Hz, and the guest needs 2100000000 Hz; add a node with that frequency",
		"unknown fits false, could false: the node has no fixed frequency of the time stamp counter, and the guest needs 2100000000 Hz; add a node with that frequency",
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
		t.Error(diff)
	}
	if n, known := p.MoveTargets(false); n != 2 || !known {
		t.Errorf("%d targets, known %v", n, known)
	}
}
