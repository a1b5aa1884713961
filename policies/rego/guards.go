package rego

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// guardPrefix marks the functions of which modules, once compiled, call the guarded form. No module can say it.
const guardPrefix = "within bounds/"

// guard says what is wrong with the arguments of a function, before it is called, and how many bytes it may build.
type guard func(operands []*ast.Term) (bytes int, err error)

// Bounds of one call.
const (
	maxRange  = 100_000
	maxShift  = 1024
	maxFormat = 1000 // width or precision, in characters
)

// guarded are the functions that can build far more than they are given, or that take it apart no matter how often
// something occurs in it: a hundred bytes of Rego would be enough to build a gigabyte in one step.
func guarded() map[string]guard {
	guards := map[string]guard{
		"mul": numbers, "product": product, "to_number": numbers, "units.parse": numbers, "units.parse_bytes": numbers,
		"bits.lsh":      shift,
		"numbers.range": span, "numbers.range_step": spanInSteps,
		"concat": joined, "replace": replaced, "strings.replace_n": replacedByMany, "sprintf": formatted,
		"regex.replace": replacedPattern, "regex.find_all_string_submatch_n": matched, "regex.find_n": matched,
		"regex.match": matched, "regex.split": matched, "regex.template_match": matched,
		"time.add_date": zones, "time.clock": zones, "time.date": zones, "time.diff": zones, "time.format": zones,
		"time.weekday": zones, "time.parse_ns": layout,
	}
	for _, name := range []string{
		"array.concat", "array.flatten", "walk", "object.union", "object.union_n", "object.filter", "object.remove", "object.subset",
		"json.filter", "json.patch", "json.remove", "json.marshal", "json.marshal_with_options", "json.unmarshal",
		"yaml.marshal", "yaml.unmarshal", "internal.template_string", "lower", "upper", "split", "strings.split_n", "strings.reverse",
		"base64.encode", "base64.decode", "base64url.encode", "base64url.encode_no_pad", "base64url.decode", "hex.encode", "hex.decode",
		"urlquery.encode", "urlquery.decode", "urlquery.encode_object", "urlquery.decode_object",
		"glob.match", "crypto.hmac.md5", "crypto.hmac.sha1", "crypto.hmac.sha256", "crypto.hmac.sha512", "intersection", "union", "sort",
	} {
		guards[name] = whole
	}
	return guards
}

// whole counts everything in the arguments, each time that it occurs.
func whole(operands []*ast.Term) (int, error) { return weight(operands...), nil }

// numbers bounds the digits of numbers: they are exact, and squaring doubles them.
func numbers(operands []*ast.Term) (int, error) {
	for _, operand := range operands {
		if err := shortNumbers(operand.Value); err != nil {
			return 0, err
		}
	}
	return weight(operands...), nil
}

func shortNumbers(value ast.Value) error {
	switch v := value.(type) {
	case ast.Number:
		if len(v) > 10*maxDigits {
			return fmt.Errorf("a number of %d digits is longer than %d", len(v), 10*maxDigits)
		}
	case ast.String:
		if len(v) > maxDigits {
			return fmt.Errorf("a number of %d characters is longer than %d", len(v), maxDigits)
		}
	}
	return nil
}

// product bounds the digits of many numbers together, because those of the result are as many.
func product(operands []*ast.Term) (int, error) {
	digits := 0
	count := func(element *ast.Term) {
		if n, ok := element.Value.(ast.Number); ok {
			digits += len(n)
		}
	}
	switch v := operands[0].Value.(type) {
	case *ast.Array:
		v.Foreach(count)
	case ast.Set:
		v.Foreach(count)
	}
	if digits > 100*maxDigits {
		return 0, fmt.Errorf("the numbers have more than %d digits together", 100*maxDigits)
	}
	return digits, nil
}

func shift(operands []*ast.Term) (int, error) {
	if by, ok := integer(operands, 1); !ok || by > maxShift {
		return 0, fmt.Errorf("it shifts by %v, where %d bits are the most", operands[1], maxShift)
	}
	return numbers(operands)
}

func span(operands []*ast.Term) (int, error) { return numbersBetween(operands, 1) }

func spanInSteps(operands []*ast.Term) (int, error) {
	step, ok := integer(operands, 2)
	if !ok {
		return 0, errNoInteger
	}
	return numbersBetween(operands, uint64(max(step, 1)))
}

var errNoInteger = errors.New("it takes integers of up to 64 bits")

func numbersBetween(operands []*ast.Term, step uint64) (int, error) {
	from, ok := integer(operands, 0)
	to, too := integer(operands, 1)
	if !ok || !too {
		return 0, errNoInteger
	}
	count := (uint64(max(from, to)) - uint64(min(from, to))) / step //nolint:gosec // two's complement: the difference is right, and fits
	if count >= maxRange {
		return 0, fmt.Errorf("the range from %d to %d has more than %d numbers", from, to, maxRange)
	}
	return 8 * int(count), nil
}

func integer(operands []*ast.Term, i int) (int64, bool) {
	if i >= len(operands) {
		return 0, false
	}
	n, ok := operands[i].Value.(ast.Number)
	if !ok {
		return 0, true // the function itself says that this is no number
	}
	return n.Int64()
}

// joined is a list of strings with another between any two.
func joined(operands []*ast.Term) (int, error) {
	parts := 0
	switch v := operands[1].Value.(type) {
	case *ast.Array:
		parts = v.Len()
	case ast.Set:
		parts = v.Len()
	}
	return times(parts, text(operands, 0)) + weight(operands[1]), nil
}

// replaced puts one string for another, at the most between any two characters.
func replaced(operands []*ast.Term) (int, error) {
	subject, old, value := text(operands, 0), text(operands, 1), text(operands, 2)
	if old > 0 && value <= old {
		return subject, nil
	}
	return times(subject+1, value+1), nil
}

// replacedPattern puts a string in the place of what a pattern matches, which may be nothing, and may repeat what
// was matched as often as it has room to name it.
func replacedPattern(operands []*ast.Term) (int, error) {
	if err := cheap(operands[1], operands[0]); err != nil {
		return 0, err
	}
	return times(text(operands, 0)+1, text(operands, 2)+1), nil
}

// matched is a pattern, and what may match it.
func matched(operands []*ast.Term) (int, error) {
	return weight(operands...), cheap(operands[0], operands[1])
}

// maxMatching bounds the work of a match: the characters, times the states of the pattern.
const maxMatching = 20_000_000

// cheap bounds the time that a match takes: each character of the text is held against every state of the pattern,
// which has as many as it has characters, times the repetitions that it asks for.
func cheap(pattern, subject *ast.Term) error {
	p, _ := pattern.Value.(ast.String)
	s, _ := subject.Value.(ast.String)
	states := len(p)
	for _, repeated := range strings.Split(string(p), "{")[min(1, len(p)):] {
		count := 0
		for i := 0; i < len(repeated) && (repeated[i] >= '0' && repeated[i] <= '9' || repeated[i] == ','); i++ {
			if repeated[i] == ',' {
				count = 0
				continue
			}
			count = min(count*10+int(repeated[i]-'0'), maxRange)
		}
		states = times(states, max(count, 1))
	}
	if times(states, len(s)) > maxMatching {
		return fmt.Errorf("matching %d characters against this pattern would take too long", len(s))
	}
	return nil
}

func replacedByMany(operands []*ast.Term) (int, error) {
	longest := 0
	if patterns, ok := operands[0].Value.(ast.Object); ok {
		patterns.Foreach(func(_, value *ast.Term) {
			if s, ok := value.Value.(ast.String); ok {
				longest = max(longest, len(s))
			}
		})
	}
	return times(text(operands, 1)+1, longest+1), nil
}

// formatted is text with as many arguments as it has verbs, each as wide as the verb says.
func formatted(operands []*ast.Term) (int, error) {
	format, ok := operands[0].Value.(ast.String)
	if !ok {
		return weight(operands...), nil
	}
	for rest := string(format); ; {
		var found bool
		if _, rest, found = strings.Cut(rest, "%"); !found {
			break
		}
		if err := plainVerb(rest); err != nil {
			return 0, err
		}
	}
	return weight(operands...) + times(strings.Count(string(format), "["), weight(operands[1])), nil
}

// plainVerb looks at what stands between a percent sign and its verb.
func plainVerb(verb string) error {
	number := 0
	for i := range len(verb) {
		switch b := verb[i]; {
		case b >= '0' && b <= '9':
			if number = number*10 + int(b-'0'); number > maxFormat {
				return fmt.Errorf("a width or precision of more than %d", maxFormat)
			}
		case b == '*':
			return errors.New("a width or precision that is an argument (*)")
		case b == '.' || b == '[' || b == ']' || b == '+' || b == '-' || b == ' ' || b == '#':
			number = 0
		default:
			return nil
		}
	}
	return nil
}

// zones refuses the time zone of the process: the same policy would judge differently elsewhere.
func zones(operands []*ast.Term) (int, error) {
	for _, operand := range operands {
		if v, ok := operand.Value.(*ast.Array); ok && v.Len() > 1 && v.Elem(1).Value.Compare(ast.String("Local")) == 0 {
			return 0, errors.New("the time zone Local is that of the process; name one")
		}
	}
	return 0, nil
}

// layout refuses abbreviations of time zones: what they mean depends on the zone of the process.
func layout(operands []*ast.Term) (int, error) {
	if s, ok := operands[0].Value.(ast.String); ok && (strings.Contains(string(s), "MST") || s == "UnixDate" || s == "RFC822" || s == "RFC850" || s == "RFC1123") {
		return 0, errors.New("a layout with the abbreviation of a time zone (MST) means something else in each zone; use a number (-0700)")
	}
	return whole(operands)
}

// text is the length of a string.
func text(operands []*ast.Term, i int) int {
	s, _ := operands[i].Value.(ast.String)
	return len(s)
}

func times(a, b int) int {
	high, low := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0)))
	if high != 0 || low > tooHeavy {
		return tooHeavy
	}
	return int(low)
}

// tooHeavy is more than any limit.
const tooHeavy = 1 << 30

// maxWeight ends the counting of weight.
const maxWeight = 64 << 20

// weight is the size of values in bytes, about, where what occurs twice counts twice.
func weight(terms ...*ast.Term) int {
	total := 0
	for _, term := range terms {
		addWeight(term, &total)
	}
	return total
}

func addWeight(term *ast.Term, total *int) {
	if *total > maxWeight {
		return
	}
	*total += 8
	switch v := term.Value.(type) {
	case ast.String:
		*total += len(v)
	case ast.Number:
		*total += len(v)
	case *ast.Array:
		v.Until(func(element *ast.Term) bool { addWeight(element, total); return *total > maxWeight })
	case ast.Set:
		v.Until(func(element *ast.Term) bool { addWeight(element, total); return *total > maxWeight })
	case ast.Object:
		v.Until(func(key, value *ast.Term) bool {
			addWeight(key, total)
			addWeight(value, total)
			return *total > maxWeight
		})
	}
}

// guardedBuiltins are the guarded forms, for the compiler and the evaluator.
var guardedBuiltins = sync.OnceValue(func() map[string]*topdown.Builtin {
	builtins := map[string]*topdown.Builtin{}
	for name, check := range guarded() {
		declaration := *ast.BuiltinMap[name]
		declaration.Name, declaration.Infix, declaration.CanSkipBctx = guardPrefix+name, "", false
		builtins[declaration.Name] = &topdown.Builtin{Decl: &declaration, Func: within(name, check)}
	}
	return builtins
})

// within calls a function if its guard agrees, on the budget of the evaluation.
func within(name string, check guard) topdown.BuiltinFunc {
	call := topdown.GetBuiltin(name)
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, yield func(*ast.Term) error) error {
		halt := func(message string) error {
			return topdown.Halt{Err: &topdown.Error{Code: topdown.BuiltinErr, Message: name + ": " + message, Location: bctx.Location}}
		}
		bytes, err := check(operands)
		if err != nil {
			return halt(err.Error())
		}
		if b, ok := bctx.Cancel.(*budget); ok && !b.build(bytes) {
			return halt(b.exceeded)
		}
		return call(bctx, operands, yield)
	}
}
