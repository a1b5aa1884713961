package policytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// Options select the cases to run, and what to report.
type Options struct {
	// Select selects cases by the names of the test and the case; nil selects all.
	Select func(test, name string) bool
	// FailFast ends the run with the first case that does not pass.
	FailFast bool
	// Trace adds what the policies of every case did.
	Trace bool
	// Coverage adds what of the policies the cases evaluated.
	Coverage bool
	// UnknownFields is Warn if fields that no schema has are notes; otherwise they fail the case.
	UnknownFields validators.Severity
	// Strict fails cases whose virtual machine refers to an object that the suite does not have.
	Strict bool
	// Policies selects tests by the labels of their policies; nil selects all.
	Policies labels.Selector
}

// Status is the status of a case.
type Status string

// The statuses.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
	// Broken: the case could not be evaluated. For example, a file is missing, or a policy does not compile.
	Broken Status = "broken"
)

// Run evaluates the cases of suites, in their order.
func (j *Runner) Run(ctx context.Context, all []*Suite, options Options) *Report {
	r := &runner{
		Runner: j, options: options, report: &Report{}, compiled: map[string]*policies.Policy{},
		validated: map[validated][]validators.Finding{}, observer: &observer{trace: options.Trace, coverage: options.Coverage},
	}
	for _, s := range all {
		if r.ended || ctx.Err() != nil {
			break
		}
		r.suite(ctx, s)
	}
	r.report.Coverage = r.observer.result()
	return r.report
}

type runner struct {
	*Runner

	options  Options
	report   *Report
	observer *observer
	// compiled caches policies without problems, by their names and specs.
	compiled map[string]*policies.Policy
	// validated caches what the schemas find wrong in objects of the cluster.
	validated map[validated][]validators.Finding
	ended     bool
}

func (r *runner) suite(ctx context.Context, s *Suite) {
	outcome := SuiteOutcome{Name: s.Metadata.Name, File: s.File}
	for i := range s.Tests {
		if r.ended || ctx.Err() != nil {
			break
		}
		if r.selects(s, i) {
			outcome.Tests = append(outcome.Tests, r.test(ctx, s, i))
		}
	}
	r.report.Suites = append(r.report.Suites, outcome)
}

// selects reports whether a test has a policy with the labels, or policies that cannot be read.
func (r *runner) selects(s *Suite, i int) bool {
	if r.options.Policies == nil || r.options.Policies.Empty() {
		return true
	}
	read, err := s.policies(index("tests", i)+".policies", s.Tests[i].Policies)
	return err != nil || slices.ContainsFunc(read, func(w written) bool {
		return r.options.Policies.Matches(labels.Set(w.policy.Labels))
	})
}

func (r *runner) test(ctx context.Context, s *Suite, i int) TestOutcome {
	t := &s.Tests[i]
	outcome := TestOutcome{Name: t.Name, Line: s.problem(index("tests", i), "").Line}
	if read, err := s.policies(index("tests", i)+".policies", t.Policies); err == nil {
		for k := range read {
			outcome.Policies = append(outcome.Policies, read[k].policy.Name)
		}
	}
	for k := range t.Cases {
		if r.ended || ctx.Err() != nil {
			break
		}
		if r.options.Select != nil && !r.options.Select(t.Name, t.Cases[k].Name) {
			continue
		}
		one := r.one(ctx, s, i, k)
		outcome.Cases = append(outcome.Cases, one)
		r.ended = r.options.FailFast && (one.Status == Failed || one.Status == Broken)
	}
	return outcome
}

// one evaluates a case.
func (r *runner) one(ctx context.Context, s *Suite, test, one int) (outcome CaseOutcome) {
	c := &s.Tests[test].Cases[one]
	at := index(index("tests", test)+".cases", one)
	outcome = CaseOutcome{Name: c.Name, Line: s.problem(at, "").Line}
	if c.Skip {
		outcome.Status = Skipped
		return outcome
	}
	situation, err := s.Situation(test, one)
	if err != nil {
		return outcome.broken(err)
	}
	compiled, problems := r.compile(situation)
	if len(problems) > 0 {
		return outcome.broken(problems[0])
	}
	set, watch := r.observer.watch(situation, compiled, policies.NewSet("", compiled...))
	result, err := r.evaluate(ctx, situation, set)
	if err != nil {
		return outcome.broken(s.problem(at, err.Error()))
	}
	invalid, notes, err := r.validate(ctx, situation, c.Checks, result)
	if err != nil {
		return outcome.broken(s.problem(at, err.Error()))
	}
	outcome.Notes, outcome.Traces = slices.Concat(result.Warnings, notes), watch.all()
	for _, p := range invalid {
		if p.Warning {
			outcome.Notes = append(outcome.Notes, p.Place()+": "+p.Text())
		} else {
			outcome.Reasons = append(outcome.Reasons, p.String())
		}
	}
	for i := range situation.written {
		r.report.evaluated = append(r.report.evaluated, situation.written[i].key())
	}
	for i := range result.Findings {
		if c.Checks || strings.HasPrefix(result.Findings[i].Rule, policies.RulePrefix) {
			outcome.Findings = append(outcome.Findings, result.Findings[i])
		}
	}
	outcome.Verdict = VerdictOf(outcome.Findings)
	outcome.Status = Passed
	if outcome.Reasons = append(outcome.Reasons, c.Expect.Compare(outcome.Findings)...); len(outcome.Reasons) > 0 {
		outcome.Status = Failed
	}
	return outcome
}

// compile compiles the policies of a situation. The problems are errors, and no warnings.
func (r *runner) compile(s *Situation) ([]*policies.Policy, []Problem) {
	all := make([]*policies.Policy, 0, len(s.written))
	var problems []Problem
	for i := range s.written {
		w := &s.written[i]
		key := ""
		if w.policy.Spec.Params == nil || w.policy.Spec.Params.ConfigMap == nil { // without a ConfigMap, the name and the spec determine the result
			if data, err := json.Marshal(w.policy.Spec); err == nil {
				key = w.policy.Name + string(data)
			}
		}
		policy := r.compiled[key]
		if policy == nil {
			var found []diagnostics.Problem
			policy, found = policies.Compile(r.environment, w.policy, s.configMap)
			problems = append(problems, w.problems(found, false)...)
			if key != "" && !diagnostics.Broken(found) {
				r.compiled[key] = policy
			}
		}
		all = append(all, policy)
	}
	return all, problems
}

// problems returns the problems of a policy in its file, with warnings if the caller wants them.
func (w *written) problems(found []diagnostics.Problem, warnings bool) []Problem {
	var problems []Problem
	for _, p := range found {
		if !p.Warning || warnings {
			problems = append(problems, w.problem(p))
		}
	}
	return problems
}

// broken returns the outcome of a case that cannot be evaluated.
func (c CaseOutcome) broken(err error) CaseOutcome {
	c.Status, c.Reasons = Broken, []string{err.Error()}
	var problem Problem
	if errors.As(err, &problem) {
		c.Problem = &problem
	}
	return c
}

// VerdictOf returns the verdict of findings. Findings with the severity Audit do not change it.
func VerdictOf(findings []validators.Finding) Verdict {
	verdict := Allowed
	for i := range findings {
		switch findings[i].Severity {
		case validators.Deny:
			return Denied
		case validators.Warn:
			verdict = Warned
		}
	}
	return verdict
}

// Compare returns the differences between the findings and the expected ones.
func (e *Expect) Compare(findings []validators.Finding) []string {
	var reasons []string
	if got := VerdictOf(findings); e.Verdict != "" && got != e.Verdict {
		reasons = append(reasons, fmt.Sprintf("verdict: expected %s, got %s", e.Verdict, got))
	}
	if e.Violations != nil && len(findings) != *e.Violations {
		reasons = append(reasons, fmt.Sprintf("violations: expected %d, got %d", *e.Violations, len(findings)))
	}
	if got := exemptedIn(findings); e.Exempted != nil && !slices.Equal(got, slices.Compact(slices.Sorted(slices.Values(e.Exempted)))) {
		reasons = append(reasons, fmt.Sprintf("exempted: expected %s, got %s", listed(e.Exempted), listed(got)))
	}
	failed := ""
	for i := range findings {
		if findings[i].Exempted == nil && policies.IsEvaluationError(&findings[i]) && failed == "" {
			failed = findings[i].Text()
		}
	}
	switch {
	case e.Error && failed == "":
		reasons = append(reasons, "error: expected an evaluation error, got none")
	case !e.Error && failed != "":
		reasons = append(reasons, "error: "+failed)
	}
	if text := e.place(findings); text != "" {
		reasons = append(reasons, text)
	}
	return reasons
}

// exemptedIn returns the policies from which exceptions exempt the object, sorted.
func exemptedIn(findings []validators.Finding) []string {
	var names []string
	for i := range findings {
		if findings[i].Exempted != nil {
			names = append(names, strings.TrimPrefix(findings[i].Rule, policies.RulePrefix))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// place compares message and field.
func (e *Expect) place(findings []validators.Finding) string {
	if e.Message == "" && e.Field == "" {
		return ""
	}
	pattern, err := regexp.Compile(e.Message)
	if err != nil {
		return "message: " + err.Error()
	}
	matched, found := false, false
	for i := range findings {
		said, there := pattern.MatchString(findings[i].Text()), e.Field == "" || findings[i].Error.Field == e.Field
		if said && there {
			return ""
		}
		matched, found = matched || said, found || there
	}
	switch {
	case e.Message == "":
		return "field: expected a finding at " + e.Field + ", got none"
	case e.Field == "":
		return fmt.Sprintf("message: expected one that matches %q, got none", e.Message)
	case matched && found:
		return fmt.Sprintf("message and field: expected %q at %s, but it is at another field", e.Message, e.Field)
	case matched:
		return fmt.Sprintf("field: expected %q at %s, but it is at another field", e.Message, e.Field)
	}
	return fmt.Sprintf("message: expected one that matches %q at %s, got none", e.Message, e.Field)
}
