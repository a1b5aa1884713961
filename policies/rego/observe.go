package rego

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	printing "github.com/open-policy-agent/opa/v1/topdown/print"

	"github.com/virtward/virtward/texts"
)

// Parsed returns the module as it was written.
func (m *Module) Parsed() *ast.Module { return m.parsed() }

// covering observes with a tracer of coverage.
type covering struct{ topdown.QueryTracer }

// observe implements observer. The index, which skips rules that cannot be true, would leave their conditions unreached.
func (c covering) observe(query *topdown.Query) {
	query.WithQueryTracer(c.QueryTracer).WithIndexing(false)
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
