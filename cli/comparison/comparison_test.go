package comparison

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jstemmer/go-junit-report/v2/junit"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/validators"
)

// found is a finding at spec.FIELD.
func found(rule string, severity validators.Severity, at, message string) validators.Finding {
	return validators.Finding{Rule: rule, Severity: severity, Error: field.Forbidden(field.NewPath("spec", at), message)}
}

func TestCompare(t *testing.T) {
	a, b := found("a", validators.Deny, "x", "one"), found("b", validators.Warn, "y", "two")
	moved := a
	moved.Error, moved.Effective = field.Forbidden(field.NewPath("spec", "instancetype"), "one"), "spec.x"
	for _, c := range []struct {
		name      string
		now, then []validators.Finding
		want      []string
	}{
		{name: "nothing"},
		{name: "nothing changes", now: []validators.Finding{a, b}, then: []validators.Finding{b, a}, want: []string{"stays b Warn two", "stays a Deny one"}},
		{name: "new", then: []validators.Finding{a}, want: []string{"new a Deny one"}},
		{name: "gone", now: []validators.Finding{a}, want: []string{"gone a Deny one"}},
		{name: "another severity", now: []validators.Finding{found("a", validators.Warn, "x", "one")}, then: []validators.Finding{a}, want: []string{"new a Deny one", "gone a Warn one"}},
		{name: "in other words", now: []validators.Finding{a}, then: []validators.Finding{found("a", validators.Deny, "x", "more")}, want: []string{"stays a Deny more"}},
		{name: "the same words first", now: []validators.Finding{a, found("a", validators.Deny, "x", "more")}, then: []validators.Finding{found("a", validators.Deny, "x", "most"), a}, want: []string{"stays a Deny most", "stays a Deny one"}},
		{name: "twice, then once", now: []validators.Finding{a, a}, then: []validators.Finding{a}, want: []string{"stays a Deny one", "gone a Deny one"}},
		{name: "once, then twice", now: []validators.Finding{a}, then: []validators.Finding{a, a}, want: []string{"stays a Deny one", "new a Deny one"}},
		{name: "elsewhere", now: []validators.Finding{a}, then: []validators.Finding{found("a", validators.Deny, "z", "one")}, want: []string{"new a Deny one", "gone a Deny one"}},
		{name: "reported at an instancetype", now: []validators.Finding{a}, then: []validators.Finding{moved}, want: []string{"stays a Deny one"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, x := range compare(c.now, c.then) {
				got = append(got, fmt.Sprintf("%s %s %s %s", x.change, x.finding.Rule, x.finding.Severity, x.finding.Error.Detail))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// counted is a report of n virtual machines, each of which has a new rejection, a warning that goes and an audit that
// stays.
func counted(c Counter, n int) *Report {
	for i := range n {
		d := manifests.Document{Source: "dir/vm.yaml", File: "dir/vm.yaml", Index: i + 1, Object: &unstructured.Unstructured{}}
		object := explanation.Object{Kind: "VirtualMachine", Namespace: "n", Name: fmt.Sprint("vm", i)}
		audit := found("policy/cap", validators.Audit, "c", "a|b <i>&_*")
		c.Add(d, object, []validators.Finding{found("w", validators.Warn, "b", "old"), audit}, []validators.Finding{found("d", validators.Deny, "a", "new\nline"), audit})
	}
	r := c.Report(validators.Table{{ID: "d", Title: "Some title", Severity: validators.Deny}})
	r.Assumed = append(r.Assumed, "--with a.yaml")
	return r
}

func TestCounts(t *testing.T) {
	r := counted(Counter{Max: 2}, 5)
	want := []Rule{
		{Rule: "d", Title: "Some title", Severity: "Deny", New: 5, NotReported: 3},
		{Rule: "policy/cap", Severity: "Audit", Stays: 5},
		{Rule: "w", Severity: "Warn", Gone: 5, NotReported: 3},
	}
	if diff := cmp.Diff(want, r.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	var shown []string
	for i := range r.Violations {
		shown = append(shown, fmt.Sprintf("%s %s %s", r.Violations[i].Change, r.Violations[i].Rule, r.Violations[i].Object.Name))
	}
	if diff := cmp.Diff([]string{"new d vm0", "new d vm1", "gone w vm0", "gone w vm1"}, shown); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if r.Evaluated != 5 || r.NewlyRejected != 5 || r.First() == nil || r.First().Object.Name != "vm0" {
		t.Errorf("%d evaluated, %d rejected, the first one %+v", r.Evaluated, r.NewlyRejected, r.First())
	}
	for limit, want := range map[int]int{0: 15, 1: 3} {
		if r := counted(Counter{Max: limit, Unchanged: true}, 5); len(r.Violations) != want {
			t.Errorf("with a limit of %d there are %d violations, want %d", limit, len(r.Violations), want)
		}
	}
}

// TestBounded keeps only the findings to show, however many virtual machines there are.
func TestBounded(t *testing.T) {
	c := Counter{Max: 3}
	for i := range 2000 {
		c.Add(manifests.Document{Object: &unstructured.Unstructured{}}, explanation.Object{}, nil, []validators.Finding{found("d", validators.Deny, "a", fmt.Sprint(i))})
	}
	if kept := len(c.tallies[key{"d", validators.Deny}].violations[New]); kept != 3 {
		t.Errorf("%d findings are kept", kept)
	}
	if r := c.Report(nil); r.Rules[0].New != 2000 || r.Rules[0].NotReported != 1997 {
		t.Errorf("counted %+v", r.Rules[0])
	}
}

func TestMarkdown(t *testing.T) {
	var out bytes.Buffer
	if err := counted(Counter{Max: 1, Unchanged: true}, 2).WriteMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	const want = `| stays | VirtualMachine n/vm0 | policy/cap | Audit | spec.c | Forbidden: a\|b &lt;i>&amp;\_\* |`
	if !strings.Contains(out.String(), want+"\n") || !strings.Contains(out.String(), "\n\n- d (Deny): 1 more: use --max 0 to show all\n") {
		t.Errorf("want %q in\n%s", want, out.String())
	}
}

func TestJUnit(t *testing.T) {
	var out bytes.Buffer
	if err := counted(Counter{Max: 1, Unchanged: true}, 2).WriteJUnit(&out); err != nil {
		t.Fatal(err)
	}
	var got junit.Testsuites
	if err := xml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	cases := got.Suites[0].Testcases
	if got.Tests != 3 || got.Failures != 1 || cases[0].Failure == nil {
		t.Fatalf("%d tests, %d failures in\n%s", got.Tests, got.Failures, out.String())
	}
	if f := cases[0].Failure; f.Message != "2 new, 0 gone, 0 stay" || f.Data != "new: VirtualMachine n/vm0: spec.a: Forbidden: new line [virtward/d]\n" {
		t.Errorf("the failure is %+v", f)
	}
	if o := cases[1].SystemOut; cases[1].Name != "policy/cap (Audit)" || o == nil || !strings.Contains(o.Data, "0 new, 0 gone, 2 stay\nstays: VirtualMachine n/vm0: spec.c: ") {
		t.Errorf("the second test is %+v", cases[1])
	}
}

func TestNothing(t *testing.T) {
	r := (&Counter{}).Report(nil)
	var table, markdown, junitXML, log, data bytes.Buffer
	for i, err := range []error{r.WriteTable(&table), r.WriteMarkdown(&markdown), r.WriteJUnit(&junitXML), r.WriteSARIF(&log, "v1"), r.WriteJSON(&data)} {
		if err != nil {
			t.Errorf("output %d: %v", i, err)
		}
	}
	if !strings.HasSuffix(table.String(), "\nNo findings.\n") || !strings.Contains(junitXML.String(), `tests="1" failures="0"`) {
		t.Errorf("table:\n%s\nJUnit:\n%s", table.String(), junitXML.String())
	}
	var fields map[string]any
	if err := json.Unmarshal(data.Bytes(), &fields); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"assumed", "rules", "violations", "warnings", "notes"} {
		if l, ok := fields[list].([]any); !ok || len(l) != 0 {
			t.Errorf("%s is %v, and has to be an empty list", list, fields[list])
		}
	}
}
