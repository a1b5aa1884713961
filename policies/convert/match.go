package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/texts"
)

// part is a set of requests that one policy can match: the product of kinds and operations.
type part struct {
	kinds      []policyv1alpha1.PolicyKind
	operations []policyv1alpha1.PolicyOperation
	names      names
}

// names restricts the names of objects.
type names struct {
	// only are the names that match; all match if limited is false.
	limited bool
	only    []string
	except  []string
}

func (n names) key() string {
	return fmt.Sprint(n.limited, strings.Join(n.only, ","), ";", strings.Join(n.except, ","))
}

// cell is one kind and one operation.
type cell struct {
	kind      policyv1alpha1.PolicyKind
	operation policyv1alpha1.PolicyOperation
}

// operations are the operations that a policy can match.
var operations = []policyv1alpha1.PolicyOperation{policyv1alpha1.PolicyCreate, policyv1alpha1.PolicyUpdate, policyv1alpha1.PolicyDelete}

// match returns the parts that the policy and its binding match together.
func (o *original) match() ([]part, []Note) {
	if o.matched != nil {
		return parts(o.matched), nil
	}
	constraints := o.spec.MatchConstraints
	if constraints == nil {
		constraints = &admissionregistrationv1.MatchResources{}
	}
	found := cells(constraints)
	notes := others("spec.matchConstraints", constraints.ResourceRules)
	if resources := o.binding.MatchResources; resources != nil && (len(resources.ResourceRules) > 0 || len(resources.ExcludeResourceRules) > 0) {
		bound := *resources
		if len(bound.ResourceRules) == 0 {
			bound.ResourceRules = constraints.ResourceRules
		} else if len(others("", bound.ResourceRules)) == 0 { // what the policy matches beyond the binding has no effect
			notes = nil
		}
		found = intersected(found, cells(&bound))
	}
	if policy := constraints.MatchPolicy; policy != nil && *policy == admissionregistrationv1.Exact {
		notes = append(notes, Note{Field: "spec.match", Message: "the original matches only the API versions that it lists: Virtward matches all versions"})
	}
	return parts(found), notes
}

// cells returns what resource rules match, without what exclude rules match.
func cells(resources *admissionregistrationv1.MatchResources) map[cell]names {
	found := map[cell]names{}
	for _, kind := range export.Kinds() {
		for _, operation := range operations {
			matched, only := covered(resources.ResourceRules, kind, operation)
			excluded, except := covered(resources.ExcludeResourceRules, kind, operation)
			if !matched || excluded && len(except) == 0 {
				continue
			}
			found[cell{kind, operation}] = names{limited: len(only) > 0, only: only, except: except}
		}
	}
	return found
}

// covered reports whether a rule matches a kind and an operation, and the names if all such rules are limited to names.
func covered(rules []admissionregistrationv1.NamedRuleWithOperations, kind policyv1alpha1.PolicyKind, operation policyv1alpha1.PolicyOperation) (matched bool, only []string) {
	all := false
	for i := range rules {
		if !covers(&rules[i], kind) || !has(rules[i].Operations, admissionregistrationv1.OperationType(operation)) {
			continue
		}
		matched, all = true, all || len(rules[i].ResourceNames) == 0
		only = append(only, rules[i].ResourceNames...)
	}
	if all {
		return matched, nil
	}
	slices.Sort(only)
	return matched, slices.Compact(only)
}

// has reports whether a list has a value, or a *.
func has[T ~string](list []T, value T) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// covers reports whether a rule matches objects of a kind.
func covers(rule *admissionregistrationv1.NamedRuleWithOperations, kind policyv1alpha1.PolicyKind) bool {
	group, versions, resource := export.Resource(kind)
	if rule.Scope != nil && *rule.Scope == admissionregistrationv1.ClusterScope || !has(rule.APIGroups, group) {
		return false
	}
	if !slices.ContainsFunc(versions, func(version string) bool { return has(rule.APIVersions, version) }) {
		return false
	}
	return has(rule.Resources, resource) || slices.Contains(rule.Resources, "*/*")
}

// others notes the requests that rules match and that no policy of Virtward does.
func others(field string, rules []admissionregistrationv1.NamedRuleWithOperations) []Note {
	var notes []Note
	for i := range rules {
		rule := &rules[i]
		var unmatched []string
		for _, resource := range rule.Resources {
			if !slices.ContainsFunc(export.Kinds(), func(kind policyv1alpha1.PolicyKind) bool {
				one := *rule
				one.Resources = []string{resource}
				return covers(&one, kind) && (!strings.Contains(resource, "/") || resource == "*/*")
			}) {
				unmatched = append(unmatched, resource)
			}
		}
		at := fmt.Sprintf("%s.resourceRules[%d]", field, i)
		if len(unmatched) > 0 {
			notes = append(notes, Note{Field: "spec.match.kinds", Lost: true, Message: fmt.Sprintf("%s also matches %s of %s: keep the original for these resources",
				at, quotedList(unmatched), quotedList(rule.APIGroups))})
		}
		if left := beside(rule); left != "" && !slices.ContainsFunc(unmatched, func(r string) bool { return strings.HasPrefix(r, "*") }) {
			notes = append(notes, Note{Field: "spec.match.kinds", Lost: true, Message: fmt.Sprintf("%s also matches %s: keep the original for these resources", at, left)})
		}
		if slices.Contains(rule.Operations, admissionregistrationv1.Connect) {
			notes = append(notes, Note{Field: "spec.match.operations", Lost: true, Message: at + " also matches CONNECT: keep the original for this operation"})
		}
	}
	return notes
}

// beside returns what a rule for all resources matches besides those of policies; it is empty if there is nothing.
func beside(rule *admissionregistrationv1.NamedRuleWithOperations) string {
	if !slices.Contains(rule.Resources, "*") && !slices.Contains(rule.Resources, "*/*") {
		return ""
	}
	groups := slices.DeleteFunc(slices.Clone(rule.APIGroups), func(group string) bool { return group == poolGroup })
	switch {
	case slices.Contains(groups, "*"):
		return "all other resources of the cluster"
	case len(groups) > 0:
		return "all other resources of " + quotedList(groups)
	case slices.Contains(rule.Resources, "*/*"):
		return "subresources"
	}
	return ""
}

// poolGroup has no resources but those of virtual machine pools.
const poolGroup = "pool.kubevirt.io"

// quotedList joins names for a message. The core group has an empty name.
func quotedList(list []string) string {
	quoted := make([]string, len(list))
	for i := range list {
		quoted[i] = list[i]
		if list[i] == "" {
			quoted[i] = "the core group"
		}
	}
	return texts.Shorten(strings.Join(quoted, ", "), maxQuoted)
}

// intersected returns what is in both.
func intersected(a, b map[cell]names) map[cell]names {
	found := map[cell]names{}
	for c, in := range a {
		also, ok := b[c]
		if !ok {
			continue
		}
		one := names{limited: in.limited || also.limited, except: slices.Compact(slices.Sorted(slices.Values(slices.Concat(in.except, also.except))))}
		switch {
		case in.limited && also.limited:
			one.only = slices.DeleteFunc(slices.Clone(in.only), func(name string) bool { return !slices.Contains(also.only, name) })
		case in.limited:
			one.only = in.only
		default:
			one.only = also.only
		}
		found[c] = one
	}
	return found
}

// parts groups cells into products of kinds and operations.
func parts(found map[cell]names) []part {
	var all []part
	byNames := map[string]names{}
	for _, n := range found {
		byNames[n.key()] = n
	}
	for _, key := range slices.Sorted(maps.Keys(byNames)) {
		for _, kind := range export.Kinds() {
			var with []policyv1alpha1.PolicyOperation
			for _, operation := range operations {
				if n, ok := found[cell{kind, operation}]; ok && n.key() == key {
					with = append(with, operation)
				}
			}
			if len(with) == 0 {
				continue
			}
			same := slices.IndexFunc(all, func(p part) bool { return p.names.key() == key && slices.Equal(p.operations, with) })
			if same >= 0 {
				all[same].kinds = append(all[same].kinds, kind)
			} else {
				all = append(all, part{kinds: []policyv1alpha1.PolicyKind{kind}, operations: with, names: byNames[key]})
			}
		}
	}
	return all
}

// conditions returns the conditions that restrict the names of objects.
func (p part) conditions() []policyv1alpha1.PolicyCondition {
	n, name := p.names, "object.metadata.?name.orValue('')"
	if slices.Contains(p.operations, policyv1alpha1.PolicyDelete) {
		name = "dyn(object == null ? oldObject : object).metadata.?name.orValue('')"
	}
	var all []policyv1alpha1.PolicyCondition
	if n.limited {
		all = append(all, policyv1alpha1.PolicyCondition{Name: "resource-names", Expression: name + " in " + export.List(n.only)})
	}
	if len(n.except) > 0 {
		all = append(all, policyv1alpha1.PolicyCondition{Name: "excluded-names", Expression: "!(" + name + " in " + export.List(n.except) + ")"})
	}
	return all
}

// both returns a selector for what two selectors select. An absent or empty one selects everything.
func both(a, b *metav1.LabelSelector) *metav1.LabelSelector {
	switch {
	case empty(a) && empty(b):
		return nil
	case empty(a):
		return b.DeepCopy()
	case empty(b):
		return a.DeepCopy()
	}
	joined := a.DeepCopy()
	for _, key := range slices.Sorted(maps.Keys(b.MatchLabels)) {
		joined.MatchExpressions = append(joined.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{b.MatchLabels[key]}})
	}
	joined.MatchExpressions = append(joined.MatchExpressions, b.DeepCopy().MatchExpressions...)
	return joined
}

func empty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}
