package cel

import (
	"math/bits"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/utils/lru"

	"github.com/virtward/virtward/texts"
)

// Kubernetes charges for a regular expression by its length, but (a{30}){30} is short and has a thousand states, and
// looking for all matches may walk the rest of the text for each. So patterns are measured by their states, and the
// functions that take them are called here, with the results of the library's.

// pattern is a regular expression and its size.
type pattern struct {
	expression *regexp.Regexp
	patternSize
}

// patternSize is how large a pattern is.
type patternSize struct {
	// states are what a match visits for each character, and ends those of the ranges of all its classes.
	states, ends uint64
}

// bytes is what the compiled pattern takes.
func (s patternSize) bytes() uint64 {
	const perState, perEnd = 48, 8
	return product(s.states, perState) + product(s.ends, perEnd)
}

func compilePattern(text string) (pattern, error) {
	expression, err := regexp.Compile(text)
	if err != nil {
		return pattern{}, err
	}
	size, err := sizeOf(text)
	return pattern{expression, size}, err
}

// sizeOf returns the size of a pattern without compiling it.
func sizeOf(text string) (patternSize, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return patternSize{}, err
	}
	return measured(parsed), nil
}

// patternLimit is what the patterns of an expression of a length may take when they are compiled, in bytes: about as much for each
// byte as the rest of the expression.
func patternLimit(length int) uint64 {
	const whole, each = 256 << 10, 128
	return whole + each*uint64(length) //nolint:gosec // not negative
}

// maxFolded are the characters of ranges for any case in the patterns of an expression.
const maxFolded = 1 << 21

// PatternSize returns what a match of a pattern visits for each character, and what the compiled pattern takes, in bytes. Both are
// 0 for a text that is no pattern, and huge for one that takes long to compile.
func PatternSize(pattern string) (states int, bytes uint64) {
	const huge = 1 << 30
	if texts.Folded(pattern) > maxFolded {
		return huge, huge
	}
	size, err := sizeOf(pattern)
	if err != nil {
		return 0, 0
	}
	return int(min(size.states, huge)), size.bytes()
}

func measured(e *syntax.Regexp) patternSize {
	const around = 2 // the states of an operator
	total := patternSize{states: around}
	switch e.Op {
	case syntax.OpLiteral:
		total.states += uint64(len(e.Rune))
	case syntax.OpCharClass:
		total.states += uint64(bits.Len32(uint32(len(e.Rune)))) //nolint:gosec // a search among the ranges, of which there are few
		total.ends = uint64(len(e.Rune))
	}
	for _, sub := range e.Sub {
		size := measured(sub)
		total.states += size.states
		total.ends += size.ends
	}
	if e.Op == syntax.OpRepeat {
		times := uint64(max(e.Min, e.Max, 1))
		total.states, total.ends = product(total.states, times), product(total.ends, times)
	}
	return total
}

// patterns are those of a program.
type patterns struct {
	// literals are compiled with the program.
	literals map[string]pattern
	// others are parameters for the most part, and so are the same again and again.
	others *recent
}

func (e *Environment) newPatterns() patterns { return patterns{map[string]pattern{}, e.patterns} }

// recent are patterns that were used lately, by any program. Caching them saves time; the charge does not change.
type recent struct{ cache *lru.Cache }

// Bounds of what is remembered: that many patterns, of that many bytes at most, as texts and compiled.
const (
	maxRecent      = 64
	maxRecentText  = 1 << 10
	maxRecentBytes = 31 << 10
)

// MaxRecentBytes is the most memory of the patterns that an Environment remembers, in bytes.
const MaxRecentBytes = maxRecent * (maxRecentText + maxRecentBytes)

func newRecent() *recent { return &recent{lru.New(maxRecent)} }

// compiled is a pattern.
func (r *recent) compiled(text string) (pattern, error) {
	if known, ok := r.cache.Get(text); ok {
		return known.(pattern), nil
	}
	made, err := compilePattern(text)
	if err == nil && len(text) <= maxRecentText && made.bytes() <= maxRecentBytes {
		r.cache.Add(strings.Clone(text), made)
	}
	return made, err
}

// computed is a pattern that is no literal. It is parsed and compiled once in the evaluation of a policy, which is charged
// then.
func (p patterns) computed(b *Budget, id int64, function, text string) (pattern, error) {
	if b != nil {
		if known, ok := b.patterns[text]; ok {
			return known, nil
		}
	}
	b.pay(product(uint64(len(text)), parseUnits)+uint64(texts.Folded(text)/foldedPerUnit), id, function) //nolint:gosec // not negative
	size, err := sizeOf(text)
	if err != nil {
		return pattern{}, err
	}
	b.pay(product(size.states, stateUnits), id, function)
	b.payMemory(product(size.states, perState)+size.bytes(), id)
	made, err := p.others.compiled(text)
	if err == nil && b != nil {
		if b.patterns == nil {
			b.patterns = map[string]pattern{}
		}
		b.patterns[text] = made
	}
	return made, err
}

// What patterns cost.
const (
	parseUnits = 8 // to parse a byte
	// foldedPerUnit are the characters of ranges for any case that are looked up in a unit.
	foldedPerUnit = 6
	stateUnits    = 10 // to compile a state
	perState      = 256
	// A unit matches so many bytes with so many states.
	bytesPerMatch, statesPerMatch = 8, 2
)

// matchWork is what one match of a text costs.
func matchWork(text, states uint64) uint64 {
	return product(text/bytesPerMatch+1, states/statesPerMatch+1)
}

// takesPattern reports whether the second argument of a function is a pattern.
func takesPattern(function string) bool {
	return function == "matches" || function == "find" || function == "findAll"
}

// matched is the operation of a function that takes a pattern as its second argument.
type matched func(b *Budget, p *pattern, args []ref.Val) ref.Val

// matching is the implementation of a call with a pattern; nil for others.
func (p patterns) matching(call interpreter.InterpretableCall) (func(*Budget, []ref.Val) ref.Val, error) {
	var result matched
	id, function := call.ID(), call.Function()
	once := func(b *Budget, p *pattern, text types.String) {
		b.pay(matchWork(length(text), p.states), id, function)
	}
	switch function {
	case "matches":
		result = func(b *Budget, p *pattern, args []ref.Val) ref.Val {
			once(b, p, args[0].(types.String))
			return types.Bool(p.expression.MatchString(string(args[0].(types.String))))
		}
	case "find":
		result = func(b *Budget, p *pattern, args []ref.Val) ref.Val {
			once(b, p, args[0].(types.String))
			return types.String(p.expression.FindString(string(args[0].(types.String))))
		}
	case "findAll":
		result = func(b *Budget, p *pattern, args []ref.Val) ref.Val { return findAll(b, p, args, id) }
	default:
		return nil, nil //nolint:nilnil // most functions are others
	}
	if literal, ok := call.Args()[1].(interpreter.InterpretableConst); ok {
		if text, ok := literal.Value().(types.String); ok {
			compiled, err := compilePattern(string(text))
			if err != nil {
				return nil, err
			}
			p.literals[string(text)] = compiled
		}
	}
	return func(b *Budget, args []ref.Val) ref.Val {
		_, ok := args[0].(types.String)
		written, alsoOK := args[1].(types.String)
		if !ok || !alsoOK {
			return types.NoSuchOverloadErr()
		}
		compiled, known := p.literals[string(written)]
		if !known {
			if len(written) > MaxExpression {
				return tooLarge(function)
			}
			var err error
			if compiled, err = p.computed(b, id, function, string(written)); err != nil {
				return types.WrapErr(err)
			}
		}
		return result(b, &compiled, args)
	}, nil
}

// findAll looks for twice as many matches again and again, because each may read the whole text, and is charged before.
func findAll(b *Budget, p *pattern, args []ref.Val, id int64) ref.Val {
	text := string(args[0].(types.String))
	wanted := -1
	if len(args) > 2 {
		n, ok := args[2].(types.Int)
		if !ok {
			return types.NoSuchOverloadErr()
		}
		wanted = int(n)
	}
	each := matchWork(uint64(len(text)), p.states)
	for limit := 1; ; limit *= 2 {
		last := wanted >= 0 && limit >= wanted
		if last {
			limit = wanted
		}
		b.pay(product(each, uint64(max(limit, 0))), id, "findAll")
		if found := p.expression.FindAllString(text, limit); last || len(found) < limit {
			return types.NewStringList(types.DefaultTypeAdapter, found)
		}
	}
}
