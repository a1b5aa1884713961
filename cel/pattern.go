package cel

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/utils/lru"
)

// Kubernetes charges for a regular expression by its length, but (a{30}){30} is short and has a thousand states, and
// looking for all matches may walk the rest of the text for each. So patterns are measured by their states, and the
// functions that take them are called here, with the results of the library's.

// pattern is a regular expression and the number of its states.
type pattern struct {
	expression *regexp.Regexp
	states     uint64
}

func compilePattern(text string) (pattern, error) {
	expression, err := regexp.Compile(text)
	if err != nil {
		return pattern{}, err
	}
	states, err := statesOf(text)
	return pattern{expression, states}, err
}

func statesOf(text string) (uint64, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, err
	}
	return uint64(len(program.Inst)), nil
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

// Bounds of what is remembered: that many patterns, of that many bytes and states at most.
const (
	maxRecent       = 256
	maxRecentText   = 1 << 10
	maxRecentStates = 1 << 10
)

func newRecent() *recent { return &recent{lru.New(maxRecent)} }

// compiled is a pattern.
func (r *recent) compiled(text string) (pattern, error) {
	if known, ok := r.cache.Get(text); ok {
		return known.(pattern), nil
	}
	made, err := compilePattern(text)
	if err == nil && len(text) <= maxRecentText && made.states <= maxRecentStates {
		r.cache.Add(strings.Clone(text), made)
	}
	return made, err
}

// states of a pattern, which is compiled for it if it is no literal.
func (p patterns) states(text string) uint64 {
	if known, ok := p.literals[text]; ok {
		return known.states
	}
	made, err := p.others.compiled(text)
	if err != nil {
		return 0 // and there was no match
	}
	return made.states + uint64(len(text))/charsPerUnit // compiling it took time as well
}

// matchWork is what one match of a text takes.
func matchWork(text, states uint64) uint64 {
	const perUnit = 4
	return product(text/charsPerUnit+1, states/perUnit+1)
}

// matching is the implementation of a function that takes a pattern as its second argument; nil for others.
func (p patterns) matching(call interpreter.InterpretableCall) (functions.FunctionOp, error) {
	var result func(*pattern, string, []ref.Val) ref.Val
	switch call.Function() {
	case "matches":
		result = func(p *pattern, text string, _ []ref.Val) ref.Val { return types.Bool(p.expression.MatchString(text)) }
	case "find":
		result = func(p *pattern, text string, _ []ref.Val) ref.Val { return types.String(p.expression.FindString(text)) }
	case "findAll":
		result = findAll
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
	return func(args ...ref.Val) ref.Val {
		text, ok := args[0].(types.String)
		written, alsoOK := args[1].(types.String)
		if !ok || !alsoOK {
			return types.NoSuchOverloadErr()
		}
		compiled, known := p.literals[string(written)]
		if !known {
			if len(written) > MaxExpression {
				return tooLarge(call.Function())
			}
			var err error
			if compiled, err = p.others.compiled(string(written)); err != nil {
				return types.WrapErr(err)
			}
		}
		if matchWork(length(text), compiled.states) > ExpressionLimit {
			return tooLarge(call.Function())
		}
		return result(&compiled, string(text), args)
	}, nil
}

// findAll finds as many matches as the limit of an expression allows; more are an error.
func findAll(p *pattern, text string, args []ref.Val) ref.Val {
	wanted := -1
	if len(args) > 2 {
		n, ok := args[2].(types.Int)
		if !ok {
			return types.NoSuchOverloadErr()
		}
		wanted = int(n)
	}
	allowed := int(ExpressionLimit / matchWork(uint64(len(text)), p.states)) //nolint:gosec // a million at most
	ask := wanted
	if ask < 0 || ask > allowed {
		ask = allowed + 1
	}
	found := p.expression.FindAllString(text, ask)
	if len(found) > allowed {
		return tooLarge("findAll")
	}
	return types.NewStringList(types.DefaultTypeAdapter, found)
}

// charge is what a call with a pattern took.
func (p patterns) charge(args []ref.Val, result ref.Val) uint64 {
	if len(args) < 2 {
		return 1
	}
	written, ok := args[1].(types.String)
	if !ok || len(written) > MaxExpression {
		return 1
	}
	times := uint64(1)
	if types.IsError(result) {
		times = 0
	} else if _, all := result.(interface{ Size() ref.Val }); all && result.Type() == types.ListType {
		times += items(result, ExpressionLimit)
	}
	return product(matchWork(length(args[0]), p.states(string(written))), times) + 1
}
