package convert

import (
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

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

// comparesNull reports whether one of several expressions compares the whole object, or the old one, with null. A variable can be the object.
func comparesNull(variables []admissionregistrationv1.Variable, expressions []*string) bool {
	objects := map[string]bool{}
	for i := range variables { // a variable reads those before it
		if tree, err := export.Tree(variables[i].Expression); err == nil {
			objects[variables[i].Name] = isWholeObject(tree.Expr(), objects)
		}
	}
	return slices.ContainsFunc(expressions, func(text *string) bool {
		tree, err := export.Tree(*text)
		return err == nil && comparesObject(tree.Expr(), objects)
	})
}

// comparesObject reports whether a node, or one below it, compares the object with null. objects are the variables that are the object.
func comparesObject(node celast.Expr, objects map[string]bool) bool {
	if node.Kind() == celast.CallKind {
		call := node.AsCall()
		if name := call.FunctionName(); name == operators.Equals || name == operators.NotEquals {
			left, right := call.Args()[0], call.Args()[1]
			if isNull(left) && isWholeObject(right, objects) || isNull(right) && isWholeObject(left, objects) {
				return true
			}
		}
	}
	return slices.ContainsFunc(export.Children(node), func(child celast.Expr) bool { return comparesObject(child, objects) })
}

// isNull reports whether a node is null, also as dyn(null).
func isNull(node celast.Expr) bool {
	node = withoutDyn(node)
	return node.Kind() == celast.LiteralKind && node.AsLiteral() == types.NullValue
}

// isWholeObject reports whether a node is the object or the old one.
func isWholeObject(node celast.Expr, objects map[string]bool) bool {
	steps, root := export.Chain(withoutDyn(node))
	switch root {
	case "object", "oldObject":
		return len(steps) == 0
	case "variables":
		return len(steps) == 1 && objects[steps[0]]
	}
	return false
}

// withoutDyn returns the argument of dyn(), or the node itself.
func withoutDyn(node celast.Expr) celast.Expr {
	for node.Kind() == celast.CallKind && node.AsCall().FunctionName() == overloads.TypeConvertDyn && len(node.AsCall().Args()) == 1 {
		node = node.AsCall().Args()[0]
	}
	return node
}

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
	if comparesNull(o.spec.Variables, o.expressions()) || slices.ContainsFunc(all, func(text string) bool {
		return export.Reads(text, "oldObject") || export.Reads(text, "request") && strings.Contains(text, "operation")
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
	tree, err := export.Tree(text)
	return err == nil && readsVariable(tree.Expr(), variables)
}

// readsVariable reports whether a node, or one below it, reads one of some variables.
func readsVariable(node celast.Expr, variables map[string]bool) bool {
	if steps, root := export.Chain(node); root == "variables" && len(steps) > 0 {
		return variables[steps[0]]
	}
	return slices.ContainsFunc(export.Children(node), func(child celast.Expr) bool { return readsVariable(child, variables) })
}
