package rego

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/virtward/virtward/texts"
)

// maxStates bounds a pattern, of which OPA remembers a hundred. The memory of a module without large documents has room for as many.
const maxStates = 2_000

// MaxCachedBytes is the most memory of the patterns that OPA keeps for all evaluations, 100 regular expressions, in bytes.
const MaxCachedBytes = 16 << 20

// classStates are how many states take as much memory as a class of characters by its name, such as \pL.
const classStates = 96

// states of a pattern: as many as it has characters, times the repetitions that it asks for.
func states(pattern string) int {
	states := len(pattern) + classStates*(strings.Count(pattern, `\p`)+strings.Count(pattern, `\P`))
	for _, repeated := range strings.Split(pattern, "{")[min(1, len(pattern)):] {
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
	return states
}

// foldedPerStep are the characters of ranges for any case that are looked up in a step: see texts.Folded.
const foldedPerStep = 64

// compiled is compiling a pattern whose states take so many bytes each.
func compiled(pattern ast.Value, state int) (charge, error) {
	p, _ := pattern.(ast.String)
	n := states(string(p))
	if n > maxStates {
		return charge{}, fmt.Errorf("a pattern of %d states is larger than %d", n, maxStates)
	}
	return charge{takes: state * n, work: n + texts.Folded(string(p))/foldedPerStep}, nil
}

// perState are the bytes of a state.
const perState = 2048

// patternOnly is compiling a pattern.
func patternOnly(operands []*ast.Term) (charge, error) { return compiled(operands[0].Value, perState) }

// The matcher notes the places that it visited, and where it may go on, for up to so many.
const (
	maxVisits = 1 << 18
	perVisit  = 32
)

// perMatching are the characters, times the states of the pattern, that one step pays for.
const perMatching = 64

// matching is compiling a pattern, and holding each character of a text against every state of it. once are the steps of the latter.
func matching(pattern, subject *ast.Term) (c charge, once int, err error) {
	if c, err = compiled(pattern.Value, perState); err != nil {
		return c, 0, err
	}
	p, _ := pattern.Value.(ast.String)
	s, _ := subject.Value.(ast.String)
	n := states(string(p))
	visits := times(len(s)+1, n)
	once = visits / perMatching
	c.work, c.takes = min(c.work-n+n/8+once, tooHeavy), c.takes+perVisit*min(visits, maxVisits)
	return c, once, nil
}

// matched is a pattern, and what may match it.
func matched(operands []*ast.Term) (charge, error) {
	c, _, err := matching(operands[0], operands[1])
	return c, err
}

// matchedAll is a pattern whose matches, and those of its groups, become values.
func matchedAll(operands []*ast.Term) (charge, error) {
	p, _ := operands[0].Value.(ast.String)
	const value = 192
	return searchedAll(operands[0], operands[1], times(value, times(text(operands, 1)+8, 1+strings.Count(string(p), "("))))
}

// replacedPattern puts a string in the place of what a pattern matches, which may be nothing, and may repeat what
// was matched as often as it has room to name it.
func replacedPattern(operands []*ast.Term) (charge, error) {
	return searchedAll(operands[1], operands[0], times(2*copied, times(text(operands, 0)+1, text(operands, 2)+1)))
}

// searchedAll is looking for all matches of a pattern, whose results keep so many bytes. If the text may be read again for each match, they are
// counted: twice as many again and again, each of which is paid for before.
func searchedAll(pattern, subject *ast.Term, keeps int) (charge, error) {
	c, once, err := matching(pattern, subject)
	if err != nil {
		return c, err
	}
	c.keeps = keeps
	p, _ := pattern.Value.(ast.String)
	s, _ := subject.Value.(ast.String)
	if !strings.ContainsAny(string(p), "*+{") || !strings.ContainsAny(string(p), "|?*{") {
		return c, nil
	}
	c.work += len(p) / parsedPerStep
	c.then = func() (charge, error) {
		parsed, err := syntax.Parse(string(p), syntax.Perl)
		if err != nil || !rereads(parsed, false, false) {
			return charge{}, nil //nolint:nilerr // the function says what is wrong
		}
		expression, err := regexp.Compile(string(p))
		if err != nil {
			return charge{}, nil //nolint:nilerr // the same
		}
		return searched(expression, string(s), once, 1), nil
	}
	return c, nil
}

// parsedPerStep are the bytes of a pattern that are parsed in a step.
const parsedPerStep = 8

// searched looks for so many matches, and for more if there are as many.
func searched(expression *regexp.Regexp, subject string, once, most int) charge {
	const place = 64
	return charge{takes: times(place, most), work: times(once, most), then: func() (charge, error) {
		found := len(expression.FindAllStringIndex(subject, most))
		if found < most {
			return charge{work: times(once, found)}, nil // once more, by the function
		}
		return searched(expression, subject, once, 2*most), nil
	}}
}

// fewRepetitions are so many that they read little beyond a match.
const fewRepetitions = 8

// rereads reports whether the search for a match may read far beyond it: in a repetition that needs something behind it, if there can be a match
// without both. An expression is optional if so, and followed if something is behind it that can fail to match.
func rereads(e *syntax.Regexp, optional, followed bool) bool {
	switch e.Op {
	case syntax.OpStar, syntax.OpPlus:
		if optional && followed {
			return true
		}
	case syntax.OpRepeat:
		if optional && followed && (e.Max < 0 || e.Max > fewRepetitions) {
			return true
		}
	}
	optional = optional || e.Op == syntax.OpAlternate || e.Op == syntax.OpQuest || e.Op == syntax.OpStar || e.Op == syntax.OpRepeat && e.Min == 0
	for i, sub := range e.Sub {
		behind := followed || e.Op == syntax.OpConcat && slices.ContainsFunc(e.Sub[i+1:], canFail)
		if rereads(sub, optional, behind) {
			return true
		}
	}
	return false
}

// canFail reports whether an expression does not match everywhere.
func canFail(e *syntax.Regexp) bool {
	switch e.Op {
	case syntax.OpEmptyMatch, syntax.OpStar, syntax.OpQuest:
		return false
	case syntax.OpRepeat:
		return e.Min > 0 && canFail(e.Sub[0])
	case syntax.OpPlus, syntax.OpCapture, syntax.OpConcat:
		return slices.ContainsFunc(e.Sub, canFail)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(e.Sub, func(sub *syntax.Regexp) bool { return !canFail(sub) })
	}
	return true
}

// templated is a text with patterns in it.
func templated(operands []*ast.Term) (charge, error) {
	c, err := compiled(operands[0].Value, 2*perState)
	if err != nil {
		return c, err
	}
	c.work = min(c.work+times(text(operands, 1), c.takes/(2*perState))/perMatching, tooHeavy)
	return c, nil
}
