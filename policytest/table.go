package policytest

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// WriteTable writes a report for people: what did not pass, with the reasons, and a line for each suite. If it is to be
// verbose, every case is told, with what was found.
func WriteTable(w io.Writer, r *Report, verbose bool) error {
	var text strings.Builder
	for i := range r.Suites {
		s := &r.Suites[i]
		for k := range s.Tests {
			for n := range s.Tests[k].Cases {
				tell(&text, s, &s.Tests[k], &s.Tests[k].Cases[n], verbose)
			}
		}
		fmt.Fprintf(&text, "%-7s %s  %s: %s\n", s.word(), printable(s.File), printable(s.Name), s.Counts())
	}
	for i := range r.Untested {
		fmt.Fprintf(&text, "UNTESTED %s: %s\n", r.Untested[i].Place(), printable(r.Untested[i].Message))
	}
	for i := range r.Coverage {
		r.Coverage[i].tell(&text)
	}
	if c := r.Counts(); len(r.Suites) != 1 {
		fmt.Fprintf(&text, "%d suites: %s\n", len(r.Suites), c)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// tell tells a case.
func tell(text *strings.Builder, s *SuiteOutcome, t *TestOutcome, c *CaseOutcome, verbose bool) {
	told := c.Status == Failed || c.Status == Broken
	if !told && !verbose && len(c.Traces) == 0 {
		return
	}
	fmt.Fprintf(text, "--- %s: %s/%s (%s:%d)\n", strings.ToUpper(string(c.Status)), printable(t.Name), printable(c.Name), printable(s.File), c.Line)
	for _, line := range c.lines() {
		fmt.Fprintf(text, "    %s\n", line)
	}
	for i := range c.Traces {
		c.Traces[i].tell(text)
	}
}

// lines say why a case did not pass, or what was found in one that did.
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

func (t *Trace) tell(text *strings.Builder) {
	if !t.Asked {
		fmt.Fprintf(text, "    policy %s is not asked: it does not match\n", printable(t.Policy))
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

func (c *Coverage) tell(text *strings.Builder) {
	had, all := c.Covered()
	fmt.Fprintf(text, "coverage %s: %d of %d (%s)\n", printable(c.Policy), had, all, printable(c.File))
	for _, line := range c.missing() {
		fmt.Fprintf(text, "    %s\n", line)
	}
}

// missing says what no case did.
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

// word sums up a suite.
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

// String is 12 passed, 1 failed.
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

// printable keeps a text that somebody wrote on one line, and from doing anything to a terminal.
func printable(text string) string { return strings.Join(strings.Fields(printableBut(text, ' ')), " ") }

func printableBut(text string, kept rune) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == kept {
			return r
		}
		return ' '
	}, text)
}
