package convert

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/export"
)

// filter is a set of requests in terms of policies.
type filter struct {
	cells map[cell]bool
	// everyKind reports whether it names no kinds, and everyOperation whether it names no operations.
	everyKind, everyOperation bool
	// others are the kinds that it names, and that policies do not match.
	others []string
	// namespaces are names of namespaces without wildcards, and patterns those with wildcards.
	namespaces, patterns []string
	// namespaceSelector and objectSelector have no wildcards.
	namespaceSelector, objectSelector *metav1.LabelSelector
	// users and groups have no wildcards.
	users, groups []string
	// conditions are the rest, as expressions of bool that read objectMark.
	conditions []string
	// lost are the fields that have no equivalent.
	lost []string
}

// objectMark stands for the object in the expressions of a filter: object, or oldObject at deletion.
const objectMark = "\x00"

// labelsOfObject are the labels of an object, in the expressions of a filter.
const labelsOfObject = objectMark + ".metadata.?labels.orValue({})"

// placed replaces the mark of the object.
func placed(expression string, deletes bool) string {
	object := "object"
	if deletes {
		object = "dyn(object == null ? oldObject : object)"
	}
	return strings.ReplaceAll(expression, objectMark, object)
}

// allCells returns all kinds with some operations.
func allCells(of []policyv1alpha1.PolicyOperation) map[cell]bool {
	all := map[cell]bool{}
	for _, kind := range export.Kinds() {
		for _, operation := range of {
			all[cell{kind, operation}] = true
		}
	}
	return all
}

// expressions returns what a filter requires besides kinds and operations, as expressions.
func (f *filter) expressions() []string {
	var all []string
	if list := slices.Concat(f.namespaces, f.patterns); len(list) > 0 {
		all = append(all, like(objectMark+".metadata.?namespace.orValue('')", list))
	}
	all = append(all, selected("namespaceObject.metadata.?labels.orValue({})", f.namespaceSelector)...)
	all = append(all, selected(labelsOfObject, f.objectSelector)...)
	if len(f.users)+len(f.groups) > 0 {
		all = append(all, requester(f.users, f.groups))
	}
	return append(all, f.conditions...)
}

// requester returns an expression for the user of a request. Names can have wildcards.
func requester(users, groups []string) string {
	var either []string
	if len(users) > 0 {
		either = append(either, like("request.userInfo.username", users))
	}
	if len(groups) > 0 {
		either = append(either, "request.userInfo.?groups.orValue([]).exists(g, "+like("g", groups)+")")
	}
	return either[0] + strings.Join(append([]string{""}, either[1:]...), " || ")
}

// whole returns the filter as one expression. The kinds and the operations are part of it if some of the cells are not in the
// filter.
func (f *filter) whole(of map[cell]bool) string {
	all := f.expressions()
	kinds := within(kindsOf(f.cells), kindsOf(of))
	operations := within(operationsOf(f.cells), operationsOf(of))
	if len(kinds) < len(kindsOf(of)) {
		all = slices.Insert(all, 0, objectMark+".kind in "+export.List(textsOf(kinds)))
	}
	if len(operations) < len(operationsOf(of)) {
		all = slices.Insert(all, 0, "request.operation in "+export.List(textsOf(operations)))
	}
	switch len(all) {
	case 0:
		return always
	case 1:
		return all[0]
	}
	return "(" + strings.Join(all, ") && (") + ")"
}

// within returns the values of a list that are in another one.
func within[T comparable](list, other []T) []T {
	return slices.DeleteFunc(list, func(value T) bool { return !slices.Contains(other, value) })
}

func textsOf[T ~string](list []T) []string {
	all := make([]string, len(list))
	for i := range list {
		all[i] = string(list[i])
	}
	return all
}

func kindsOf(cells map[cell]bool) []policyv1alpha1.PolicyKind {
	return slices.DeleteFunc(slices.Clone(export.Kinds()), func(kind policyv1alpha1.PolicyKind) bool {
		return !slices.ContainsFunc(operations, func(operation policyv1alpha1.PolicyOperation) bool { return cells[cell{kind, operation}] })
	})
}

func operationsOf(cells map[cell]bool) []policyv1alpha1.PolicyOperation {
	return slices.DeleteFunc(slices.Clone(operations), func(operation policyv1alpha1.PolicyOperation) bool {
		return !slices.ContainsFunc(export.Kinds(), func(kind policyv1alpha1.PolicyKind) bool { return cells[cell{kind, operation}] })
	})
}

// like returns an expression for a text that is one of several names, which can have the wildcards * and ?.
func like(text string, list []string) string {
	var exact, either []string
	for _, name := range list {
		beginning, open := strings.CutSuffix(name, "*")
		switch {
		case name == "*":
			return always
		case !wild(name):
			exact = append(exact, name)
		case open && !wild(beginning):
			either = append(either, text+".startsWith("+quote(beginning)+")")
		default:
			either = append(either, text+".matches("+quote(pattern(name))+")")
		}
	}
	switch {
	case len(exact) == 1:
		either = slices.Insert(either, 0, text+" == "+quote(exact[0]))
	case len(exact) > 1:
		either = slices.Insert(either, 0, text+" in "+export.List(exact))
	}
	return strings.Join(either, " || ")
}

func wild(name string) bool { return strings.ContainsAny(name, "*?") }

// pattern returns the regular expression of a name with wildcards.
func pattern(name string) string {
	return "^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(name)) + "$"
}

// quote returns a text in CEL.
func quote(text string) string { return strings.Trim(export.List([]string{text}), "[]") }

// selected returns expressions for the labels that a selector selects. Values of matchLabels can have wildcards.
func selected(labels string, s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		all = append(all, entry(labels, key, []string{s.MatchLabels[key]}))
	}
	for _, r := range s.MatchExpressions {
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			all = append(all, entry(labels, r.Key, r.Values))
		case metav1.LabelSelectorOpNotIn:
			all = append(all, "!("+entry(labels, r.Key, r.Values)+")")
		case metav1.LabelSelectorOpExists:
			all = append(all, quote(r.Key)+" in "+labels)
		case metav1.LabelSelectorOpDoesNotExist:
			all = append(all, "!("+quote(r.Key)+" in "+labels+")")
		}
	}
	return all
}

// entry returns an expression for a map that has a key with one of several values. The key can have wildcards too.
func entry(labels, key string, values []string) string {
	if wild(key) {
		return labels + ".exists(k, " + like("k", []string{key}) + " && (" + like(labels+"[k]", values) + "))"
	}
	has := quote(key) + " in " + labels
	if value := like(labels+"["+quote(key)+"]", values); value != always {
		return has + " && (" + value + ")"
	}
	return has
}

// hasWildcards reports whether a selector has wildcards, which selectors of policies do not have.
func hasWildcards(s *metav1.LabelSelector) bool {
	for key, value := range s.MatchLabels {
		if wild(key) || wild(value) {
			return true
		}
	}
	return false
}

// isInvalid reports whether a selector has a requirement that is not valid, and so selects nothing. Its labels can have wildcards.
func isInvalid(s *metav1.LabelSelector) bool {
	if s == nil {
		return false
	}
	_, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: s.MatchExpressions})
	return err != nil
}

// lose notes a field that has no equivalent, once.
func (f *filter) lose(field string) {
	if !slices.Contains(f.lost, field) {
		f.lost = append(f.lost, field)
	}
}

// narrow adds a filter that requests must match. It is the only one, or one of several of which all must match.
func (o *original) narrow(f *filter) {
	for c := range o.matched {
		if !f.cells[c] {
			delete(o.matched, c)
		}
	}
	if len(f.patterns) == 0 && len(f.namespaces) > 0 {
		o.inNamespaces(metav1.LabelSelectorOpIn, f.namespaces)
	} else if len(f.patterns) > 0 {
		o.require("namespaces", like(objectMark+".metadata.?namespace.orValue('')", slices.Concat(f.namespaces, f.patterns)))
	}
	o.spec.MatchConstraints.NamespaceSelector = both(o.spec.MatchConstraints.NamespaceSelector, f.namespaceSelector)
	o.spec.MatchConstraints.ObjectSelector = both(o.spec.MatchConstraints.ObjectSelector, f.objectSelector)
	if len(f.users)+len(f.groups) > 0 {
		o.require("requester", requester(f.users, f.groups))
	}
	for _, expression := range f.conditions {
		o.require("match", expression)
	}
}

// exclude adds a filter that requests must not match.
func (o *original) exclude(f *filter) {
	rest := f.expressions()
	switch {
	case len(f.cells) == 0: // other kinds
	case len(rest) == 0:
		maps.DeleteFunc(o.matched, func(c cell, _ names) bool { return f.cells[c] })
	case f.everyKind && f.everyOperation && len(rest) == 1 && len(f.namespaces) > 0 && len(f.patterns) == 0:
		o.inNamespaces(metav1.LabelSelectorOpNotIn, f.namespaces)
	case f.everyKind && f.everyOperation && len(rest) == 1 && len(f.users)+len(f.groups) > 0 && !slices.ContainsFunc(slices.Concat(f.users, f.groups), wild):
		o.excludedUsers, o.excludedGroups = append(o.excludedUsers, f.users...), append(o.excludedGroups, f.groups...)
	default:
		o.requireNot("not-excluded", f)
	}
}

// cells returns what the policy matches.
func (o *original) cells() map[cell]bool {
	all := map[cell]bool{}
	for c := range o.matched {
		all[c] = true
	}
	return all
}

// inNamespaces adds a requirement on the name of the namespace.
func (o *original) inNamespaces(operator metav1.LabelSelectorOperator, list []string) {
	o.spec.MatchConstraints.NamespaceSelector = both(o.spec.MatchConstraints.NamespaceSelector, &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: operator, Values: list}},
	})
}
