package effective

import (
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/migrations"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/validators"
)

// maxConditions bounds the conditions on nodes that are compared with each node in a request: 100 that no other virtual machine has
// take about a second with 5,000 nodes, and an author can write thousands.
const maxConditions = 100

// capacity compares the pod of a virtual machine with what is known of the cluster; nil if nothing is known. The pod is rendered when
// a rule needs it. One that cannot be rendered is no finding: other rules report why.
func (p *Pipeline) capacity(in *Input, v *Verdict) *validators.Capacity {
	if in.Nodes == nil && in.Quotas == nil || in.OldVMI != nil || v.Spec == nil || len(v.Conflicts) > 0 {
		return nil
	}
	subject := sync.OnceValue(func() *placement.Subject { return p.placementSubject(in, v) })
	c := &validators.Capacity{}
	if in.Nodes != nil {
		c.NoNode = func() (string, bool) {
			s := subject()
			if s == nil || s.Conditions() > maxConditions {
				return "", false
			}
			placed := in.Nodes.Place(s)
			return placed.NeverField(), placed.Never()
		}
	}
	if in.Quotas != nil {
		c.OverQuota = func() []validators.Excess {
			s := subject()
			if s == nil {
				return nil
			}
			return over(s, in.Quotas, in.starts())
		}
	}
	return c
}

// placementSubject is the pod of a virtual machine; nil if it cannot be rendered.
func (p *Pipeline) placementSubject(in *Input, v *Verdict) *placement.Subject {
	vmi := running(*in, v)
	renderer, err := p.hypervisors.Launcher(in.Facts.Hypervisor.Name, vmi.Spec.Architecture)
	if err != nil {
		return nil
	}
	known := launcher.Cluster{NamespaceLabels: in.NamespaceLabels}
	if in.Quotas != nil {
		known.Quotas = placement.QuotaResources(in.Quotas)
	}
	changes := ofInstance(*in, v.Changes)
	started := launcher.Started(unstarted(vmi), in.Facts)
	rendered, err := launcher.Render(&launcher.Input{VMI: started, Facts: in.Facts, Renderer: renderer, Changes: changes, Cluster: known})
	if err != nil {
		return nil
	}
	pod := *rendered.Pod
	pod.Namespace = vmi.Namespace
	return &placement.Subject{Pod: &pod, Launcher: rendered, VMI: started, Changes: changes}
}

// starts reports whether the request makes a pod that did not exist before. The pod of a virtual machine that is updated may be
// part of what is used.
func (in *Input) starts() bool {
	if in.Container != nil || in.OldVM != nil || in.OldVMI != nil {
		return false
	}
	if in.VM == nil {
		return true
	}
	strategy, err := in.VM.RunStrategy()
	return err == nil && strategy != v1.RunStrategyHalted && strategy != v1.RunStrategyManual
}

// over are the resources of which quotas do not allow what the pod needs: not even if nothing else used them, or with used, now.
func over(s *placement.Subject, quotas []*corev1.ResourceQuota, used bool) []validators.Excess {
	unused := make([]*corev1.ResourceQuota, len(quotas))
	for i, q := range quotas {
		empty := *q
		empty.Status.Used = nil
		unused[i] = &empty
	}
	var all []validators.Excess
	seen := map[corev1.ResourceName]bool{}
	add := func(quotas []*corev1.ResourceQuota, used bool) {
		for _, r := range placement.OverQuota(s, quotas) {
			if !seen[r.Resource] {
				seen[r.Resource] = true
				all = append(all, validators.Excess{Resource: string(r.Resource), Amount: r.Amount, Field: r.Field, Used: used})
			}
		}
	}
	add(unused, false)
	if used {
		add(quotas, true)
	}
	return all
}

// conditions is the number of conditions on nodes that an author states.
func conditions(spec *v1.VirtualMachineInstanceSpec) uint64 {
	stated := &placement.Subject{Pod: &corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations, TopologySpreadConstraints: spec.TopologySpreadConstraints,
	}}}
	return uint64(stated.Conditions()) //nolint:gosec // a sum of lengths
}

var (
	errNoNodes        = errors.New("the nodes of the cluster are not known: set the chart's value checks.nodes; outside of a cluster, add Nodes to the files")
	errManyConditions = fmt.Errorf("the virtual machine has more than %d conditions on nodes", maxConditions)
	errNoPod          = errors.New("KubeVirt cannot make the pod of the virtual machine")
)

// migrationTargets is the number of nodes that could receive a virtual machine by live migration, for policies.
func (p *Pipeline) migrationTargets(in *Input, v *Verdict) (int, error) {
	if in.PolicyNodes == nil {
		return 0, errNoNodes
	}
	s := p.placementSubject(in, v)
	switch {
	case s == nil:
		return 0, errNoPod
	case s.Conditions() > maxConditions:
		return 0, errManyConditions
	}
	return migrations.Targets(s.VMI, in.PolicyNodes.Place(s), in.Facts)
}
