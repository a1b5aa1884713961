package sarif

import (
	"cmp"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/virtward/virtward/plugins"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// standard is the URL of the schema of SARIF 2.1.0.
const standard = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// The part of SARIF 2.1.0 that findings need. A library for all of SARIF also writes every unset field, forty lines for
// each finding. The tests validate the log with the schema of the standard.
type (
	log struct {
		Schema  string `json:"$schema"`
		Version string `json:"version"`
		Runs    []run  `json:"runs"`
	}
	run struct {
		Tool       tool     `json:"tool"`
		ColumnKind string   `json:"columnKind"`
		Results    []result `json:"results"`
	}
	tool struct {
		Driver driver `json:"driver"`
	}
	driver struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Rules   []rule `json:"rules"`
	}
	rule struct {
		ID                   string      `json:"id"`
		ShortDescription     text        `json:"shortDescription"`
		FullDescription      text        `json:"fullDescription"`
		Help                 text        `json:"help"`
		HelpURI              string      `json:"helpUri,omitempty"`
		DefaultConfiguration level       `json:"defaultConfiguration"`
		Properties           *properties `json:"properties,omitempty"`
	}
	text struct {
		Text string `json:"text"`
	}
	level struct {
		Level string `json:"level"`
	}
	properties struct {
		Tags []string `json:"tags"`
	}
	result struct {
		RuleID        string        `json:"ruleId"`
		RuleIndex     int           `json:"ruleIndex"`
		Level         string        `json:"level"`
		Message       text          `json:"message"`
		Locations     []location    `json:"locations"`
		BaselineState Baseline      `json:"baselineState,omitempty"`
		Suppressions  []suppression `json:"suppressions,omitempty"`
	}
	suppression struct {
		Kind          string `json:"kind"`
		Status        string `json:"status"`
		Justification string `json:"justification"`
	}
	location struct {
		PhysicalLocation *physicalLocation `json:"physicalLocation,omitempty"`
		LogicalLocations []logicalLocation `json:"logicalLocations"`
	}
	physicalLocation struct {
		ArtifactLocation artifactLocation `json:"artifactLocation"`
		Region           region           `json:"region"`
	}
	artifactLocation struct {
		URI string `json:"uri"`
	}
	region struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
	logicalLocation struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
		Kind               string `json:"kind"`
	}
)

// Result is a finding of a rule at a field.
type Result struct {
	// Rule is the id of the rule, and Remedy is its remedy.
	Rule, Remedy string
	Severity     validators.Severity
	// Text is the message.
	Text string
	// Name is the location in words: an object and a field.
	Name string
	// File, Line and Column are the position, from 1. Without a file, the name is the only location.
	File         string
	Line, Column int
	// Baseline compares the result with another run; empty without one.
	Baseline Baseline
	// Suppression says why the result has no effect; empty if it has one.
	Suppression string
}

// Baseline is the state of a result compared with another run.
type Baseline string

// The states of the standard.
const (
	New       Baseline = "new"
	Unchanged Baseline = "unchanged"
	Absent    Baseline = "absent"
)

// Report is a log to which results are added.
type Report struct {
	rules   validators.Table
	indices map[string]int
	run     run
}

// NewReport returns an empty log. The rules describe the results. The version is that of the program.
func NewReport(rules validators.Table, version string) *Report {
	return &Report{rules: rules, indices: map[string]int{}, run: run{
		Tool:       tool{Driver: driver{Name: "virtward", Version: version, Rules: []rule{}}},
		ColumnKind: "unicodeCodePoints",
		Results:    []result{},
	}}
}

// Add appends a result. Results of standard input and of the cluster have no position, only a name.
func (r *Report) Add(found Result) {
	index, known := r.indices[found.Rule]
	if !known {
		index = len(r.run.Tool.Driver.Rules)
		r.indices[found.Rule] = index
		r.run.Tool.Driver.Rules = append(r.run.Tool.Driver.Rules, r.describe(&found))
	}
	at := location{LogicalLocations: []logicalLocation{{FullyQualifiedName: found.Name, Kind: "property"}}}
	if found.File != "" && found.Line > 0 {
		at.PhysicalLocation = &physicalLocation{artifactLocation{uriOf(found.File)}, region{found.Line, found.Column}}
	}
	added := result{
		RuleID: found.Rule, RuleIndex: index, Level: levelOf(found.Severity), Message: text{found.Text}, Locations: []location{at},
		BaselineState: found.Baseline,
	}
	if found.Suppression != "" { // an object outside the file decides on it
		added.Suppressions = []suppression{{Kind: "external", Status: "accepted", Justification: found.Suppression}}
	}
	r.run.Results = append(r.run.Results, added)
}

// Write writes the log.
func (r *Report) Write(w io.Writer) error {
	return texts.WriteJSON(w, log{Schema: standard, Version: "2.1.0", Runs: []run{r.run}})
}

// describe returns the description of the rule of a result.
func (r *Report) describe(found *Result) rule {
	known, err := r.rules.Find(found.Rule)
	if err != nil { // the table lacks the rule
		known = validators.Rule{ID: found.Rule, Severity: found.Severity, Remedy: found.Remedy}
	}
	title := cmp.Or(known.Title, known.ID)
	command, page := describedAt(known.ID)
	see := known.Remedy
	if command != "" {
		see = strings.TrimSpace(see + " See: " + command)
	}
	described := rule{
		ID: known.ID, ShortDescription: text{title}, FullDescription: text{title + "."},
		Help:                 text{see},
		DefaultConfiguration: level{levelOf(known.Severity)},
	}
	if page != "" {
		described.HelpURI = urlOf(page, r.run.Tool.Driver.Version)
	}
	if known.Security {
		described.Properties = &properties{Tags: []string{"security"}}
	}
	return described
}

// describedAt returns the command that describes a rule, and its page below docs/; both can be empty.
func describedAt(id string) (command, page string) {
	policy, ofPolicy := strings.CutPrefix(id, policies.RulePrefix)
	switch {
	case id == "unreadable":
		return "", "explain-schema.md"
	case ofPolicy:
		return "kubectl get virtualmachinepolicy " + policy + " -o yaml", ""
	case strings.HasPrefix(id, policytest.LintPrefix):
		return "kubectl virtward policy lint --help", "policy-lint.md"
	case id == plugins.Unreadable, slices.ContainsFunc(plugins.Rules(), func(r plugins.Rule) bool { return r.ID == id }):
		return "kubectl virtward plugin lint --help", "plugins.md"
	}
	return "kubectl virtward rules " + id, "rules/" + id + ".md"
}

// released matches the versions of releases, each of which is a tag of the repository.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// urlOf is the URL of a page: that of a release, or the newest one for other versions of the program.
func urlOf(page, version string) string {
	at := "main"
	if released.MatchString(version) {
		at = version
	}
	return "https://github.com/virtward/virtward/blob/" + at + "/docs/" + page
}

func levelOf(severity validators.Severity) string {
	switch severity {
	case validators.Deny:
		return "error"
	case validators.Audit:
		return "note"
	}
	return "warning"
}

// uriOf returns the URI of a file: relative to the current directory, unless the path is absolute.
func uriOf(file string) string {
	uri := url.URL{Path: filepath.ToSlash(filepath.Clean(file))}
	if filepath.IsAbs(file) {
		uri.Scheme = "file"
	}
	return uri.String()
}
