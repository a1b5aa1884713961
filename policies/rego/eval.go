package rego

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/texts"
)

// Bounds of one violation, in bytes; what is longer ends with an ellipsis.
const (
	maxMsg   = 4 << 10
	maxField = 512
)

// Eval asks the module about an input. The violations are those of deny, then those of warn, each by field and
// message; if there are more than the limits let through, the last one says how many more. An error is the module's
// fault, and says where: a limit that was reached (LimitError), a function that was given something wrong, an element
// of deny or warn that is no violation.
func (m *Module) Eval(input *Input, limits Limits) ([]diagnostics.Violation, error) {
	violations, _, err := m.Measure(input, limits)
	return violations, err
}

// EvalWith is Eval, and notes the lines that were reached, and what was tried, in a coverage of this module and in a
// Trace, either of which may be nil. They are made by evaluating again, so that the answer is that of Eval. Package coverage has
// coverages; they need more of OPA than an evaluation does.
func (m *Module) EvalWith(input *Input, limits Limits, coverage topdown.QueryTracer, trace *Trace) ([]diagnostics.Violation, error) {
	violations, _, err := m.Measure(input, limits)
	in, size, failed := input.term(m.documents)
	if failed != nil {
		return nil, err
	}
	limits = limits.withDefaults(size.bytes)
	if coverage != nil {
		more := limits
		more.Steps = times(coverageSteps, limits.Steps)
		steps := m.budget(more, size)
		_, _ = m.run(in, &steps, covering{coverage})
	}
	if trace != nil {
		few := limits
		few.Steps = min(limits.Steps, maxEvents)
		steps := m.budget(few, size)
		_, _ = m.run(in, &steps, trace)
		trace.cut = trace.cut || steps.exceeded != ""
	}
	return violations, err
}

// Spent is what an evaluation took.
type Spent struct {
	Steps int
	Bytes int
}

// Measure is Eval, and tells what it took. The conversion of the documents is not charged, because it is made once for all
// modules, and their size is bounded; a module pays for its own documents, such as its parameters.
func (m *Module) Measure(input *Input, limits Limits) ([]diagnostics.Violation, Spent, error) {
	in, size, err := input.term(m.documents)
	if err != nil {
		return nil, Spent{}, fmt.Errorf("the Rego of %s was not evaluated: %w", m.name, err)
	}
	budget := m.budget(limits.withDefaults(size.bytes), size)
	if !budget.work(evaluationSteps + input.ownBytes()/convertedPerStep) {
		return nil, Spent{Steps: budget.steps}, &LimitError{Module: m.name, Limit: budget.exceeded}
	}
	none, err := m.screens(in, &budget)
	if none || err != nil {
		return nil, budget.spent(), err
	}
	rest := budget // OPA keeps it longer
	violations, err := m.run(in, &rest, nil)
	return violations, rest.spent(), err
}

// screens is holdsNone, with an error for a panic.
func (m *Module) screens(in *ast.Term, b *budget) (none bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			none, err = false, m.failed(r)
		}
	}()
	return m.screen.holdsNone(in, b), nil
}

func (m *Module) failed(cause any) error {
	return fmt.Errorf("the Rego of %s made the evaluator fail: %s", m.name, texts.Shorten(fmt.Sprint(cause), maxMessage))
}

// evaluationSteps are what each evaluation of a module costs.
const evaluationSteps = 50

// convertedPerStep are the bytes of a document whose conversion takes as long as a step.
const convertedPerStep = 64

// coverageSteps is how many times more steps there may be without an index.
const coverageSteps = 10

// observer observes an evaluation.
type observer interface{ observe(query *topdown.Query) }

// run evaluates once, with an observer or nil.
func (m *Module) run(in *ast.Term, budget *budget, observer observer) (violations []diagnostics.Violation, err error) {
	defer func() {
		if r := recover(); r != nil {
			violations, err = nil, m.failed(r)
		}
	}()
	compiler := m.compiler
	if observer != nil {
		compiler = m.plain()
	}
	kept := newResults()
	kept.budget = budget
	query := topdown.NewQuery(m.query).
		WithCompiler(compiler).WithStore(noData{}).WithInput(in).WithCancel(budget).WithBuiltins(guardedBuiltins()).
		WithStrictBuiltinErrors(true).WithMetrics(metrics.NoOp()).WithVirtualCache(kept).WithBaseCache(noBase{}).WithTime(noTime)
	if observer != nil {
		observer.observe(query)
	}
	var found []diagnostics.Violation
	err = query.Iter(context.Background(), func(result topdown.QueryResult) (err error) {
		found, err = m.violations(result, budget.limits.Violations)
		return err
	})
	kept.release() // not after a panic, which leaves it in any state
	budget.release()
	if budget.gone {
		return nil, GoneError{}
	}
	if budget.exceeded != "" {
		return nil, &LimitError{Module: m.name, Limit: budget.exceeded}
	}
	if err != nil {
		return nil, m.explain(err)
	}
	return found, nil
}

// explain names the module and the place in it.
func (m *Module) explain(err error) error {
	var fault *topdown.Error
	if !errors.As(err, &fault) {
		return fmt.Errorf("the Rego of %s: %w", m.name, err)
	}
	where := "the Rego of " + m.name
	if fault.Location != nil {
		where = fmt.Sprintf("%s, line %d, column %d", where, fault.Location.Row, fault.Location.Col)
	}
	message := texts.OneLine(withoutPrefix(fault.Message))
	return fmt.Errorf("%s: %s", where, texts.Shorten(message, maxMessage))
}

// withoutPrefix gives the guarded functions the names by which they were called.
func withoutPrefix(s string) string { return strings.ReplaceAll(s, guardPrefix, "") }

// noTime is what the clock shows, which no function of a module reads.
var noTime = time.Unix(0, 0)

func (m *Module) violations(result topdown.QueryResult, most int) ([]diagnostics.Violation, error) {
	var violations []diagnostics.Violation
	for _, rule := range []string{denyRule, warnRule} {
		term := result[ast.Var(rule)]
		if term == nil {
			continue
		}
		set, ok := term.Value.(ast.Set)
		if !ok {
			return nil, fmt.Errorf("%s is not a set", rule)
		}
		err := set.Iter(func(element *ast.Term) error {
			v, err := violationOf(element)
			if err != nil {
				return fmt.Errorf("%s has an element which %w", rule, err)
			}
			v.Warn = rule == warnRule
			violations = append(violations, v)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(violations, compareViolations)
	return cut(m.name, violations, most), nil
}

func compareViolations(a, b diagnostics.Violation) int {
	if a.Warn != b.Warn {
		if a.Warn {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
}

// cut leaves the first violations, and one that counts the others. They come with the denials first, so it is a
// denial if one of the others is.
func cut(name string, violations []diagnostics.Violation, most int) []diagnostics.Violation {
	more := len(violations) - most
	if more <= 0 {
		return violations
	}
	return append(violations[:most:most], diagnostics.Violation{
		Message: fmt.Sprintf("and %d more violations of %s", more, name), Warn: violations[most].Warn, More: more,
		Sum: fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%#v", violations[most:]))),
	})
}

func violationOf(element *ast.Term) (diagnostics.Violation, error) {
	switch v := element.Value.(type) {
	case ast.String:
		return newViolation(string(v), "")
	case ast.Object:
		msg, ok := property(v, "msg")
		if !ok {
			return diagnostics.Violation{}, errors.New("is an object whose msg is not a string")
		}
		field, ok := property(v, "field")
		if !ok && v.Get(ast.InternedTerm("field")) != nil {
			return diagnostics.Violation{}, errors.New("is an object whose field is not a string")
		}
		return newViolation(msg, field)
	}
	return diagnostics.Violation{}, fmt.Errorf("is neither a message nor an object with msg and field: %s", ast.ValueName(element.Value))
}

func newViolation(msg, field string) (diagnostics.Violation, error) {
	if strings.TrimSpace(msg) == "" {
		return diagnostics.Violation{}, errors.New("has an empty message")
	}
	return diagnostics.Violation{Message: texts.Shorten(msg, maxMsg), Field: texts.Shorten(field, maxField), Computed: field != ""}, nil
}

func property(object ast.Object, name string) (string, bool) {
	term := object.Get(ast.InternedTerm(name))
	if term == nil {
		return "", false
	}
	s, ok := term.Value.(ast.String)
	return string(s), ok
}

// noData is the store of an evaluator that has no data.
type noData struct{ storage.Store }

func (noData) Read(context.Context, storage.Transaction, storage.Path) (any, error) {
	return nil, &storage.Error{Code: storage.NotFoundErr, Message: "there is no data"}
}
