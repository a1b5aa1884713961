package policytest

// Report is what became of suites.
type Report struct {
	Suites []SuiteOutcome `json:"suites"`
	// Coverage of the policies, if it was asked for.
	Coverage []Coverage `json:"coverage,omitempty"`
	// Untested are policies that no case was run for, if that was asked for.
	Untested []Problem `json:"untested,omitempty"`

	// evaluated are the keys of the policies of cases that passed or failed.
	evaluated []string
}

// SuiteOutcome is what became of a suite.
type SuiteOutcome struct {
	Name  string        `json:"name"`
	File  string        `json:"file"`
	Tests []TestOutcome `json:"tests"`
}

// TestOutcome is what became of a test.
type TestOutcome struct {
	Name string `json:"name"`
	// Line where it begins in the file of the suite.
	Line     int           `json:"line"`
	Policies []string      `json:"policies"`
	Cases    []CaseOutcome `json:"cases"`
}

// CaseOutcome is what became of a case.
type CaseOutcome struct {
	Name   string `json:"name"`
	Line   int    `json:"line"`
	Status Status `json:"status"`
	// Reasons why it did not pass.
	Reasons []string `json:"reasons,omitempty"`
	// Problem is why it is broken.
	Problem *Problem `json:"problem,omitempty"`
	// Verdict and Findings are what was found; empty if it was not evaluated.
	Verdict  Verdict  `json:"verdict,omitempty"`
	Findings Findings `json:"findings,omitempty"`
	// Notes name what the object refers to and is not there.
	Notes []string `json:"notes,omitempty"`
	// Traces say what the policies did, if that was asked for.
	Traces []Trace `json:"traces,omitempty"`
}

// Counts are numbers of cases.
type Counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Broken  int `json:"broken"`
}

// Total is the number of all cases.
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

// Counts are those of all suites.
func (r *Report) Counts() Counts {
	var counts Counts
	r.each(func(_ *SuiteOutcome, _ *TestOutcome, c *CaseOutcome) { counts.count(c.Status) })
	return counts
}

// Counts are those of the suite.
func (s *SuiteOutcome) Counts() Counts {
	var counts Counts
	for i := range s.Tests {
		for k := range s.Tests[i].Cases {
			counts.count(s.Tests[i].Cases[k].Status)
		}
	}
	return counts
}
