package convert

import (
	"slices"
	"strings"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// condition is a condition of a policy.
type condition struct {
	name string
	// expression returns the condition of a policy that matches some kinds and operations. It reads objectMark.
	expression func(of map[cell]bool) string
}

// require adds a condition that is the same for all kinds and operations.
func (o *original) require(name, expression string) {
	o.conditions = append(o.conditions, condition{name, func(map[cell]bool) string { return expression }})
}

// requireAny adds the condition that one of several filters matches.
func (o *original) requireAny(all []*filter) {
	o.conditions = append(o.conditions, condition{"match-any", func(of map[cell]bool) string {
		var either []string
		for _, f := range all {
			if !f.meets(of) {
				continue
			}
			expression := f.whole(of)
			if expression == always {
				return always
			}
			either = append(either, expression)
		}
		if len(either) == 1 {
			return either[0]
		}
		return "(" + strings.Join(either, ") || (") + ")"
	}})
}

// requireNot adds the condition that several filters do not match together.
func (o *original) requireNot(name string, all ...*filter) {
	o.conditions = append(o.conditions, condition{name, func(of map[cell]bool) string {
		var every []string
		for _, f := range all {
			if !f.meets(of) {
				return always
			}
			every = append(every, f.whole(of))
		}
		if len(every) == 1 {
			return "!(" + every[0] + ")"
		}
		return "!((" + strings.Join(every, ") && (") + "))"
	}})
}

// always is the condition that is true.
const always = "true"

// meets reports whether a filter has one of the cells.
func (f *filter) meets(of map[cell]bool) bool {
	for c := range of {
		if f.cells[c] {
			return true
		}
	}
	return false
}

// further returns the conditions of a part of the match.
func (o *original) further(p part) []policyv1alpha1.PolicyCondition {
	of := map[cell]bool{}
	for _, kind := range p.kinds {
		for _, operation := range p.operations {
			of[cell{kind, operation}] = true
		}
	}
	var all []policyv1alpha1.PolicyCondition
	for _, c := range o.conditions {
		if expression := c.expression(of); expression != always {
			all = append(all, policyv1alpha1.PolicyCondition{Name: c.name, Expression: placed(expression, slices.Contains(p.operations, policyv1alpha1.PolicyDelete))})
		}
	}
	return all
}

// beyond notes the kinds that an original matches besides those of policies.
func (o *original) beyond(kinds []string) {
	if len(kinds) > 0 {
		o.lost("spec.match.kinds", "%s", alsoMatches(kinds))
	}
}

// alsoMatches is the note about kinds that an original matches besides those of policies.
func alsoMatches(kinds []string) string {
	list := texts.Shorten(strings.Join(kinds, ", "), maxQuoted)
	if slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(kind, "*") }) {
		list = "all other kinds (" + list + ")"
	}
	return "it also matches " + list + ": keep the original for these kinds"
}

// losing notes the fields of a filter that have no equivalent.
func (o *original) losing(place string, f *filter) {
	for _, field := range f.lost {
		o.lost("spec.match", "%s of %s has no equivalent: %s", field, place, fieldAdvice[field])
	}
}

// fieldAdvice says what to use instead of a field of a match.
var fieldAdvice = map[string]string{
	"roles":        "policies do not know the roles of users; use excludedGroups, or authorizer in a condition",
	"clusterRoles": "policies do not know the roles of users; use excludedGroups, or authorizer in a condition",
	"subjects":     "one of them is no User, Group or ServiceAccount",
	"selector":     "its labels have an operator or a value that is not valid",
}
