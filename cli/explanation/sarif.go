package explanation

import (
	"io"

	"github.com/virtward/virtward/cli/sarif"
	"github.com/virtward/virtward/validators"
)

// WriteSARIF writes the findings as a SARIF log, with what the rules behind them say of themselves.
func WriteSARIF(w io.Writer, explanations []*Explanation, rules validators.Table, version string) error {
	report := sarif.NewReport(rules, version)
	for _, e := range explanations {
		for _, f := range e.Findings {
			report.Add(f.Result(e.Object, e.written.File))
		}
	}
	return report.Write(w)
}

// Result is the finding on an object, in a file if it was read from one.
func (f Finding) Result(object Object, file string) sarif.Result {
	text := Printable(f.Error.Field) + ": " + f.Short()
	if f.Remedy != "" {
		text += "\n" + Printable(f.Remedy)
	}
	return sarif.Result{
		Rule: f.Rule, Remedy: f.Remedy, Severity: f.Severity, Text: text, Name: Printable(object.String() + " " + f.Error.Field),
		File: file, Line: f.Line, Column: f.Column,
	}
}
