package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/inspect"
	"github.com/virtward/virtward/texts"
)

// withParams compiles the policy again, with other values of its parameters.
func (s *session) withParams(env *cel.Environment, values map[string]any) error {
	raw, err := json.Marshal(values)
	if err != nil {
		return err
	}
	policy := &policyv1alpha1.VirtualMachinePolicy{Spec: *s.chosen.Spec().DeepCopy()}
	policy.Name = s.chosen.Name()
	if policy.Spec.Params == nil {
		policy.Spec.Params = &policyv1alpha1.PolicyParams{}
	}
	policy.Spec.Params.Values, policy.Spec.Params.ConfigMap = &apiextensionsv1.JSON{Raw: raw}, nil
	chosen, _ := policies.Compile(env, policy, nil)
	if reason := chosen.Broken(); reason != "" {
		return fmt.Errorf("policy %s with --params: %s", policy.Name, reason)
	}
	s.chosen = chosen
	return nil
}

// stops evaluates the policy, and returns the stops of --break.
func (s *session) stops(ctx context.Context) (found *inspect.Break, err error) {
	var failed error
	err = s.documents(ctx, func(d *cel.Documents) { found, failed = s.inspector.Break(s.chosen, s.breakpoint, d) })
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("--break: %w", err)
	}
	return found, nil
}

// showStops prints all stops.
func (s *session) showStops(b *inspect.Break) error {
	out := s.program.Streams.Out
	if s.output == printers.JSON {
		if err := texts.WriteJSON(out, b); err != nil {
			return err
		}
		return stopsError(b)
	}
	for i := range b.Stops {
		if _, err := io.WriteString(out, describeStop(b, i)); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(out, describeEnd(b)); err != nil {
		return err
	}
	return stopsError(b)
}

// stopsError is an error if the variable has no value because of one.
func stopsError(b *inspect.Break) error {
	if b.Error != "" {
		return fmt.Errorf("policy %s cannot be evaluated", b.Policy)
	}
	for _, stop := range b.Stops {
		if stop.Error != "" {
			return fmt.Errorf("variable %s has no value", b.Variable)
		}
	}
	return nil
}

// describeStop returns a stop for people: where it is, the variable with its value, and the inputs as a tree.
func describeStop(b *inspect.Break, i int) string {
	stop := &b.Stops[i]
	var out strings.Builder
	if stop.Field != "" {
		fmt.Fprintf(&out, "stop: %s of policy %s reads variables.%s\n", stop.Field, b.Policy, b.Variable)
	} else {
		fmt.Fprintf(&out, "stop %d: line %d of the module of policy %s: %s\n", i+1, stop.Line, b.Policy, stop.Expression)
	}
	value := stop.Part
	value.Expression = b.Variable
	out.WriteString("  " + describePart(&value))
	if stop.Field != "" {
		fmt.Fprintf(&out, "  expression: %s\n", texts.Shorten(stop.Expression, maxShown))
	}
	for j := range stop.Inputs {
		out.WriteString("    " + describePart(&stop.Inputs[j]))
	}
	return out.String()
}

// describeEnd says how the evaluation ended.
func describeEnd(b *inspect.Break) string {
	switch {
	case b.Error != "":
		return "error: " + texts.OneLine(b.Error) + "\n"
	case b.More:
		return "More stops are not shown.\n"
	case len(b.Stops) == 0:
		return fmt.Sprintf("The evaluation of policy %s does not reach %s.\n", b.Policy, b.Variable)
	}
	return ""
}
