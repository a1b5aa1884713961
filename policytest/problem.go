package policytest

import (
	"cmp"
	"fmt"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/manifests"
)

// Problem is an error in a file, or a warning about it. Its line and column are a position in the file; both are 0 for
// the whole file. Its field is a field of the object in the file. It implements error.
type Problem struct {
	// Rule is one of LintRules. It is empty without lint.
	Rule string `json:"rule,omitempty"`
	// File is the name of the file, as it was given.
	File string `json:"file"`
	diagnostics.Problem
}

// inFile returns a problem of a whole file.
func inFile(name, message string) Problem {
	return Problem{File: name, Problem: diagnostics.Problem{Message: message}}
}

// at returns a problem of a field, at its position in the file of the document.
func at(d manifests.Document, field, message string) Problem {
	position, _ := d.Find(field)
	return Problem{File: cmp.Or(d.File, d.Source), Problem: diagnostics.Problem{Line: position.Line, Column: position.Column, Field: field, Message: message}}
}

// under returns the problem as one of a rule of LintRules.
func (p Problem) under(rule string) Problem {
	p.Rule = rule
	return p
}

// String returns the problem in one line, as compilers do: suite.yaml:12:5: tests[0].name: Required value.
func (p Problem) String() string {
	if p.Warning {
		return p.Place() + ": warning: " + p.Text()
	}
	return p.Place() + ": " + p.Text()
}

// Text returns the field, if there is one, and the message.
func (p Problem) Text() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// Place returns the file, with the line and the column if they are known.
func (p Problem) Place() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error implements error.
func (p Problem) Error() string { return p.String() }
