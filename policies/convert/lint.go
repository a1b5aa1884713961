package convert

import (
	"maps"
	"slices"
	"strings"

	"github.com/virtward/virtward/policies/advice"
	"github.com/virtward/virtward/policies/rego"
)

// checkPrefix begins the names of checks in notes, as those of kubectl virtward policy lint.
const checkPrefix = "lint/"

// maxRepairs bounds the repairs of one policy.
const maxRepairs = 256

// lint repairs what compares quantities as texts, because the documents of a policy have other texts than the original. All
// other findings are notes: the policy does probably not do what its author means.
func (c *converter) lint(r *Result) {
	repaired := map[string]bool{}
	for range maxRepairs {
		if !c.repair(r, repaired) {
			break
		}
	}
	for _, field := range slices.Sorted(maps.Keys(repaired)) {
		r.Notes = append(r.Notes, Note{Field: field, Message: "the original compares texts: here, quantity() compares amounts, " +
			"because documents have quantities in canonical form, such as 8Gi for 8192Mi"})
	}
	for _, a := range advice.Of(&r.Policy.Spec, c.always) {
		r.Notes = append(r.Notes, Note{Field: a.Field, Message: a.Message, Lost: true, Reason: checkPrefix + a.Check})
	}
}

// repair rewrites the first comparison of a quantity that it can, and reports whether there was one.
func (c *converter) repair(r *Result, repaired map[string]bool) bool {
	before := advice.Of(&r.Policy.Spec, c.always)
	for _, a := range before {
		text := expressionAt(&r.Policy.Spec, a.Field)
		if a.Check != rego.CheckQuantities || text == nil || a.Line == 0 {
			continue
		}
		original := *text
		changed, ok := withQuantities(original, a.Line, a.Column)
		if !ok {
			continue
		}
		*text = changed
		if after := advice.Of(&r.Policy.Spec, c.always); len(after) < len(before) && c.compiles(r) {
			repaired[a.Field] = true
			return true
		}
		*text = original
	}
	return false
}

// compiles reports whether no expression has an error that was not noted before.
func (c *converter) compiles(r *Result) bool {
	for _, p := range c.problems(r.Policy) {
		if !slices.ContainsFunc(r.Notes, func(n Note) bool {
			return n.Lost && n.Field == p.Field && strings.HasPrefix(n.Message, notCompiling+p.Message)
		}) {
			return false
		}
	}
	return true
}
