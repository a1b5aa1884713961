package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Load is what an engine evaluates.
type Load struct {
	Policies []Policy `json:"policies"`
	// Reviews are AdmissionReviews of the creation of VirtualMachineInstances.
	Reviews []json.RawMessage `json:"reviews"`
	// Namespace is the namespace of all requests, with its labels.
	Namespace Namespace `json:"namespace"`
	// Listen is where the engine serves a webhook until its input ends. Without it, the engine is measured in process.
	Listen *Listen `json:"listen,omitempty"`
}

// Listen is an address with the certificate and the key in PEM.
type Listen struct {
	Address     string `json:"address"`
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`
}

// Namespace of requests.
type Namespace struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

// The words in expressions and modules that each engine replaces with its own: the object, and the parameters of the policy.
const (
	Object = "OBJECT"
	Params = "PARAMS"
)

// Policy is a policy in the parts that all engines have. It has either Validations or Rego.
type Policy struct {
	Name string `json:"name"`
	// Kind is the same for policies that differ only in their name, their parameters and their selector.
	Kind string `json:"kind"`
	// NamespaceLabels select namespaces; none selects all.
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`
	Conditions      []Variable        `json:"conditions,omitempty"`
	Variables       []Variable        `json:"variables,omitempty"`
	Validations     []Validation      `json:"validations,omitempty"`
	// Rego has the rules of a module, without its package: "deny contains {"msg": …, "field": …} if …".
	Rego   string          `json:"rego,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Values returns the parameters. Integers are int64, as in Kubernetes' unstructured objects.
func (p *Policy) Values() (map[string]any, error) {
	if len(p.Params) == 0 {
		return nil, nil
	}
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(p.Params))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return nil, fmt.Errorf("policy %s: params: %w", p.Name, err)
	}
	for key, value := range values {
		values[key] = typed(value)
	}
	return values, nil
}

func typed(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = typed(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = typed(v[key])
		}
	}
	return value
}

// Variable is a named expression.
type Variable struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// Validation is an expression that must be true.
type Validation struct {
	Expression        string `json:"expression"`
	Message           string `json:"message,omitempty"`
	MessageExpression string `json:"messageExpression,omitempty"`
}

// Replaced returns the policy with the words of an engine for the object and the parameters.
func (p Policy) Replaced(object, params string) Policy {
	r := strings.NewReplacer(Object, object, Params, params)
	p.Rego = r.Replace(p.Rego)
	p.Conditions, p.Variables = replaced(r, p.Conditions), replaced(r, p.Variables)
	validations := make([]Validation, 0, len(p.Validations))
	for _, v := range p.Validations {
		validations = append(validations, Validation{r.Replace(v.Expression), v.Message, r.Replace(v.MessageExpression)})
	}
	p.Validations = validations
	return p
}

func replaced(r *strings.Replacer, variables []Variable) []Variable {
	result := make([]Variable, 0, len(variables))
	for _, v := range variables {
		result = append(result, Variable{v.Name, r.Replace(v.Expression)})
	}
	return result
}

var parameter = regexp.MustCompile(Params + `\.(\w+)`)

// Inlined returns a policy in CEL for an engine without parameters, as an author writes it there: single values are literals in
// the expressions, and lists and maps are variables.
func (p Policy) Inlined(object string) (Policy, error) {
	values, err := p.Values()
	if err != nil {
		return p, err
	}
	var variables []Variable
	literals := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		literals[name] = literal(values[name])
		switch values[name].(type) {
		case []any, map[string]any:
			variables = append(variables, Variable{"params_" + name, literals[name]})
			literals[name] = "variables.params_" + name
		}
	}
	inline := func(expression string) string {
		return parameter.ReplaceAllStringFunc(expression, func(use string) string { return literals[strings.TrimPrefix(use, Params+".")] })
	}
	p = p.Replaced(object, Params)
	for i := range p.Conditions {
		p.Conditions[i].Expression = inline(p.Conditions[i].Expression)
	}
	for i := range p.Variables {
		p.Variables[i].Expression = inline(p.Variables[i].Expression)
	}
	for i := range p.Validations {
		p.Validations[i].Expression, p.Validations[i].MessageExpression = inline(p.Validations[i].Expression), inline(p.Validations[i].MessageExpression)
	}
	p.Variables = append(variables, p.Variables...)
	return p, nil
}

// literal returns a value in CEL. Values of different types in one list or map are dyn, because Kubernetes permits only one type.
func literal(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		elements := make([]string, 0, len(v))
		for _, element := range v {
			elements = append(elements, wrapped(element, v))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case map[string]any:
		members := make([]string, 0, len(v))
		all := slices.Collect(maps.Values(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			members = append(members, strconv.Quote(key)+": "+wrapped(v[key], all))
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return "null"
}

func wrapped(value any, beside []any) string {
	for _, other := range beside {
		if fmt.Sprintf("%T", other) != fmt.Sprintf("%T", value) {
			return "dyn(" + literal(value) + ")"
		}
	}
	return literal(value)
}
