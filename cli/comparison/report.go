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

// Report says what would change. Its JSON form is documented, and fields are only ever added to it.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Assumed is what would hold, in the words of the command line. If nothing else is assumed, every finding stays.
	Assumed []string `json:"assumed"`
	// Now and Then are what is known of the cluster, and what would be.
	Now  explanation.Facts `json:"now"`
	Then explanation.Facts `json:"then"`
	// Evaluated counts the virtual machines, NewlyRejected those of them on which a finding is new that rejects, and
	// NotEvaluated others that could not be evaluated; the warnings say why.
	Evaluated     int `json:"evaluated"`
	NewlyRejected int `json:"newlyRejected"`
	NotEvaluated  int `json:"notEvaluated"`
	// Rules are the rules and policies with findings, sorted by name, then by severity.
	Rules []Rule `json:"rules"`
	// Violations are the findings that are told, in the order of their changes, then of their rules, then of the
	// objects.
	Violations []Violation `json:"violations"`
	// Warnings say what less could be evaluated, and Notes what of the configuration has no effect.
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
	// NotReported counts those that are not among the violations, since they would be too many.
	NotReported int `json:"notReported"`
}

// Violation is a finding on an object, and what becomes of it.
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

// Counter makes a report of any number of virtual machines, of which it keeps no more than is told.
type Counter struct {
	// Told is how many findings of each rule and change are told; 0 for all.
	Told int
	// Unchanged has findings told that stay.
	Unchanged bool

	tallies       map[tallied]*tally
	evaluated     int
	newlyRejected int
	first         *Violation
}

// tallied is what is counted together.
type tallied struct {
	rule     string
	severity validators.Severity
}

// tally is a row of the report, and the violations to show.
type tally struct {
	Rule
	violations map[Change][]Violation
}

// Add counts the findings on one virtual machine, as things are and as they would be.
func (c *Counter) Add(d manifests.Document, object explanation.Object, now, then []validators.Finding) {
	c.evaluated++
	rejected := false
	for _, f := range compare(now, then) {
		key := tallied{f.finding.Rule, f.finding.Severity}
		t := c.tally(key)
		t.count(f.change)
		rejects := f.change == New && f.finding.Severity == validators.Deny
		rejected = rejected || rejects
		switch {
		case f.change == Stays && !c.Unchanged:
			continue
		case c.Told > 0 && len(t.violations[f.change]) >= c.Told:
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
func (c *Counter) tally(key tallied) *tally {
	if c.tallies == nil {
		c.tallies = map[tallied]*tally{}
	}
	if c.tallies[key] == nil {
		c.tallies[key] = &tally{Rule: Rule{Rule: key.rule, Severity: key.severity}, violations: map[Change][]Violation{}}
	}
	return c.tallies[key]
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

// Report sums up. The rules say of themselves what they are about.
func (c *Counter) Report(rules validators.Table) *Report {
	r := &Report{
		APIVersion: explanation.APIVersion, Kind: Kind, Evaluated: c.evaluated, NewlyRejected: c.newlyRejected, first: c.first, rules: rules,
		Assumed: []string{}, Rules: []Rule{}, Violations: []Violation{}, Warnings: []string{}, Notes: []string{},
	}
	keys := slices.SortedFunc(maps.Keys(c.tallies), func(a, b tallied) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), rank(a.severity)-rank(b.severity))
	})
	for _, key := range keys {
		row := c.tallies[key].Rule
		if known, err := rules.Find(key.rule); err == nil {
			row.Title = known.Title
		}
		r.Rules = append(r.Rules, row)
	}
	for _, change := range changes() {
		for _, key := range keys {
			r.Violations = append(r.Violations, c.tallies[key].violations[change]...)
		}
	}
	return r
}

func rank(s validators.Severity) int {
	return slices.Index([]validators.Severity{validators.Deny, validators.Warn, validators.Audit}, s)
}

// First is the first finding that is new and rejects, in the order of the objects; nil if there is none.
func (r *Report) First() *Violation { return r.first }

// Changes reports whether anything is new or gone.
func (r *Report) Changes() bool {
	return slices.ContainsFunc(r.Rules, func(row Rule) bool { return row.New+row.Gone > 0 })
}
