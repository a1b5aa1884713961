package comparison

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/virtward/virtward/cli/annotations"
	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/cli/sarif"
	"github.com/virtward/virtward/validators"
)

// WriteJSON writes the report as one object.
func (r *Report) WriteJSON(w io.Writer) error {
	return printers.Document(w, printers.JSON, r)
}

// WriteYAML writes the same as YAML.
func (r *Report) WriteYAML(w io.Writer) error {
	return printers.Document(w, printers.YAML, r)
}

// WriteSARIF writes the violations as a SARIF log. Its baseline is the present state.
func (r *Report) WriteSARIF(w io.Writer, version string) error {
	log := sarif.NewReport(append(r.rules, explanation.UnreadableRule()), version)
	for _, result := range r.results() {
		log.Add(result)
	}
	return log.Write(w)
}

// WriteGitHub writes the violations as workflow commands of GitHub, but those that are gone.
func (r *Report) WriteGitHub(w io.Writer) error {
	return annotations.Write(w, slices.DeleteFunc(r.results(), func(f sarif.Result) bool { return f.Baseline == sarif.Absent }))
}

func (r *Report) results() (all []sarif.Result) {
	for i := range r.Violations {
		v := &r.Violations[i]
		result := v.Finding.Result(v.Object, v.file)
		if len(r.Assumed) > 0 {
			result.Baseline = map[Change]sarif.Baseline{New: sarif.New, Gone: sarif.Absent, Stays: sarif.Unchanged}[v.Change]
		}
		all = append(all, result)
	}
	for _, u := range r.Unreadable {
		all = append(all, u.Result())
	}
	return all
}

// WriteJUnit writes a test for each rule with findings. The test fails if the rule has new rejections. The other
// violations are its output.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junit.Testsuite{Name: "virtward audit", Time: "0"}
	for i := range r.Rules {
		suite.AddTestcase(r.testcase(&r.Rules[i]))
	}
	for _, u := range r.Unreadable {
		suite.AddTestcase(u.Testcase())
	}
	if len(r.Rules)+len(r.Unreadable) == 0 {
		suite.AddTestcase(junit.Testcase{Name: "no findings", Classname: suite.Name, Time: "0"})
	}
	report := junit.Testsuites{Name: "virtward"}
	report.AddSuite(suite)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	return report.WriteXML(w)
}

func (r *Report) testcase(row *Rule) junit.Testcase {
	test := junit.Testcase{Name: row.Rule + " (" + string(row.Severity) + ")", Classname: "virtward audit", Time: "0"}
	rejected, others := "", ""
	for i := range r.Violations {
		v := &r.Violations[i]
		switch {
		case v.Rule != row.Rule || v.Severity != row.Severity:
		case v.rejects():
			rejected += v.line() + "\n"
		default:
			others += v.line() + "\n"
		}
	}
	counts := fmt.Sprintf("%d new, %d gone, %d stay", row.New, row.Gone, row.Stays)
	if row.Severity == validators.Deny && row.New > 0 {
		test.Failure = &junit.Result{Type: "NewlyRejected", Message: counts, Data: rejected}
	}
	if others != "" {
		test.SystemOut = &junit.Output{Data: "\n" + counts + "\n" + others}
	}
	return test
}

// rejects reports whether the object would be newly rejected because of the violation.
func (v *Violation) rejects() bool { return v.Change == New && v.Severity == validators.Deny }

// line returns the violation in one line: vm.yaml:12:7: new: VirtualMachine shop/db: spec.running: ...
func (v *Violation) line() string {
	place := ""
	if v.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d: ", explanation.Printable(v.file), v.Line, v.Column)
	}
	return strings.Join([]string{place + string(v.Change), explanation.Printable(v.Object.String()), v.Finding.String()}, ": ")
}
