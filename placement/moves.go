package placement

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// The remembered answers of Moves.
const (
	maxMoves = 4096
	// MaxMovesBytes is the most memory that they take: each has 48 bytes, in a map that grows by doubling.
	MaxMovesBytes = maxMoves * 200
)

// moves are the answers of Moves, by the digest of a shape.
type moves struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]moved
}

type moved struct {
	n     int
	known bool
}

// shape is everything of a pod that decides on which empty nodes it can run.
type shape struct {
	NodeName     string
	NodeSelector map[string]string
	Affinity     *corev1.Affinity
	Tolerations  []corev1.Toleration
	Spread       []corev1.TopologySpreadConstraint
	Overhead     corev1.ResourceList
	Pod          *corev1.ResourceRequirements
	Containers   []corev1.ResourceRequirements
	First        []corev1.ResourceRequirements
	OfHost       bool
}

func shapeOf(p *corev1.Pod, ofHost bool) ([sha256.Size]byte, error) {
	spec := &p.Spec
	s := shape{
		NodeName: spec.NodeName, NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations, Spread: spec.TopologySpreadConstraints,
		Overhead: spec.Overhead, Pod: spec.Resources, OfHost: ofHost,
	}
	for i := range spec.Containers {
		s.Containers = append(s.Containers, spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		first := spec.InitContainers[i].Resources
		if policy := spec.InitContainers[i].RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways { // it runs beside the others
			s.Containers = append(s.Containers, first)
		} else {
			s.First = append(s.First, first)
		}
	}
	text, err := json.Marshal(&s)
	return sha256.Sum256(text), err
}

// Moves is the MoveTargets of a pod. It is computed once for all pods of one shape, if only the nodes of the cluster were read.
func (s *Snapshot) Moves(subject *Subject, ofHost bool) (int, bool) {
	key, err := shapeOf(subject.Pod, ofHost)
	if err != nil || s.cluster.Unknown != Nothing() {
		return s.Place(subject).MoveTargets(ofHost)
	}
	s.moves.mu.Lock()
	answer, found := s.moves.all[key]
	s.moves.mu.Unlock()
	if found {
		return answer.n, answer.known
	}
	answer.n, answer.known = s.Place(subject).MoveTargets(ofHost)
	s.moves.mu.Lock()
	defer s.moves.mu.Unlock()
	if s.moves.all == nil || len(s.moves.all) == maxMoves {
		s.moves.all = map[[sha256.Size]byte]moved{}
	}
	s.moves.all[key] = answer
	return answer.n, answer.known
}
