package migrations

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
)

// Moved is an instance of a node that is drained.
type Moved struct {
	Result
	// To is the node that takes it, after the instances before it have moved; empty if none can.
	To string `json:"to,omitempty"`
	// Displaced reports that a node could take it, had the others not moved there.
	Displaced bool `json:"displaced,omitempty"`
}

// Drain moves the instances of a node, one after the other by namespace and name, to the first node that can take each. The cluster
// is that with the node.
func Drain(node string, machines []Machine, cluster *placement.Cluster, facts *platform.Facts) ([]Moved, error) {
	whole, err := placement.NewSnapshot(cluster)
	if err != nil {
		return nil, err
	}
	rest, err := placement.NewSnapshot(cluster.Without(node))
	if err != nil {
		return nil, err
	}
	here := slices.DeleteFunc(slices.Clone(machines), func(m Machine) bool { return m.VMI.Status.NodeName != node })
	slices.SortFunc(here, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(a.VMI.Namespace, b.VMI.Namespace), cmp.Compare(a.VMI.Name, b.VMI.Name))
	})
	moved := make([]Moved, 0, len(here))
	for i := range here {
		m := &here[i]
		before := Check(m, whole, facts)
		one := Moved{Result: *before}
		switch {
		case lastingly(before.Blockers):
		case len(before.Blockers) > 0 && m.VMI.Status.MigrationState.TargetNode != "":
			one.To = m.VMI.Status.MigrationState.TargetNode // its pod there is one of the cluster
		case m.Pod != nil:
			pod := target(m, whole)
			p := rest.Place(&placement.Subject{Pod: pod, VMI: m.VMI})
			for j := range p.Len() {
				if p.Fits(j) {
					one.To = p.Node(j)
					break
				}
			}
			if one.To != "" {
				rest.Add(placed(pod, m, one.To))
			}
			one.Displaced = one.To == "" && before.TargetCount > 0
		}
		moved = append(moved, one)
	}
	return moved, nil
}

// placed is the pod on its new node.
func placed(pod *corev1.Pod, m *Machine, node string) *corev1.Pod {
	p := pod.DeepCopy()
	p.Name, p.Spec.NodeName = m.Pod.Name+"-moved", node
	return p
}

// Stranded are the instances that no node takes.
func Stranded(moved []Moved) []Moved {
	return slices.DeleteFunc(slices.Clone(moved), func(m Moved) bool { return m.To != "" })
}
