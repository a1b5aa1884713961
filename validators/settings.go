package validators

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// Settings are the admin's severities of rules, compiled from RuleSettings objects. The value is immutable
// and safe for concurrent use; nil says that nothing is set.
type Settings struct {
	// own are the severities of the known rules themselves.
	own Severities
	// everywhere is what entries without a selector say, the strictest for each rule.
	everywhere Severities
	// differing is everywhere without what the rules say themselves: the answer where no selector matches.
	differing Severities
	selected  []selected
}

// selected is what all entries with one namespace selector say, the strictest for each rule.
type selected struct {
	selector   labels.Selector
	severities Severities
}

// NewSettings compiles objects, given all rules there are. What it cannot use, such as the id of a rule of
// another version, is left out and told in the notes. Neither the order of the objects nor that of their
// entries changes the outcome.
func NewSettings(known Table, objects ...policyv1alpha1.RuleSettings) (*Settings, []string) {
	s := &Settings{own: known.severities(), everywhere: Severities{}}
	selections := map[string]*selected{}
	var notes []string
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b policyv1alpha1.RuleSettings) int { return strings.Compare(a.Name, b.Name) })
	for i := range sorted {
		for j := range sorted[i].Spec.Rules {
			if err := s.add(selections, &sorted[i].Spec.Rules[j]); err != nil {
				notes = append(notes, fmt.Sprintf("RuleSettings %s: spec.rules[%d] has no effect: %v", sorted[i].Name, j, err))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(selections)) {
		s.selected = append(s.selected, *selections[key])
	}
	s.differing = s.resolve(nil)
	return s, notes
}

func (s *Settings) add(selections map[string]*selected, entry *policyv1alpha1.RuleSetting) error {
	if _, known := s.own[entry.Rule]; !known {
		return fmt.Errorf("this version of Virtward has no rule %q", entry.Rule)
	}
	if !Adjustable(entry.Rule) {
		return fmt.Errorf("%q: %s", entry.Rule, notAdjustable)
	}
	severity := Severity(entry.Severity)
	if strictness(severity) < 0 {
		return fmt.Errorf("there is no severity %q", severity)
	}
	if selectsAll(entry.NamespaceSelector) {
		s.everywhere.tighten(entry.Rule, severity)
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(entry.NamespaceSelector)
	if err != nil {
		return fmt.Errorf("the namespace selector: %w", err)
	}
	key := selectorKey(selector)
	if selections[key] == nil {
		selections[key] = &selected{selector: selector, severities: Severities{}}
	}
	selections[key].severities.tighten(entry.Rule, severity)
	return nil
}

// For are the severities in a namespace with the given labels, of the rules whose own differ. Nil labels are
// for an object without a namespace, which no selector selects. The result is shared: do not change it.
func (s *Settings) For(namespace labels.Set) Severities {
	if s == nil {
		return nil
	}
	if namespace == nil {
		return s.differing
	}
	var matching Severities
	for i := range s.selected {
		if !s.selected[i].selector.Matches(namespace) {
			continue
		}
		if matching == nil {
			matching = make(Severities, len(s.everywhere)+len(s.selected[i].severities))
		}
		for rule, severity := range s.selected[i].severities {
			matching.tighten(rule, severity)
		}
	}
	if matching == nil {
		return s.differing
	}
	return s.resolve(matching)
}

// resolve fills up what selectors say with what holds everywhere, and drops what the rules say themselves.
func (s *Settings) resolve(matching Severities) Severities {
	resolved := matching
	if resolved == nil {
		resolved = make(Severities, len(s.everywhere))
	}
	for rule, severity := range s.everywhere {
		if _, set := resolved[rule]; !set {
			resolved[rule] = severity
		}
	}
	for rule, severity := range resolved {
		if severity == s.own[rule] {
			delete(resolved, rule)
		}
	}
	if len(resolved) == 0 {
		return nil
	}
	return resolved
}

// SelectsNamespaces reports whether the labels of a namespace matter to For.
func (s *Settings) SelectsNamespaces() bool { return s != nil && len(s.selected) > 0 }

// severities are the rules' own, by id.
func (t Table) severities() Severities {
	own := make(Severities, len(t))
	for i := range t {
		own[t[i].ID] = t[i].Severity
		if t[i].Severity == "" {
			own[t[i].ID] = Deny
		}
	}
	return own
}

// tighten sets a severity, unless there is a stricter one.
func (s Severities) tighten(rule string, severity Severity) {
	if before, set := s[rule]; !set || strictness(severity) > strictness(before) {
		s[rule] = severity
	}
}

// strictness orders severities; it is negative of what is none.
func strictness(severity Severity) int {
	return slices.Index([]Severity{Off, Warn, Deny}, severity)
}

// selectsAll reports whether a selector selects all namespaces: there is none, or it asks for nothing.
func selectsAll(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0
}

// selectorKey is the same for selectors that ask for the same, in whatever order and form.
func selectorKey(selector labels.Selector) string {
	requirements, _ := selector.Requirements()
	texts := make([]string, 0, len(requirements))
	for i := range requirements {
		r := &requirements[i]
		if r.Operator() == selection.In && r.Values().Len() == 1 { // another way to write key=value
			texts = append(texts, r.Key()+"="+r.Values().UnsortedList()[0])
			continue
		}
		texts = append(texts, r.String())
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}
