package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// function is a function of JMESPath about a text, with its other argument.
type function struct {
	functionOf

	argument string
}

// functionOf says what a function is in CEL. It has one of test and folds.
type functionOf struct {
	name string
	// after reports whether the text is the second argument. folds has one only.
	after bool
	// test returns the test of a text; an error says why there is none.
	test func(argument string) (*check, error)
	// folds returns the case of a character.
	folds func(rune) rune
	// sample returns a text that passes the test, for tests of a rule.
	sample func(argument string) string
}

// functions returns the functions that mean the same in CEL for each text. A missing text is an error in Kyverno, as in the policy.
func functions() map[string]functionOf {
	method := func(name string, holds func(text, part string) bool) func(string) (*check, error) {
		return func(argument string) (*check, error) {
			return &check{
				of:    func(v string) logic { return test(v + "." + name + "(" + quote(argument) + ")") },
				holds: func(value any) bool { text, ok := value.(string); return ok && holds(text, argument) },
			}, nil
		}
	}
	same := func(argument string) string { return argument }
	all := map[string]functionOf{}
	for _, f := range []functionOf{
		{name: "starts_with", test: method("startsWith", strings.HasPrefix), sample: same},
		{name: "ends_with", test: method("endsWith", strings.HasSuffix), sample: same},
		{name: "contains", test: method("contains", strings.Contains), sample: same},
		{name: "pattern_match", after: true, test: func(argument string) (*check, error) { return likeText(argument, false), nil }, sample: literalOf},
		{name: "regex_match", after: true, test: regularExpression, sample: sampleOf},
		{name: "to_lower", folds: unicode.ToLower},
		{name: "to_upper", folds: unicode.ToUpper},
	} {
		all[f.name] = f
	}
	return all
}

var (
	// functionCall is a call of a function.
	functionCall = regexp.MustCompile(`^([a-z_]+)\((.*)\)$`)
	// firstLiteral and lastLiteral are the arguments of a call with a literal.
	firstLiteral = regexp.MustCompile("^\\s*('[^']*'|`[^`]*`)\\s*,(.*)$")
	lastLiteral  = regexp.MustCompile("^(.*),\\s*('[^']*'|`[^`]*`)\\s*$")
)

// calledQuery reads a query that is a call of a function. It is nil for another query.
func calledQuery(text string) (*query, error) {
	parts := functionCall.FindStringSubmatch(text)
	if parts == nil {
		return nil, nil
	}
	of, known := functions()[parts[1]]
	if !known {
		return nil, nil
	}
	about, written := parts[2], ""
	if of.folds == nil {
		split := lastLiteral.FindStringSubmatch(parts[2])
		if of.after {
			if split = firstLiteral.FindStringSubmatch(parts[2]); split != nil {
				split[1], split[2] = split[2], split[1]
			}
		}
		if split == nil {
			return nil, fmt.Errorf("%s() must have a path and a text, such as 'x'", of.name)
		}
		about, written = split[1], split[2]
	}
	made, err := parsedQuery(strings.TrimSpace(about))
	if err != nil {
		return nil, err
	}
	if made.length || made.function != nil {
		return nil, fmt.Errorf("%s() of another function is not converted", of.name)
	}
	made.function = &function{functionOf: of}
	if of.folds != nil {
		return made, nil
	}
	argument, ok := argumentOf(written)
	if !ok {
		return nil, fmt.Errorf("the argument of %s() must be a text, such as 'x'", of.name)
	}
	made.function.argument = argument
	_, err = of.test(argument)
	return made, err
}

// argumentOf returns the text of a literal. In single quotes, a backslash is one, unless it is before a quote.
func argumentOf(literal string) (text string, ok bool) {
	inner := literal[1 : len(literal)-1]
	if literal[0] == '\'' {
		return inner, !strings.HasSuffix(inner, `\`)
	}
	var value any
	if strings.Contains(inner, `\`) || json.Unmarshal([]byte(inner), &value) != nil {
		return "", false
	}
	text, ok = value.(string)
	return text, ok
}

// regularExpression returns the test of a text by a regular expression. Both engines use the same library.
func regularExpression(argument string) (*check, error) {
	compiled, err := regexp.Compile(argument)
	if err != nil {
		return nil, fmt.Errorf("regex_match(): %w", err)
	}
	return &check{
		of:    func(v string) logic { return test(v + ".matches(" + quote(argument) + ")") },
		holds: func(value any) bool { text, ok := value.(string); return ok && compiled.MatchString(text) },
	}, nil
}

// ofText reports whether a query is a function of a text. typ is that of the value before a projection.
func (q *query) ofText(typ reflect.Type) bool {
	return q.function != nil || q.length && q.projects < 0 && classOf(typ) == classText
}

// operandOf returns the test of a field of a class, of which a query can be a function.
func (q *query) operandOf(o operatorOf, c class, operand any) (*check, error) {
	switch f := q.function; {
	case q.length: // of a text: a list has its own
		inner, err := o.operandOf(classInteger, operand)
		if err != nil {
			return nil, err
		}
		return &check{
			of: func(v string) logic { return inner.of(v + ".size()") },
			holds: func(value any) bool {
				text, ok := value.(string)
				return ok && inner.holds(int64(utf8.RuneCountInString(text)))
			},
		}, nil
	case f == nil:
		return o.operandOf(c, operand)
	case c != classText:
		return nil, fmt.Errorf("%s() is converted for texts only", f.name)
	case f.folds != nil:
		return f.folded(o, operand)
	default:
		tested, err := f.test(f.argument)
		if err != nil {
			return nil, err
		}
		outer, err := o.operandOf(classBoolean, operand)
		if err != nil {
			return nil, err
		}
		return &check{
			of: func(v string) logic {
				is := tested.of(v)
				switch whenFalse, whenTrue := outer.holds(false), outer.holds(true); {
				case whenFalse == whenTrue:
					return constant(whenTrue).of(v)
				case whenFalse:
					return negated(is)
				}
				return is
			},
			holds: func(value any) bool { return outer.holds(tested.holds(value)) },
		}, nil
	}
}

// folded returns the test that a text has a value, or one of several, after its case is changed.
func (f *function) folded(o operatorOf, operand any) (*check, error) {
	list, isList := operand.([]any)
	if text, ok := operand.(string); ok && o.elements == aggregateNone {
		list, isList = []any{text}, true
	}
	if _, err := o.operandOf(classText, operand); err != nil {
		return nil, err
	}
	if !isList {
		return nil, fmt.Errorf("%s() is compared with texts only", f.name)
	}
	var all []*check
	for _, one := range list {
		text, ok := one.(string)
		if equal, err := equalText(classText, text); !ok || wild(text) || err != nil || equal.exact == nil {
			return nil, fmt.Errorf("%s() is compared with texts without wildcards, which are no amounts and no times", f.name)
		}
		all = append(all, f.foldsTo(text))
	}
	if len(all) == 0 {
		all = append(all, constant(false))
	}
	made := some(all)
	if !o.negated {
		return made, nil
	}
	return &check{
		of:    func(v string) logic { return negated(made.of(v)) },
		holds: func(value any) bool { return !made.holds(value) },
	}, nil
}

// foldsTo returns the test that a text has a value after its case is changed.
func (f *function) foldsTo(want string) *check {
	made := &check{holds: func(value any) bool { text, ok := value.(string); return ok && strings.Map(f.folds, text) == want }}
	var expression strings.Builder
	expression.WriteByte('^')
	for _, r := range want {
		from := foldings()[f.name][r]
		switch {
		case f.folds(r) == r && len(from) == 0:
			expression.WriteString(regexp.QuoteMeta(string(r)))
			continue
		case f.folds(r) == r:
			from = append([]rune{r}, from...)
		case len(from) == 0: // no text has this character then
			made.of = func(string) logic { return no }
			return made
		}
		expression.WriteString("[" + string(from) + "]")
	}
	expression.WriteByte('$')
	made.of = func(v string) logic { return test(v + ".matches(" + quote(expression.String()) + ")") }
	return made
}

// foldings are the characters that become others, by the functions and what they become.
var foldings = sync.OnceValue(func() map[string]map[rune][]rune {
	all := map[string]map[rune][]rune{}
	for name, f := range functions() {
		if f.folds == nil {
			continue
		}
		all[name] = map[rune][]rune{}
		for r := range rune(unicode.MaxRune + 1) {
			if to := f.folds(r); to != r {
				all[name][to] = append(all[name][to], r)
			}
		}
	}
	return all
})

// literals returns texts for tests of a condition about a function of a text.
func (q *query) literals(operand any) []any {
	list, ok := operand.([]any)
	if !ok {
		list = []any{operand}
	}
	switch f := q.function; {
	case q.length:
		var all []any
		for _, n := range valuesOf(classInteger, list) {
			if n, ok := n.(int64); ok && n <= maxCharacters {
				all = append(all, strings.Repeat("x", int(n)))
			}
		}
		return all
	case f.folds != nil:
		all := slices.Clone(list)
		for _, one := range list {
			if text, ok := one.(string); ok {
				all = append(all, strings.ToUpper(text), strings.ToLower(text))
			}
		}
		return all
	default:
		return []any{f.sample(f.argument)}
	}
}

// maxCharacters bounds the texts of tests about the length of a text.
const maxCharacters = 256

// sampleOf returns a text that a regular expression matches, if it is a simple one.
func sampleOf(expression string) string {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return ""
	}
	return sample(parsed.Simplify())
}

func sample(e *syntax.Regexp) string {
	var made strings.Builder
	switch e.Op {
	case syntax.OpLiteral:
		made.WriteString(string(e.Rune))
	case syntax.OpCharClass:
		if len(e.Rune) > 0 {
			made.WriteRune(e.Rune[len(e.Rune)-1])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		made.WriteByte('x')
	case syntax.OpConcat:
		for _, part := range e.Sub {
			made.WriteString(sample(part))
		}
	case syntax.OpCapture, syntax.OpPlus, syntax.OpAlternate:
		made.WriteString(sample(e.Sub[0]))
	}
	return made.String()
}

// functionNames are the names of the functions, for messages.
func functionNames() string {
	return strings.Join(slices.Sorted(maps.Keys(functions())), "(), ") + "() and length()"
}
