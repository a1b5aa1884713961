package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
	security "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// KubeVirt is in the place of a plugin for reasons for which it makes no pod.
const KubeVirt = "KubeVirt"

// admission is a row of the table: an admission plugin of the API server, or KubeVirt.
type admission struct {
	plugin  string
	reasons func(c *compilation) []Reason
}

// admissions are in the order of the API server.
func admissions() []admission {
	return []admission{
		{KubeVirt, networks},
		{"LimitRanger", limitRanges},
		{"Priority", priority},
		{"PodSecurity", podSecurity},
		{"RuntimeClass", runtimeClass},
		{"ResourceQuota", quotas},
	}
}

// admissionRows is admissions. It is not changed.
var admissionRows = admissions()

// creation are the reasons for which the pod is not created.
func creation(c *compilation) []Reason {
	var reasons []Reason
	for i := range admissionRows {
		for _, r := range admissionRows[i].reasons(c) {
			r.Plugin, r.Lasting = admissionRows[i].plugin, true
			reasons = append(reasons, r)
		}
	}
	return reasons
}

// limitsOf are the limit ranges of a namespace.
func (s *Snapshot) limitsOf(namespace string) []*corev1.LimitRange {
	return slices.DeleteFunc(slices.Clone(s.cluster.LimitRanges), func(l *corev1.LimitRange) bool { return l.Namespace != namespace })
}

// defaulted returns the pod with what the API server adds: requests that equal limits, the defaults of limit ranges, and the
// tolerations that all pods have.
func defaulted(p *corev1.Pod, ranges []*corev1.LimitRange) *corev1.Pod {
	c := *p
	c.Spec.Containers, c.Spec.InitContainers = slices.Clone(p.Spec.Containers), slices.Clone(p.Spec.InitContainers)
	for _, containers := range [][]corev1.Container{c.Spec.Containers, c.Spec.InitContainers} {
		for i := range containers {
			r := &containers[i].Resources
			r.Requests, r.Limits = orMap(maps.Clone(r.Requests)), orMap(maps.Clone(r.Limits))
			addMissing(r.Requests, r.Limits)
			for _, l := range ranges {
				for j := range l.Spec.Limits {
					if item := &l.Spec.Limits[j]; item.Type == corev1.LimitTypeContainer {
						addMissing(r.Limits, item.Default)
						addMissing(r.Requests, item.DefaultRequest)
					}
				}
			}
		}
	}
	seconds := int64(300)
	c.Spec.Tolerations = slices.Clone(p.Spec.Tolerations)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		c.Spec.Tolerations = append(c.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	}
	return &c
}

func orMap(list corev1.ResourceList) corev1.ResourceList {
	if list == nil {
		return corev1.ResourceList{}
	}
	return list
}

func addMissing(list, from corev1.ResourceList) {
	for name, amount := range from {
		if _, stated := list[name]; !stated {
			list[name] = amount
		}
	}
}

// limitRanges compares the containers and the pod with the limit ranges of the namespace.
func limitRanges(c *compilation) []Reason {
	if c.snapshot.cluster.Unknown.LimitRanges {
		c.assume("the namespace has no LimitRange")
	}
	var reasons []Reason
	for _, l := range c.snapshot.limitsOf(c.pod.Namespace) {
		for i := range l.Spec.Limits {
			switch item := &l.Spec.Limits[i]; item.Type {
			case corev1.LimitTypeContainer:
				for _, containers := range [][]corev1.Container{c.pod.Spec.Containers, c.pod.Spec.InitContainers} {
					for j := range containers {
						r := &containers[j].Resources
						reasons = append(reasons, c.outside(l.Name, item, "the container "+containers[j].Name, r.Requests, r.Limits)...)
					}
				}
			case corev1.LimitTypePod:
				options := podresource.PodResourcesOptions{}
				reasons = append(reasons, c.outside(l.Name, item, "the pod", podresource.PodRequests(c.pod, options), podresource.PodLimits(c.pod, options))...)
			}
		}
	}
	return reasons
}

// outside returns where amounts are outside of a limit range.
func (c *compilation) outside(name string, item *corev1.LimitRangeItem, what string, requests, limits corev1.ResourceList) []Reason {
	var reasons []Reason
	add := func(r corev1.ResourceName, format string, args ...any) {
		from := c.resourceSource(r)
		reasons = append(reasons, Reason{
			Kind: LimitRangeViolated, Text: fmt.Sprintf("LimitRange %s: %s ", name, what) + fmt.Sprintf(format, args...),
			Field: from.field, Layer: from.layer, Rule: from.rule, Change: "change the virtual machine, or the LimitRange",
		})
	}
	readable := func(r corev1.ResourceName, q resource.Quantity) string {
		return Readable(r, amountsOf(corev1.ResourceList{r: q})[r])
	}
	for _, r := range slices.Sorted(maps.Keys(item.Min)) {
		if have, ok := requests[r]; !ok {
			add(r, "must request %s, at least %s", title(r), readable(r, item.Min[r]))
		} else if have.Cmp(item.Min[r]) < 0 {
			add(r, "requests %s of %s, at least %s is required", readable(r, have), title(r), readable(r, item.Min[r]))
		}
	}
	for _, r := range slices.Sorted(maps.Keys(item.Max)) {
		if have, ok := limits[r]; !ok {
			add(r, "must limit its %s, to at most %s", title(r), readable(r, item.Max[r]))
		} else if have.Cmp(item.Max[r]) > 0 {
			add(r, "has a limit of %s of %s, at most %s is allowed", readable(r, have), title(r), readable(r, item.Max[r]))
		}
	}
	for _, r := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		request, limit, ratio := requests[r], limits[r], item.MaxLimitRequestRatio[r]
		if request.IsZero() || limit.IsZero() || limit.AsApproximateFloat64()/request.AsApproximateFloat64() > ratio.AsApproximateFloat64() {
			add(r, "has a limit of %s that must be at most %s times its request", title(r), ratio.String())
		}
	}
	return reasons
}

// priority requires that the priority class exists.
func priority(c *compilation) []Reason {
	name := c.pod.Spec.PriorityClassName
	if name == "" || strings.HasPrefix(name, "system-") {
		return nil
	}
	if c.snapshot.cluster.Unknown.PriorityClasses {
		c.assume("the PriorityClass " + name + " exists")
		return nil
	}
	for _, class := range c.snapshot.cluster.PriorityClasses {
		if class.Name == name {
			return nil
		}
	}
	from := c.of("spec.priorityClassName", "")
	return []Reason{{Kind: NoPriorityClass, Text: "there is no PriorityClass " + name, Field: from.field, Layer: from.layer, Change: "create it, or name another one in spec.priorityClassName"}}
}

// podSecurity checks the level of Pod Security that the namespace enforces.
func podSecurity(c *compilation) []Reason {
	namespace, known := c.snapshot.namespaces[c.pod.Namespace]
	if !known {
		c.assume("the namespace enforces no level of Pod Security")
		return nil
	}
	level, err := security.ParseLevel(namespace[security.EnforceLevelLabel])
	if err != nil || level == security.LevelPrivileged {
		return nil
	}
	version, err := security.ParseVersion(namespace[security.EnforceVersionLabel])
	if err != nil {
		version = security.LatestVersion()
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil
	}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(security.LevelVersion{Level: level, Version: version}, &c.pod.ObjectMeta, &c.pod.Spec))
	if result.Allowed {
		return nil
	}
	return []Reason{{
		Kind: PodSecurityViolated, Text: fmt.Sprintf("the namespace enforces the Pod Security level %s, which the pod violates: %s", level, result.ForbiddenDetail()),
		Rule:   "KubeVirt's launcher needs these rights",
		Change: fmt.Sprintf("label the namespace %s=%s, or use another namespace", security.EnforceLevelLabel, security.LevelPrivileged),
	}}
}

// quotas requires that the quotas of the namespace have room for the pod.
func quotas(c *compilation) []Reason {
	if c.snapshot.cluster.Unknown.Quotas {
		c.assume("the namespace has no ResourceQuota that is exhausted")
	}
	var reasons []Reason
	usage := usageOf(c.pod)
	for _, q := range slices.SortedFunc(slices.Values(c.snapshot.cluster.Quotas), func(a, b *corev1.ResourceQuota) int { return strings.Compare(a.Name, b.Name) }) {
		if q.Namespace != c.pod.Namespace || !c.scoped(q) {
			continue
		}
		hard := q.Status.Hard
		if len(hard) == 0 {
			hard = q.Spec.Hard
		}
		for _, name := range slices.Sorted(maps.Keys(hard)) {
			if r := c.exceeded(q, name, hard[name], usage); r != nil {
				reasons = append(reasons, *r)
			}
		}
	}
	return reasons
}

// OverQuota returns why quotas do not allow a pod: the reasons QuotaExceeded.
func OverQuota(subject *Subject, all []*corev1.ResourceQuota) []Reason {
	s := &Snapshot{cluster: &Cluster{Quotas: all}}
	c := &compilation{Subject: subject, snapshot: s, pod: defaulted(subject.Pod, nil)}
	return slices.DeleteFunc(quotas(c), func(r Reason) bool { return r.Kind != QuotaExceeded })
}

// QuotaResources are the names of the resources that quotas limit, sorted; not nil. KubeVirt sets limits because of them.
func QuotaResources(all []*corev1.ResourceQuota) []string {
	names := []string{}
	for _, q := range all {
		for name := range q.Spec.Hard {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// usageOf is what quotas count of a pod, by their names of resources.
func usageOf(p *corev1.Pod) corev1.ResourceList {
	options := podresource.PodResourcesOptions{}
	usage := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1"), "count/pods": resource.MustParse("1")}
	for name, amount := range podresource.PodRequests(p, options) {
		usage["requests."+name] = amount
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			usage[name] = amount
		}
	}
	for name, amount := range podresource.PodLimits(p, options) {
		usage["limits."+name] = amount
	}
	return usage
}

// exceeded compares one resource of a quota; nil if the pod fits.
func (c *compilation) exceeded(q *corev1.ResourceQuota, name corev1.ResourceName, hard resource.Quantity, usage corev1.ResourceList) *Reason {
	of, limit := counted(name)
	from := c.resourceSource(of)
	amount, uses := usage[name]
	if !uses {
		if lacking := c.withoutAmount(of, limit); (of == corev1.ResourceCPU || of == corev1.ResourceMemory) && lacking != "" {
			return &Reason{
				Kind: QuotaNeedsAmount, Text: fmt.Sprintf("ResourceQuota %s counts %s, and the container %s has none", q.Name, name, lacking), Field: from.field, Layer: from.layer,
				Change: "set " + string(name) + " of the virtual machine in spec.domain.resources, or a default with a LimitRange",
			}
		}
		return nil
	}
	used := q.Status.Used[name]
	total := used.DeepCopy()
	total.Add(amount)
	if amount.IsZero() || total.Cmp(hard) <= 0 {
		return nil
	}
	readable := func(quantity resource.Quantity) string {
		return Readable(of, amountsOf(corev1.ResourceList{of: quantity})[of])
	}
	lacking := total.DeepCopy()
	lacking.Sub(hard)
	return &Reason{
		Kind: QuotaExceeded, Text: fmt.Sprintf("ResourceQuota %s: the pod needs %s of %s; %s of %s is used", q.Name, readable(amount), name, readable(used), readable(hard)),
		Field: from.field, Layer: from.layer, Rule: from.rule, Resource: name, Amount: readable(amount), Change: "raise the quota by " + readable(lacking) + ", stop another virtual machine, or request " + readable(lacking) + " less",
	}
}

// counted is the resource that a quota counts, and whether it counts limits.
func counted(name corev1.ResourceName) (of corev1.ResourceName, limit bool) {
	if rest, ok := strings.CutPrefix(string(name), "limits."); ok {
		return corev1.ResourceName(rest), true
	}
	return corev1.ResourceName(strings.TrimPrefix(string(name), "requests.")), false
}

// withoutAmount is the first container that states no amount of a resource that a quota counts; empty if all do.
func (c *compilation) withoutAmount(of corev1.ResourceName, limit bool) string {
	for _, containers := range [][]corev1.Container{c.pod.Spec.Containers, c.pod.Spec.InitContainers} {
		for i := range containers {
			list := containers[i].Resources.Requests
			if limit {
				list = containers[i].Resources.Limits
			}
			if _, ok := list[of]; !ok {
				return containers[i].Name
			}
		}
	}
	return ""
}

// scoped reports whether a quota is about the pod.
func (c *compilation) scoped(q *corev1.ResourceQuota) bool {
	for _, scope := range q.Spec.Scopes {
		if !c.inScope(corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}) {
			return false
		}
	}
	if q.Spec.ScopeSelector != nil {
		for _, e := range q.Spec.ScopeSelector.MatchExpressions {
			if !c.inScope(e) {
				return false
			}
		}
	}
	return true
}

func (c *compilation) inScope(e corev1.ScopedResourceSelectorRequirement) bool {
	switch e.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return c.pod.Spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return c.pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(c.pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(c.pod)
	case corev1.ResourceQuotaScopePriorityClass:
		name := c.pod.Spec.PriorityClassName
		switch e.Operator {
		case corev1.ScopeSelectorOpIn:
			return slices.Contains(e.Values, name)
		case corev1.ScopeSelectorOpNotIn:
			return !slices.Contains(e.Values, name)
		case corev1.ScopeSelectorOpDoesNotExist:
			return name == ""
		}
		return name != ""
	}
	return false // others are about affinity across namespaces, which virtual machines rarely have
}

// bestEffort reports whether no container states CPU or memory.
func bestEffort(p *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			for _, list := range []corev1.ResourceList{containers[i].Resources.Requests, containers[i].Resources.Limits} {
				if !list.Cpu().IsZero() || !list.Memory().IsZero() {
					return false
				}
			}
		}
	}
	return true
}
