package explanation

import (
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"

	"github.com/virtward/virtward/validators"
)

// sarifSchema is the one that the standard publishes for its version 2.1.0.
const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// The part of SARIF 2.1.0 that findings need. A library for all of it writes every field that is not set as well,
// forty lines for each finding; the tests hold what is written here to the standard's own schema.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string           `json:"id"`
		ShortDescription     sarifText        `json:"shortDescription"`
		FullDescription      sarifText        `json:"fullDescription"`
		Help                 sarifText        `json:"help"`
		DefaultConfiguration sarifLevel       `json:"defaultConfiguration"`
		Properties           *sarifProperties `json:"properties,omitempty"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifProperties struct {
		Tags []string `json:"tags"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		PhysicalLocation *sarifPhysicalLocation `json:"physicalLocation,omitempty"`
		LogicalLocations []sarifLogicalLocation `json:"logicalLocations"`
	}
	sarifPhysicalLocation struct {
		ArtifactLocation sarifArtifactLocation `json:"artifactLocation"`
		Region           sarifRegion           `json:"region"`
	}
	sarifArtifactLocation struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
	sarifLogicalLocation struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
		Kind               string `json:"kind"`
	}
)

// WriteSARIF writes the findings as a SARIF log, with what the rules behind them say of themselves. A finding
// about a file stands at its line; one about standard input or the cluster has no place but its field.
func WriteSARIF(w io.Writer, explanations []*Explanation, rules validators.Table, version string) error {
	run := sarifRun{
		Tool:       sarifTool{Driver: sarifDriver{Name: "virtward", Version: version, Rules: []sarifRule{}}},
		ColumnKind: "unicodeCodePoints",
		Results:    []sarifResult{},
	}
	indices := map[string]int{}
	for _, e := range explanations {
		for i := range e.Findings {
			f := &e.Findings[i]
			index, known := indices[f.Rule]
			if !known {
				index = len(run.Tool.Driver.Rules)
				indices[f.Rule] = index
				run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRuleOf(rules, f))
			}
			run.Results = append(run.Results, e.sarifResult(f, index))
		}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(sarifLog{Schema: sarifSchema, Version: "2.1.0", Runs: []sarifRun{run}})
}

// sarifRuleOf describes the rule of a finding.
func sarifRuleOf(rules validators.Table, f *Finding) sarifRule {
	rule, err := rules.Find(f.Rule)
	if err != nil { // a rule of which only the finding is known
		rule = validators.Rule{ID: f.Rule, Title: f.Rule, Severity: f.Severity, Remedy: f.Remedy}
	}
	described := sarifRule{
		ID: rule.ID, ShortDescription: sarifText{rule.Title}, FullDescription: sarifText{rule.Title + "."},
		Help:                 sarifText{rule.Remedy + " See: kubectl virtward rules " + rule.ID},
		DefaultConfiguration: sarifLevel{levelOf(rule.Severity)},
	}
	if rule.Security {
		described.Properties = &sarifProperties{Tags: []string{"security"}}
	}
	return described
}

func levelOf(severity validators.Severity) string {
	if severity == validators.Deny {
		return "error"
	}
	return "warning"
}

func (e *Explanation) sarifResult(f *Finding, rule int) sarifResult {
	text := printable(f.Field) + ": " + f.text()
	if f.Remedy != "" {
		text += "\n" + printable(f.Remedy)
	}
	location := sarifLocation{LogicalLocations: []sarifLogicalLocation{{FullyQualifiedName: printable(e.Object.String() + " " + f.Field), Kind: "property"}}}
	if e.written.File != "" && f.Line > 0 {
		location.PhysicalLocation = &sarifPhysicalLocation{sarifArtifactLocation{uriOf(e.written.File)}, sarifRegion{f.Line, f.Column}}
	}
	return sarifResult{RuleID: f.Rule, RuleIndex: rule, Level: levelOf(f.Severity), Message: sarifText{text}, Locations: []sarifLocation{location}}
}

// uriOf is a file as a URI: relative to the present directory, unless it was named by an absolute path.
func uriOf(file string) string {
	uri := url.URL{Path: filepath.ToSlash(filepath.Clean(file))}
	if filepath.IsAbs(file) {
		uri.Scheme = "file"
	}
	return uri.String()
}
