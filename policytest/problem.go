package policytest

import "fmt"

// Problem is what is wrong with a file, or doubtful in it.
type Problem struct {
	// Rule is one of LintRules; empty if nobody asked for them.
	Rule string `json:"rule,omitempty"`
	// File is its name as it was given.
	File string `json:"file"`
	// Line and Column count from 1; 0 if it is about the file as a whole.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Field of the object in the file; empty if it is about the object as a whole.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	// Warning tells that the file is used all the same.
	Warning bool `json:"warning,omitempty"`
}

// String is the problem on one line, as compilers write it: suite.yaml:12:5: tests[0].name: Required value.
func (p Problem) String() string {
	if p.Warning {
		return p.Place() + ": warning: " + p.Text()
	}
	return p.Place() + ": " + p.Text()
}

// Text is the field and the message.
func (p Problem) Text() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// Place is the file, with the line and the column if they are known.
func (p Problem) Place() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error implements error.
func (p Problem) Error() string { return p.String() }
