package goldenimages

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedule "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
)

const (
	workerLabel = "node-role.kubernetes.io/worker"
	// windows is the operating system of nodes that run no virtual machine.
	windows = "windows"
	// maxUnknown bounds the architectures that the status lists though they are not supported.
	maxUnknown = 10
)

// controlPlaneLabels are the labels of nodes of the control plane. The second one is that of older clusters.
var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// Survey counts the architectures of the nodes on which virtual machines run, and of those of the control plane. Only a
// node's labels, taints and nodeInfo count. Architectures are trimmed; nodes without one do not count.
func Survey(nodes []corev1.Node, placement *v1alpha1.Placement) v1alpha1.NodeArchitectures {
	counts := survey{workloads: map[string]int32{}, controlPlane: map[string]int32{}, unknown: map[string]int32{}}
	runs := workloads(nodes, placement)
	for i := range nodes {
		counts.add(&nodes[i], runs(&nodes[i]))
	}
	return v1alpha1.NodeArchitectures{
		WorkloadArchitectures: counted(counts.workloads), ControlPlaneArchitectures: counted(counts.controlPlane),
		UnknownArchitectures: first(counted(counts.unknown), maxUnknown),
		DefaultArchitecture:  counts.preferred(slices.Collect(maps.Keys(counts.workloads))),
	}
}

type survey struct{ workloads, controlPlane, unknown map[string]int32 }

func (s *survey) add(node *corev1.Node, workload bool) {
	architecture := strings.TrimSpace(node.Status.NodeInfo.Architecture)
	control := slices.ContainsFunc(controlPlaneLabels, func(label string) bool { return has(node, label) })
	switch {
	case architecture == "" || !workload && !control:
		return
	case !architectures.Known(architecture):
		s.unknown[architecture]++
		return
	}
	if control {
		s.controlPlane[architecture]++
	}
	if workload {
		s.workloads[architecture]++
	}
}

// preferred returns the architecture that most nodes of the control plane have, among those that are eligible. If none
// has one of them, it is the one of most nodes. Of several, it is the first in alphabetical order.
func (s *survey) preferred(eligible []string) string {
	eligible = slices.Sorted(slices.Values(eligible))
	for _, counts := range []map[string]int32{s.controlPlane, s.workloads} {
		best := ""
		for _, architecture := range eligible {
			if counts[architecture] > counts[best] {
				best = architecture
			}
		}
		if best != "" {
			return best
		}
	}
	if len(eligible) > 0 { // the last node has just left
		return eligible[0]
	}
	return ""
}

// surveyOf restores the counts of a survey.
func surveyOf(n *v1alpha1.NodeArchitectures) *survey {
	s := &survey{workloads: map[string]int32{}, controlPlane: map[string]int32{}}
	for _, c := range n.WorkloadArchitectures {
		s.workloads[c.Architecture] = c.Nodes
	}
	for _, c := range n.ControlPlaneArchitectures {
		s.controlPlane[c.Architecture] = c.Nodes
	}
	return s
}

// workloads returns whether a node can run virtual machines.
func workloads(nodes []corev1.Node, placement *v1alpha1.Placement) func(*corev1.Node) bool {
	if placement == nil {
		placement = &v1alpha1.Placement{}
	}
	selects := selection(nodes, placement)
	return func(node *corev1.Node) bool {
		return operatingSystem(node) != windows && tolerated(node.Spec.Taints, placement.Tolerations) && selects(node)
	}
}

func selection(nodes []corev1.Node, p *v1alpha1.Placement) func(*corev1.Node) bool {
	if len(p.NodeSelector) > 0 || p.Affinity != nil && p.Affinity.NodeAffinity != nil && p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		required := nodeaffinity.NewRequiredNodeAffinity(p.NodeSelector, p.Affinity)
		// Terms that cannot be parsed match no node; the others of the affinity do.
		return func(node *corev1.Node) bool { matches, _ := required.Match(node); return matches }
	}
	if slices.ContainsFunc(nodes, func(n corev1.Node) bool { return has(&n, workerLabel) }) {
		return func(node *corev1.Node) bool { return has(node, workerLabel) }
	}
	return func(*corev1.Node) bool { return true }
}

// tolerated reports whether a pod with the tolerations runs on a node with the taints. Taints that Kubernetes itself sets,
// for nodes that are cordoned or not ready, come and go.
func tolerated(taints []corev1.Taint, tolerations []corev1.Toleration) bool {
	lasting := func(t *corev1.Taint) bool {
		return (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute) && !strings.HasPrefix(t.Key, "node.kubernetes.io/")
	}
	_, untolerated := schedule.FindMatchingUntoleratedTaint(logr.Discard(), taints, tolerations, lasting, true)
	return !untolerated
}

func operatingSystem(node *corev1.Node) string {
	if system := node.Status.NodeInfo.OperatingSystem; system != "" {
		return system
	}
	return node.Labels[corev1.LabelOSStable]
}

func has(node *corev1.Node, label string) bool {
	_, found := node.Labels[label]
	return found
}

func counted(counts map[string]int32) []v1alpha1.ArchitectureCount {
	var list []v1alpha1.ArchitectureCount
	for _, architecture := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, v1alpha1.ArchitectureCount{Architecture: architecture, Nodes: counts[architecture]})
	}
	return list
}

func first[T any](list []T, n int) []T { return list[:min(len(list), n)] }
