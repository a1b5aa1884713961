package explanation

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jstemmer/go-junit-report/v2/junit"
	sarif "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/validators"
)

// inFile is an explanation of an object of a file.
func inFile(file, name string, findings ...Finding) *Explanation {
	return &Explanation{
		Source: file + ": document 1", Object: Object{Kind: "VirtualMachine", Namespace: "n", Name: name}, Allowed: len(findings) == 0, Findings: findings,
		written: manifests.Document{Source: file, File: file, Index: 1, Object: &unstructured.Unstructured{}},
	}
}

func finding(severity validators.Severity, rule string, err *field.Error, remedy string) Finding {
	return Finding{Finding: &validators.Finding{Rule: rule, Severity: severity, Error: err, Remedy: remedy}}
}

// at is the path of a field.
func at(path string) *field.Path { return field.NewPath(path) }

// invalid is an error without a value.
func invalid(path, detail string) *field.Error {
	return field.Invalid(at(path), field.OmitValueType{}, detail)
}

// reported are explanations with all that a report may meet.
func reported() []*Explanation {
	deny := finding(validators.Deny, "arm64-a", invalid("spec.a", "\"]]>\" <&\x00\x1b[1m"), "Do <this> & that.")
	deny.Position = manifests.Position{Line: 3, Column: 5}
	warn := finding(validators.Warn, "disk-b", field.Required(at("spec.b"), ""), "")
	warn.Position = manifests.Position{Line: 1, Column: 1}
	unknown := finding(validators.Deny, "of-tomorrow", field.Forbidden(at("spec.running"), ""), "Wait.")
	audit := finding(validators.Audit, "policy/cap", invalid("spec.c", ""), "Less.")
	audit.Position = manifests.Position{Line: 2, Column: 4}
	second := inFile("dir/a b#1.yaml", "two", deny, unknown)
	second.Warnings = []string{"unknown field\nspec.x"}
	stdin := inFile("", "three", deny)
	stdin.written.Source, stdin.Source = "standard input", "standard input: document 1"
	fine := inFile("dir/a b#1.yaml", "fine", audit)
	fine.Allowed = true
	return []*Explanation{inFile("/abs/vm.yaml", "one", deny, warn), second, stdin, fine}
}

// unreadable are documents that cannot be read: of a file that also has others, and of standard input.
func unreadable() []Unreadable {
	stdin := manifests.Unreadable{Document: manifests.Document{Source: "standard input"}, Err: errors.New("must be smaller")}
	return Unreadables([]manifests.Unreadable{
		stdin,
		{Document: manifests.Document{Source: "dir/a b#1.yaml", File: "dir/a b#1.yaml", Index: 2}, Position: manifests.Position{Line: 7, Column: 2}, Err: errors.New("is <a text>\n\x1b")},
		stdin,
	})
}

func rules() validators.Table {
	return validators.Table{
		{ID: "arm64-a", Title: "A is <b>", Severity: validators.Deny, Remedy: "Do that.", Security: true},
		{ID: "disk-b", Title: "Disks", Severity: validators.Warn, Remedy: "Roll."},
		{ID: "policy/cap", Title: "Memory", Severity: validators.Audit, Remedy: "Less."},
	}
}

// checkSARIF validates a log with the schema of the standard, which a library has, and rejects unknown fields.
func checkSARIF(t *testing.T, log []byte) *sarif.Report {
	t.Helper()
	report := sarif.Report{}
	decoder := json.NewDecoder(bytes.NewReader(log))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil {
		t.Fatal(err)
	}
	filled, err := sarif.FromBytes(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range filled.Runs { // what the library writes although it is not set, and the schema rejects
		run.Language, run.Tool.Driver.Language, run.NewlineSequences = "en-US", "en-US", []string{"\n"}
	}
	if err := filled.Validate(); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	return &report
}

func TestSARIF(t *testing.T) {
	var out bytes.Buffer
	if err := WriteSARIF(&out, reported(), unreadable(), rules(), "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	report := checkSARIF(t, out.Bytes())
	run := report.Runs[0]
	if len(report.Runs) != 1 || *run.Tool.Driver.Name != "virtward" || *run.Tool.Driver.Version != "v1.2.3" || *run.ColumnKind != "unicodeCodePoints" {
		t.Errorf("the run is %+v", run)
	}
	var described []string
	for _, rule := range run.Tool.Driver.Rules {
		text := strings.Join([]string{*rule.ID, *rule.ShortDescription.Text, *rule.Help.Text, rule.DefaultConfiguration.Level}, "|")
		if rule.Properties != nil {
			text += "|" + strings.Join(rule.Properties.Tags, ",")
		}
		described = append(described, text)
	}
	wantRules := []string{
		"arm64-a|A is <b>|Do that. See: kubectl virtward rules arm64-a|error|security",
		"disk-b|Disks|Roll. See: kubectl virtward rules disk-b|warning",
		"of-tomorrow|of-tomorrow|Wait. See: kubectl virtward rules of-tomorrow|error",
		"policy/cap|Memory|Less. See: kubectl get virtualmachinepolicy cap -o yaml|note",
		"unreadable|A document can be read|Correct the document. The others are evaluated.|error",
	}
	if diff := cmp.Diff(wantRules, described); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	type place struct {
		Rule, Level, Text, URI, Field string
		Index, Line, Column           int
	}
	var got []place
	for _, r := range run.Results {
		p := place{Rule: *r.RuleID, Index: r.RuleIndex, Level: r.Level, Text: *r.Message.Text, Field: *r.Locations[0].LogicalLocations[0].FullyQualifiedName}
		if physical := r.Locations[0].PhysicalLocation; physical != nil {
			p.URI, p.Line, p.Column = *physical.ArtifactLocation.URI, *physical.Region.StartLine, *physical.Region.StartColumn
		}
		got = append(got, p)
	}
	const text = "spec.a: Invalid value: \"]]>\" <&  [1m\nDo <this> & that."
	want := []place{
		{Rule: "arm64-a", Level: "error", Text: text, URI: "file:///abs/vm.yaml", Field: "VirtualMachine n/one spec.a", Line: 3, Column: 5},
		{Rule: "disk-b", Index: 1, Level: "warning", Text: "spec.b: Required value", URI: "file:///abs/vm.yaml", Field: "VirtualMachine n/one spec.b", Line: 1, Column: 1},
		{Rule: "arm64-a", Level: "error", Text: text, URI: "dir/a%20b%231.yaml", Field: "VirtualMachine n/two spec.a", Line: 3, Column: 5},
		{Rule: "of-tomorrow", Index: 2, Level: "error", Text: "spec.running: Forbidden\nWait.", Field: "VirtualMachine n/two spec.running"},
		{Rule: "arm64-a", Level: "error", Text: text, Field: "VirtualMachine n/three spec.a"},
		{Rule: "policy/cap", Index: 3, Level: "note", Text: "spec.c: Invalid value\nLess.", URI: "dir/a%20b%231.yaml", Field: "VirtualMachine n/fine spec.c", Line: 2, Column: 4},
		{Rule: "unreadable", Index: 4, Level: "error", Text: "is <a text>  ", URI: "dir/a%20b%231.yaml", Field: "dir/a b#1.yaml: document 2", Line: 7, Column: 2},
		{Rule: "unreadable", Index: 4, Level: "error", Text: "must be smaller", Field: "standard input"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestSARIFOfNothing(t *testing.T) {
	var out bytes.Buffer
	if err := WriteSARIF(&out, []*Explanation{inFile("a.yaml", "fine")}, nil, rules(), "development"); err != nil {
		t.Fatal(err)
	}
	checkSARIF(t, out.Bytes())
	if !strings.Contains(out.String(), `"results": []`) {
		t.Errorf("a run that found nothing has to say so:\n%s", out.String())
	}
}

func TestJUnit(t *testing.T) {
	var out bytes.Buffer
	if err := WriteJUnit(&out, reported(), unreadable()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), `<?xml version="1.0" encoding="UTF-8"?>`+"\n<testsuites ") {
		t.Errorf("it begins with %.60s", out.String())
	}
	got := junit.Testsuites{}
	if err := xml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	const cause = "rejected: spec.a: Invalid value: \"]]>\" <&  [1m [virtward/arm64-a]\n  Do <this> & that.\n"
	one := "VirtualMachine n/%s is rejected: a finding at spec.a"
	failed := func(name, source, message, data string) junit.Testcase {
		return junit.Testcase{Name: "VirtualMachine n/" + name, Classname: source + ": document 1", Time: "0", Failure: &junit.Result{Message: strings.ReplaceAll(message, "%s", name), Type: "Rejected", Data: data}}
	}
	first := failed("one", "/abs/vm.yaml", one, "/abs/vm.yaml:3:5: "+cause)
	first.SystemOut = &junit.Output{Data: "\n/abs/vm.yaml:1:1: warning: spec.b: Required value [virtward/disk-b]\n"}
	second := failed("two", "dir/a b#1.yaml", "VirtualMachine n/two is rejected: 2 findings, the first one at spec.a", "dir/a b#1.yaml:3:5: "+cause+"rejected: spec.running: Forbidden [virtward/of-tomorrow]\n  Wait.\n")
	second.SystemOut = &junit.Output{Data: "\nwarning: unknown field spec.x\n"}
	fine := junit.Testcase{Name: "VirtualMachine n/fine", Classname: "dir/a b#1.yaml: document 1", Time: "0", SystemOut: &junit.Output{Data: "\ndir/a b#1.yaml:2:4: audit: spec.c: Invalid value [virtward/policy/cap]\n  Less.\n"}}
	inThem := junit.Testcase{Name: "dir/a b#1.yaml: document 2", Classname: "dir/a b#1.yaml: document 2", Time: "0", Error: &junit.Result{Type: "Unreadable", Message: "is <a text>  ", Data: "dir/a b#1.yaml:7:2: is <a text>  \n"}}
	whole := junit.Testcase{Name: "standard input", Classname: "standard input", Time: "0", Error: &junit.Result{Type: "Unreadable", Message: "must be smaller", Data: "must be smaller\n"}}
	want := junit.Testsuites{Name: "virtward", Tests: 6, Failures: 3, Errors: 2, Suites: []junit.Testsuite{
		{Name: "/abs/vm.yaml", File: "/abs/vm.yaml", Time: "0", Tests: 1, Failures: 1, Testcases: []junit.Testcase{first}},
		{Name: "dir/a b#1.yaml", File: "dir/a b#1.yaml", Time: "0", ID: 1, Tests: 3, Failures: 1, Errors: 1, Testcases: []junit.Testcase{second, fine, inThem}},
		{Name: "standard input", Time: "0", ID: 2, Tests: 2, Failures: 1, Errors: 1, Testcases: []junit.Testcase{failed("three", "standard input", one, "standard input:3:5: "+cause), whole}},
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(junit.Testsuites{}, "XMLName"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFindingsOf(t *testing.T) {
	read, err := manifests.Read("f", strings.NewReader("kind: VirtualMachine\nspec:\n  running: true\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []Document
	for _, f := range FindingsOf(read[0], []validators.Finding{
		{Rule: "a", Severity: validators.Warn, Error: field.Invalid(field.NewPath("spec", "running"), true, "is old"), Remedy: "r", Layer: "l", Effective: "e"},
		{Rule: "b", Severity: validators.Deny, Error: field.Required(field.NewPath("spec", "template"), "is needed")},
	}) {
		got = append(got, f.Document())
	}
	want := []Document{
		{Rule: "a", Severity: "Warn", Field: "spec.running", Type: "FieldValueInvalid", Value: true, Message: "not set; the default is true: is old (filled by l)", Remedy: "r", Layer: "l", Effective: "e", Line: 3, Column: 3},
		{Rule: "b", Severity: "Deny", Field: "spec.template", Type: "FieldValueRequired", Message: "Required value: is needed", Line: 2, Column: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// unencodable is a value that JSON rejects.
type unencodable struct{}

func (unencodable) MarshalJSON() ([]byte, error) { return nil, errors.New("no") }
func (unencodable) String() string               { return "as a text" }

func TestValueOf(t *testing.T) {
	for _, c := range []struct {
		name string
		err  *field.Error
		want any
	}{
		{"a text", field.Invalid(nil, "<a>", ""), "<a>"},
		{"an empty text", field.Invalid(nil, "", ""), ""},
		{"a number", field.Invalid(nil, uint32(7), ""), int64(7)},
		{"a quantity", field.Invalid(nil, resource.MustParse("4Gi"), ""), "4Gi"},
		{"an object", field.Invalid(nil, map[string]string{"a": "b"}, ""), map[string]any{"a": "b"}},
		{"nothing", field.Invalid(nil, nil, ""), nil},
		{"none to speak of", &field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}}, nil},
		{"something missing", field.Required(nil, ""), nil},
		{"something forbidden", field.Forbidden(nil, ""), nil},
		{"no JSON", field.Invalid(nil, unencodable{}, ""), "as a text"},
	} {
		if diff := cmp.Diff(c.want, valueOf(c.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	f := finding(validators.Deny, "a", invalid("spec", strings.Repeat("ä", 1000)), "")
	if got := []rune(f.Short()); len(got) != maxMessage || got[maxMessage-1] != '…' {
		t.Errorf("%d characters: %s", len(got), string(got))
	}
}
