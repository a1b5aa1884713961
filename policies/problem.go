package policies

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/texts"
)

// message returns a text in one line, within the bound of a message.
func message(text string) string { return texts.Shorten(texts.OneLine(text), diagnostics.MaxMessage) }

// root is the path of an object as a whole.
var root = (*field.Path)(nil).String()

// problemsOf returns errors about fields of a policy as problems.
func problemsOf(errs field.ErrorList) []diagnostics.Problem {
	problems := make([]diagnostics.Problem, 0, len(errs))
	for _, err := range errs {
		problem := diagnostics.Problem{Field: err.Field, Message: message(err.ErrorBody())}
		if problem.Field == root { // the only rule of the object is about its name, and its message has the path
			problem.Field, problem.Message = "metadata.name", strings.ReplaceAll(problem.Message, "metadata.name: ", "")
		}
		problems = append(problems, problem)
	}
	return problems
}
