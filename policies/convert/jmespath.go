package convert

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// query is the part of JMESPath that has an equivalent: a path, with at most one projection, a default, and a function.
type query struct {
	path []string
	// projects is how many steps are before the projection; -1 without one.
	projects int
	// byDefault is the value if the path has none; a nil list stands for an empty one.
	byDefault any
	optional  bool
	// onlyMissing reports whether the default is not used for a value that is empty or false.
	onlyMissing bool
	length      bool
	// function is that of the value; nil without one.
	function *function
	// among are the names of lists that are read one after the other, in place of the step before the projection.
	among []string
}

// each returns a query for each of the lists that a query reads, of which each can be missing.
func (q *query) each() []*query {
	all := make([]*query, len(q.among))
	for i, name := range q.among {
		one := *q
		one.among, one.path = nil, slices.Clone(q.path)
		one.path[q.projects-1] = name
		if !one.optional {
			one.optional, one.byDefault = true, []any{}
		}
		all[i] = &one
	}
	return all
}

// wholeVariable is a text that is one variable.
var wholeVariable = regexp.MustCompile(`^\{\{((?:[^{}])*)\}\}$`)

// variableOf returns the query of a text that is one variable.
func variableOf(text string) (*query, error) {
	parts := wholeVariable.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("the key must be one variable, such as {{ request.object.spec.runStrategy }}")
	}
	return parsedQuery(strings.TrimSpace(parts[1]))
}

// queryStep is a step of a path, with the projection after it, and queryLists are several lists that become one.
var (
	queryStep  = regexp.MustCompile(`^(?:([A-Za-z_][A-Za-z0-9_]*)|"([^"\\]+)")(\[\]|\[\*\])?`)
	queryLists = regexp.MustCompile(`^\[\s*([A-Za-z_][A-Za-z0-9_]*(?:\s*,\s*[A-Za-z_][A-Za-z0-9_]*)*)\s*\]\[\]`)
)

// call is length() of something.
var call = regexp.MustCompile(`^length\(\s*(.*?)\s*\)$`)

// maxQuery bounds the text of a query, in bytes.
const maxQuery = 1024

// parsedQuery reads a query.
func parsedQuery(text string) (*query, error) {
	if len(text) > maxQuery {
		return nil, fmt.Errorf("a variable has more than %d bytes", maxQuery)
	}
	if parts := call.FindStringSubmatch(text); parts != nil {
		made, err := parsedQuery(parts[1])
		if err != nil {
			return nil, err
		}
		if made.length || made.function != nil {
			return nil, fmt.Errorf("length() of another function is not converted")
		}
		made.length = true
		return made, nil
	}
	if made, err := calledQuery(text); made != nil || err != nil {
		return made, err
	}
	made := &query{projects: -1}
	rest := text
	for {
		step := queryStep.FindStringSubmatch(rest)
		if lists := queryLists.FindStringSubmatch(rest); lists != nil && len(made.path) > 0 && made.projects < 0 {
			for _, name := range strings.Split(lists[1], ",") {
				made.among = append(made.among, strings.TrimSpace(name))
			}
			step = []string{lists[0], made.among[0], "", "[]"}
		}
		if step == nil {
			return nil, unsupportedQuery(text)
		}
		made.path = append(made.path, step[1]+step[2])
		rest = rest[len(step[0]):]
		if step[3] != "" {
			if made.projects >= 0 {
				return nil, fmt.Errorf("%q has two projections", text)
			}
			made.projects = len(made.path)
		}
		if !strings.HasPrefix(rest, ".") {
			break
		}
		rest = rest[1:]
	}
	rest = strings.TrimSpace(rest)
	if rest == "" {
		return made, nil
	}
	rest, ok := strings.CutPrefix(rest, "||")
	if !ok {
		return nil, unsupportedQuery(text)
	}
	made.optional = true
	if made.byDefault, ok = literal(strings.TrimSpace(rest)); !ok {
		return nil, unsupportedQuery(text)
	}
	return made, nil
}

// literal returns the value of a literal of JMESPath.
func literal(text string) (value any, ok bool) {
	n := len(text)
	switch {
	case n >= 2 && text[0] == '\'' && text[n-1] == '\'':
		return text[1 : n-1], !strings.ContainsAny(text[1:n-1], `'\`)
	case n >= 2 && text[0] == '`' && text[n-1] == '`' && !strings.ContainsAny(text[1:n-1], "`\\"):
		err := json.Unmarshal([]byte(text[1:n-1]), &value)
		return value, err == nil
	}
	return nil, false
}

func unsupportedQuery(text string) error {
	return fmt.Errorf("%q has a part of JMESPath that is not converted: a path, one projection, || with a literal and the functions %s are", text, functionNames())
}
