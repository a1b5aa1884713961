package policies

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// Problem is what is wrong with a policy, or doubtful in it.
type Problem struct {
	// Field of the policy: spec.validations[0].expression.
	Field string
	// Line and Column in the text of the field, from 1 on; 0 if it is about all of it.
	Line, Column int
	Message      string
	// Warning tells that the policy is asked all the same.
	Warning bool
}

// String is the problem on one line.
func (p Problem) String() string {
	at := p.Field
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", at, p.Line, p.Column)
	}
	if p.Warning {
		return at + ": warning: " + p.Message
	}
	return at + ": " + p.Message
}

// Status is the problem in the form of a policy's status, within its bounds.
func (p Problem) Status() policyv1alpha1.PolicyProblem {
	return policyv1alpha1.PolicyProblem{
		Field: texts.Shorten(p.Field, maxFieldPath), Line: int32(min(p.Line, maxLine)), Column: int32(min(p.Column, maxLine)), //nolint:gosec // bounded on this line
		Message: texts.Shorten(p.Message, policyv1alpha1.MaxPolicyProblemLength), Warning: p.Warning,
	}
}

// Broken reports whether one of the problems is more than a warning.
func Broken(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
}

// Bounds of what is told.
const (
	maxFieldPath = 512
	maxText      = 1024
	maxLine      = 1 << 30
)

// onOneLine folds a text as it may stand in a message: without line breaks, and not too long.
func onOneLine(text string) string {
	return texts.Shorten(strings.Join(strings.Fields(strings.ToValidUTF8(text, "�")), " "), maxText)
}

// root is the path of an object as a whole.
var root = (*field.Path)(nil).String()

// problemsOf turns errors about fields of a policy into problems.
func problemsOf(errs field.ErrorList) []Problem {
	problems := make([]Problem, 0, len(errs))
	for _, err := range errs {
		problem := Problem{Field: err.Field, Message: onOneLine(err.ErrorBody())}
		if problem.Field == root { // whose only rule is about the name, and says so
			problem.Field, problem.Message = "metadata.name", strings.ReplaceAll(problem.Message, "metadata.name: ", "")
		}
		problems = append(problems, problem)
	}
	return problems
}
