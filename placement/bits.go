package placement

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// bits are a set of nodes, by their index.
type bits []uint64

func newBits(n int) bits { return make(bits, (n+63)/64) }

func (b bits) add(i int) { b[i/64] |= 1 << (i % 64) }

func (b bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b bits) addAll(other bits) {
	for i := range other {
		b[i] |= other[i]
	}
}

// label is one of a node. A label without a value stands for all values of the key.
type label struct {
	key, value string
	any        bool
}

// maxLabels bounds the labels whose nodes are remembered.
const maxLabels = 4096

// labelled remembers which nodes have a label: nodes have hundreds of labels, and virtual machines ask for the same few.
type labelled struct {
	mu  sync.RWMutex
	all map[label]bits
}

// labelled are the nodes with a label. One that no node has is not remembered: authors can write any number of them.
func (s *Snapshot) labelled(l label) bits {
	s.labels.mu.RLock()
	known, ok := s.labels.all[l]
	s.labels.mu.RUnlock()
	if ok {
		return known
	}
	found, none := newBits(len(s.nodes)), true
	for i := range s.nodes {
		if value, ok := s.nodes[i].label(l.key); ok && (l.any || value == l.value) {
			found.add(i)
			none = false
		}
	}
	if none {
		return found
	}
	s.labels.mu.Lock()
	defer s.labels.mu.Unlock()
	if len(s.labels.all) < maxLabels {
		s.labels.all[l] = found
	}
	return found
}

// maxColumns bounds the resources whose amounts are remembered by node.
const maxColumns = 64

// columns remember what is left of a resource, by the index of the node.
type columns struct {
	mu  sync.RWMutex
	all map[corev1.ResourceName][]int64
}

// left is what is left of a resource on each node.
func (s *Snapshot) left(name corev1.ResourceName) []int64 {
	s.columns.mu.RLock()
	known, ok := s.columns.all[name]
	s.columns.mu.RUnlock()
	if ok {
		return known
	}
	left := make([]int64, len(s.nodes))
	for i := range s.nodes {
		left[i] = s.nodes[i].free(name)
	}
	s.columns.mu.Lock()
	defer s.columns.mu.Unlock()
	if len(s.columns.all) < maxColumns {
		s.columns.all[name] = left
	}
	return left
}
