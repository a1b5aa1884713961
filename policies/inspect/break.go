package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/texts"
)

// Break is where an evaluation of a policy gives a variable its values.
type Break struct {
	Policy   string `json:"policy"`
	Variable string `json:"variable"`
	// Stops are in the order of the evaluation; none if the evaluation does not reach the variable.
	Stops []Stop `json:"stops"`
	// More reports that there are more stops.
	More bool `json:"more,omitempty"`
	// Error is why the evaluation of a module ended early.
	Error string `json:"error,omitempty"`
}

// Stop is a variable when it gets a value.
type Stop struct {
	// Field is the expression of the policy that is the first to read the variable, in CEL.
	Field string `json:"field,omitempty"`
	// Line is the line of the module, in Rego.
	Line int `json:"line,omitempty"`
	// Part has the expression that gives the value.
	Part

	// Inputs are the parts of the expression, outer ones first.
	Inputs []Part `json:"inputs,omitempty"`
}

// Break evaluates a policy, whose variables are those of the inspector, and returns the stops of one. An unknown variable is an error.
func (i *Inspector) Break(p *policies.Policy, variable string, documents *cel.Documents) (*Break, error) {
	own := *documents
	own.Params = i.params
	b := &Break{Policy: p.Name(), Variable: variable, Stops: []Stop{}}
	for _, v := range p.Spec().Variables {
		if v.Name != variable {
			continue
		}
		for _, step := range p.Observe(&own, false, nil, nil) {
			if slices.Contains(step.Reads, variable) {
				b.Stops = append(b.Stops, i.stop(step.Field, v.Expression, &own))
			}
		}
		return b, nil
	}
	if p.Module() != nil && slices.Contains(p.Module().Variables(), variable) {
		return b, b.module(p.Module(), &own)
	}
	return nil, unknown(p, variable)
}

// stop evaluates a variable in CEL.
func (i *Inspector) stop(field, expression string, documents *cel.Documents) Stop {
	r := i.CEL(expression, documents)
	s := Stop{Field: field, Part: Part{Expression: texts.OneLine(expression), Value: r.Value}, Inputs: r.Parts}
	if len(r.Problems) > 0 {
		s.Error = r.Problems[0].Message
	}
	return s
}

// module evaluates a module.
func (b *Break) module(m *rego.Module, documents *cel.Documents) error {
	input, err := policies.RegoInput(documents)
	if err != nil {
		return err
	}
	stops, more, err := m.Break(input, rego.Limits{}, b.Variable)
	if err != nil {
		b.Error = diagnostics.Problem{Message: err.Error()}.Message
	}
	b.More = more
	for _, stop := range stops {
		s := Stop{Line: stop.Line, Part: partOf(stop.Text, stop.Value)}
		for _, in := range stop.Inputs {
			s.Inputs = append(s.Inputs, partOf(in.Text, in.Value))
		}
		b.Stops = append(b.Stops, s)
	}
	return nil
}

func partOf(expression string, value json.RawMessage) Part {
	return Part{Expression: expression, Value: value, Large: value == nil}
}

// unknown says which variables there are.
func unknown(p *policies.Policy, variable string) error {
	var names []string
	for _, v := range p.Spec().Variables {
		names = append(names, v.Name)
	}
	if p.Module() != nil {
		names = append(names, p.Module().Variables()...)
	}
	if len(names) == 0 {
		return fmt.Errorf("policy %s has no variables", p.Name())
	}
	return fmt.Errorf("policy %s has no variable %q: it has %s", p.Name(), texts.Shorten(variable, 100), texts.Shorten(strings.Join(names, ", "), 400))
}
