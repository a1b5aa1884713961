package placement

import (
	"maps"
	mathbits "math/bits"
	"slices"
	"strings"
	"sync"

	v1 "kubevirt.io/api/core/v1"
)

// HostModelDemands are the labels that a node needs to take a guest with the CPU model of its host, of the labels of that host. Each
// has the value true.
func HostModelDemands(host map[string]string) map[string]string {
	demands := map[string]string{}
	addHostModelDemands(demands, host)
	return demands
}

func addHostModelDemands(demands, host map[string]string) {
	for key := range host {
		if model, ok := strings.CutPrefix(key, v1.HostModelCPULabel); ok {
			demands[v1.SupportedHostModelMigrationCPU+model] = "true"
		}
		if feature, ok := strings.CutPrefix(key, v1.HostModelRequiredFeaturesLabel); ok {
			demands[v1.CPUFeatureLabel+feature] = "true"
		}
	}
}

// maxHostModels bounds the kinds of hosts that are distinguished. Processors of one kind have one.
const maxHostModels = 256

// hostModel is a kind of host: hosts are the nodes that demand the same of a node that takes their guests, and takers those that can.
type hostModel struct{ hosts, takers bits }

// hostModels are found when they are first needed.
type hostModels struct {
	once  sync.Once
	kinds []hostModel
	many  bool
}

// hostModelKinds are the kinds of hosts; false if there are more than maxHostModels.
func (s *Snapshot) hostModelKinds() ([]hostModel, bool) {
	s.hosts.once.Do(func() {
		byDemand := map[string]int{}
		var demands []map[string]string
		for i := range s.nodes {
			n := &s.nodes[i]
			one := HostModelDemands(n.Labels)
			addHostModelDemands(one, n.shared)
			key := strings.Join(slices.Sorted(maps.Keys(one)), ",")
			at, known := byDemand[key]
			if !known {
				if len(s.hosts.kinds) == maxHostModels {
					s.hosts.kinds, s.hosts.many = nil, true
					return
				}
				at = len(s.hosts.kinds)
				byDemand[key] = at
				demands = append(demands, one)
				s.hosts.kinds = append(s.hosts.kinds, hostModel{hosts: newBits(len(s.nodes)), takers: newBits(len(s.nodes))})
			}
			s.hosts.kinds[at].hosts.add(i)
		}
		for k := range s.hosts.kinds {
			for i := range s.nodes {
				if s.nodes[i].hasAll(demands[k]) {
					s.hosts.kinds[k].takers.add(i)
				}
			}
		}
	})
	return s.hosts.kinds, !s.hosts.many
}

func (n *node) hasAll(demands map[string]string) bool {
	for key, value := range demands {
		if have, ok := n.label(key); !ok || have != value {
			return false
		}
	}
	return true
}

// Could reports whether a node could run the pod if nothing else ran there: it fails no check that does not depend on load.
func (p *Placement) Could(i int) bool {
	return !slices.ContainsFunc(p.failed[p.starts[i]:p.starts[i+1]], func(j uint16) bool { return p.checks[j].lasts(&p.snapshot.nodes[i]) })
}

// MoveTargets is the number of other nodes that could take the guest of the pod, if nothing else ran there. The guest can start on each
// node that could run it: the number is that of the node from which the fewest take it. A guest with the CPU model of its host moves to
// nodes that support that model. The result is false if the nodes have too many kinds of CPUs.
func (p *Placement) MoveTargets(ofHost bool) (int, bool) {
	could := newBits(p.Len())
	for i := range p.Len() {
		if p.Could(i) {
			could.add(i)
		}
	}
	if !ofHost {
		return max(0, could.count()-1), true
	}
	kinds, known := p.snapshot.hostModelKinds()
	if !known {
		return 0, false
	}
	fewest := -1
	for _, k := range kinds {
		starts := could.and(k.hosts)
		if starts.count() == 0 {
			continue
		}
		takers := could.and(k.takers)
		n := takers.count()
		if starts.and(k.takers).count() == starts.count() {
			n-- // the host itself
		}
		if fewest < 0 || n < fewest {
			fewest = n
		}
	}
	return max(0, fewest), true
}

func (b bits) and(other bits) bits {
	both := make(bits, len(b))
	for i := range b {
		both[i] = b[i] & other[i]
	}
	return both
}

func (b bits) count() int {
	n := 0
	for _, word := range b {
		n += mathbits.OnesCount64(word)
	}
	return n
}
