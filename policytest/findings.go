package policytest

import (
	"fmt"
	"strings"

	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// Findings are the findings of the policies in a case, and those of the built-in rules if the case checks them.
type Findings []validators.Finding

// MarshalJSON implements json.Marshaler.
func (f Findings) MarshalJSON() ([]byte, error) {
	type finding struct {
		Rule        string              `json:"rule"`
		Severity    validators.Severity `json:"severity"`
		Field       string              `json:"field,omitempty"`
		Message     string              `json:"message"`
		Error       bool                `json:"error,omitempty"`
		PreExisting bool                `json:"preExisting,omitempty"`
		Exempted    string              `json:"exempted,omitempty"` // the name of the exception
	}
	all := make([]finding, len(f))
	for i := range f {
		all[i] = finding{f[i].Rule, f[i].Severity, f[i].Error.Field, f[i].Text(), policies.IsEvaluationError(&f[i]), f[i].PreExisting, ""}
		if by := f[i].Exempted; by != nil {
			all[i].Exempted = by.Exception
		}
	}
	return texts.JSON(all)
}

// Lines returns a line for each finding: deny: spec.running: Forbidden: not here [virtward/policy/running].
func (f Findings) Lines() []string {
	lines := make([]string, len(f))
	for i := range f {
		word := strings.ToLower(string(f[i].Severity))
		if f[i].Exempted != nil {
			word = "exempted"
		}
		lines[i] = fmt.Sprintf("%s: %s: %s [virtward/%s]", word, f[i].Error.Field, f[i].Text(), f[i].Rule)
	}
	return lines
}
