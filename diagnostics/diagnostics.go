// Package diagnostics holds what is wrong with a policy, and what a policy reports about an object.
//
// What enters: texts and positions. What leaves: Problems and Violations. It compiles and evaluates nothing.
package diagnostics

import (
	"cmp"
	"fmt"
	"slices"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// Bounds of a problem.
const (
	// MaxField is the length of a field path in bytes.
	MaxField = 512
	// MaxMessage is the length of a message in bytes.
	MaxMessage = policyv1alpha1.MaxPolicyProblemLength
	// maxPosition bounds lines and columns in a status.
	maxPosition = 1 << 30
)

// Problem is an error in a policy, or a warning about it. It is comparable. Its JSON form can be embedded.
type Problem struct {
	// Line and Column are a position in the text of the field. They count from 1; both are 0 for the whole field.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Field is a path, such as spec.validations[0].expression; empty for the whole text.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	// Warning reports whether the policy works in spite of the problem.
	Warning bool `json:"warning,omitempty"`
	// Private reports whether the field or the message has values of a ConfigMap: others read it than policies.
	Private bool `json:"-"`
}

// private is the message of a private problem.
const private = "its values do not fit spec.params.schema, or are too large: they are not shown here, because others read policies than ConfigMaps; write the policy again to see them"

// Public returns problems for those who read policies: without values of ConfigMaps.
func Public(problems []Problem) []Problem {
	var public []Problem
	for _, p := range problems {
		if p.Private {
			p = Problem{Field: privateField, Message: private, Warning: p.Warning}
			if slices.Contains(public, p) {
				continue
			}
		}
		public = append(public, p)
	}
	return public
}

// privateField is the field of private problems.
const privateField = "spec.params.configMap"

// String returns the problem in one line: FIELD:LINE:COLUMN: MESSAGE, without the parts that are empty.
func (p Problem) String() string {
	text, at := p.Message, p.Field
	if p.Warning {
		text = "warning: " + text
	}
	if p.Line > 0 {
		position := fmt.Sprintf("%d:%d", p.Line, p.Column)
		if at != "" {
			position = at + ":" + position
		}
		at = position
	}
	if at == "" {
		return text
	}
	return at + ": " + text
}

// Status returns the problem for the status of a policy, within the bounds of its definition.
func (p Problem) Status() policyv1alpha1.PolicyProblem {
	return policyv1alpha1.PolicyProblem{
		Field: texts.Shorten(p.Field, MaxField), Line: int32(min(p.Line, maxPosition)), Column: int32(min(p.Column, maxPosition)), //nolint:gosec // bounded on this line
		Message: texts.Shorten(p.Message, MaxMessage), Warning: p.Warning,
	}
}

// In returns problems of a text that is a field of a policy, or that is below it.
func In(field string, problems []Problem) []Problem {
	placed := make([]Problem, 0, len(problems))
	for _, p := range problems {
		if p.Field != "" {
			p.Field = "." + p.Field
		}
		p.Field, p.Message = field+p.Field, texts.Shorten(p.Message, MaxMessage)
		placed = append(placed, p)
	}
	return placed
}

// Broken reports whether one of the problems is an error.
func Broken(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
}

// SortBySeverity moves the errors before the warnings.
func SortBySeverity(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(rank(a), rank(b)) })
}

func rank(p Problem) int {
	if p.Warning {
		return 1
	}
	return 0
}

// Summary returns the first error, and the number of the others; it is empty if there is none.
func Summary(problems []Problem) string {
	summary, more := "", -1
	for _, p := range problems {
		if p.Warning {
			continue
		}
		if more++; more == 0 {
			summary = p.String()
		}
	}
	if more > 0 {
		summary += fmt.Sprintf(" (and %d more problems)", more)
	}
	return summary
}

// Violation is what a policy reports about an object, in the terms of the policy's author.
type Violation struct {
	Message string
	// Literal is the message that the author of the policy wrote; empty if it is only computed.
	Literal string
	// Field is a path in vm or in the object; empty for the whole object. Computed reports whether the policy computed it.
	Field    string
	Computed bool
	// Reason is the type of the cause; empty for the default.
	Reason policyv1alpha1.PolicyReason
	// Warn reports whether it is a warning at most.
	Warn bool
	// More is how many further violations this one stands for; 0 for one of its own.
	More int
	// Sum is a hash of the violations that More counts.
	Sum string
}

// Advice is a warning of a check about an expression that compiles, and probably does not do what its author means.
type Advice struct {
	// Check is the name of the check, such as quantity-string.
	Check string
	Problem
}
