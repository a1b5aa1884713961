package explanation

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/virtward/virtward/validators"
)

// WriteJUnit writes a report in the format of JUnit: a suite for each file, with a test for each virtual machine, which
// fails if the virtual machine is rejected. Warnings and findings of severity Audit are the output of a test. A document
// that cannot be read is a test with an error.
func WriteJUnit(w io.Writer, explanations []*Explanation, unreadable []Unreadable) error {
	report := junit.Testsuites{Name: "virtward"}
	suites := map[string]*junit.Testsuite{}
	var sources []string
	add := func(source, file string, test junit.Testcase) {
		if suites[source] == nil {
			suites[source] = &junit.Testsuite{Name: source, ID: len(sources), File: Printable(file), Time: "0"}
			sources = append(sources, source)
		}
		suites[source].AddTestcase(test)
	}
	for _, e := range explanations {
		add(Printable(e.written.Source), e.written.File, e.testcase())
	}
	for _, u := range unreadable {
		add(u.file, u.File, u.Testcase())
	}
	for _, source := range sources {
		report.AddSuite(*suites[source])
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	return report.WriteXML(w)
}

func (e *Explanation) testcase() junit.Testcase {
	test := junit.Testcase{Name: Printable(e.Object.String()), Classname: Printable(e.Source), Time: "0"}
	if rejections := e.Rejections(); len(rejections) > 0 {
		test.Failure = &junit.Result{Type: "Rejected", Message: Printable(e.Summary()), Data: e.report(rejections)}
	}
	var output []string
	for _, f := range e.Findings {
		if f.Severity != validators.Deny {
			output = append(output, e.report([]Finding{f}))
		}
	}
	for _, warning := range e.Warnings {
		output = append(output, "warning: "+Printable(warning)+"\n")
	}
	if len(output) > 0 {
		test.SystemOut = &junit.Output{Data: "\n" + strings.Join(output, "")}
	}
	return test
}

// report returns a text with the findings, their positions and their remedies.
func (e *Explanation) report(findings []Finding) string {
	var text strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&text, "%s%s: %s\n", e.place(f), f.Kind(), f)
		if f.Remedy != "" {
			fmt.Fprintf(&text, "  %s\n", Printable(f.Remedy))
		}
	}
	return text.String()
}

// place returns vm.yaml:12:7, the format of compilers, which editors and CI systems recognize.
func (e *Explanation) place(f Finding) string {
	if f.Line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d: ", Printable(e.written.Source), f.Line, f.Column)
}
