package export

import (
	"fmt"
	"slices"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	"github.com/google/cel-go/common/ast"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// maxNamed is the number of fields that one note names.
const maxNamed = 5

// notes are the differences between a native policy and the webhook.
type notes struct {
	spec *policyv1alpha1.VirtualMachinePolicySpec
	// ends is when the next exception expires; nil if none does.
	ends *time.Time
	// messages are the fields of the messageExpressions that are not exported.
	messages []string
	// quantities and maybeAbsent are fields whose values differ in the API server.
	quantities, maybeAbsent []string
}

// all returns the notes for the status; those of every native policy are first.
func (n *notes) all() []string {
	updates := slices.Contains(n.spec.Match.Operations, policyv1alpha1.PolicyUpdate)
	texts := []string{"The API server reports only its first violation, before it calls Virtward. Other violations are reported when that one is fixed."}
	note := func(applies bool, format string, values ...any) {
		if applies {
			texts = append(texts, fmt.Sprintf(format, values...))
		}
	}
	note(true, "The response has the message, without the field and its value.")
	note(updates, "On an update, a violation of a validation is tolerated if the object violated it before, even if the update makes it worse.")
	note(updates, "On an update, a pre-existing evaluation error is handled like a new one.")
	note(n.spec.FailurePolicy == policyv1alpha1.PolicyIgnore, "Objects that cannot be evaluated are admitted without a warning.")
	note(n.spec.Enforcement == policyv1alpha1.PolicyAudit, "Violations are in the audit log of the API server. Reports have only Virtward's findings.")
	note(n.spec.Remedy != "" && slices.ContainsFunc(n.spec.Validations, func(v policyv1alpha1.PolicyValidation) bool { return v.MessageExpression != "" }),
		"The remedy is missing after the result of a messageExpression.")
	note(slices.ContainsFunc(n.spec.Validations, func(v policyv1alpha1.PolicyValidation) bool {
		return v.Reason == policyv1alpha1.PolicyUnauthorized
	}), "The reason Unauthorized becomes Forbidden.")
	note(len(n.messages) > 0, "message is used instead of %s, which the API server cannot evaluate.", listed(n.messages))
	note(slices.Contains(n.spec.Match.Kinds, policyv1alpha1.PolicyVirtualMachineTemplate), "The exported policy does not match VirtualMachineTemplates.")
	note(deletes(&n.spec.Match), "An update that adds an owner is not evaluated as a deletion.")
	note(n.ends != nil, "An exception ends when Virtward removes it from the exported policy: the next one at %s.", n.endsAt())
	note(len(n.quantities) > 0, "Quantities are not normalized, such as 8192Mi and 8Gi: use quantity() for %s.", listed(n.quantities))
	note(len(n.maybeAbsent) > 0, "Fields that are not set are absent, not empty: use has() or .? for %s.", listed(n.maybeAbsent))
	return texts
}

func (n *notes) endsAt() string {
	if n.ends == nil {
		return ""
	}
	return n.ends.UTC().Format(time.RFC3339)
}

// listed joins texts for a sentence, without duplicates.
func listed(all []string) string {
	slices.Sort(all)
	return texts.First(slices.Compact(all), maxNamed)
}

// quantities are the names of fields that are quantities, or maps of them.
var quantities = []string{"addedOverhead", "capacity", "divisor", "guest", "limits", "maxGuest", "requests"}

// optionals are the names of structs that can be absent, and that Virtward reads as empty then.
var optionals = []string{"acpi", "metadata", "resources"}

// compare notes the fields that differ in the API server. It reads only the names of fields, so its notes are hints. at
// is the path of the expression in the policy.
func (n *notes) compare(e *expression, at string) {
	guarded := map[string]bool{}
	ast.PreOrderVisit(e.ast.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		if node.Kind() == ast.SelectKind && node.AsSelect().IsTestOnly() {
			guarded[node.AsSelect().FieldName()] = true
		}
	}))
	n.walk(e.ast.Expr(), at, guarded, false)
}

// walk visits a node. asQuantity reports whether the node is an argument of quantity().
func (n *notes) walk(node ast.Expr, at string, guarded map[string]bool, asQuantity bool) {
	switch node.Kind() {
	case ast.SelectKind:
		n.selected(node.AsSelect(), at, guarded, asQuantity)
		n.walk(node.AsSelect().Operand(), at, guarded, true) // what is selected of it decides
	case ast.CallKind:
		call := node.AsCall()
		name := call.FunctionName()
		inner := asQuantity || name == "quantity" || name == "isQuantity"
		if call.IsMemberFunction() {
			n.walk(call.Target(), at, guarded, inner)
		}
		for i, arg := range call.Args() {
			if i == 1 && name == "_?._" && arg.Kind() == ast.LiteralKind {
				n.optional(fmt.Sprint(arg.AsLiteral().Value()), at, inner)
			}
			n.walk(arg, at, guarded, inner)
		}
	default:
		n.walkInside(node, at, guarded)
	}
}

// walkInside visits the parts of a node.
func (n *notes) walkInside(node ast.Expr, at string, guarded map[string]bool) {
	var parts []ast.Expr
	switch node.Kind() {
	case ast.ListKind:
		parts = node.AsList().Elements()
	case ast.MapKind:
		for _, entry := range node.AsMap().Entries() {
			parts = append(parts, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		c := node.AsComprehension()
		parts = []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()}
	}
	for _, part := range parts {
		n.walk(part, at, guarded, false)
	}
}

func (n *notes) selected(s ast.SelectExpr, at string, guarded map[string]bool, asQuantity bool) {
	if s.IsTestOnly() {
		return
	}
	n.optional(s.FieldName(), at, asQuantity)
	operand := s.Operand()
	if operand.Kind() != ast.SelectKind || operand.AsSelect().IsTestOnly() {
		return
	}
	name, whole := operand.AsSelect().FieldName(), operand.AsSelect().Operand()
	if slices.Contains(optionals, name) && !guarded[name] && whole.Kind() != ast.IdentKind {
		n.maybeAbsent = append(n.maybeAbsent, name+" in "+at)
	}
}

// optional notes that a quantity is read.
func (n *notes) optional(name, at string, asQuantity bool) {
	if !asQuantity && slices.Contains(quantities, name) {
		n.quantities = append(n.quantities, name+" in "+at)
	}
}
