package migrations

import (
	"cmp"
	"errors"
	"fmt"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
)

// ErrManyCPUs is the error of nodes with too many kinds of CPUs.
var ErrManyCPUs = errors.New("the nodes have more kinds of CPUs than are compared")

// Targets is the number of nodes that could receive an instance that has not started yet, by live migration, if nothing else ran there.
// It starts on any node that could run it: the number is that of the node from which the fewest can receive it. It is 0 if there are
// Blockers that are not temporary; if not, moves returns what MoveTargets does of its pod. A number that depends on what is not known is an error.
func Targets(m *Machine, facts *platform.Facts, moves func(ofHost bool) (n int, known bool, err error)) (int, error) {
	if lastingly(Blockers(m, facts)) {
		return 0, nil
	}
	n, known, err := moves(ofHost(m.VMI))
	switch {
	case err != nil:
		return 0, err
	case !known:
		return 0, ErrManyCPUs
	case n == 0:
		return 0, nil
	}
	if err := cmp.Or(m.unknownClaim(), unknownNodes(&m.VMI.Spec)); err != nil {
		return 0, err
	}
	return n, nil
}

// unknownNodes says of which demands it is not known which nodes meet them: those for other pods, and for devices of networks and of
// ResourceClaims. It is nil if there are none.
func unknownNodes(spec *v1.VirtualMachineInstanceSpec) error {
	const unknown = "which nodes %s is not known"
	if affinity := spec.Affinity; affinity != nil {
		if pods := affinity.PodAffinity; pods != nil && len(pods.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return fmt.Errorf(unknown, "have the pods of spec.affinity.podAffinity")
		}
		if pods := affinity.PodAntiAffinity; pods != nil && len(pods.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return fmt.Errorf(unknown, "have the pods of spec.affinity.podAntiAffinity")
		}
	}
	for i := range spec.Domain.Devices.Interfaces {
		if n := &spec.Domain.Devices.Interfaces[i]; n.SRIOV != nil {
			return fmt.Errorf(unknown, "have devices of the network "+n.Name+" of spec.networks")
		}
	}
	if claims := spec.ResourceClaims; len(claims) > 0 {
		return fmt.Errorf(unknown, "can allocate the ResourceClaim "+claims[0].Name+" of spec.resourceClaims")
	}
	return nil
}

// Level is a number of Targets, as far as metrics and reports distinguish it.
type Level uint8

// The levels. NotCounted is that of an instance that does not run, and of all if the nodes are not known.
const (
	NotCounted Level = iota
	NoTarget
	OneTarget
	SeveralTargets
	UnknownTargets
	levels
)

// Levels is the number of levels.
const Levels = int(levels)

// String is the value of labels and properties; empty for NotCounted.
func (l Level) String() string { return [levels]string{"", "none", "one", "several", "unknown"}[l] }

// LevelOf is the level of what Targets returns.
func LevelOf(n int, err error) Level {
	switch {
	case err != nil:
		return UnknownTargets
	case n == 0:
		return NoTarget
	case n == 1:
		return OneTarget
	}
	return SeveralTargets
}
