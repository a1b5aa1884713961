package validators

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Severity says what a finding of a rule means.
type Severity string

// The severities. Off switches a rule off.
const (
	Deny Severity = "Deny"
	Warn Severity = "Warn"
	Off  Severity = "Off"
)

// Scope says what a rule looks at.
type Scope uint8

// The scopes. A rule may have several.
const (
	// OnSpec: the effective spec of whatever will run, at the creation and the update of a VM and at the
	// creation of a VMI.
	OnSpec Scope = 1 << iota
	// OnVM: a VirtualMachine around its template, at its creation and its update.
	OnVM
	// OnVMUpdate: what may change in a VirtualMachine.
	OnVMUpdate
	// OnVMI: a VirtualMachineInstance around its spec, at its creation.
	OnVMI
	// OnVMIUpdate: what may change in a VirtualMachineInstance.
	OnVMIUpdate
)

// Rule is one built-in check.
type Rule struct {
	// ID is stable: it is the same in messages, metrics, documents and settings. Kebab-case, the area first.
	ID string
	// Title says in a few words what must hold.
	Title string
	// Scope is what it looks at.
	Scope Scope
	// Severity of its findings; Deny if empty.
	Severity Severity
	// Security marks a rule whose weakening needs a right of its own.
	Security bool
	// Remedy says in one line what to do about a finding.
	Remedy string
	// Check reports what is wrong, at fields of the object as it was written.
	Check func(*Subject) field.ErrorList
}

// Table is an ordered list of rules.
type Table []Rule

// Join puts tables after one another. An id that is given twice, or a rule without an id, title, scope or
// check, is an error.
func Join(tables ...Table) (Table, error) {
	joined := slices.Concat(tables...)
	seen := map[string]bool{}
	for i := range joined {
		r := &joined[i]
		if r.ID == "" || r.Title == "" || r.Scope == 0 || r.Check == nil {
			return nil, fmt.Errorf("rule %d (%q) lacks an id, a title, a scope or a check", i, r.ID)
		}
		if seen[r.ID] {
			return nil, fmt.Errorf("two rules have the id %s", r.ID)
		}
		seen[r.ID] = true
		if r.Severity == "" {
			r.Severity = Deny
		}
	}
	return joined, nil
}

// Finding is what a rule says about a field.
type Finding struct {
	// Rule is the id of the rule.
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// Error holds the type of the cause, the field, the value and the message.
	Error *field.Error `json:"-"`
	// Remedy is the rule's.
	Remedy string `json:"remedy,omitempty"`
}

// Check runs the rules of the given scopes and returns their findings, sorted by field, then by rule.
func (t Table) Check(s *Subject, scopes Scope) []Finding {
	var findings []Finding
	for i := range t {
		r := &t[i]
		if r.Scope&scopes == 0 || r.Severity == Off {
			continue
		}
		for _, err := range r.Check(s) {
			findings = append(findings, Finding{Rule: r.ID, Severity: r.Severity, Error: err, Remedy: r.Remedy})
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		switch {
		case a.Error.Field < b.Error.Field:
			return -1
		case a.Error.Field > b.Error.Field:
			return 1
		case a.Rule < b.Rule:
			return -1
		case a.Rule > b.Rule:
			return 1
		}
		return 0
	})
	return findings
}
