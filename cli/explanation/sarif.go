package explanation

import (
	"io"

	"github.com/virtward/virtward/cli/annotations"
	"github.com/virtward/virtward/cli/sarif"
	"github.com/virtward/virtward/validators"
)

// WriteSARIF writes the findings as a SARIF log, with what the rules behind them say of themselves.
func WriteSARIF(w io.Writer, explanations []*Explanation, unreadable []Unreadable, rules validators.Table, version string) error {
	report := sarif.NewReport(append(rules, UnreadableRule()), version)
	for _, r := range results(explanations, unreadable) {
		report.Add(r)
	}
	return report.Write(w)
}

// WriteGitHub writes the findings as workflow commands of GitHub.
func WriteGitHub(w io.Writer, explanations []*Explanation, unreadable []Unreadable) error {
	return annotations.Write(w, results(explanations, unreadable))
}

func results(explanations []*Explanation, unreadable []Unreadable) (all []sarif.Result) {
	for _, e := range explanations {
		for _, f := range e.Findings {
			all = append(all, f.Result(e.Object, e.written.File))
		}
	}
	for _, u := range unreadable {
		all = append(all, u.Result())
	}
	return all
}

// Result is the finding on an object, in a file if it was read from one.
func (f Finding) Result(object Object, file string) sarif.Result {
	text := Printable(f.Error.Field) + ": " + f.Short()
	if f.Remedy != "" {
		text += "\n" + Printable(f.Remedy)
	}
	result := sarif.Result{
		Rule: f.Rule, Remedy: f.Remedy, Severity: f.Severity, Text: text, Name: Printable(object.String() + " " + f.Error.Field),
		File: file, Line: f.Line, Column: f.Column,
	}
	if f.Exempted != nil {
		result.Suppression = Printable(f.Exempted.String())
	}
	return result
}
