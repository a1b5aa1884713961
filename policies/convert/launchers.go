package convert

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// launcherSources are the fields of a virtual machine from which KubeVirt sets fields of its pod, by these.
var launcherSources = map[string]string{
	"metadata.namespace":             "metadata.namespace",
	"metadata.labels":                "spec.template.metadata.labels",
	"metadata.annotations":           "spec.template.metadata.annotations",
	"spec.affinity":                  "spec.template.spec.affinity",
	"spec.dnsConfig":                 "spec.template.spec.dnsConfig",
	"spec.dnsPolicy":                 "spec.template.spec.dnsPolicy",
	"spec.nodeSelector":              "spec.template.spec.nodeSelector",
	"spec.priorityClassName":         "spec.template.spec.priorityClassName",
	"spec.schedulerName":             "spec.template.spec.schedulerName",
	"spec.tolerations":               "spec.template.spec.tolerations",
	"spec.topologySpreadConstraints": "spec.template.spec.topologySpreadConstraints",
}

// launcherLabel is the label of the pods of virtual machines.
const launcherLabel, launcherValue = v1.AppLabel, "virt-launcher"

// The labels and the annotations of the pod of a virtual machine, in expressions.
const labelsOfPod, annotationsOfPod = "pod.metadata.?labels.orValue({})", "pod.metadata.?annotations.orValue({})"

// podsMoved is the note of a policy that was about pods.
const podsMoved = "the original matches pods of virtual machines: here, pod is the one that KubeVirt creates, as it is before webhooks of " +
	"others change it. Changes and deletions of pods are not evaluated"

// Reasons why a match of pods is not moved.
const (
	podsNamed      = "its match names pods, and those of virtual machines have random names"
	podsNotCreated = "its operations are others than the creation of pods"
)

// withoutLauncher returns what a selector requires beside the labels that all pods of virtual machines have, and only these. It is false
// if it does not require one of them.
func withoutLauncher(s *metav1.LabelSelector) (rest *metav1.LabelSelector, ok bool) {
	if s == nil {
		return nil, false
	}
	rest = s.DeepCopy()
	if ok = rest.MatchLabels[launcherLabel] == launcherValue; ok {
		delete(rest.MatchLabels, launcherLabel)
	}
	rest.MatchExpressions = slices.DeleteFunc(rest.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		is := r.Key == launcherLabel && r.Operator == metav1.LabelSelectorOpIn && slices.Equal(r.Values, []string{launcherValue}) ||
			slices.Contains([]string{v1.CreatedByLabel, v1.DeprecatedVirtualMachineNameLabel, v1.VirtualMachineInstanceIDLabel}, r.Key) && r.Operator == metav1.LabelSelectorOpExists
		ok = ok || is
		return is
	})
	if empty(rest) {
		rest = nil
	}
	return rest, ok
}

// isPod reports whether a kind is Pod, without a subresource.
func isPod(text string) bool {
	group, version, kind, subresource := kindSelector(text)
	return kind == "Pod" && subresource == "" && group == "*" && isLike(version, "v1")
}

// selectsLaunchers reports whether a rule matches only pods of virtual machines, by their labels.
func (r *clusterRule) selectsLaunchers() bool {
	filters, _ := r.Match.filters()
	return !slices.ContainsFunc(filters, func(f clusterFilter) bool {
		if f.Resources == nil || len(f.Resources.Kinds) == 0 {
			return true
		}
		_, ok := withoutLauncher(f.Resources.Selector)
		return !ok || slices.ContainsFunc(f.Resources.Kinds, func(text string) bool { return !isPod(text) })
	})
}

// moveLaunchers replaces rules about pods of virtual machines by rules about the virtual machines, where these know all that they read.
func (s *clusterSpec) moveLaunchers() {
	for i := range s.Rules {
		r := &s.Rules[i]
		r.Pods, r.Left, r.OfPods = false, "", nil // a file can have any key
		if r.Validate == nil || !r.selectsLaunchers() {
			continue
		}
		made, problem := r.ofMachines()
		if len(s.WebhookConfiguration.MatchConditions) > 0 {
			problem = cmp.Or(problem, "the matchConditions of its webhook select requests for pods")
		}
		if problem == "" {
			problem = made.untranslated(s.ignores())
		}
		if r.Left = problem; problem == "" {
			s.Rules[i] = *made
		}
	}
}

// untranslated says why a rule has no translation; empty if it has one.
func (r *clusterRule) untranslated(ignores bool) string {
	_, reason, problems := r.translate(ignores)
	if reason != "" && problems == "" {
		return because(reason)
	}
	return strings.TrimPrefix(problems, "; ")
}

// ofMachines returns a rule about virtual machines for one about their pods. The problem says why its match has no equivalent.
func (r *clusterRule) ofMachines() (made *clusterRule, problem string) {
	rule := *r
	rule.Pods = true
	if rule.Match, problem = r.Match.ofMachines(false); problem == "" && r.Exclude != nil {
		var exclude clusterMatch
		exclude, problem = r.Exclude.ofMachines(true)
		rule.Exclude = &exclude
	}
	rule.OfPods = &celPods{}
	if err := rule.OfPods.rule(&rule); err != nil {
		problem = cmp.Or(problem, err.Error())
	}
	return &rule, problem
}

// ofMachines returns a match of virtual machines for one of their pods.
func (m *clusterMatch) ofMachines(excludes bool) (made clusterMatch, problem string) {
	move := func(list []clusterFilter) []clusterFilter {
		list = slices.Clone(list)
		for i := range list {
			if left := list[i].move(excludes); left != "" && problem == "" {
				problem = left
			}
		}
		return list
	}
	made = clusterMatch{Any: move(m.Any), All: move(m.All)}
	made.clusterFilter = move([]clusterFilter{m.clusterFilter})[0]
	return made, problem
}

// move makes a filter of pods one of the virtual machines. It returns what has no equivalent.
func (f *clusterFilter) move(excludes bool) string {
	if len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) > 0 {
		return "its match names users, and KubeVirt creates all pods of virtual machines"
	}
	if f.Resources == nil {
		return ""
	}
	r := *f.Resources
	f.Resources = &r
	switch {
	case slices.ContainsFunc(r.Kinds, func(text string) bool { return !isPod(text) }):
		return "its exclude has other kinds"
	case len(r.Operations) > 0 && (excludes || !slices.Contains(r.Operations, policyv1alpha1.PolicyCreate)):
		return podsNotCreated
	case slices.ContainsFunc(slices.Concat(r.Names, oneOf(r.Name)), func(name string) bool {
		return !slices.Contains([]string{"*", launcherValue + "*", launcherValue + "-*"}, name)
	}):
		return podsNamed
	}
	r.Name, r.Names = "", nil
	if len(r.Kinds) > 0 {
		r.Kinds = []string{apikinds.VirtualMachine, apikinds.VirtualMachineInstance}
	}
	if !excludes {
		r.Operations = operations[:2]
		r.Selector, _ = withoutLauncher(r.Selector)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Annotations)) {
		if unknown := unknownKeyOf("annotations", key); unknown != "" {
			return unknown
		}
	}
	return unknownLabel(r.Selector)
}

// moveLaunchers makes a native policy about pods of virtual machines, or one in its form, one about virtual machines. The problem says why
// it cannot be moved.
func (o *original) moveLaunchers() (problem string) {
	constraints, bound := o.spec.MatchConstraints, o.binding.MatchResources
	if constraints == nil {
		constraints = &admissionregistrationv1.MatchResources{}
	}
	if bound == nil {
		bound = &admissionregistrationv1.MatchResources{}
	}
	rules := slices.Concat(constraints.ResourceRules, bound.ResourceRules)
	rest, ok := withoutLauncher(both(constraints.ObjectSelector, bound.ObjectSelector))
	if !ok || len(constraints.ResourceRules) == 0 || slices.ContainsFunc(rules, func(r admissionregistrationv1.NamedRuleWithOperations) bool { return !ofPods(&r) }) {
		return ""
	}
	switch {
	case len(constraints.ExcludeResourceRules)+len(bound.ExcludeResourceRules) > 0:
		return "its match excludes resources"
	case slices.ContainsFunc(rules, func(r admissionregistrationv1.NamedRuleWithOperations) bool { return len(r.ResourceNames) > 0 }):
		return podsNamed
	case !creates(constraints.ResourceRules) || len(bound.ResourceRules) > 0 && !creates(bound.ResourceRules):
		return podsNotCreated
	}
	if unknown := unknownLabel(rest); unknown != "" {
		return unknown
	}
	conditions, variables, validations := slices.Clone(o.spec.MatchConditions), slices.Clone(o.spec.Variables), slices.Clone(o.spec.Validations)
	pods := &celPods{}
	if err := pods.replace(conditions, variables, validations); err != nil {
		return err.Error()
	}
	o.notesOf(pods)
	o.spec.MatchConditions, o.spec.Variables, o.spec.Validations = conditions, variables, validations
	o.spec.MatchConstraints = &admissionregistrationv1.MatchResources{NamespaceSelector: constraints.NamespaceSelector}
	o.binding.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: bound.NamespaceSelector}
	o.pods, o.matched = true, map[cell]names{}
	for _, kind := range []policyv1alpha1.PolicyKind{apikinds.VirtualMachine, apikinds.VirtualMachineInstance} {
		for _, operation := range operations[:2] {
			o.matched[cell{kind, operation}] = names{}
		}
	}
	for _, expression := range selected(labelsOfPod, rest) {
		o.require("match", expression)
	}
	o.differs("spec.match", podsMoved)
	return ""
}

// ofPods reports whether a rule is about pods only.
func ofPods(r *admissionregistrationv1.NamedRuleWithOperations) bool {
	return slices.Equal(r.APIGroups, []string{""}) && slices.Equal(r.Resources, []string{"pods"}) && has(r.APIVersions, "v1") &&
		(r.Scope == nil || *r.Scope != admissionregistrationv1.ClusterScope)
}

// creates reports whether rules match creations.
func creates(rules []admissionregistrationv1.NamedRuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
		return has(r.Operations, admissionregistrationv1.Create)
	})
}

// selectedKeys are the labels that a selector reads, sorted.
func selectedKeys(s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	keys := slices.Collect(maps.Keys(s.MatchLabels))
	for _, r := range s.MatchExpressions {
		keys = append(keys, r.Key)
	}
	slices.Sort(keys)
	return keys
}

// objectField is a field of the object in a variable or in an expression in CEL, with the one around it.
var objectField = regexp.MustCompile(`\bobject\.([A-Za-z]+\.[A-Za-z]+)`)

// launcherFields returns the fields that a rule reads: those of its patterns, and those in its variables.
func (r *clusterRule) launcherFields() []string {
	var all []string
	patterns, _ := r.Validate.AnyPattern.([]any)
	for _, pattern := range append(slices.Clone(patterns), r.Validate.Pattern) {
		fields, _ := pattern.(map[string]any)
		for _, key := range keysOf(fields) {
			_, outer := splitAnchor(key)
			inner, _ := fields[key].(map[string]any)
			for _, below := range keysOf(inner) {
				_, name := splitAnchor(below)
				all = append(all, outer+"."+name)
			}
		}
	}
	// What cannot be encoded cannot be read.
	content, _ := json.Marshal([]any{r.Validate.Deny, r.Validate.ForEach, r.Validate.CEL, r.Preconditions, r.CELPreconditions, r.Context})
	for _, found := range objectField.FindAllSubmatch(content, -1) {
		all = append(all, string(found[1]))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// unmatched says why a rule that matches no virtual machine is not converted.
func (r *clusterRule) unmatched() string {
	message := because(NoVirtualMachine)
	if advice := r.launchers(); advice != "" {
		return message + "; it " + advice
	}
	if r.Validate != nil && r.selectsPods() {
		message += ofAllPods
	}
	return message
}

// ofAllPods is said of what is about pods, and does not select those of virtual machines.
const ofAllPods = "; it is about pods: to convert it for those of virtual machines, select the label kubevirt.io: virt-launcher in a copy"

// selectsPods reports whether a rule matches only pods.
func (r *clusterRule) selectsPods() bool {
	filters, _ := r.Match.filters()
	return len(filters) > 0 && !slices.ContainsFunc(filters, func(f clusterFilter) bool {
		return f.Resources == nil || len(f.Resources.Kinds) == 0 || slices.ContainsFunc(f.Resources.Kinds, func(text string) bool { return !isPod(text) })
	})
}

// launchers names where the fields that a rule about pods of virtual machines reads come from. It is empty for other rules.
func (r *clusterRule) launchers() string {
	if !r.selectsLaunchers() || r.Validate == nil {
		return ""
	}
	message := "selects pods of virtual machines"
	if r.Left != "" {
		message += ", and is not rewritten: " + texts.Shorten(r.Left, maxListed)
	}
	var from []string
	for _, name := range r.launcherFields() {
		if source := launcherSources[name]; source != "" && source != name {
			from = append(from, source+" for "+name)
		}
	}
	message += "; write it for VirtualMachines"
	if len(from) > 0 {
		message += ", with " + texts.Shorten(strings.Join(from, ", "), maxListed)
	}
	return message
}

// maxListed bounds the fields in a message, in bytes.
const maxListed = 500
