package convert

import (
	"slices"
	"strings"
)

// logic is an expression of bool that is being built. The zero value is true.
type logic struct {
	kind           logicKind
	text, opposite string
	parts          []logic
	// closed reports whether the parts belong together: those after the first can be errors where it decides the result.
	closed bool
}

type logicKind int

const (
	logicTrue logicKind = iota
	logicFalse
	// logicTest is an expression of its own: text, and its opposite if that is more than a ! before it.
	logicTest
	logicAll
	logicAny
)

var (
	yes = logic{}
	no  = logic{kind: logicFalse}
)

// test returns an expression that is a name, a call or a member.
func test(text string) logic { return logic{kind: logicTest, text: text, opposite: "!" + text} }

// opposites are the operators that compare in the opposite way.
var opposites = map[string]string{"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

// compared returns a comparison.
func compared(left, operator, right string) logic {
	return logic{kind: logicTest, text: left + " " + operator + " " + right, opposite: left + " " + opposites[operator] + " " + right}
}

// contained returns the test whether a list, or a map, has a value.
func contained(value, list string) logic {
	return logic{kind: logicTest, text: value + " in " + list, opposite: "!(" + value + " in " + list + ")"}
}

// conjunction returns the conjunction.
func conjunction(parts ...logic) logic { return joined(logicAll, logicTrue, logicFalse, parts) }

// disjunction returns the disjunction.
func disjunction(parts ...logic) logic { return joined(logicAny, logicFalse, logicTrue, parts) }

// guarded returns the conjunction of a test and what is an error without it.
func guarded(present, rest logic) logic {
	made := conjunction(present, rest)
	made.closed = made.kind == logicAll
	return made
}

// guardedOr returns the disjunction of a test and what is an error where the test is true.
func guardedOr(absent, rest logic) logic {
	made := disjunction(absent, rest)
	made.closed = made.kind == logicAny
	return made
}

// separate returns the parts of a conjunction, or of a disjunction, which can be evaluated by themselves; the whole if it is another expression.
func (l logic) separate(kind logicKind) []logic {
	if l.kind != kind || l.closed {
		return []logic{l}
	}
	return l.parts
}

// unless returns the disjunction of a condition with the conjunction of two others. What the first two have in common is written
// once.
func unless(skipped, first, second logic) logic {
	var common []logic
	without := func(l logic) []logic {
		return slices.DeleteFunc(slices.Clone(l.separate(logicAll)), func(part logic) bool {
			return slices.ContainsFunc(common, func(other logic) bool { return other.String() == part.String() })
		})
	}
	left, right := without(skipped), without(first)
	if second.kind == logicFalse {
		return skipped
	}
	for _, part := range left {
		if slices.ContainsFunc(right, func(other logic) bool { return other.String() == part.String() }) {
			common = append(common, part)
		}
	}
	either := disjunction(conjunction(without(skipped)...), conjunction(append(without(first), second)...))
	return conjunction(append(common, either)...)
}

// joined joins expressions: neutral ones are left out, and a dominant one is the result.
func joined(kind, neutral, dominant logicKind, parts []logic) logic {
	var kept []logic
	for _, p := range parts {
		switch p.kind {
		case neutral:
		case dominant:
			return logic{kind: dominant}
		case kind:
			if p.closed {
				kept = added(kept, p)
				continue
			}
			for _, inner := range p.parts {
				kept = added(kept, inner)
			}
		default:
			kept = added(kept, p)
		}
	}
	switch len(kept) {
	case 0:
		return logic{kind: neutral}
	case 1:
		return kept[0]
	}
	return logic{kind: kind, parts: kept}
}

// added appends an expression that the list does not have.
func added(list []logic, one logic) []logic {
	if slices.ContainsFunc(list, func(other logic) bool { return other.String() == one.String() }) {
		return list
	}
	return append(list, one)
}

// negated returns the opposite.
func negated(l logic) logic {
	switch l.kind {
	case logicTrue:
		return no
	case logicFalse:
		return yes
	case logicTest:
		return logic{kind: logicTest, text: l.opposite, opposite: l.text}
	}
	text := l.String()
	return logic{kind: logicTest, text: "!(" + text + ")", opposite: "(" + text + ")"}
}

// String returns the expression in CEL.
func (l logic) String() string {
	switch l.kind {
	case logicTrue:
		return "true"
	case logicFalse:
		return "false"
	case logicTest:
		return l.text
	}
	operator := " && "
	if l.kind == logicAny {
		operator = " || "
	}
	parts := make([]string, len(l.parts))
	for i, p := range l.parts {
		parts[i] = p.String()
		if p.kind != l.kind && (p.kind == logicAny || p.kind == logicAll) {
			parts[i] = "(" + parts[i] + ")"
		}
	}
	return strings.Join(parts, operator)
}
