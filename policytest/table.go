package policytest

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// WriteTable writes a report for people: the cases that did not pass, with the reasons, and a line for each suite. If
// verbose is true, it writes all cases with their findings.
func WriteTable(w io.Writer, r *Report, verbose bool) error {
	var text strings.Builder
	for i := range r.Suites {
		s := &r.Suites[i]
		for k := range s.Tests {
			for n := range s.Tests[k].Cases {
				writeCase(&text, s, &s.Tests[k], &s.Tests[k].Cases[n], verbose)
			}
		}
		fmt.Fprintf(&text, "%-7s %s  %s: %s\n", s.word(), printable(s.File), printable(s.Name), s.Counts())
	}
	for i := range r.Untested {
		fmt.Fprintf(&text, "UNTESTED %s: %s\n", r.Untested[i].Place(), printable(r.Untested[i].Message))
	}
	for i := range r.Unreadable {
		fmt.Fprintf(&text, "BROKEN  %s\n", printable(r.Unreadable[i].String()))
	}
	for i := range r.Coverage {
		r.Coverage[i].write(&text)
	}
	if c := r.Counts(); len(r.Suites) != 1 {
		fmt.Fprintf(&text, "%d suites: %s\n", len(r.Suites), c)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeCase writes a case, unless it passed and nothing is to be shown of it.
func writeCase(text *strings.Builder, s *SuiteOutcome, t *TestOutcome, c *CaseOutcome, verbose bool) {
	failed := c.Status == Failed || c.Status == Broken
	if !failed && !verbose && len(c.Traces) == 0 {
		return
	}
	fmt.Fprintf(text, "--- %s: %s/%s (%s:%d)\n", strings.ToUpper(string(c.Status)), printable(t.Name), printable(c.Name), printable(s.File), c.Line)
	for _, line := range c.lines() {
		fmt.Fprintf(text, "    %s\n", line)
	}
	for i := range c.Traces {
		c.Traces[i].write(text)
	}
}

// lines returns the reasons why a case did not pass, its findings and its notes.
func (c *CaseOutcome) lines() []string {
	lines := make([]string, 0, len(c.Reasons)+len(c.Findings))
	for _, reason := range c.Reasons {
		lines = append(lines, printable(reason))
	}
	for _, line := range c.Findings.Lines() {
		lines = append(lines, "found "+printable(line))
	}
	for _, note := range c.Notes {
		lines = append(lines, "note: "+printable(note))
	}
	return lines
}

func (t *Trace) write(text *strings.Builder) {
	if !t.Evaluated {
		fmt.Fprintf(text, "    policy %s is not evaluated: it does not match\n", printable(t.Policy))
		return
	}
	fmt.Fprintf(text, "    policy %s\n", printable(t.Policy))
	for i := range t.Steps {
		step := &t.Steps[i]
		fmt.Fprintf(text, "      %s: %s = %s\n", step.Field, printable(step.Expression), step.outcome())
		for k := range step.Parts {
			fmt.Fprintf(text, "        %s = %s\n", printable(step.Parts[k].Expression), step.Parts[k].outcome())
		}
	}
	for line := range strings.Lines(t.Rego) {
		fmt.Fprintf(text, "      %s\n", strings.TrimRightFunc(printableBut(line, '\t'), unicode.IsSpace))
	}
}

func (s *TraceStep) outcome() string {
	if s.Error != "" {
		return "error: " + printable(s.Error)
	}
	return printable(string(s.Value))
}

func (c *Coverage) write(text *strings.Builder) {
	had, all := c.Covered()
	fmt.Fprintf(text, "coverage %s: %d of %d (%s)\n", printable(c.Policy), had, all, printable(c.File))
	for _, line := range c.missing() {
		fmt.Fprintf(text, "    %s\n", line)
	}
}

// missing returns a line for what no case evaluated.
func (c *Coverage) missing() []string {
	var lines []string
	for i := range c.Expressions {
		e := &c.Expressions[i]
		if missing := e.Missing(); len(missing) > 0 {
			lines = append(lines, fmt.Sprintf("%s:%d: %s: %s", printable(c.File), e.Line, e.Field, strings.Join(missing, ", ")))
		}
	}
	for _, l := range c.Lines {
		if !l.Reached {
			lines = append(lines, fmt.Sprintf("%s:%d: not all of this line was evaluated", printable(c.File), l.Line))
		}
	}
	return lines
}

// word returns the status of a suite.
func (s *SuiteOutcome) word() string {
	switch c := s.Counts(); {
	case c.Broken > 0:
		return "BROKEN"
	case c.Failed > 0:
		return "FAILED"
	case c.Total() == 0:
		return "empty"
	}
	return "ok"
}

// String returns 12 passed, 1 failed.
func (c Counts) String() string {
	var parts []string
	for _, part := range []struct {
		n    int
		word Status
	}{{c.Passed, Passed}, {c.Failed, Failed}, {c.Broken, Broken}, {c.Skipped, Skipped}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.word))
		}
	}
	if len(parts) == 0 {
		return "no cases"
	}
	return strings.Join(parts, ", ")
}

// printable puts a text of users on one line, without control characters for a terminal.
func printable(text string) string { return strings.Join(strings.Fields(printableBut(text, ' ')), " ") }

func printableBut(text string, kept rune) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == kept {
			return r
		}
		return ' '
	}, text)
}
