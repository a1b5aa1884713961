package migrations

import (
	"errors"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
)

// ErrManyCPUs is the error of nodes with too many kinds of CPUs.
var ErrManyCPUs = errors.New("the nodes have more kinds of CPUs than are compared")

// Targets is the number of nodes that could receive an instance that has not started yet, by live migration, if nothing else ran there.
// It starts on any node that could run it: the number is that of the node from which the fewest can receive it. It is 0 if something in
// the spec keeps it from migrating.
func Targets(vmi *v1.VirtualMachineInstance, placed *placement.Placement, facts *platform.Facts) (int, error) {
	if len(Blockers(&Machine{VMI: vmi}, facts)) > 0 {
		return 0, nil
	}
	n, known := placed.MoveTargets(ofHost(vmi))
	if !known {
		return 0, ErrManyCPUs
	}
	return n, nil
}
