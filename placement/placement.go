package placement

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/provenance"
)

// Subject is a pod that needs a node.
type Subject struct {
	// Pod as it is sent to the API server. It is not changed.
	Pod *corev1.Pod
	// Launcher explains the pod of a virtual machine; nil for another pod.
	Launcher *launcher.Result
	// VMI is the instance that the pod is for; nil for another pod.
	VMI *v1.VirtualMachineInstance
	// Changes say which layer set which field of the instance.
	Changes []provenance.Change
	// Unstarted reports that virt-controller has not labelled nodes for the instance yet, which it does when the instance starts.
	Unstarted bool
}

// Conditions is the number of conditions on nodes that the pod states: each of them is compared with each node.
func (s *Subject) Conditions() int {
	spec := &s.Pod.Spec
	n := len(spec.NodeSelector) + len(spec.Tolerations) + len(spec.TopologySpreadConstraints) + len(requestsOf(s.Pod))
	affinity := spec.Affinity
	if affinity == nil {
		return n
	}
	if nodes := affinity.NodeAffinity; nodes != nil && nodes.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range nodes.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, expression := range slices.Concat(term.MatchExpressions, term.MatchFields) {
				n += max(1, len(expression.Values))
			}
		}
	}
	if pods := affinity.PodAffinity; pods != nil {
		n += len(pods.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if pods := affinity.PodAntiAffinity; pods != nil {
		n += len(pods.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return n
}

// Kind of a reason, the same for all nodes.
type Kind string

// The kinds of reasons.
const (
	Unschedulable        Kind = "Unschedulable"
	OtherNode            Kind = "OtherNode"
	UntoleratedTaint     Kind = "UntoleratedTaint"
	LabelMismatch        Kind = "LabelMismatch"
	PortInUse            Kind = "PortInUse"
	Insufficient         Kind = "Insufficient"
	TooManyPods          Kind = "TooManyPods"
	ClaimInUse           Kind = "ClaimInUse"
	TooManyVolumes       Kind = "TooManyVolumes"
	ClaimNotFound        Kind = "ClaimNotFound"
	ClaimUnbound         Kind = "ClaimUnbound"
	VolumeNotFound       Kind = "VolumeNotFound"
	VolumeElsewhere      Kind = "VolumeElsewhere"
	VolumeUnavailable    Kind = "VolumeUnavailable"
	StorageFull          Kind = "StorageFull"
	OtherZone            Kind = "OtherZone"
	Spread               Kind = "Spread"
	SpreadLabelMissing   Kind = "SpreadLabelMissing"
	Affinity             Kind = "Affinity"
	AntiAffinity         Kind = "AntiAffinity"
	ExistingAntiAffinity Kind = "ExistingAntiAffinity"
	DeviceClaimNotFound  Kind = "DeviceClaimNotFound"
	AllocatedElsewhere   Kind = "AllocatedElsewhere"
	AttachedElsewhere    Kind = "AttachedElsewhere"
	QuotaExceeded        Kind = "QuotaExceeded"
	QuotaNeedsAmount     Kind = "QuotaNeedsAmount"
	LimitRangeViolated   Kind = "LimitRangeViolated"
	NoPriorityClass      Kind = "NoPriorityClass"
	NoRuntimeClass       Kind = "NoRuntimeClass"
	RuntimeClassConflict Kind = "RuntimeClassConflict"
	NetworkNotFound      Kind = "NetworkNotFound"
	PodSecurityViolated  Kind = "PodSecurityViolated"
)

// Reason is why a pod cannot run on a node, or cannot be created.
type Reason struct {
	// Plugin of kube-scheduler that has the reason, or the admission plugin of the API server; or KubeVirt, which does not make the pod.
	Plugin string `json:"plugin"`
	Kind   Kind   `json:"kind"`
	// Text says what is wrong.
	Text string `json:"text"`
	// Field of the instance that causes it; empty if it is KubeVirt or the cluster.
	Field string `json:"field,omitempty"`
	// Layer that set the field; empty if the author did, or if there is no field.
	Layer string `json:"layer,omitempty"`
	// Rule of KubeVirt behind it; empty if there is none.
	Rule string `json:"rule,omitempty"`
	// Change is the nearest change that would help.
	Change string `json:"change,omitempty"`
	// Resource that the node or the quota lacks; empty for other reasons.
	Resource corev1.ResourceName `json:"resource,omitempty"`
	// Amount is what the pod needs of the resource of a quota; empty for other reasons.
	Amount string `json:"amount,omitempty"`
	// Lasting reasons hold for the empty node too.
	Lasting bool `json:"lasting"`
}

// source is what causes a check.
type source struct{ field, layer, rule string }

// check is one condition that a node has to meet.
type check struct {
	plugin string
	kind   Kind
	source source
	// resource that the node lacks; empty for other checks.
	resource corev1.ResourceName
	// lasting reports whether a node that does not pass now would not pass empty either; nil if it depends on more than the node.
	lasting func(n *node) bool
	passes  func(n *node) bool
	// explain returns what is wrong with a node that does not pass, and the nearest change that would help.
	explain func(n *node) (text, change string)
}

// filter is a row of the table: a plugin of kube-scheduler.
type filter struct {
	plugin string
	// checks compiles the conditions of a pod.
	checks func(c *compilation) []check
}

// filters are in the order of kube-scheduler's default profile.
func filters() []filter {
	return []filter{
		{"NodeName", nodeName},
		{"NodeUnschedulable", unschedulable},
		{"TaintToleration", taints},
		{"NodeAffinity", nodeAffinity},
		{"NodePorts", nodePorts},
		{"NodeResourcesFit", resources},
		{"VolumeRestrictions", volumeRestrictions},
		{"NodeVolumeLimits", volumeLimits},
		{"VolumeBinding", volumeBinding},
		{"VolumeZone", volumeZone},
		{"PodTopologySpread", topologySpread},
		{"InterPodAffinity", podAffinity},
		{"DynamicResources", dynamicResources},
		{attachment, attached}, // not one of kube-scheduler, which schedules such a pod
	}
}

// filterRows is filters. It is not changed.
var filterRows = filters()

// attachment is the name of the check that a volume can be attached to the node.
const attachment = "VolumeAttachment"

// MaxReasons bounds the reasons that are kept for a node.
const MaxReasons = 32

// Placement says where a pod can run.
type Placement struct {
	snapshot *Snapshot
	checks   []check
	// failed are the checks that nodes fail, of node i those from starts[i] to starts[i+1].
	failed []uint16
	starts []int32
	// Creation are the reasons for which KubeVirt does not make the pod, or the API server does not create it.
	Creation []Reason
	// Assumptions say what was not known.
	Assumptions []string
	// NotChecked are the objects that decide about nodes too, but that no check reads, such as "the ResourceClaim x", which is not allocated. A node that fits
	// fits as far as it is known without them.
	NotChecked []string
	fitting    int
}

// compilation is a subject, prepared for a snapshot.
type compilation struct {
	*Subject
	snapshot *Snapshot
	// pod is the pod with the defaults of the API server and of LimitRanges.
	pod      *corev1.Pod
	requests amounts
	assumed  []string
}

func (c *compilation) assume(text string) {
	if !slices.Contains(c.assumed, text) {
		c.assumed = append(c.assumed, text)
	}
}

// of is the source of a field.
func (c *compilation) of(field, rule string) source {
	return source{field: field, layer: c.layer(field), rule: rule}
}

// layer is the layer that set a field, the object around it, or a part of it.
func (c *compilation) layer(field string) string {
	if field == "" {
		return ""
	}
	if layer := launcher.LayerOf(c.Changes, field); layer != "" {
		return layer
	}
	for i := range c.Changes {
		if rest, within := strings.CutPrefix(c.Changes[i].Path, field); within && strings.HasPrefix(rest, ".") {
			return c.Changes[i].Layer
		}
	}
	return ""
}

// Place checks all nodes for a pod.
func (s *Snapshot) Place(subject *Subject) *Placement {
	c := &compilation{Subject: subject, snapshot: s, pod: defaulted(subject.Pod, s.limitsOf(subject.Pod.Namespace))}
	c.addRuntime()
	c.requests = requestsOf(c.pod)
	p := &Placement{snapshot: s, starts: make([]int32, 1, len(s.nodes)+1)}
	for i := range filterRows {
		for _, one := range filterRows[i].checks(c) {
			one.plugin = filterRows[i].plugin
			p.checks = append(p.checks, one)
		}
	}
	p.Creation = creation(c)
	p.NotChecked = c.notAllocated()
	p.Assumptions = c.assumed
	for i := range s.nodes {
		before := len(p.failed)
		p.failed = p.appendFailed(&s.nodes[i])
		if len(p.failed) == before {
			p.fitting++
		}
		p.starts = append(p.starts, int32(len(p.failed))) //nolint:gosec // at most MaxNodes × MaxReasons
	}
	return p
}

// appendFailed adds the checks that a node fails.
func (p *Placement) appendFailed(n *node) []uint16 {
	failed := p.failed
	for j := range p.checks {
		if !p.checks[j].passes(n) {
			if failed = append(failed, uint16(j)); len(failed)-len(p.failed) == MaxReasons {
				break
			}
		}
	}
	return failed
}

// Len is the number of nodes.
func (p *Placement) Len() int { return len(p.snapshot.nodes) }

// Node is the name of a node. They are sorted.
func (p *Placement) Node(i int) string { return p.snapshot.nodes[i].Name }

// Fits reports whether the pod can run on a node.
func (p *Placement) Fits(i int) bool { return p.starts[i] == p.starts[i+1] }

// Fitting is the number of nodes that the pod can run on.
func (p *Placement) Fitting() int { return p.fitting }

// Reasons are why the pod cannot run on a node, in the order of kube-scheduler's plugins; at most MaxReasons.
func (p *Placement) Reasons(i int) []Reason {
	n := &p.snapshot.nodes[i]
	reasons := make([]Reason, 0, p.starts[i+1]-p.starts[i])
	for _, j := range p.failed[p.starts[i]:p.starts[i+1]] {
		reasons = append(reasons, p.checks[j].reason(n))
	}
	return reasons
}

func (c *check) reason(n *node) Reason {
	text, change := c.explain(n)
	return Reason{
		Plugin: c.plugin, Kind: c.kind, Text: text, Field: c.source.field, Layer: c.source.layer, Rule: c.source.rule, Change: change, Resource: c.resource, Lasting: c.lasts(n),
	}
}

func (c *check) lasts(n *node) bool { return c.lasting != nil && c.lasting(n) }

// always is for checks of what does not depend on load.
func always(*node) bool { return true }

// Never reports that no node could ever run the pod, whatever else runs: each node fails a check that does not depend on load.
func (p *Placement) Never() bool {
	for i := range p.snapshot.nodes {
		if p.Could(i) {
			return false
		}
	}
	return len(p.snapshot.nodes) > 0
}

// NeverField is the field of the instance behind that Never reports, if it is one for all nodes; empty otherwise.
func (p *Placement) NeverField() string {
	var fields []string
	for i := range p.snapshot.nodes {
		var here []string
		for _, j := range p.failed[p.starts[i]:p.starts[i+1]] {
			if c := &p.checks[j]; c.source.field != "" && c.lasts(&p.snapshot.nodes[i]) {
				here = append(here, c.source.field)
			}
		}
		if i > 0 {
			here = slices.DeleteFunc(here, func(field string) bool { return !slices.Contains(fields, field) })
		}
		if fields = here; len(fields) == 0 {
			return ""
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}
