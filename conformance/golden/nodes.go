package golden

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/goldenimages"
)

// survey is what HCO reports about the nodes.
type survey struct {
	Workloads    []string `json:"workloads"`
	ControlPlane []string `json:"controlPlane"`
	Default      string   `json:"default"`
	Changed      bool     `json:"changed"`
}

func (s *survey) equal(other *survey) bool {
	return slices.Equal(s.Workloads, other.Workloads) && slices.Equal(s.ControlPlane, other.ControlPlane) && s.Default == other.Default
}

func (s *survey) String() string {
	return fmt.Sprintf("workloads %s, control plane %s, default %q", listed(s.Workloads), listed(s.ControlPlane), s.Default)
}

// step is a change of the nodes.
type step struct {
	Nodes             []corev1.Node       `json:"nodes"`
	WorkloadPlacement *v1alpha1.Placement `json:"workloadPlacement"`
}

// nodes surveys the nodes of each step.
func nodes(c *Case) (Outcome, error) {
	var input struct {
		Steps []step `json:"steps"`
	}
	var expect struct {
		Steps []survey `json:"steps"`
	}
	if err := json.Unmarshal(c.Input, &input); err != nil {
		return Outcome{}, fmt.Errorf("input: %w", err)
	}
	if err := json.Unmarshal(c.Expect, &expect); err != nil {
		return Outcome{}, fmt.Errorf("expect: %w", err)
	}
	if len(input.Steps) != len(expect.Steps) {
		return Outcome{}, fmt.Errorf("%d steps, %d answers", len(input.Steps), len(expect.Steps))
	}
	fault := ""
	for i := range input.Steps {
		got, want := surveyed(&input.Steps[i]), &expect.Steps[i]
		if got.equal(want) {
			continue
		}
		corrected, why := correct(&input.Steps[i], want)
		if !got.equal(corrected) || got.equal(want) {
			return different(fmt.Sprintf("step %d: %s, want %s, or by the documented faults %s", i+1, got, want, corrected))
		}
		fault = why
	}
	if fault != "" {
		return better(fault)
	}
	return equal()
}

func surveyed(s *step) *survey {
	found := goldenimages.Survey(s.Nodes, s.WorkloadPlacement)
	names := func(counts []v1alpha1.ArchitectureCount) []string {
		list := []string{}
		for _, c := range counts {
			list = append(list, c.Architecture)
		}
		return list
	}
	return &survey{Workloads: names(found.WorkloadArchitectures), ControlPlane: names(found.ControlPlaneArchitectures), Default: found.DefaultArchitecture}
}

// correct returns the answer of HCO without its documented faults: it counts architectures that KubeVirt does not have,
// nodes of Windows and nodes with taints that are not tolerated, it finds no workload if no node has a role, and of several
// architectures of the control plane it sees the first one only.
func correct(s *step, recorded *survey) (*survey, string) {
	why := "unknown architectures"
	corrected := &survey{ControlPlane: supported(recorded.ControlPlane)}
	if len(recorded.Workloads) == 0 && s.WorkloadPlacement == nil {
		why = "nodes without roles"
		for i := range s.Nodes {
			recorded.Workloads = append(recorded.Workloads, s.Nodes[i].Status.NodeInfo.Architecture)
		}
		slices.Sort(recorded.Workloads)
		recorded.Workloads = slices.Compact(recorded.Workloads)
	}
	corrected.Workloads = slices.DeleteFunc(supported(recorded.Workloads), func(a string) bool {
		excluded := excluded(s, a)
		if excluded {
			why = "taints and Windows"
		}
		return excluded
	})
	corrected.Default = recorded.Default
	if !slices.Contains(corrected.Workloads, recorded.Default) || why == "nodes without roles" || len(corrected.ControlPlane) > 1 {
		corrected.Default = most(s, corrected)
	}
	if len(corrected.ControlPlane) > 1 && slices.Equal(corrected.Workloads, recorded.Workloads) {
		why = "several architectures of the control plane"
	}
	return corrected, why
}

func supported(architectures []string) []string {
	list := []string{}
	for _, a := range architectures {
		if slices.Contains([]string{"amd64", "arm64", "s390x"}, a) {
			list = append(list, a)
		}
	}
	return list
}

// excluded reports whether all nodes of an architecture have a taint that is not tolerated, or run Windows.
func excluded(s *step, architecture string) bool {
	for i := range s.Nodes {
		node := &s.Nodes[i]
		if node.Status.NodeInfo.Architecture == architecture && node.Status.NodeInfo.OperatingSystem != "windows" && (tolerates(s, node) || !member(node, "node-role.kubernetes.io/worker")) {
			return false
		}
	}
	return true
}

func tolerates(s *step, node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || taint.Key == corev1.TaintNodeUnschedulable || taint.Key == corev1.TaintNodeNotReady {
			continue
		}
		if s.WorkloadPlacement == nil || !slices.ContainsFunc(s.WorkloadPlacement.Tolerations, func(t corev1.Toleration) bool { return t.Key == taint.Key || t.Key == "" }) {
			return false
		}
	}
	return true
}

func member(node *corev1.Node, label string) bool { _, found := node.Labels[label]; return found }

// most is the architecture of the control plane that virtual machines run on, or the one of most nodes.
func most(s *step, of *survey) string {
	count := func(architecture string, role ...string) (n int) {
		for i := range s.Nodes {
			if s.Nodes[i].Status.NodeInfo.Architecture == architecture && (len(role) == 0 || slices.ContainsFunc(role, func(r string) bool { return member(&s.Nodes[i], r) })) {
				n++
			}
		}
		return n
	}
	best, nodes := "", 0
	for _, a := range of.Workloads {
		if n := count(a, "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"); n > nodes {
			best, nodes = a, n
		}
	}
	if best != "" {
		return best
	}
	for _, a := range of.Workloads {
		if n := count(a); n > nodes {
			best, nodes = a, n
		}
	}
	return best
}
