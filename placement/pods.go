package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// podTerm is a term of the affinity of pods.
type podTerm struct {
	topology   string
	selector   labels.Selector
	namespaces []string
	// others selects further namespaces by their labels; nil for none.
	others labels.Selector
}

// termOf compiles a term. One that cannot be compiled matches no pod.
func termOf(t *corev1.PodAffinityTerm, owner *corev1.Pod) podTerm {
	term := podTerm{topology: t.TopologyKey, selector: selectorOf(t.LabelSelector), namespaces: t.Namespaces}
	term.selector = withKeys(term.selector, t.MatchLabelKeys, selection.In, owner.Labels)
	term.selector = withKeys(term.selector, t.MismatchLabelKeys, selection.NotIn, owner.Labels)
	if t.NamespaceSelector != nil {
		term.others = selectorOf(t.NamespaceSelector)
	} else if len(t.Namespaces) == 0 {
		term.namespaces = []string{owner.Namespace}
	}
	return term
}

// selectorOf compiles a selector. Without one, nothing is selected.
func selectorOf(s *metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// withKeys adds what the API server adds for the keys: the values of the pod itself.
func withKeys(s labels.Selector, keys []string, operator selection.Operator, own map[string]string) labels.Selector {
	for _, key := range keys {
		value, ok := own[key]
		if !ok {
			continue
		}
		if r, err := labels.NewRequirement(key, operator, []string{value}); err == nil {
			s = s.Add(*r)
		}
	}
	return s
}

// matches reports whether a pod is one that the term is about.
func (t *podTerm) matches(p *corev1.Pod, namespace labels.Set) bool {
	if !slices.Contains(t.namespaces, p.Namespace) && (t.others == nil || !t.others.Matches(namespace)) {
		return false
	}
	return t.selector.Matches(labels.Set(p.Labels))
}

// domain is a part of the cluster: the nodes with this value of a label.
type domain struct{ key, value string }

// podAffinity checks the affinities of the pod, and those of the pods that run.
func podAffinity(c *compilation) []check {
	var checks []check
	if a := c.pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			checks = append(checks, c.together(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)...)
		}
		if a.PodAntiAffinity != nil {
			checks = append(checks, c.apart(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)...)
		}
	}
	if c.snapshot.cluster.Unknown.Pods && len(checks) > 0 {
		c.assume("no pod runs that affinities are about")
	}
	return append(checks, c.keptAway()...)
}

// together requires nodes near pods that match all terms. If there are none at all, the pod can be the first one.
func (c *compilation) together(required []corev1.PodAffinityTerm) []check {
	if len(required) == 0 {
		return nil
	}
	terms := make([]podTerm, len(required))
	for i := range required {
		terms[i] = termOf(&required[i], c.pod)
	}
	all := func(p *corev1.Pod) bool {
		namespace := c.snapshot.namespaceLabels(p.Namespace)
		return !slices.ContainsFunc(terms, func(t podTerm) bool { return !t.matches(p, namespace) })
	}
	near := map[domain]bool{}
	for _, p := range c.snapshot.pods {
		if !all(p.Pod) {
			continue
		}
		for i := range terms {
			if value, ok := p.node.label(terms[i].topology); ok {
				near[domain{terms[i].topology, value}] = true
			}
		}
	}
	first := len(near) == 0 && all(c.pod)
	const field = "spec.affinity.podAffinity"
	return []check{{
		kind: Affinity, source: c.of(field, ""),
		passes: func(n *node) bool {
			for i := range terms {
				value, ok := n.label(terms[i].topology)
				if !ok || !first && !near[domain{terms[i].topology, value}] {
					return false
				}
			}
			return true
		},
		explain: func(n *node) (string, string) {
			for i := range terms {
				if _, ok := n.label(terms[i].topology); !ok {
					return "the node lacks the label " + terms[i].topology + ", which the pod affinity needs", "label the node, or change " + field
				}
			}
			return "no pod that the pod affinity demands runs on nodes with the same " + terms[0].topology, "start such a pod there, or change " + field
		},
	}}
}

// apart rejects nodes near pods that match a term.
func (c *compilation) apart(required []corev1.PodAffinityTerm) []check {
	checks := make([]check, 0, len(required))
	for i := range required {
		term := termOf(&required[i], c.pod)
		near := map[string]string{}
		for _, p := range c.snapshot.pods {
			if value, ok := p.node.label(term.topology); ok && term.matches(p.Pod, c.snapshot.namespaceLabels(p.Namespace)) {
				near[value] = p.Namespace + "/" + p.Name
			}
		}
		const field = "spec.affinity.podAntiAffinity"
		checks = append(checks, check{
			kind: AntiAffinity, source: c.of(field, ""),
			passes: func(n *node) bool { value, ok := n.label(term.topology); return !ok || near[value] == "" },
			explain: func(n *node) (string, string) {
				return fmt.Sprintf("the pod %s runs on a node with the same %s, and the pod anti-affinity forbids that", near[n.Get(term.topology)], term.topology), "move that pod, or change " + field
			},
		})
	}
	return checks
}

// keptAway rejects nodes near pods whose anti-affinity is about this pod.
func (c *compilation) keptAway() []check {
	near := map[domain]string{}
	namespace := c.snapshot.namespaceLabels(c.pod.Namespace)
	var keys []string
	for _, p := range c.snapshot.apart {
		for i := range p.apart {
			t := &p.apart[i]
			if value, ok := p.node.label(t.topology); ok && t.matches(c.pod, namespace) {
				near[domain{t.topology, value}] = p.Namespace + "/" + p.Name
				if !slices.Contains(keys, t.topology) {
					keys = append(keys, t.topology)
				}
			}
		}
	}
	if len(near) == 0 {
		return nil
	}
	by := func(n *node) string {
		for _, key := range keys {
			if value, ok := n.label(key); ok && near[domain{key, value}] != "" {
				return near[domain{key, value}]
			}
		}
		return ""
	}
	return []check{{
		kind: ExistingAntiAffinity, passes: func(n *node) bool { return by(n) == "" },
		explain: func(n *node) (string, string) {
			return "the pod anti-affinity of " + by(n) + " forbids other such pods near it", "move that pod, or change its anti-affinity"
		},
	}}
}

// constraint is a topology spread constraint that is required.
type constraint struct {
	*corev1.TopologySpreadConstraint
	selector labels.Selector
	self     int
	counts   map[string]int
	least    int
}

// topologySpread requires that pods stay spread.
func topologySpread(c *compilation) []check {
	var all []*constraint
	for i := range c.pod.Spec.TopologySpreadConstraints {
		t := &c.pod.Spec.TopologySpreadConstraints[i]
		if t.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		one := &constraint{TopologySpreadConstraint: t, selector: withKeys(selectorOf(t.LabelSelector), t.MatchLabelKeys, selection.In, c.pod.Labels), counts: map[string]int{}}
		if one.selector.Matches(labels.Set(c.pod.Labels)) {
			one.self = 1
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil
	}
	if c.snapshot.cluster.Unknown.Pods {
		c.assume("no pod runs that spread constraints are about")
	}
	c.count(all)
	var checks []check
	const field = "spec.topologySpreadConstraints"
	for _, one := range all {
		key := one.TopologyKey
		checks = append(checks,
			check{
				kind: SpreadLabelMissing, source: c.of(field, ""), lasting: always,
				passes: func(n *node) bool { _, ok := n.label(key); return ok },
				explain: func(*node) (string, string) {
					return "the node lacks the label " + key + ", by which pods are spread", "label the node, or change " + field
				},
			},
			check{
				kind: Spread, source: c.of(field, ""),
				passes: func(n *node) bool { return one.satisfied(n) },
				explain: func(n *node) (string, string) {
					value := n.Get(key)
					return fmt.Sprintf("%s=%s has %d such pods, and the smallest number is %d: one more would exceed maxSkew %d", key, value, one.counts[value], one.least, one.MaxSkew), "raise maxSkew in " + field + ", or move such a pod"
				},
			})
	}
	return checks
}

func (t *constraint) satisfied(n *node) bool {
	value, ok := n.label(t.TopologyKey)
	return !ok || t.counts[value]+t.self-t.least <= int(t.MaxSkew)
}

// count counts the pods of each domain. Only nodes with the keys of all constraints count.
func (c *compilation) count(all []*constraint) {
	affine, tainted := nodeAffinity(c), taints(c)
	for i := range c.snapshot.nodes {
		n := &c.snapshot.nodes[i]
		if slices.ContainsFunc(all, func(t *constraint) bool { _, ok := n.label(t.TopologyKey); return !ok }) {
			continue
		}
		for _, t := range all {
			if (t.NodeAffinityPolicy == nil || *t.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor) && !passAll(affine, n) ||
				t.NodeTaintsPolicy != nil && *t.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor && !passAll(tainted, n) {
				continue
			}
			t.counts[n.Get(t.TopologyKey)] += t.matching(n, c.pod.Namespace)
		}
	}
	for _, t := range all {
		if len(t.counts) == 0 || t.MinDomains != nil && len(t.counts) < int(*t.MinDomains) {
			continue
		}
		first := true
		for _, count := range t.counts {
			if first || count < t.least {
				t.least, first = count, false
			}
		}
	}
}

func passAll(checks []check, n *node) bool {
	return !slices.ContainsFunc(checks, func(one check) bool { return !one.passes(n) })
}

// matching counts the pods of a node that a constraint is about. Those that end do not count.
func (t *constraint) matching(n *node, namespace string) int {
	count := 0
	for _, p := range n.pods {
		if p.DeletionTimestamp == nil && p.Namespace == namespace && t.selector.Matches(labels.Set(p.Labels)) {
			count++
		}
	}
	return count
}
