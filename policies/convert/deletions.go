package convert

import (
	"regexp"
	"slices"
	"strings"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/export"
)

// defaultOperations returns the operations of the filters that name none.
func (o *original) defaultOperations(filters []clusterFilter) []policyv1alpha1.PolicyOperation {
	if slices.ContainsFunc(filters, func(f clusterFilter) bool { return f.Resources != nil && len(f.Resources.Operations) > 0 }) {
		return operations
	}
	if o.admitted {
		return operations[:2]
	}
	if o.denies {
		return operations
	}
	const field = "spec.match.operations"
	switch o.deletions() {
	case deletionsMeant:
		return operations
	case deletionsMixed:
		o.lost(field, "the rule names no operations, and not all its expressions read the object: at deletions, the others apply too. Name the operations in the original")
	case deletionsFail:
		o.differs(field, "the rule names no operations: at deletions, where object is null, it could not be evaluated. Add DELETE if you mean it")
	}
	return operations[:2]
}

// deletions says whether a rule without operations is about deletions.
type deletions int

const (
	// deletionsFail: every expression reads the object, which is null then.
	deletionsFail deletions = iota
	// deletionsMeant: an expression reads the operation or the old object, or none reads the object.
	deletionsMeant
	// deletionsMixed: some expressions read the object, and others do not.
	deletionsMixed
)

// comparesNull finds a comparison of the whole object, or of the old one, with null.
var comparesNull = regexp.MustCompile(`(^|[^.\w])((object|oldObject)\s*[!=]=\s*null|null\s*[!=]=\s*(object|oldObject))\b`)

// deletions says whether the expressions can be meant for deletions.
func (o *original) deletions() deletions {
	var conditions, validations []string
	for i := range o.spec.MatchConditions {
		conditions = append(conditions, o.spec.MatchConditions[i].Expression)
	}
	for i := range o.spec.Validations {
		validations = append(validations, o.spec.Validations[i].Expression)
	}
	variables, all := map[string]bool{}, slices.Concat(conditions, validations)
	for i := range o.spec.Variables { // a variable reads those before it
		v := &o.spec.Variables[i]
		all = append(all, v.Expression)
		variables[v.Name] = readsObject(v.Expression, variables)
	}
	if slices.ContainsFunc(all, func(text string) bool {
		return export.Reads(text, "oldObject") || export.Reads(text, "request") && strings.Contains(text, "operation") || comparesNull.MatchString(text)
	}) {
		return deletionsMeant
	}
	reads := func(text string) bool { return readsObject(text, variables) }
	switch {
	case !slices.ContainsFunc(validations, func(text string) bool { return !reads(text) }):
		return deletionsFail
	case !slices.ContainsFunc(slices.Concat(conditions, validations), reads):
		return deletionsMeant
	}
	return deletionsMixed
}

// readsObject reports whether an expression reads the object, also through a variable.
func readsObject(text string, variables map[string]bool) bool {
	if export.Reads(text, "object") {
		return true
	}
	for name, reads := range variables {
		if reads && strings.Contains(text, "variables."+name) {
			return true
		}
	}
	return false
}
