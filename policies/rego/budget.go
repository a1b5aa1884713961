package rego

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Limits bound one evaluation of one module. Zero means the default. All of them count what the module does, so that the
// same module stops at the same place for the same input, however busy the machine is.
type Limits struct {
	// Steps bound the work. An expression is one step, each time that it is evaluated; a function that reads or makes
	// much counts for more, and so does every step of a module that can see long strings.
	Steps int
	// Bytes bound the memory that functions, comprehensions and rules may take together. Zero means DefaultBytes of
	// the documents that the module reads.
	Bytes int
	// Left are the bytes that are left of what several evaluations share; zero where none is shared.
	Left int
	// Violations are those that are returned one by one.
	Violations int
	// Gone reports whether the request was canceled, which ends the evaluation; nil for never.
	Gone func() bool
}

// The defaults. A policy on a VM of a hundred disks takes some thousand steps and some ten kilobytes.
const (
	defaultSteps      = 100_000
	defaultViolations = 100
	// baseBytes and bytesPerByte make DefaultBytes.
	baseBytes    = 4 << 20
	bytesPerByte = 2
)

// DefaultBytes is the limit of memory for documents of so many bytes of JSON.
func DefaultBytes(documents int) int { return baseBytes + bytesPerByte*documents }

// DefaultSteps is the limit of steps.
func DefaultSteps() int { return defaultSteps }

// withDefaults fills in the limits for documents of a size.
func (l Limits) withDefaults(documents int) Limits {
	for _, limit := range []struct {
		value    *int
		fallback int
	}{{&l.Steps, defaultSteps}, {&l.Bytes, DefaultBytes(documents)}, {&l.Violations, defaultViolations}} {
		if *limit.value <= 0 {
			*limit.value = limit.fallback
		}
	}
	if l.Left > 0 {
		l.Bytes = min(l.Bytes, l.Left)
	}
	return l
}

// LimitError is the limit that ended an evaluation.
type LimitError struct {
	// Module is the name that it was compiled under.
	Module string
	// Limit says which limit it was, and how high: "300000 steps".
	Limit string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the Rego of %s was stopped: it takes more than %s", e.Module, e.Limit)
}

// GoneError means that an evaluation ended because the request was canceled.
type GoneError struct{}

func (GoneError) Error() string { return "the request was canceled" }

// StepUnits is the CPU time of a step, in units of the package cel: 1 µs. The charges are measured: TestStepsAreTime.
const StepUnits = 10

// What one step pays for, in bytes.
const (
	// readPerStep are bytes that a function looks at.
	readPerStep = 1 << 10
	// comparedPerStep are bytes of values that are compared, element by element.
	comparedPerStep = 256
	// madePerStep are bytes of memory that a function takes.
	madePerStep = 256
	// hashedPerStep are bytes of the longest string: every step may hash one.
	hashedPerStep = 16 << 10
	// alikePerStep are numbers with the same hash: every step may look for one among them, in what functions returned or in a set.
	alikePerStep = 2
	// exactDigits are the digits of an integer that a float has exactly.
	exactDigits = 15
)

// modifiedPerByte is what changing a document takes, for each byte of all that a module reads.
const modifiedPerByte = 2

// withSteps are what each change of a document costs besides.
const withSteps = 20

// lookEvery is how many steps pass between two calls of Gone.
const lookEvery = 256

// budget counts what one evaluation takes. OPA asks it before every expression whether to stop, which makes it the
// counter of steps. It belongs to one goroutine.
type budget struct {
	limits Limits
	// steps and bytes are what was spent, step is what one costs.
	steps, bytes, step int
	// documents are the bytes of JSON that the module reads.
	documents int
	exceeded  string
	calls     int
	gone      bool
	// inOrder reports that what keys, entered and filled have charged depends on the order of the evaluation.
	inOrder bool
	// keys are the values that were looked for; nil for none. integers is how many plain integers there were besides.
	// mixed reports that other values may have the hashes of integers.
	keys     *ledger
	integers int
	mixed    bool
	// literals is how many integers the module has in each group of hashes.
	literals map[int]int
	// entered are how many members the objects of rules have, and filled are the members that comprehensions have made.
	entered map[int]int
	filled  map[int]*filling
	// hashed are the texts that functions have made, and the integers; nil for none.
	hashed *hashedTexts
	// low are the groups of the other texts whose hashes are those of integers; nil for none.
	low *[]int
}

// budget is that of an evaluation of a module.
func (m *Module) budget(limits Limits, documents extent) budget {
	b := newBudget(limits, documents)
	b.integers, b.literals, b.low = m.literals.integers, m.literals.groups, joinGroups(documents.low, m.low)
	b.step += m.literals.near / nearPerStep
	if m.literals.mixed {
		b.mixed = true
		b.step += b.integers / nearPerStep
	}
	if b.low != nil {
		b.textsIn(*b.low)
	}
	return b
}

// newBudget is for documents of a size.
func newBudget(limits Limits, documents extent) budget {
	b := budget{limits: limits, step: 1, documents: documents.bytes}
	b.sees(documents.longest)
	b.step += documents.alike / alikePerStep
	return b
}

// Cancel is never called: only the budget itself ends an evaluation.
func (b *budget) Cancel() { b.exceeded = "it was given" }

// Cancelled counts a step.
func (b *budget) Cancelled() bool {
	if b.exceeded != "" || b.gone {
		return true
	}
	if b.calls++; b.calls%lookEvery == 0 && b.limits.Gone != nil && b.limits.Gone() {
		b.gone = true
		return true
	}
	return !b.work(b.step)
}

// sees notes that the module can see a string of so many bytes.
func (b *budget) sees(bytes int) { b.step = max(b.step, 1+bytes/hashedPerStep) }

// seesResult notes what a function has returned, and the texts that it has made. It reports whether that is within bounds.
func (b *budget) seesResult(result *ast.Term, makesTexts bool) bool {
	if s, ok := result.Value.(ast.String); ok && len(s) > hashedPerStep {
		b.sees(len(s))
	}
	return !makesTexts || b.seesTexts(result.Value)
}

// seesTexts notes the texts of a value that a function has made, and charges for keeping them. It reports whether that is within bounds.
func (b *budget) seesTexts(value ast.Value) bool {
	switch value.(type) {
	case ast.Boolean, ast.Null, ast.Number:
		return true
	}
	if b.hashed == nil {
		b.hashed = newHashedTexts()
	}
	before, low := max(len(b.hashed.texts), fewTexts), len(b.hashed.low)
	if near := b.hashed.addAll(value); near != nil {
		b.nearHashes()
	}
	b.textsIn(b.hashed.low[low:])
	return b.charge(charge{keeps: times(perText, len(b.hashed.texts)-before)})
}

// textsIn ends an evaluation that has texts in such groups beside many integers.
func (b *budget) textsIn(groups []int) {
	for _, group := range groups {
		if max(b.integersIn(group), b.integersIn(group+1)) >= fewIntegers {
			b.nearHashes()
		}
	}
}

// integersIn is how many integers there are in a group, in the module and besides.
func (b *budget) integersIn(group int) int {
	if b.hashed == nil {
		return b.literals[group]
	}
	return b.literals[group] + b.hashed.integers[group]
}

// nearHashes ends an evaluation that has texts whose hashes are too near.
func (b *budget) nearHashes() {
	if b.exceeded == "" {
		b.exceeded = fmt.Sprintf("%d texts or integers with almost the same hash", mostNear)
	}
}

// release ends an evaluation. What was spent stays.
func (b *budget) release() {
	if b.hashed != nil {
		b.hashed.release()
		b.hashed = nil
	}
}

// work counts steps. It reports whether they are still within bounds.
func (b *budget) work(steps int) bool {
	if b.steps = min(b.steps+steps, tooHeavy); b.steps > b.limits.Steps && b.exceeded == "" {
		b.exceeded = fmt.Sprintf("%d steps", b.limits.Steps)
	}
	return b.exceeded == ""
}

// charge counts what a function takes. It reports whether that is still within bounds.
func (b *budget) charge(c charge) bool {
	if b.exceeded != "" {
		return false
	}
	if c.documents > 0 {
		c.takes, c.work = times(c.documents, modifiedPerByte*b.documents), times(c.documents, withSteps+b.documents/convertedPerStep)
	}
	if b.bytes+max(c.keeps, c.takes) > b.limits.Bytes {
		b.exceeded = fmt.Sprintf("%d bytes of memory", b.limits.Bytes)
		return false
	}
	b.bytes += c.keeps
	return b.work(c.work + max(c.keeps, c.takes)/madePerStep)
}

// spent is what was taken, of steps at most the limit.
func (b *budget) spent() Spent { return Spent{Steps: min(b.steps, b.limits.Steps), Bytes: b.bytes} }
