package conformance

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/conformance/documented"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/hypervisors"
)

var update = flag.Bool("update", false, "write the measured table into docs/internals/conformance.md")

// page documents the agreement and every difference; the tests hold it to the truth.
const page documented.Page = "../docs/internals/conformance.md"

func newPipeline(t testing.TB) *effective.Pipeline {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	return effective.NewPipeline(registry)
}

func replayAll(t testing.TB) *Report {
	t.Helper()
	report := NewReport()
	for _, name := range []string{"admission.jsonl", "instancetype.jsonl", "panics.jsonl"} {
		file, err := os.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := report.Replay(newPipeline(t), file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return report
}

func TestAgreement(t *testing.T) {
	report := replayAll(t)
	total := report.Total()
	for _, r := range []struct {
		name  string
		ratio Ratio
	}{{"mutated", total.Mutated}, {"allowed", total.Allowed}, {"causes", total.Causes}, {"expand", total.Expand}} {
		if r.ratio.Of == 0 || r.ratio.Share() < 0.98 {
			t.Errorf("%s: %s agree, which is below 98 %%", r.name, r.ratio)
		}
	}
	for _, area := range report.Areas() {
		if area.Cases < 10 || area.Informative {
			continue
		}
		for _, ratio := range []Ratio{area.Mutated, area.Allowed, area.Expand} {
			if ratio.Share() < 0.95 {
				t.Errorf("area %s: %s agree, which is below 95 %%", area.Name, ratio)
			}
		}
	}
}

// TestDifferencesAreDocumented keeps the page complete: a case that begins to differ, or ceases to, is seen.
func TestDifferencesAreDocumented(t *testing.T) {
	report := replayAll(t)
	for heading, seen := range map[string][]string{"Differences": report.Differing(), "Errors that Virtward reports earlier": report.Earlier} {
		slices.Sort(seen)
		if diff := cmp.Diff(page.Rows(t, "## "+heading), seen); diff != "" {
			t.Errorf("%s: cases (-documented +seen):\n%s", heading, diff)
		}
	}
}

func TestMeasuredTable(t *testing.T) {
	report := replayAll(t)
	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	table.WriteString(report.Summary() + "\n")
	page.Figures(t, "## Measured", table.String(), *update)
}

// TestStatus compares what completing puts into the status of a VMI. The phase and the user that runs
// the guest are KubeVirt's own book-keeping.
func TestStatus(t *testing.T) {
	compared := 0
	for _, c := range admissionCases(t) {
		if len(c.Expect.Extra.Status) == 0 || c.Area == informativeArea {
			continue
		}
		verdict, err := c.evaluate(newPipeline(t))
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		var want v1.VirtualMachineInstanceStatus
		if err := json.Unmarshal(c.Expect.Extra.Status, &want); err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		got := verdict.VMI.Status
		if diff := cmp.Diff(want.CurrentCPUTopology, got.CurrentCPUTopology); diff != "" {
			t.Errorf("%s: status.currentCPUTopology (-want +got):\n%s", c.ID, diff)
		}
		if diff := cmp.Diff(want.Memory, got.Memory); diff != "" {
			t.Errorf("%s: status.memory (-want +got):\n%s", c.ID, diff)
		}
		compared++
	}
	if compared < 900 {
		t.Errorf("only %d cases were compared", compared)
	}
}

// TestFindingsSayNothingFilledWhatTheAuthorWrote: a finding names a layer, or says that a field is not set, only where the
// object has no such field.
func TestFindingsSayNothingFilledWhatTheAuthorWrote(t *testing.T) {
	pipeline, layers := newPipeline(t), 0
	for _, c := range admissionCases(t) {
		verdict, err := c.evaluate(pipeline)
		if err != nil {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal(c.Object, &object); err != nil {
			t.Fatal(err)
		}
		for i := range verdict.Findings {
			f := &verdict.Findings[i]
			text := f.Text()
			if !strings.Contains(text, "(filled by ") && !strings.HasPrefix(text, "not set") {
				continue
			}
			layers++
			if at, _ := fieldpath.Get(object, fieldpath.Split(f.Error.Field)); at != nil && at != "" {
				t.Errorf("%s: %s is %v: %s", c.ID, f.Error.Field, at, text)
			}
		}
	}
	if layers < 20 {
		t.Errorf("only %d findings are about fields that are not set", layers)
	}
}

// TestPanics replays inputs on which KubeVirt crashes.
func TestPanics(t *testing.T) {
	file, err := os.Open("testdata/panics.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	report := NewReport()
	if err := report.Replay(newPipeline(t), file); err != nil {
		t.Fatal(err)
	}
	if areas := report.Areas(); len(areas) != 1 || areas[0].Cases != 6 {
		t.Errorf("areas: %+v", areas)
	}
	for _, d := range report.Differences {
		t.Errorf("%s: %s", d.Case, d.Text)
	}
}

func admissionCases(t *testing.T) []AdmissionCase {
	t.Helper()
	data, err := os.ReadFile("testdata/admission.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var cases []AdmissionCase
	for decoder := json.NewDecoder(bytes.NewReader(data)); decoder.More(); {
		var c AdmissionCase
		if err := decoder.Decode(&c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

func TestReplaySaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":      {"{\n", "line 1: not a JSON object: unexpected end of JSON input"},
		"neither":      {"\n" + `{"id":"a"}` + "\n", "line 2: neither an admission case, which has an object, nor an instancetype case, which has a vmi"},
		"wrong type":   {`{"object":{},"area":1}`, "line 1: not an admission case: json: cannot unmarshal number into Go struct field AdmissionCase.area of type string"},
		"wrong expand": {`{"vmi":{},"area":1}`, "line 1: not an instancetype case: json: cannot unmarshal number into Go struct field InstancetypeCase.area of type string"},
	} {
		t.Run(name, func(t *testing.T) {
			err := NewReport().Replay(newPipeline(t), strings.NewReader(c.text))
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestReplayCountsDifferences shows that a wrong answer is seen, and how.
func TestReplayCountsDifferences(t *testing.T) {
	const cases = `{"id":"right","area":"a","kind":"VirtualMachine","object":{"spec":{"template":{"spec":{"domain":{"devices":{}}}}}},"expect":{"mutated":{"template":{"metadata":{"annotations":{"kubevirt.io/pci-topology-version":"v3"}},"spec":{"architecture":"amd64","domain":{"devices":{},"firmware":{"uuid":"GENERATED"},"machine":{"type":"q35"},"resources":{}}}}}}}
{"id":"wrong","area":"a","kind":"VirtualMachine","object":{"spec":{"template":{"spec":{"domain":{"devices":{}}}}}},"expect":{"mutated":{"template":{"spec":{"architecture":"s390x","domain":{"devices":{},"machine":{"type":"q35"}}}}},"allowed":false,"causes":[{"field":"spec.running","type":"FieldValueInvalid"},{"field":"spec.nothing","type":"FieldValueInvalid"}]}}
{"id":"unknown","area":"b","kind":"Pod","object":{},"expect":{"mutated":{}}}
{"id":"not-compared","area":"b","kind":"VirtualMachine","object":{"spec":7},"expect":{"mutated":null}}
`
	report := NewReport()
	if err := report.Replay(newPipeline(t), strings.NewReader(cases)); err != nil {
		t.Fatal(err)
	}
	want := []Difference{
		{Area: "a", Case: "wrong", What: "mutated", Text: `spec.template.spec.architecture: want "s390x", got "amd64"`},
		{Area: "a", Case: "wrong", What: "admitted", Text: "missing: spec.nothing FieldValueInvalid"},
		{Area: "b", Case: "unknown", What: "mutated", Text: `the pipeline does not take it: kind: "Pod" is not VirtualMachine or VirtualMachineInstance`},
		{Area: "b", Case: "unknown", What: "admitted", Text: `kind: "Pod" is not VirtualMachine or VirtualMachineInstance`},
		{Area: "b", Case: "not-compared", What: "admitted", Text: "object: json: cannot unmarshal number into Go struct field VirtualMachine.spec of type v1.VirtualMachineSpec"},
	}
	if diff := cmp.Diff(want, report.Differences); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if got, want := report.Summary(), "total: mutated 1/3 allowed 2/4 causes 0/1 expand 0/0"; got != want {
		t.Errorf("summary: got %s, want %s", got, want)
	}
}

// TestEqualErrorsOfAList holds that each of several equal errors is a finding, also where KubeVirt names only the first.
func TestEqualErrorsOfAList(t *testing.T) {
	networks := func(count int) json.RawMessage {
		var names, interfaces []string
		for i := range count {
			names = append(names, fmt.Sprintf(`{"name": "n%d", "multus": {"networkName": ""}}`, i))
			interfaces = append(interfaces, fmt.Sprintf(`{"name": "n%d", "bridge": {}}`, i))
		}
		return json.RawMessage(`{"metadata": {"name": "a", "namespace": "default"}, "spec": {"domain": {"memory": {"guest": "1Gi"}, "devices": {"interfaces": [` +
			strings.Join(interfaces, ", ") + `]}}, "networks": [` + strings.Join(names, ", ") + `]}}`)
	}
	for _, count := range []int{1, 2, 12} {
		c := &AdmissionCase{Kind: kindVMI, Operation: "CREATE", Object: networks(count), Expect: AdmissionAnswer{Causes: []Cause{{Field: "spec.networks[0]", Type: required}}}}
		findings, err := c.Findings(newPipeline(t))
		if err != nil {
			t.Fatal(err)
		}
		var at []string
		for i := range findings {
			if findings[i].Rule == "network-multus-name" {
				at = append(at, findings[i].Where())
			}
		}
		if len(at) != count {
			t.Errorf("%d networks: findings at %q", count, at)
		}
		causes, _, err := c.Causes(newPipeline(t))
		if err != nil {
			t.Fatal(err)
		}
		if found := c.CauseDifferences(causes); len(found) > 0 {
			t.Errorf("%d networks: %q", count, found)
		}
		c.Expect.Causes = []Cause{{Field: "spec.networks[0].name", Type: required}}
		if found := c.CauseDifferences(causes); len(found) != 2 {
			t.Errorf("%d networks, another cause: %q", count, found)
		}
	}
}
