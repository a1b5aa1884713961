package rego

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/topdown"
	printing "github.com/open-policy-agent/opa/v1/topdown/print"

	"github.com/virtward/virtward/texts"
)

// Coverage gathers which lines of one module were reached, over any number of evaluations.
type Coverage struct {
	module *Module
	cover  *cover.Cover
}

// NewCoverage is for evaluations of this module.
func (m *Module) NewCoverage() *Coverage { return &Coverage{module: m, cover: cover.New()} }

// observe implements observer. The index, which skips rules that cannot be true, would leave their conditions unreached.
func (c *Coverage) observe(query *topdown.Query) { query.WithQueryTracer(c.cover).WithIndexing(false) }

// Lines are the numbers of the lines that hold something to evaluate, from 1 and ascending: those of which all was
// evaluated, and those of which something never was.
func (c *Coverage) Lines() (reached, missed []int) {
	report := c.cover.Report(map[string]*ast.Module{c.module.name: c.module.parsed()})
	file := report.Files[c.module.name]
	if file == nil {
		return nil, nil
	}
	missed = rows(file.NotCovered)
	for _, row := range rows(file.Covered) {
		if _, also := slices.BinarySearch(missed, row); !also {
			reached = append(reached, row)
		}
	}
	return reached, missed
}

func rows(ranges []cover.Range) []int {
	var rows []int
	for _, r := range ranges {
		for row := r.Start.Row; row <= r.End.Row; row++ {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// Bounds of a trace.
const (
	maxEvents = 5_000
	maxPrints = 1_000
	maxTrace  = 1 << 20
)

// Trace keeps what one evaluation tried, with what the module printed. The zero Trace is ready to use.
type Trace struct {
	events []*topdown.Event
	prints []string
	cut    bool
}

// observe implements observer.
func (t *Trace) observe(query *topdown.Query) { query.WithQueryTracer(t).WithPrintHook(t) }

// Enabled is for the evaluator.
func (t *Trace) Enabled() bool { return true }

// Config is for the evaluator.
func (t *Trace) Config() topdown.TraceConfig { return topdown.TraceConfig{PlugLocalVars: true} }

// TraceEvent is for the evaluator.
func (t *Trace) TraceEvent(event topdown.Event) {
	if len(t.events) >= maxEvents {
		t.cut = true
		return
	}
	t.events = append(t.events, &event)
}

// Print is for the evaluator.
func (t *Trace) Print(at printing.Context, message string) error {
	if len(t.prints) >= maxPrints {
		t.cut = true
		return nil
	}
	line := 0
	if at.Location != nil {
		line = at.Location.Row
	}
	t.prints = append(t.prints, fmt.Sprintf("line %d prints: %s", line, texts.Shorten(message, maxMessage)))
	return nil
}

// String is the trace for people, of a bounded length.
func (t *Trace) String() string {
	var text bytes.Buffer
	topdown.PrettyTraceWithLocation(&text, t.events)
	for _, p := range t.prints {
		text.WriteString(p + "\n")
	}
	s := withoutPrefix(text.String())
	if t.cut || len(s) > maxTrace {
		s = strings.TrimSuffix(texts.Shorten(s, maxTrace), "\n") + "\nand more: the trace is too long\n"
	}
	return s
}
