package policies

import (
	"regexp"
	"slices"
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

// problemsOfParams returns errors about parameters as problems. Those about a ConfigMap quote its values, and are private.
func problemsOfParams(errs field.ErrorList) []diagnostics.Problem {
	problems := problemsOf(errs)
	for i := range problems {
		problems[i].Private = strings.HasPrefix(problems[i].Field, configMapPath.String())
	}
	return problems
}

// denial is how the message of a denial names a policy.
var denial = regexp.MustCompile(`\[virtward/(` + RulePrefix + `[a-z0-9.-]+)\]`)

// PublicError returns the text of an error of the API server for a status, which others read than the object. Denials of policies are
// replaced by the names of the policies, because their messages can have values.
func PublicError(err error) string {
	var named []string
	for _, rule := range denial.FindAllStringSubmatch(err.Error(), -1) {
		named = append(named, rule[1])
	}
	if len(named) == 0 {
		return err.Error()
	}
	slices.Sort(named)
	return "denied by " + strings.Join(slices.Compact(named), ", ") + " (the messages have values: kubectl virtward audit shows them)"
}
