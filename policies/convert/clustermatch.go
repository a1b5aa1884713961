package convert

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/export"
)

// nameOf is the name of an object, or the prefix of the name that it will get.
const nameOf = objectMark + ".metadata.?name.orValue(" + objectMark + ".metadata.?generateName.orValue(''))"

// filter returns a filter in terms of policies. byDefault are the operations of a filter that names none. With pods, labels and annotations
// are those of the pods of virtual machines.
func (f *clusterFilter) filter(byDefault []policyv1alpha1.PolicyOperation, pods bool) *filter {
	made := &filter{everyKind: true, everyOperation: true, cells: allCells(byDefault)}
	for _, role := range []struct {
		field string
		list  []string
	}{{"roles", f.Roles}, {"clusterRoles", f.ClusterRoles}} {
		if len(role.list) > 0 {
			made.lost = append(made.lost, role.field)
		}
	}
	made.subjects(f.Subjects)
	r := f.Resources
	if r == nil {
		return made
	}
	if len(r.Operations) > 0 {
		made.everyOperation, made.cells = false, allCells(slices.DeleteFunc(slices.Clone(operations), func(o policyv1alpha1.PolicyOperation) bool {
			return !slices.Contains(r.Operations, o)
		}))
		if slices.Contains(r.Operations, "CONNECT") {
			made.others = append(made.others, "CONNECT")
		}
	}
	if len(r.Kinds) > 0 {
		made.everyKind = false
		made.kinds(r.Kinds)
	}
	made.namespaces, made.patterns = byWildcards(r.Namespaces)
	if list := slices.Concat(r.Names, oneOf(r.Name)); len(list) > 0 {
		if len(r.Names) > 0 && r.Name != "" { // both must match
			made.conditions, list = append(made.conditions, like(nameOf, r.Names)), []string{r.Name}
		}
		made.conditions = append(made.conditions, like(nameOf, list))
	}
	labels := labelsOfObject
	annotations := objectMark + ".metadata.?annotations.orValue({})"
	if pods {
		labels, annotations = labelsOfPod, annotationsOfPod
	}
	for _, key := range slices.Sorted(maps.Keys(r.Annotations)) {
		made.conditions = append(made.conditions, entry(annotations, key, []string{r.Annotations[key]}))
	}
	if isInvalid(r.Selector) || isInvalid(r.NamespaceSelector) {
		made.lose("selector")
	}
	if r.Selector != nil && (pods || hasWildcards(r.Selector)) {
		made.conditions = append(made.conditions, selected(labels, r.Selector)...)
	} else {
		made.objectSelector = r.Selector
	}
	if r.NamespaceSelector != nil && hasWildcards(r.NamespaceSelector) {
		made.conditions = append(made.conditions, selected("namespaceObject.metadata.?labels.orValue({})", r.NamespaceSelector)...)
	} else {
		made.namespaceSelector = r.NamespaceSelector
	}
	return made
}

// subjects adds users and groups. Their names can have wildcards.
func (f *filter) subjects(all []rbacv1.Subject) {
	for _, s := range all {
		switch s.Kind {
		case rbacv1.GroupKind:
			f.groups = append(f.groups, s.Name)
		case rbacv1.ServiceAccountKind:
			f.users = append(f.users, "system:serviceaccount:"+s.Namespace+":"+s.Name)
		case rbacv1.UserKind:
			f.users = append(f.users, s.Name)
		default: // without it, the filter would match more
			f.lose("subjects")
		}
	}
}

// kinds keeps the cells of kinds, and notes those that policies do not match.
func (f *filter) kinds(list []string) {
	matched := map[policyv1alpha1.PolicyKind]bool{}
	for _, selector := range list {
		group, version, kind, subresource := kindSelector(selector)
		found := false
		for _, known := range export.Kinds() {
			knownGroup, versions, _ := export.Resource(known)
			if isLike(group, knownGroup) && isLike(kind, string(known)) && (subresource == "" || subresource == "*") &&
				slices.ContainsFunc(versions, func(v string) bool { return isLike(version, v) }) {
				matched[known], found = true, true
			}
		}
		if !found || wild(kind) || subresource == "*" {
			f.others = append(f.others, selector)
		}
	}
	for c := range f.cells {
		if !matched[c.kind] {
			delete(f.cells, c)
		}
	}
}

// kindSelector splits a kind with the group, the version and the subresource that can be around it.
func kindSelector(text string) (group, version, kind, subresource string) {
	isVersion := func(part string) bool {
		return part == "*" || len(part) > 1 && part[0] == 'v' && part[1] >= '0' && part[1] <= '9'
	}
	parts := strings.Split(text, "/")
	last := len(parts) - 1
	if before, after, found := strings.Cut(parts[last], "."); found {
		parts = append(parts[:last], before, after)
	}
	switch {
	case len(parts) == 1:
		return "*", "*", parts[0], ""
	case text == "*/*":
		return "*", "*", "*", "*"
	case len(parts) == 2 && parts[0] == "*" && strings.ToLower(parts[1]) == parts[1]:
		return "*", "*", "*", parts[1]
	case len(parts) == 2 && isVersion(parts[0]):
		return "*", parts[0], parts[1], ""
	case len(parts) == 2:
		return "*", "*", parts[0], parts[1]
	case len(parts) == 3 && isVersion(parts[0]):
		return "*", parts[0], parts[1], parts[2]
	case len(parts) == 3:
		return parts[0], parts[1], parts[2], ""
	case len(parts) == 4:
		return parts[0], parts[1], parts[2], parts[3]
	}
	return "", "", "", "?"
}

// isLike reports whether a text matches a name with wildcards.
func isLike(name, text string) bool {
	matched, err := regexp.Compile(pattern(name))
	return err == nil && matched.MatchString(text)
}

// matches reports whether a rule can match a virtual machine.
func (r *clusterRule) matches() bool { return len(r.cells(operations)) > 0 }

// cells returns the kinds and the operations that the match of a rule has.
func (r *clusterRule) cells(byDefault []policyv1alpha1.PolicyOperation) map[cell]bool {
	filters, every := r.Match.filters()
	var found map[cell]bool
	for i := range filters {
		f := filters[i].filter(byDefault, r.Pods)
		if f.everyKind && !every { // a rule must name kinds
			f.cells = nil
		}
		switch {
		case found == nil:
			found = f.cells
		case every:
			for c := range found {
				if !f.cells[c] {
					delete(found, c)
				}
			}
		default:
			for c := range f.cells {
				found[c] = true
			}
		}
		if found == nil {
			found = map[cell]bool{}
		}
	}
	if every && !slices.ContainsFunc(filters, func(f clusterFilter) bool { return f.Resources != nil && len(f.Resources.Kinds) > 0 }) {
		return nil
	}
	return found
}

// clusterMatch writes the match of a rule.
func (o *original) clusterMatch(rule *clusterRule) {
	filters, every := rule.Match.filters()
	byDefault := o.defaultOperations(filters)
	o.matched = map[cell]names{}
	for c := range rule.cells(byDefault) {
		o.matched[c] = names{}
	}
	var made []*filter
	var others []string
	for i := range filters {
		f := filters[i].filter(byDefault, rule.Pods)
		o.losing("match", f)
		others = append(others, f.others...)
		made = append(made, f)
	}
	if o.admitted { // patterns are not evaluated at deletions
		maps.DeleteFunc(o.matched, func(c cell, _ names) bool { return c.operation == policyv1alpha1.PolicyDelete })
	}
	slices.Sort(others)
	o.beyond(slices.Compact(others))
	switch {
	case every || len(made) == 1:
		for _, f := range made {
			o.narrow(o.byNewLabels(f))
		}
	case slices.ContainsFunc(made, func(f *filter) bool { return len(f.expressions()) > 0 }):
		o.requireAny(made)
	}
	if rule.Exclude == nil {
		return
	}
	excluded, every := rule.Exclude.filters()
	var together []*filter
	for i := range excluded {
		f := excluded[i].filter(operations, rule.Pods)
		named := !f.everyKind || !f.everyOperation || len(f.expressions()) > 0
		f.everyKind = f.everyKind || !slices.ContainsFunc(kindsOf(o.cells()), func(kind policyv1alpha1.PolicyKind) bool { return !slices.Contains(kindsOf(f.cells), kind) })
		o.losing("exclude", f)
		switch {
		case len(f.lost) > 0: // a part of it would exclude more
		case every && len(excluded) > 1:
			together = append(together, f)
		case named: // an empty one excludes nothing
			o.exclude(f)
		}
	}
	if len(together) > 0 {
		o.requireNot("not-excluded", together...)
	}
}

// byNewLabels returns a filter that reads the labels of an object after an update, as Kyverno does: an objectSelector also selects an update
// by the labels before it.
func (o *original) byNewLabels(f *filter) *filter {
	if f.objectSelector == nil || !o.matches(policyv1alpha1.PolicyUpdate) {
		return f
	}
	made := *f
	made.objectSelector = nil
	made.conditions = slices.Concat(f.conditions, selected(labelsOfObject, f.objectSelector))
	return &made
}

// oneOf returns a list with a text that is not empty.
func oneOf(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// qualified returns the name by which an exception names a policy: with the namespace, if the policy has one.
func qualified(policy *unstructured.Unstructured) string {
	if kindOf(policy) == namespacedPolicy {
		return policy.GetNamespace() + "/" + policy.GetName()
	}
	return policy.GetName()
}
