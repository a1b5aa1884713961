package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/virtward/virtward/texts"
)

// contextEntry is an entry of the context of a rule.
type contextEntry struct {
	Name     string `json:"name"`
	Variable *struct {
		Value    any    `json:"value,omitempty"`
		JMESPath string `json:"jmesPath,omitempty"`
		Default  any    `json:"default,omitempty"`
	} `json:"variable,omitempty"`
	ConfigMap       any `json:"configMap,omitempty"`
	APICall         any `json:"apiCall,omitempty"`
	ImageRegistry   any `json:"imageRegistry,omitempty"`
	GlobalReference any `json:"globalReference,omitempty"`
}

// contextVariable is what a name of the context is: a constant, a query, or a problem. Kyverno reads only those that are used.
type contextVariable struct {
	constant any
	query    *query
	problem  error
}

// contextVariables returns the variables of the context of a rule.
func contextVariables(entries []any) map[string]contextVariable {
	all := make(map[string]contextVariable, len(entries))
	for _, entry := range entries {
		var read contextEntry
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		if unknown, err := decodeValue(fields, &read); err != nil || len(unknown) > 0 {
			read.Name, _ = fields["name"].(string)
			all[read.Name] = contextVariable{problem: fmt.Errorf("the context %s has another form", texts.Shorten(read.Name, maxQuoted))}
			continue
		}
		made, err := read.variable()
		if err != nil {
			made.problem = fmt.Errorf("the context %s %w", texts.Shorten(read.Name, maxQuoted), err)
		}
		all[read.Name] = made
	}
	return all
}

// variable returns what an entry is.
func (e *contextEntry) variable() (contextVariable, error) {
	switch v := e.Variable; {
	case e.ConfigMap != nil:
		return contextVariable{}, fmt.Errorf("reads a ConfigMap: name it in spec.params, and compare params in an expression")
	case e.APICall != nil:
		return contextVariable{}, fmt.Errorf("calls an API: a policy reads only the objects that the virtual machine refers to, in references")
	case e.ImageRegistry != nil:
		return contextVariable{}, fmt.Errorf("reads a registry: a policy does not")
	case e.GlobalReference != nil || v == nil:
		return contextVariable{}, fmt.Errorf("reads a GlobalContextEntry: a policy has no such cache")
	case v.Value != nil:
		if v.JMESPath != "" || hasVariables(v.Value) {
			return contextVariable{}, fmt.Errorf("is computed from a value: write the result as the value")
		}
		return contextVariable{constant: v.Value}, nil
	case strings.Contains(v.JMESPath, "{{"):
		return contextVariable{}, fmt.Errorf("has a variable in its jmesPath: write one path")
	default:
		return e.queried(v.JMESPath, v.Default)
	}
}

// queried returns the query of an entry. A default is used where the path has no value, and not where it is empty.
func (e *contextEntry) queried(path string, byDefault any) (contextVariable, error) {
	made, err := parsedQuery(strings.TrimSpace(path))
	switch {
	case err != nil:
		return contextVariable{}, fmt.Errorf("has a query of which a part is not converted: %w", err)
	case byDefault == nil && made.projects >= 0 && !made.optional && !made.length:
		return contextVariable{}, fmt.Errorf("is an error without the list, and a projection is not: add || `[]`")
	case byDefault == nil:
		return contextVariable{query: made}, nil
	case made.optional || made.length || made.function != nil || hasVariables(byDefault):
		return contextVariable{}, fmt.Errorf("has two defaults, or the default of a function: write one")
	}
	if list, ok := byDefault.([]any); ok && len(list) > 0 {
		return contextVariable{}, fmt.Errorf("has a list as its default that is not empty")
	}
	if n, ok := byDefault.(int64); ok {
		byDefault = float64(n)
	}
	made.optional, made.onlyMissing, made.byDefault = true, true, byDefault
	return contextVariable{query: made}, nil
}

// unread says why a rule cannot read a query of its context; empty if it can.
func (r *clusterRule) unread() string {
	switch {
	case len(r.machines(operations[2:])) > 0:
		return "is an error at deletions, where Kyverno has no object for it: name the operations CREATE and UPDATE in the match"
	case len(r.machines(operations[1:2])) > 0 && r.Validate.AllowExistingViolations != false:
		return "is that of the new object also where Kyverno evaluates the old one, so that it admits each update: write the path in the condition, or add allowExistingViolations: false"
	}
	return ""
}

// operand returns the value of a condition, with the constant in place of a variable of the context.
func (c *conditions) operand(value any) (any, error) {
	text, ok := value.(string)
	if !ok {
		return value, nil
	}
	if parts := wholeVariable.FindStringSubmatch(text); parts != nil {
		variable, known := c.variables[strings.TrimSpace(parts[1])]
		switch {
		case known && variable.problem != nil:
			return nil, variable.problem
		case known && variable.constant != nil:
			return variable.constant, nil
		}
	}
	return text, withoutVariables(text)
}

// inlined returns a query in which a variable of the context is replaced by its own query.
func (c *conditions) inlined(asked *query) (*query, error) {
	variable, known := c.variables[asked.path[0]]
	switch {
	case !known:
		return asked, nil
	case variable.problem != nil:
		return nil, variable.problem
	case variable.query == nil:
		return nil, fmt.Errorf("the variable %s is a constant, and a condition compares a field", texts.Shorten(asked.path[0], maxQuoted))
	}
	if c.unread != "" {
		return nil, fmt.Errorf("the context %s %s", texts.Shorten(asked.path[0], maxQuoted), c.unread)
	}
	made := *variable.query
	switch plain := len(asked.path) == 1 && asked.projects < 0; {
	case plain && !asked.optional && !asked.length && asked.function == nil:
		return &made, nil
	case made.optional || made.length || made.function != nil || made.projects >= 0:
		return nil, fmt.Errorf("the variable %s is used with another path, a default or a function: write the path in the condition", texts.Shorten(asked.path[0], maxQuoted))
	}
	made.optional, made.byDefault, made.length, made.function = asked.optional, asked.byDefault, asked.length, asked.function
	if asked.optional { // without the path, the variable is an error
		return nil, fmt.Errorf("the variable %s has a default where it is used: write it in the context", texts.Shorten(asked.path[0], maxQuoted))
	}
	if asked.projects >= 0 {
		made.projects = len(made.path) + asked.projects - 1
	}
	made.path = slices.Concat(made.path, asked.path[1:])
	return &made, nil
}
