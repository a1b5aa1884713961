package rego

import (
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// A screen is a module in a form that is evaluated without OPA. It has the expressions that most rules begin with. Others are
// unsupported: an evaluation that reaches one is left to OPA.
type screen struct {
	// asked are the sets that the query asks for.
	asked []*ruleSet
	// variables and sets are how many there are in all rules.
	variables    int32
	sets         int
	capabilities *ast.Capabilities
	// left are the last evaluations that were left to OPA, without one in between that was not.
	left atomic.Uint32
}

// ruleSet are the rules with one name.
type ruleSet struct {
	index ast.RuleIndex
	rules []*screenRule
	shape shape
	// at is the place of the result.
	at int
	// function reports that the rules have arguments.
	function bool
}

// shape is what solutions make together.
type shape uint8

const (
	// oneValue is a value that all solutions agree on.
	oneValue shape = iota
	aList
	aSet
	anObject
)

// screenRule is a rule.
type screenRule struct {
	rule *ast.Rule
	args []operand
	head screenHead
	body []expression
}

// screenHead is what a solution makes: a value, an element, or a member with a key.
type screenHead struct{ key, value operand }

type expressionKind uint8

const (
	unsupported expressionKind = iota
	// holds is a term that is defined and not false.
	holds
	// equals unifies a term and an operand.
	equals
	// callsBuiltin and callsRule call functions.
	callsBuiltin
	callsRule
	// negates holds if its inner expressions have no solution.
	negates
	// forAll holds if its body has a solution for each one of its inner expressions.
	forAll
	// costsNothing holds always, and gives its step back.
	costsNothing
)

// expression is a part of a body.
type expression struct {
	kind expressionKind
	// source is the term of holds and equals, and output the other term of equals, or what a function returns.
	source source
	output operand
	// captured reports whether there is an output.
	captured bool
	args     []operand
	// builtin is called if its guard agrees; a nil guard always does.
	builtin topdown.BuiltinFunc
	guard   guard
	// makesTexts reports that its results are new texts, which are to be counted.
	makesTexts bool
	rules      *ruleSet
	inner      []expression
	body       []expression
}

type operandKind uint8

const (
	unknown operandKind = iota
	constant
	variable
	buildsList
	buildsSet
	buildsObject
)

// operand is a term that needs no evaluation.
type operand struct {
	kind operandKind
	// at is the place of a variable.
	at int32
	// term is a constant, or a variable.
	term *ast.Term
	// parts are the elements of a list or a set, or the keys and values of an object.
	parts []operand
}

type sourceKind uint8

const (
	ofOperand sourceKind = iota
	ofInput
	ofVariable
	ofRules
	ofComprehension
)

// source is a term that may have many values.
type source struct {
	kind    sourceKind
	operand operand
	rules   *ruleSet
	// path are the parts after the root of a reference.
	path []operand
	*comprehension
}

// comprehension makes a list, a set or an object of the solutions of its body.
type comprehension struct {
	made shape
	head screenHead
	body []expression
}
