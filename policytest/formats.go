package policytest

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/virtward/virtward/texts"
)

// WriteJSON writes a report as JSON, with the counts of all cases.
func WriteJSON(w io.Writer, r *Report) error {
	return texts.WriteJSON(w, struct {
		*Report

		Counts Counts `json:"counts"`
	}{r, r.Counts()})
}

// WriteJUnit writes a report in the format of JUnit: a suite for each test, and a test for each case. It has no times,
// so that equal outcomes are equal texts.
func WriteJUnit(w io.Writer, r *Report) error {
	report := junit.Testsuites{Name: "virtward policies"}
	for i := range r.Suites {
		s := &r.Suites[i]
		for k := range s.Tests {
			t := &s.Tests[k]
			suite := junit.Testsuite{Name: printable(s.Name + "/" + t.Name), ID: len(report.Suites), File: printable(s.File), Time: "0"}
			for n := range t.Cases {
				suite.AddTestcase(t.Cases[n].junit(s, t))
			}
			report.AddSuite(suite)
		}
	}
	addProblems(&report, "untested policies", r.Untested, func(test *junit.Testcase, message string) {
		test.Failure = &junit.Result{Type: "Untested", Message: message}
	})
	addProblems(&report, "unreadable files", r.Unreadable, func(test *junit.Testcase, message string) {
		test.Error = &junit.Result{Type: "Unreadable", Message: message}
	})
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	return report.WriteXML(w)
}

// addProblems adds a suite with a test for each problem.
func addProblems(report *junit.Testsuites, name string, problems []Problem, fail func(test *junit.Testcase, message string)) {
	if len(problems) == 0 {
		return
	}
	suite := junit.Testsuite{Name: name, ID: len(report.Suites), Time: "0"}
	for i := range problems {
		test := junit.Testcase{Name: printable(problems[i].Place()), Classname: name, Time: "0"}
		fail(&test, printable(problems[i].Text()))
		suite.AddTestcase(test)
	}
	report.AddSuite(suite)
}

func (c *CaseOutcome) junit(s *SuiteOutcome, t *TestOutcome) junit.Testcase {
	test := junit.Testcase{Name: printable(c.Name), Classname: printable(s.Name + "/" + t.Name), Time: "0"}
	lines := c.lines()
	var result *junit.Result
	if len(c.Reasons) > 0 {
		result = &junit.Result{Message: lines[0], Data: strings.Join(lines, "\n") + "\n"}
		if c.Problem == nil { // a problem has a position of its own
			result.Data = fmt.Sprintf("%s:%d: %s", printable(s.File), c.Line, result.Data)
		}
	}
	switch {
	case c.Status == Skipped:
		test.Skipped = &junit.Result{Message: "skipped by the suite"}
	case c.Status == Failed && result != nil:
		result.Type = "Failed"
		test.Failure = result
	case c.Status == Broken && result != nil:
		result.Type = "Broken"
		test.Error = result
	case len(lines) > 0:
		test.SystemOut = &junit.Output{Data: strings.Join(lines, "\n") + "\n"}
	}
	return test
}

// WriteTAP writes a report in version 14 of the Test Anything Protocol.
func WriteTAP(w io.Writer, r *Report) error {
	var text strings.Builder
	fmt.Fprintf(&text, "TAP version 14\n1..%d\n", r.Counts().Total()+len(r.Untested)+len(r.Unreadable))
	n := 0
	point := func(ok bool, description, directive string, lines []string) {
		n++
		word := "ok"
		if !ok {
			word = "not ok"
		}
		fmt.Fprintf(&text, "%s %d - %s%s\n", word, n, escaped(description), directive)
		for _, line := range lines {
			fmt.Fprintf(&text, "# %s\n", line)
		}
	}
	r.each(func(s *SuiteOutcome, t *TestOutcome, c *CaseOutcome) {
		switch c.Status {
		case Skipped:
			point(true, s.Name+"/"+t.Name+"/"+c.Name, " # SKIP", nil)
		case Passed:
			point(true, s.Name+"/"+t.Name+"/"+c.Name, "", nil)
		default:
			point(false, s.Name+"/"+t.Name+"/"+c.Name, "", append([]string{fmt.Sprintf("%s:%d", printable(s.File), c.Line)}, c.lines()...))
		}
	})
	for i := range r.Untested {
		point(false, r.Untested[i].Message, "", []string{r.Untested[i].Place()})
	}
	for i := range r.Unreadable {
		point(false, r.Unreadable[i].Text(), "", []string{printable(r.Unreadable[i].Place())})
	}
	for i := range r.Coverage {
		had, all := r.Coverage[i].Covered()
		fmt.Fprintf(&text, "# coverage %s: %d of %d\n", printable(r.Coverage[i].Policy), had, all)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// escaped returns a description without directives.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, "#", `\#`).Replace(printable(text))
}

// WriteMarkdown writes a report for a pull request: a table of the suites, and the cases that did not pass.
func WriteMarkdown(w io.Writer, r *Report) error {
	var text strings.Builder
	fmt.Fprintf(&text, "## Policy tests: %s\n\n| Suite | File | Passed | Failed | Broken | Skipped |\n|---|---|--:|--:|--:|--:|\n", r.Counts())
	for i := range r.Suites {
		s := &r.Suites[i]
		c := s.Counts()
		fmt.Fprintf(&text, "| %s | %s | %d | %d | %d | %d |\n", cell(s.Name), code(s.File), c.Passed, c.Failed, c.Broken, c.Skipped)
	}
	r.each(func(s *SuiteOutcome, t *TestOutcome, c *CaseOutcome) {
		if c.Status != Failed && c.Status != Broken {
			return
		}
		fmt.Fprintf(&text, "\n### %s: %s / %s\n\n%s\n\n", cell(string(c.Status)), cell(t.Name), cell(c.Name), code(fmt.Sprintf("%s:%d", s.File, c.Line)))
		for _, line := range c.lines() {
			fmt.Fprintf(&text, "- %s\n", code(line))
		}
	})
	if len(r.Untested) > 0 {
		text.WriteString("\n### Untested policies\n\n")
		for i := range r.Untested {
			fmt.Fprintf(&text, "- %s: %s\n", code(r.Untested[i].Place()), cell(r.Untested[i].Message))
		}
	}
	if len(r.Unreadable) > 0 {
		text.WriteString("\n### Files and suites that cannot be read\n\n")
		for i := range r.Unreadable {
			fmt.Fprintf(&text, "- %s: %s\n", code(r.Unreadable[i].Place()), cell(r.Unreadable[i].Text()))
		}
	}
	if len(r.Coverage) > 0 {
		text.WriteString("\n### Coverage\n\n| Policy | Covered | Not covered |\n|---|--:|---|\n")
		for i := range r.Coverage {
			had, all := r.Coverage[i].Covered()
			missing := r.Coverage[i].missing()
			for k := range missing {
				missing[k] = code(missing[k])
			}
			fmt.Fprintf(&text, "| %s | %d of %d | %s |\n", cell(r.Coverage[i].Policy), had, all, strings.Join(missing, "<br>"))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// cell escapes a text for a cell of a table.
func cell(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`).Replace(printable(text))
}

// code returns a text as inline code.
func code(text string) string {
	return "`" + strings.NewReplacer("`", "'", "|", `\|`).Replace(printable(text)) + "`"
}

// each calls a function for all cases.
func (r *Report) each(do func(*SuiteOutcome, *TestOutcome, *CaseOutcome)) {
	for i := range r.Suites {
		for k := range r.Suites[i].Tests {
			for n := range r.Suites[i].Tests[k].Cases {
				do(&r.Suites[i], &r.Suites[i].Tests[k], &r.Suites[i].Tests[k].Cases[n])
			}
		}
	}
}
