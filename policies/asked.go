package policies

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// asked has the policies that a question asks, sorted by name. Those that select namespaces by their names are found by the name, so a
// request costs nothing for the policies of the other namespaces.
type asked struct {
	all []*Policy
	// anywhere are those of all that do not select by names, and named the others, by each of their names.
	anywhere []*Policy
	named    map[string][]*Policy
}

// add appends a policy, whose name comes after those of the others.
func (a *asked) add(p *Policy) {
	a.all = append(a.all, p)
	names, selects := namesOf(p.matcher.namespaces)
	if !selects {
		a.anywhere = append(a.anywhere, p)
		return
	}
	if a.named == nil {
		a.named = map[string][]*Policy{}
	}
	for _, name := range names {
		a.named[name] = append(a.named[name], p)
	}
}

// namesOf returns the only names of namespaces that a selector can match, and whether it is limited to names at all.
func namesOf(selector labels.Selector) (names []string, selects bool) {
	if selector == nil {
		return nil, false
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if r.Key() == corev1.LabelMetadataName && slices.Contains([]selection.Operator{selection.In, selection.Equals, selection.DoubleEquals}, r.Operator()) {
			return r.Values().UnsortedList(), true
		}
	}
	return nil, false
}

// contains reports whether the condition holds for one of the policies.
func (a *asked) contains(is func(*Policy) bool) bool {
	return a != nil && slices.ContainsFunc(a.all, is)
}

// matching returns the policies that match and are to be evaluated, by name: those that deny, and the others.
func (a *asked) matching(s *subject, evaluated func(*Policy) bool) (deny, others []*Policy) {
	if a == nil {
		return nil, nil
	}
	for p := range a.candidates(s) {
		switch denies := p.denies(); {
		case !denies && s.documents.OnlyDenying || !evaluated(p) || !p.matcher.matches(s):
		case denies:
			deny = append(deny, p)
		default:
			others = append(others, p)
		}
	}
	return deny, others
}

// candidates are the policies whose selector of namespaces can match, by name.
func (a *asked) candidates(s *subject) iter.Seq[*Policy] {
	var named []*Policy
	if name, ok := s.namespaceLabels[corev1.LabelMetadataName]; ok {
		named = a.named[name]
	}
	return func(yield func(*Policy) bool) {
		anywhere := a.anywhere
		for _, p := range named {
			for len(anywhere) > 0 && anywhere[0].name < p.name {
				if !yield(anywhere[0]) {
					return
				}
				anywhere = anywhere[1:]
			}
			if !yield(p) {
				return
			}
		}
		for _, p := range anywhere {
			if !yield(p) {
				return
			}
		}
	}
}
