package effective

import (
	"cmp"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/cel"
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
	c := &validators.Capacity{}
	if in.Nodes != nil {
		c.NoNode = func() (string, bool) {
			s := p.placementSubject(in, v)
			if s == nil || s.Conditions() > maxConditions {
				return "", false
			}
			placed := v.placed.on(in.Nodes)
			return placed.NeverField(), placed.Never()
		}
	}
	if in.Quotas != nil {
		c.OverQuota = func() []validators.Excess {
			s := p.placementSubject(in, v)
			if s == nil {
				return nil
			}
			return over(s, in.Quotas, in.starts())
		}
	}
	return c
}

// placed is the pod of a virtual machine, and where it can run. Both are computed once for the rules and the policies of a request.
type placed struct {
	rendered bool
	// subject is nil if the pod cannot be rendered.
	subject   *placement.Subject
	snapshot  *placement.Snapshot
	placement *placement.Placement
}

// on compares the pod with nodes.
func (p *placed) on(snapshot *placement.Snapshot) *placement.Placement {
	if p.snapshot != snapshot {
		p.snapshot, p.placement = snapshot, snapshot.Place(p.subject)
	}
	return p.placement
}

// moves is the number of nodes that could take the pod from another one.
func (p *placed) moves(snapshot *placement.Snapshot, ofHost bool) (n int, known bool) {
	if p.snapshot == snapshot {
		return p.placement.MoveTargets(ofHost)
	}
	return snapshot.Moves(p.subject, ofHost)
}

// placementSubject is the pod of a virtual machine; nil if it cannot be rendered.
func (p *Pipeline) placementSubject(in *Input, v *Verdict) *placement.Subject {
	if !v.placed.rendered {
		v.placed = placed{rendered: true, subject: p.renderSubject(in, v)}
	}
	return v.placed.subject
}

func (p *Pipeline) renderSubject(in *Input, v *Verdict) *placement.Subject {
	vmi := started(in, v)
	renderer, err := p.hypervisors.Launcher(in.Facts.Hypervisor.Name, vmi.Spec.Architecture)
	if err != nil {
		return nil
	}
	known := launcher.Cluster{NamespaceLabels: in.NamespaceLabels}
	if in.Quotas != nil {
		known.Quotas = placement.QuotaResources(in.Quotas)
	}
	changes := ofInstance(in, v.Changes)
	rendered, err := launcher.Render(&launcher.Input{VMI: vmi, Facts: in.Facts, Renderer: renderer, Changes: changes, Cluster: known})
	if err != nil {
		return nil
	}
	pod := *rendered.Pod
	pod.Namespace = vmi.Namespace
	return &placement.Subject{Pod: &pod, Launcher: rendered, VMI: vmi, Changes: changes}
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

// migrationTargets is the number of nodes that could receive a virtual machine by live migration, for policies. The references have the
// access modes of its claims.
func (p *Pipeline) migrationTargets(in *Input, v *Verdict, references *cel.References) (int, error) {
	if in.PolicyNodes == nil {
		return 0, errNoNodes
	}
	m := &migrations.Machine{VMI: started(in, v), Claims: claimsOf(references)}
	return migrations.Targets(m, in.Facts, func(ofHost bool) (n int, known bool, err error) {
		if err := p.comparable(in, v); err != nil {
			return 0, false, err
		}
		n, known = v.placed.on(in.PolicyNodes).MoveTargets(ofHost)
		return n, known, nil
	})
}

// comparable renders the pod of a virtual machine. The error says why it is not compared with nodes.
func (p *Pipeline) comparable(in *Input, v *Verdict) error {
	s := p.placementSubject(in, v)
	switch {
	case s == nil:
		return errNoPod
	case s.Conditions() > maxConditions:
		return errManyConditions
	}
	return nil
}

// targetsOfRunning is how many nodes could receive an instance that runs. Its status has the access modes of its claims, and what KubeVirt
// says of its migration. It takes its time from that of the policies that do not deny.
func (p *Pipeline) targetsOfRunning(in *Input, v *Verdict) migrations.Level {
	if in.Hurry != nil && in.Hurry() {
		return migrations.UnknownTargets
	}
	if in.Evaluating != nil {
		defer in.Evaluating(0)()
	}
	return migrations.LevelOf(migrations.Targets(&migrations.Machine{VMI: in.VMI}, in.Facts, func(ofHost bool) (n int, known bool, err error) {
		if err := p.comparable(in, v); err != nil {
			return 0, false, err
		}
		n, known = v.placed.moves(in.TargetNodes, ofHost)
		return n, known, nil
	}))
}

// started is the instance as its first pod is made for it.
func started(in *Input, v *Verdict) *v1.VirtualMachineInstance {
	vmi := unstarted(running(in, v))
	vmi.Status.TopologyHints = topologyHints(in, vmi)
	return launcher.Started(vmi, in.Facts)
}

// topologyHints are those of an instance that runs, or those that virt-controller gives to one that starts, as far as the nodes are known.
func topologyHints(in *Input, vmi *v1.VirtualMachineInstance) *v1.TopologyHints {
	if in.VMI != nil && in.VMI.Status.TopologyHints != nil {
		return in.VMI.Status.TopologyHints
	}
	nodes := cmp.Or(in.PolicyNodes, in.Nodes)
	if nodes == nil {
		return nil
	}
	return nodes.TopologyHints(&vmi.Spec, in.Facts.Configuration.DeveloperConfiguration.MinimumClusterTSCFrequency)
}

// claimsOf has the access modes of the claims that were gathered.
func claimsOf(references *cel.References) migrations.Claims {
	return func(name string) ([]corev1.PersistentVolumeAccessMode, error) {
		known, err := references.AccessModes(name)
		modes := make([]corev1.PersistentVolumeAccessMode, len(known))
		for i, mode := range known {
			modes[i] = corev1.PersistentVolumeAccessMode(mode)
		}
		return modes, err
	}
}
