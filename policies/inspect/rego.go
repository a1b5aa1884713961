package inspect

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/rego"
)

// The expression is one line of a module, behind a prefix.
const (
	regoBefore = "package eval\n\ndeny contains json.marshal([value]) if {\n"
	regoPrefix = "\tvalue := "
	regoAfter  = "\n}\n"
	regoLine   = 4
)

// maxParts bounds the parts of a Rego expression, each of which is evaluated by itself.
const maxParts = 32

// Rego evaluates an expression with the documents.
func (i *Inspector) Rego(expression string, documents *cel.Documents) *Result {
	r := &Result{Expression: expression}
	own := *documents
	own.Params = i.params
	input, err := policies.RegoInput(&own)
	if err != nil {
		r.Problems = []diagnostics.Problem{{Message: err.Error()}}
		return r
	}
	value, spent, problems := evaluate(expression, input)
	r.Value, r.Problems, r.Cost = value, problems, uint64(max(0, spent))
	r.Undefined = value == nil && len(problems) == 0
	r.Type = typeOf(value)
	parts := rego.Parts(expression)
	for _, part := range parts[:min(len(parts), maxParts)] {
		one := Part{Expression: part.Text, Depth: part.Depth}
		value, _, problems := evaluate(part.Text, input)
		switch {
		case len(problems) > 0:
			one.Error = problems[0].Message
		case value == nil:
			one.Undefined = true
		default:
			one.Value = value
		}
		r.Parts = append(r.Parts, one)
	}
	return r
}

// evaluate evaluates an expression as the only line of a module.
func evaluate(expression string, input *rego.Input) (value json.RawMessage, steps int, problems []diagnostics.Problem) {
	prefix := regoPrefix
	for _, statement := range []string{"not ", "some ", "every "} {
		if strings.HasPrefix(strings.TrimSpace(expression), statement) {
			prefix = "\tvalue := true; "
		}
	}
	compiled, problems := rego.Compile("eval", regoBefore+prefix+expression+regoAfter)
	if compiled == nil {
		for i := range problems {
			placed(&problems[i], len(prefix))
		}
		return nil, 0, problems
	}
	found, spent, err := compiled.Measure(input, rego.Limits{Violations: 1})
	if err != nil {
		return nil, spent.Steps, []diagnostics.Problem{failure(err, len(prefix))}
	}
	if len(found) == 0 {
		return nil, spent.Steps, nil
	}
	var wrapped []json.RawMessage
	if err := json.Unmarshal([]byte(found[0].Message), &wrapped); err != nil || len(wrapped) != 1 {
		cut, err := json.Marshal(found[0].Message)
		if err != nil {
			return nil, spent.Steps, []diagnostics.Problem{{Message: err.Error()}}
		}
		return cut, spent.Steps, nil // it is too large: its beginning, as a text
	}
	return wrapped[0], spent.Steps, nil
}

// failure returns an error of the evaluation, with its position if that is in the expression.
func failure(err error, prefix int) diagnostics.Problem {
	p := diagnostics.Problem{Message: err.Error()}
	line, column, message := 0, 0, ""
	if rest, found := strings.CutPrefix(p.Message, "the Rego of eval, line "); found {
		at, text, _ := strings.Cut(rest, ": ")
		if n, _ := fmt.Sscanf(at, "%d, column %d", &line, &column); n == 2 {
			message = text
		}
	}
	if message != "" {
		p = diagnostics.Problem{Line: line, Column: column, Message: message}
		placed(&p, prefix)
	}
	return p
}

// placed moves a problem of the module to the expression.
func placed(p *diagnostics.Problem, prefix int) {
	if p.Line < regoLine {
		p.Line, p.Column = 0, 0
		return
	}
	p.Line -= regoLine - 1
	if p.Line == 1 {
		p.Column = max(1, p.Column-prefix)
	}
}

// typeOf returns the type of a JSON value in Rego.
func typeOf(value json.RawMessage) string {
	if len(value) == 0 {
		return ""
	}
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}
