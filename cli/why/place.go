package why

import (
	"context"
	"fmt"
	"slices"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/placements"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/startup"
)

// snapshot is what was read, prepared for placements.
type snapshot struct {
	found *placements.Found
	*placement.Snapshot
}

func (p *placer) snapshot(ctx context.Context, namespace string) (*snapshot, error) {
	key := namespace
	if p.cluster == nil {
		key = ""
	}
	if known := p.known[key]; known != nil {
		return known, nil
	}
	found, err := p.read(ctx, namespace)
	if err != nil {
		return nil, err
	}
	prepared, err := placement.NewSnapshot(&found.Cluster)
	if err != nil {
		return nil, err
	}
	p.known[key] = &snapshot{found: found, Snapshot: prepared}
	return p.known[key], nil
}

// report finds out why a virtual machine does not run, or where it can.
func (p *placer) report(ctx context.Context, subject manifests.Document) (*Report, error) {
	result, err := p.evaluator.EvaluateMade(ctx, subject)
	if err != nil {
		return nil, err
	}
	r, err := newReport(subject, p.evaluator.Facts(), result)
	if err != nil {
		return nil, err
	}
	r.Unknown = p.evaluator.Unknown(ctx, result)
	history := &startup.Input{}
	if subject.Source == offline.SourceCluster {
		history, err = p.history(ctx, subject, r)
		if err != nil {
			return nil, err
		}
		r.Symptoms = startup.Symptoms(history)
		if !startup.Places(history, r.Symptoms) {
			r.answer(nil)
			return r, nil
		}
	}
	if result.Verdict == nil || result.Verdict.Spec == nil {
		r.answer(nil)
		return r, nil
	}
	cluster, err := p.snapshot(ctx, result.Namespace)
	if err != nil {
		return nil, err
	}
	r.Unread = append(r.Unread, cluster.found.Unread...)
	in, err := p.evaluator.LauncherInput(result.Verdict)
	if err != nil {
		return nil, err
	}
	predicted := r.predict(in, cluster)
	rendered := r.render(in, cluster.found)
	if rendered == nil {
		r.answer(nil)
		return r, nil
	}
	r.Assumptions = append(r.Assumptions, rendered.Assumptions...)
	for _, remark := range rendered.Remarks {
		r.Remarks = append(r.Remarks, remark.Field+": "+remark.Text)
	}
	s := &placement.Subject{Pod: rendered.Pod.DeepCopy(), Launcher: rendered, VMI: in.VMI, Changes: in.Changes}
	s.Pod.Namespace = result.Namespace
	r.Unknown = slices.DeleteFunc(r.Unknown, cluster.found.Covers)
	placements.WithoutState(s.Pod)
	if len(history.Pods) > 0 && history.Pods[0].Spec.NodeName == "" {
		s.Pod = history.Pods[0]
	} else {
		s.Unstarted = predicted
		r.Assumptions = append(r.Assumptions, cluster.found.Inject(s.Pod, in)...)
		r.Assumptions = append(r.Assumptions, cluster.found.SelectNodes(rendered, s.Pod)...)
	}
	placed := cluster.Place(s)
	r.add(placed)
	r.answer(placed)
	return r, nil
}

// predict adds to an instance what virt-controller sets when it starts, and depends on the nodes. It is false if there is nothing.
func (r *Report) predict(in *launcher.Input, cluster *snapshot) bool {
	hints := cluster.TopologyHints(&in.VMI.Spec, in.Facts.Configuration.DeveloperConfiguration.MinimumClusterTSCFrequency)
	if hints == nil || in.VMI.Status.TopologyHints != nil {
		return false
	}
	vmi := *in.VMI
	vmi.Status.TopologyHints = hints
	in.VMI = &vmi
	if hz := *hints.TSCFrequency; hz > 0 {
		r.Assumptions = append(r.Assumptions, fmt.Sprintf("KubeVirt chooses a frequency of %d Hz for the time stamp counter", hz))
	}
	return true
}

// render renders the pod with what is known of the namespace; nil if KubeVirt cannot, and then the report has the reason.
func (r *Report) render(in *launcher.Input, found *placements.Found) *launcher.Result {
	known := *in
	known.Image, known.QEMUTimeout = "virt-launcher", "240s" // no node depends on them
	known.Cluster = found.Launcher(in.VMI)
	result, err := launcher.Render(&known)
	if err != nil {
		known.Cluster = launcher.Cluster{}
		result, err = launcher.Render(&known)
	}
	if err != nil {
		r.podError = err.Error()
	}
	return result
}

// newReport is the report of a virtual machine that was evaluated.
func newReport(subject manifests.Document, facts *platform.Facts, result *evaluator.Result) (*Report, error) {
	e, err := explanation.New(subject, facts, result)
	if err != nil {
		return nil, err
	}
	r := &Report{APIVersion: explanation.APIVersion, Kind: Kind, Source: e.Source, Object: e.Object, Warnings: append(e.FactsWarnings(), e.OwnWarnings()...)}
	for _, f := range e.Rejections() {
		r.Rejections = append(r.Rejections, f.String())
	}
	return r, nil
}
