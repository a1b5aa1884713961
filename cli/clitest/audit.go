package clitest

import (
	"encoding/json"
	"fmt"
	"testing"
)

// AuditReport is the part of the output of audit -o json that tests read.
type AuditReport struct {
	Evaluated, NewlyRejected, NotEvaluated int
	Rules                                  []struct {
		Rule, Severity   string
		New, Gone, Stays int
	}
	Violations      []struct{ Change, Source, Rule, Message string }
	Warnings, Notes []string
}

// Row is how many findings of a rule and severity are new, are gone and stay; empty if there are none.
func (a *AuditReport) Row(rule, severity string) string {
	for _, r := range a.Rules {
		if r.Rule == rule && r.Severity == severity {
			return fmt.Sprintf("%d new, %d gone, %d stay", r.New, r.Gone, r.Stays)
		}
	}
	return ""
}

// Audit runs audit -o json.
func Audit(t *testing.T, stdin string, args ...string) (AuditReport, Result) {
	t.Helper()
	got := Call(t, stdin, append([]string{"audit", "-o", "json"}, args...)...)
	var a AuditReport
	if got.Out != "" {
		Decode(t, json.Unmarshal, got.Out, &a)
	}
	return a, got
}
