package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/launcher"
)

// nodeAffinity requires the labels of the pod's node selector, and one of the terms of its affinity.
func nodeAffinity(c *compilation) []check {
	var checks []check
	for _, key := range slices.Sorted(maps.Keys(c.pod.Spec.NodeSelector)) {
		value := c.pod.Spec.NodeSelector[key]
		demand := c.demand(key, corev1.NodeSelectorOpIn)
		having := c.snapshot.labelled(label{key: key, value: value})
		hz := tscOf(key)
		checks = append(checks, check{
			kind: LabelMismatch, source: demand, lasting: lastingLabel(key),
			passes:  func(n *node) bool { return having.has(n.index) || c.Unstarted && hz > 0 && n.offersTSC(hz) },
			explain: func(n *node) (string, string) { return lacks(n, key, value, demand.field) },
		})
	}
	return append(checks, c.affinityTerms()...)
}

// lastingLabel is for labels that do not come and go with virt-handler, and that virt-controller does not set when an instance needs them.
func lastingLabel(key string) func(*node) bool {
	if key == v1.NodeSchedulable {
		return nil
	}
	if hz := tscOf(key); hz > 0 {
		return func(n *node) bool { return !n.offersTSC(hz) }
	}
	return always
}

// demand is who demands a label of a node.
func (c *compilation) demand(key string, operator corev1.NodeSelectorOperator) source {
	if c.Launcher != nil {
		for i := range c.Launcher.Demands {
			if d := &c.Launcher.Demands[i]; d.Key == key && d.Operator == operator && !d.Preferred {
				return source{field: d.Field, layer: c.demandLayer(d), rule: d.Rule}
			}
		}
	}
	if c.VMI == nil {
		return source{}
	}
	if operator == corev1.NodeSelectorOpIn {
		if _, own := c.VMI.Spec.NodeSelector[key]; own {
			return c.of("spec.nodeSelector", "the node selector of the instance")
		}
	}
	return source{}
}

func (c *compilation) demandLayer(d *launcher.Demand) string {
	if d.Layer != "" {
		return d.Layer
	}
	return c.layer(d.Field)
}

// capability is a family of labels with which nodes show what they support.
type capability struct {
	prefix string
	// text completes "the node does not support the …", and list names what it supports instead.
	text, list string
}

var capabilities = []capability{
	{v1.CPUModelLabel, "CPU model", "it supports"},
	{v1.CPUFeatureLabel, "CPU feature", ""},
	{v1.SupportedMachineTypeLabel, "machine type", "it supports"},
	{v1.HypervLabel, "Hyper-V feature", ""},
	{v1.SupportedHostModelMigrationCPU, "migration of the CPU model", "it supports"},
	{v1.VMArchLabel, "guest architecture", "it supports"},
}

// maxListed bounds what is listed instead of a capability.
const maxListed = 4

// lacks says which label a node lacks.
func lacks(n *node, key, value, field string) (text, change string) {
	if key == v1.NodeSchedulable {
		return "KubeVirt cannot start virtual machines on the node: virt-handler does not mark it " + key + "=true", "check the virt-handler pod of the node"
	}
	if hz := tscOf(key); hz > 0 {
		return lacksTSC(n, hz, field)
	}
	for _, c := range capabilities {
		name, ok := strings.CutPrefix(key, c.prefix)
		if !ok {
			continue
		}
		text := "the node does not support the " + c.text + " " + name
		others := supported(n, c.prefix)
		if len(others) == 0 || c.list == "" || field == "" {
			return text, orChange(field, "use a "+c.text+" that the node supports")
		}
		shown := strings.Join(others[:min(maxListed, len(others))], ", ")
		if len(others) > maxListed {
			shown += fmt.Sprintf(" and %d more", len(others)-maxListed)
		}
		return text + ": " + c.list + " " + shown, "set " + field + " to one of those"
	}
	if have, ok := n.label(key); ok {
		return fmt.Sprintf("the node has the label %s=%s instead of %s", key, have, value), orChange(field, "label the node "+key+"="+value)
	}
	return fmt.Sprintf("the node lacks the label %s=%s", key, value), orChange(field, "label the node "+key+"="+value)
}

// lacksTSC says why a node does not have the label of a frequency of the time stamp counter.
func lacksTSC(n *node, hz int64, field string) (text, change string) {
	own := n.tsc()
	switch {
	case own == 0:
		return fmt.Sprintf("the node has no fixed frequency of the time stamp counter, and the guest needs %d Hz", hz), orChange(field, "add a node with that frequency")
	case n.offersTSC(hz):
		return fmt.Sprintf("the node can have a time stamp counter of %d Hz, but virt-controller has not labelled it yet", hz), "wait for virt-controller"
	}
	return fmt.Sprintf("the time stamp counter of the node has %d Hz, and the guest needs %d Hz", own, hz), orChange(field, "add a node with that frequency")
}

// orChange suggests a change, or to change the field.
func orChange(field, change string) string {
	if field == "" {
		return change
	}
	return change + ", or change " + field
}

// supported are the names of a family of labels that a node has.
func supported(n *node, prefix string) []string {
	var names []string
	for _, all := range []map[string]string{n.Labels, n.shared} {
		for key, value := range all {
			if name, ok := strings.CutPrefix(key, prefix); ok && value == "true" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// expression is a condition on the labels of a node, or on its name.
type expression struct {
	corev1.NodeSelectorRequirement
	label *labels.Requirement
	// named are expressions about metadata.name.
	named bool
	// nodes that match, if they are known before.
	nodes bits
}

func (e *expression) matches(n *node) bool {
	if e.nodes != nil {
		return e.nodes.has(n.index) != e.negative()
	}
	if e.named {
		in := len(e.Values) == 1 && e.Values[0] == n.Name
		return in == (e.Operator == corev1.NodeSelectorOpIn)
	}
	return e.label.Matches(n)
}

// negative reports whether the nodes of the expression are those that do not match.
func (e *expression) negative() bool {
	return e.Operator == corev1.NodeSelectorOpNotIn || e.Operator == corev1.NodeSelectorOpDoesNotExist
}

// find finds the nodes that match, of an expression that many virtual machines have.
func (e *expression) find(s *Snapshot) {
	if e.named {
		return
	}
	switch e.Operator {
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		e.nodes = s.labelled(label{key: e.Key, any: true})
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		e.nodes = newBits(len(s.nodes))
		for _, value := range e.Values {
			e.nodes.addAll(s.labelled(label{key: e.Key, value: value}))
		}
	}
}

// String is the expression for people.
func (e *expression) String() string {
	key := e.Key
	switch e.Operator {
	case corev1.NodeSelectorOpExists:
		return "a label " + key
	case corev1.NodeSelectorOpDoesNotExist:
		return "no label " + key
	case corev1.NodeSelectorOpIn:
		return key + " in " + strings.Join(e.Values, ", ")
	case corev1.NodeSelectorOpNotIn:
		return key + " not in " + strings.Join(e.Values, ", ")
	}
	return key + " " + string(e.Operator) + " " + strings.Join(e.Values, ", ")
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

// expressionsOf compiles a term. A term with an invalid expression matches no node.
func expressionsOf(term *corev1.NodeSelectorTerm) (compiled []expression, valid bool) {
	for i := range term.MatchExpressions {
		r := &term.MatchExpressions[i]
		requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		if err != nil {
			return nil, false
		}
		compiled = append(compiled, expression{NodeSelectorRequirement: *r, label: requirement})
	}
	for i := range term.MatchFields {
		r := &term.MatchFields[i]
		if r.Key != "metadata.name" || len(r.Values) != 1 || r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
			return nil, false
		}
		compiled = append(compiled, expression{NodeSelectorRequirement: *r, named: true})
	}
	return compiled, len(compiled) > 0
}

// selects reports whether a node matches one of the terms of a selector. Without terms, none matches.
func selects(terms [][]expression, n *node) bool {
	return slices.ContainsFunc(terms, func(term []expression) bool {
		for i := range term {
			if !term[i].matches(n) {
				return false
			}
		}
		return true
	})
}

func termsOf(selector *corev1.NodeSelector) [][]expression {
	var terms [][]expression
	for i := range selector.NodeSelectorTerms {
		if term, valid := expressionsOf(&selector.NodeSelectorTerms[i]); valid {
			terms = append(terms, term)
		}
	}
	return terms
}

// affinityTerms are the checks of the required node affinity: one for each expression, if there is only one term.
func (c *compilation) affinityTerms() []check {
	a := c.pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	selector := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	terms := termsOf(selector)
	for _, term := range terms {
		for i := range term {
			term[i].find(c.snapshot)
		}
	}
	const field = "spec.affinity.nodeAffinity"
	if len(selector.NodeSelectorTerms) != 1 || len(terms) != 1 {
		return []check{{
			kind: LabelMismatch, source: c.of(field, ""), lasting: always,
			passes: func(n *node) bool { return selects(terms, n) },
			explain: func(*node) (string, string) {
				return fmt.Sprintf("the node matches none of the %d terms of the node affinity", len(selector.NodeSelectorTerms)), "label the node, or change " + field
			},
		}}
	}
	checks := make([]check, 0, len(terms[0]))
	for i := range terms[0] {
		e := &terms[0][i]
		from := c.demand(e.Key, e.Operator)
		if from == (source{}) {
			from = c.of(field, "")
		}
		checks = append(checks, check{
			kind: LabelMismatch, source: from, lasting: always, passes: e.matches,
			explain: func(n *node) (string, string) { return unmatched(n, e, from.field) },
		})
	}
	return checks
}

// unmatched says which expression a node does not match.
func unmatched(n *node, e *expression, field string) (text, change string) {
	switch {
	case e.Key == v1.NodeHostModelIsObsoleteLabel && e.Operator == corev1.NodeSelectorOpDoesNotExist:
		return "the CPU model of the host is obsolete", "name a CPU model in spec.domain.cpu.model"
	case e.named:
		return "the node affinity demands the name " + e.String(), "change " + field
	case e.Operator == corev1.NodeSelectorOpDoesNotExist && strings.HasPrefix(e.Key, v1.CPUFeatureLabel):
		return "the node has the CPU feature " + strings.TrimPrefix(e.Key, v1.CPUFeatureLabel) + ", which is forbidden", "change " + field
	}
	if have, ok := n.label(e.Key); ok {
		return fmt.Sprintf("the node has the label %s=%s, and the node affinity demands %s", e.Key, have, e), "change the label of the node, or " + field
	}
	return "the node affinity demands " + e.String(), "label the node, or change " + field
}
