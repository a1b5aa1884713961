package placement

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/launcher"
)

// The labels of virt-handler about the time stamp counter of a node.
const (
	tscLabel         = v1.CPUTimerLabel + "tsc-frequency"
	tscScalableLabel = v1.CPUTimerLabel + "tsc-scalable"
)

// tscTolerance is how much a frequency may differ that a node offers without scaling: 250 parts per million, in QEMU.
const tscTolerance = 4000

// tsc is the frequency of the time stamp counter of a node; 0 if it is not known.
func (n *node) tsc() int64 {
	value, _ := n.label(tscLabel)
	hz, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0
	}
	return max(0, hz)
}

// offersTSC reports whether a guest of the node can have a frequency. virt-controller labels such nodes for frequencies in use.
func (n *node) offersTSC(hz int64) bool {
	own := n.tsc()
	if own == 0 {
		return false
	}
	return near(own, hz) || n.Get(tscScalableLabel) == "true" && hz <= own
}

// near reports whether a counter with the first frequency passes for one with the second.
func near(own, hz int64) bool {
	return max(own-hz, hz-own) <= own/tscTolerance
}

// tscOf is the frequency that a label of nodes names; 0 for another label.
func tscOf(key string) int64 {
	number, ok := strings.CutPrefix(key, launcher.TSCFrequencyLabel)
	if !ok {
		return 0
	}
	hz, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return max(0, hz)
}

// tscs are the frequencies of the time stamp counters of the nodes. They are found when they are first needed.
type tscs struct {
	once sync.Once
	// lowest is that of the nodes on which instances start, several are those that more than one node has, and used those that instances
	// use: the frequencies in labels that no node has itself.
	lowest        int64
	several, used []int64
}

func (s *Snapshot) findTSCs() *tscs {
	s.tscs.once.Do(func() {
		counts, labelled := map[int64]int{}, map[int64]bool{}
		for i := range s.nodes {
			n := &s.nodes[i]
			own := n.tsc()
			if own == 0 {
				continue
			}
			counts[own]++
			if n.takesInstances() && (s.tscs.lowest == 0 || own < s.tscs.lowest) {
				s.tscs.lowest = own
			}
			for _, labels := range []map[string]string{n.Labels, n.shared} {
				for key := range labels {
					if hz := tscOf(key); hz > 0 {
						labelled[hz] = true
					}
				}
			}
		}
		for hz := range labelled {
			if counts[hz] == 0 {
				s.tscs.used = append(s.tscs.used, hz)
			}
		}
		for hz, n := range counts {
			if n > 1 {
				s.tscs.several = append(s.tscs.several, hz)
			}
		}
	})
	return &s.tscs
}

// TSCFrequency is the frequency of the time stamp counter that virt-controller chooses for a new instance that needs a fixed one: one near
// the lowest of the cluster that instances already use, that several nodes have, or the lowest itself. The minimum is that of the
// configuration; nil if it has none. The result is 0 if no node has a known frequency.
func (s *Snapshot) TSCFrequency(minimum *int64) int64 {
	known := s.findTSCs()
	lowest := known.lowest
	if minimum != nil {
		lowest = max(0, *minimum)
	}
	for _, candidates := range [][]int64{known.used, known.several} {
		best := int64(0)
		for _, hz := range candidates {
			if near(lowest, hz) && (best == 0 || hz < best) {
				best = hz
			}
		}
		if best > 0 {
			return best
		}
	}
	return lowest
}

// TopologyHints are those that virt-controller gives to an instance that starts on these nodes: the frequency of its time stamp counter, if
// it needs a fixed one; 0 if no node has one. They are nil for other instances. The minimum is that of the configuration.
func (s *Snapshot) TopologyHints(spec *v1.VirtualMachineInstanceSpec, minimum *int64) *v1.TopologyHints {
	if spec.Architecture != architectures.AMD64 || launcher.TSCField(spec) == "" {
		return nil
	}
	hz := s.TSCFrequency(minimum)
	return &v1.TopologyHints{TSCFrequency: &hz}
}

// takesInstances reports whether KubeVirt starts new instances on the node.
func (n *node) takesInstances() bool {
	return n.Get(v1.NodeSchedulable) == "true" && !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoSchedule })
}
