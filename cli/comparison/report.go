package comparison

import (
	"cmp"
	"maps"
	"slices"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// Kind is the type of a Report in JSON; its version is explanation.APIVersion.
const Kind = "Audit"

// Report reports what would change. Its JSON form is documented, and fields are only ever added to it.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Assumed are the assumptions, as on the command line. Without any, all findings stay.
	Assumed []string `json:"assumed"`
	// Now are the facts of the cluster, and Then those under the assumptions.
	Now  explanation.Facts `json:"now"`
	Then explanation.Facts `json:"then"`
	// Evaluated counts the evaluated virtual machines, and NewlyRejected those of them with a new finding that rejects.
	// NotEvaluated counts others that could not be evaluated; the warnings say why.
	Evaluated     int `json:"evaluated"`
	NewlyRejected int `json:"newlyRejected"`
	NotEvaluated  int `json:"notEvaluated"`
	// Rules are the rules and policies with findings, sorted by name, then by severity.
	Rules []Rule `json:"rules"`
	// Violations are the findings to show, sorted by change, then by rule, then in the order of the objects.
	Violations []Violation `json:"violations"`
	// Unreadable are the documents that cannot be read or evaluated.
	Unreadable []explanation.Unreadable `json:"unreadable"`
	// Warnings name what could not be evaluated completely. Notes name configuration without an effect.
	Warnings []string `json:"warnings"`
	Notes    []string `json:"notes"`

	rules validators.Table
	first *Violation
}

// Rule counts the findings of a rule or a policy with a severity.
type Rule struct {
	Rule     string              `json:"rule"`
	Title    string              `json:"title,omitempty"`
	Severity validators.Severity `json:"severity"`
	New      int                 `json:"new"`
	Gone     int                 `json:"gone"`
	Stays    int                 `json:"stays"`
	// NotReported counts findings above the limit, which are not among the violations.
	NotReported int `json:"notReported"`
}

// Violation is a finding of an object, and its change.
type Violation struct {
	Change Change
	// Source is where the object was read: "vm.yaml: document 1", or "cluster".
	Source string
	Object explanation.Object
	explanation.Finding

	file string
}

// MarshalJSON implements json.Marshaler.
func (v Violation) MarshalJSON() ([]byte, error) {
	return texts.JSON(struct {
		Change Change             `json:"change"`
		Source string             `json:"source"`
		Object explanation.Object `json:"object"`
		explanation.Document
	}{v.Change, v.Source, v.Object, v.Document()})
}

// Counter counts the findings of any number of virtual machines, and keeps only those to show.
type Counter struct {
	// Max is the number of findings to show of each rule and change; 0 for all.
	Max int
	// Unchanged shows findings that stay, too.
	Unchanged bool

	tallies       map[key]*tally
	evaluated     int
	newlyRejected int
	first         *Violation
}

// key identifies what is counted together.
type key struct {
	rule     string
	severity validators.Severity
}

// tally is a row of the report, and the violations to show.
type tally struct {
	Rule
	violations map[Change][]Violation
}

// Add counts the findings of one virtual machine, now and under the assumptions.
func (c *Counter) Add(d manifests.Document, object explanation.Object, now, then []validators.Finding) {
	c.evaluated++
	rejected := false
	for _, f := range compare(now, then) {
		k := key{f.finding.Rule, f.finding.Severity}
		t := c.tally(k)
		t.count(f.change)
		rejects := f.change == New && f.finding.Severity == validators.Deny
		rejected = rejected || rejects
		switch {
		case f.change == Stays && !c.Unchanged:
			continue
		case c.Max > 0 && len(t.violations[f.change]) >= c.Max:
			t.NotReported++
			continue
		}
		v := Violation{Change: f.change, Source: d.Location(), Object: object, file: d.File, Finding: explanation.FindingsOf(d, []validators.Finding{f.finding})[0]}
		if rejects && c.first == nil {
			c.first = &v
		}
		t.violations[f.change] = append(t.violations[f.change], v)
	}
	if rejected {
		c.newlyRejected++
	}
}

// tally returns the tally of a rule and a severity.
func (c *Counter) tally(k key) *tally {
	if c.tallies == nil {
		c.tallies = map[key]*tally{}
	}
	if c.tallies[k] == nil {
		c.tallies[k] = &tally{Rule: Rule{Rule: k.rule, Severity: k.severity}, violations: map[Change][]Violation{}}
	}
	return c.tallies[k]
}

// count counts a finding.
func (r *Rule) count(change Change) {
	switch change {
	case New:
		r.New++
	case Gone:
		r.Gone++
	case Stays:
		r.Stays++
	}
}

// Report returns the report. The rules have the titles.
func (c *Counter) Report(rules validators.Table) *Report {
	r := &Report{
		APIVersion: explanation.APIVersion, Kind: Kind, Evaluated: c.evaluated, NewlyRejected: c.newlyRejected, first: c.first, rules: rules,
		Assumed: []string{}, Rules: []Rule{}, Violations: []Violation{}, Warnings: []string{}, Notes: []string{},
		Unreadable: []explanation.Unreadable{},
	}
	keys := slices.SortedFunc(maps.Keys(c.tallies), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), rank(a.severity)-rank(b.severity))
	})
	for _, k := range keys {
		row := c.tallies[k].Rule
		if known, err := rules.Find(k.rule); err == nil {
			row.Title = known.Title
		}
		r.Rules = append(r.Rules, row)
	}
	for _, change := range changes() {
		for _, k := range keys {
			r.Violations = append(r.Violations, c.tallies[k].violations[change]...)
		}
	}
	return r
}

func rank(s validators.Severity) int {
	return slices.Index([]validators.Severity{validators.Deny, validators.Warn, validators.Audit}, s)
}

// First returns the first new rejection, in the order of the objects, or nil.
func (r *Report) First() *Violation { return r.first }

// Changes reports whether anything is new or gone.
func (r *Report) Changes() bool {
	return slices.ContainsFunc(r.Rules, func(row Rule) bool { return row.New+row.Gone > 0 })
}
