package policytest

// Report is the outcome of suites.
type Report struct {
	Suites []SuiteOutcome `json:"suites"`
	// Coverage is the coverage of the policies, with Options.Coverage.
	Coverage []Coverage `json:"coverage,omitempty"`
	// Untested are policies without a case, if the caller adds them.
	Untested []Problem `json:"untested,omitempty"`
	// Unreadable are files and suites that cannot be read, if the caller adds them.
	Unreadable []Problem `json:"unreadable,omitempty"`

	// evaluated are the keys of the policies of cases that passed or failed.
	evaluated []string
}

// SuiteOutcome is the outcome of a suite.
type SuiteOutcome struct {
	Name  string        `json:"name"`
	File  string        `json:"file"`
	Tests []TestOutcome `json:"tests"`
}

// TestOutcome is the outcome of a test.
type TestOutcome struct {
	Name string `json:"name"`
	// Line is its first line in the file of the suite.
	Line     int           `json:"line"`
	Policies []string      `json:"policies"`
	Cases    []CaseOutcome `json:"cases"`
}

// CaseOutcome is the outcome of a case.
type CaseOutcome struct {
	Name   string `json:"name"`
	Line   int    `json:"line"`
	Status Status `json:"status"`
	// Reasons say why it did not pass.
	Reasons []string `json:"reasons,omitempty"`
	// Problem says why it is broken.
	Problem *Problem `json:"problem,omitempty"`
	// Verdict and Findings are empty if the case was not evaluated.
	Verdict  Verdict  `json:"verdict,omitempty"`
	Findings Findings `json:"findings,omitempty"`
	// Notes name references of the object that are missing.
	Notes []string `json:"notes,omitempty"`
	// Traces are the traces of the policies, with Options.Trace.
	Traces []Trace `json:"traces,omitempty"`
}

// Counts are numbers of cases.
type Counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Broken  int `json:"broken"`
}

// Total returns the number of all cases.
func (c Counts) Total() int { return c.Passed + c.Failed + c.Skipped + c.Broken }

func (c *Counts) count(status Status) {
	switch status {
	case Passed:
		c.Passed++
	case Failed:
		c.Failed++
	case Skipped:
		c.Skipped++
	case Broken:
		c.Broken++
	}
}

// Counts returns the counts of all suites.
func (r *Report) Counts() Counts {
	var counts Counts
	r.each(func(_ *SuiteOutcome, _ *TestOutcome, c *CaseOutcome) { counts.count(c.Status) })
	return counts
}

// Counts returns the counts of the suite.
func (s *SuiteOutcome) Counts() Counts {
	var counts Counts
	for i := range s.Tests {
		for k := range s.Tests[i].Cases {
			counts.count(s.Tests[i].Cases[k].Status)
		}
	}
	return counts
}
