package export

import (
	"fmt"
	"slices"
	"strings"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	"github.com/google/cel-go/common/ast"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// maxNamed is how many fields one note names.
const maxNamed = 5

// notes are what a native policy cannot do, or does in another way.
type notes struct {
	spec *policyv1alpha1.VirtualMachinePolicySpec
	// ends is when the first exception does; nil if none does.
	ends *time.Time
	// messages are the fields of the messageExpressions that are left out.
	messages []string
	// quantities and maybeAbsent are what expressions read that the API server sees in another way.
	quantities, maybeAbsent []string
}

// all are the notes as a status has them: what is true of every native policy first.
func (n *notes) all() []string {
	updates := slices.Contains(n.spec.Match.Operations, policyv1alpha1.PolicyUpdate)
	texts := []string{"It answers with the first violation only, and before Virtward is asked: what else is wrong with the object is told when that is gone."}
	note := func(applies bool, format string, values ...any) {
		if applies {
			texts = append(texts, fmt.Sprintf(format, values...))
		}
	}
	note(true, "It names no field of the object: what is said is the message.")
	note(updates, "It has no ratchet: an update of what did not fit a validation before is let through by that validation, even if it makes it worse.")
	note(updates, "On an update, a pre-existing evaluation error is handled like a new one.")
	note(n.spec.FailurePolicy == policyv1alpha1.PolicyIgnore, "What cannot be evaluated is let through without a warning.")
	note(n.spec.Enforcement == policyv1alpha1.PolicyAudit, "A violation is noted in the audit log of the API server; reports are Virtward's.")
	note(n.spec.Remedy != "" && slices.ContainsFunc(n.spec.Validations, func(v policyv1alpha1.PolicyValidation) bool { return v.MessageExpression != "" }),
		"The remedy is not told after what a messageExpression makes.")
	note(slices.ContainsFunc(n.spec.Validations, func(v policyv1alpha1.PolicyValidation) bool {
		return v.Reason == policyv1alpha1.PolicyUnauthorized
	}), "The reason Unauthorized is given as Forbidden.")
	note(len(n.messages) > 0, "The message is told instead of what %s would make: the API server cannot compute it.", listed(n.messages))
	note(slices.Contains(n.spec.Match.Kinds, policyv1alpha1.PolicyVirtualMachineTemplate), "It is not asked about VirtualMachineTemplates.")
	note(n.ends != nil, "An exception ends when Virtward takes it out of the native policy, not by itself: the next one at %s.", n.endsAt())
	note(len(n.quantities) > 0, "Quantities are read as they are written, 8192Mi or 8Gi: %s should be read through quantity().", listed(n.quantities))
	note(len(n.maybeAbsent) > 0, "What was left out is absent, where Virtward reads it as empty: %s should be read with has() or .?.", listed(n.maybeAbsent))
	return texts
}

func (n *notes) endsAt() string {
	if n.ends == nil {
		return ""
	}
	return n.ends.UTC().Format(time.RFC3339)
}

// listed are texts for a sentence, without repetitions.
func listed(texts []string) string {
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if more := len(texts) - maxNamed; more > 0 {
		return strings.Join(texts[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(texts, ", ")
}

// quantities are the fields of the objects that are quantities, or maps of them.
var quantities = []string{"addedOverhead", "capacity", "divisor", "guest", "limits", "maxGuest", "requests"}

// optionals are the structures of the objects that may be left out, and are then empty to Virtward.
var optionals = []string{"acpi", "metadata", "resources"}

// compare notes what an expression reads that looks otherwise to the API server. It goes by the names of fields, and
// so finds what is likely, not what is certain. at is where the expression stands in the policy.
func (n *notes) compare(e *expression, at string) {
	guarded := map[string]bool{}
	ast.PreOrderVisit(e.ast.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		if node.Kind() == ast.SelectKind && node.AsSelect().IsTestOnly() {
			guarded[node.AsSelect().FieldName()] = true
		}
	}))
	n.walk(e.ast.Expr(), at, guarded, false)
}

// walk visits a node. asQuantity tells that what comes of it is made a quantity.
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

// walkInside visits what a node consists of that has no name.
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

// optional notes the reading of a quantity.
func (n *notes) optional(name, at string, asQuantity bool) {
	if !asQuantity && slices.Contains(quantities, name) {
		n.quantities = append(n.quantities, name+" in "+at)
	}
}
