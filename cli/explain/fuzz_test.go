package explain_test

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jstemmer/go-junit-report/v2/junit"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/validators"
)

// FuzzExplain: for any input, explain does not panic, its errors are one line, and its outputs agree.
func FuzzExplain(f *testing.F) {
	for _, pattern := range []string{"../testdata/*.yaml", "../testdata/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds: %v", err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	for _, seed := range []string{
		"", "---", "null", "{}", "[", "\x00", "a: &a [*a]", "kind: List\nitems: 3", "{\"a\":1}{\"a\":2}{",
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec: {template: {spec: {domain: {memory: {guest: 1e99999}}}}}",
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec: {instancetype: {inferFromVolume: a}, template: {}}",
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: \"a\\n# b\"}\nspec: {volumes: [{name: \"\\u2028\"}]}",
		// Findings in lists, at what is not there, with values of all kinds, and more than a few.
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nspec: {networks: [{name: a}, {name: a}, {}], volumes: [{}, {name: \"]]>\"}], domain: {cpu: {cores: 3, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}, devices: {disks: [{disk: {bus: \"# \\u0085\"}, name: x}, {lun: {}, cdrom: {}}], interfaces: [{name: a, bridge: {}, sriov: {}, macAddress: x}]}}}",
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec: {running: true, runStrategy: \"\", liveUpdateFeatures: {}, dataVolumeTemplates: [{}], template: {metadata: {labels: {kubevirt.io/nodeName: n}}, spec: {architecture: s390x, nodeSelector: {\" \": \"?\"}}}}\n---\n" + clitest.VMWithSATA + clitest.RuleSettings("s", "Warn", ""),
		clitest.VM + clitest.MemoryPolicy("Audit", clitest.ForTeamA+clitest.ParamsFromConfigMap) + clitest.Policy("rego", `enforcement: Deny, rego: {module: "package a\ndeny contains \"b\""}`),
		clitest.VM + clitest.Policy("", "enforcement: Deny, match: {kinds: [a], operations: []}, params: {values: {a: 1}, schema: {type: 3}}, validations: [{expression: '\"', fieldPath: '['}]"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		results := map[string]clitest.Result{}
		for _, output := range outputs {
			got := clitest.Call(t, string(data), "explain", "-f", "-", "-o", output)
			switch {
			case strings.Contains(got.ErrOut, "this is a bug"):
				t.Fatalf("it panicked: %s", got.ErrOut)
			case got.Code != clitest.ExitOK && strings.Count(got.ErrOut, "error: ") == 0:
				t.Fatalf("code %d without an error", got.Code)
			case got.Code != clitest.ExitOK && got.Code != clitest.ExitFailed:
				t.Fatalf("code %d: %s", got.Code, got.ErrOut)
			case got.Code != results[outputs[0]].Code && len(results) > 0:
				t.Fatalf("-o %s ends with code %d, and another one does not", output, got.Code)
			}
			results[output] = got
		}
		if results["json"].Out != "" {
			checkOutputs(t, results)
		}
	})
}

// document is the part of the output of -o json that the test reads.
type document struct {
	Kind      string
	Allowed   bool
	Effective map[string]any
	Findings  []struct{ Rule, Severity, Field string }
}

// checkOutputs compares all outputs with that of -o json.
func checkOutputs(t *testing.T, results map[string]clitest.Result) {
	t.Helper()
	var all []document
	if text := results["json"].Out; strings.HasPrefix(text, "{") {
		all = make([]document, 1)
		clitest.Decode(t, json.Unmarshal, text, &all[0])
	} else {
		clitest.Decode(t, json.Unmarshal, text, &all)
	}
	findings, rejected, unreadable := 0, 0, 0
	for _, e := range all {
		if e.Kind == "Unreadable" {
			unreadable++
			continue
		}
		denied := 0
		for _, f := range e.Findings {
			if f.Severity == "Deny" {
				denied++
			}
		}
		if e.Allowed != (denied == 0) {
			t.Fatalf("allowed %v with %d rejections", e.Allowed, denied)
		}
		if !e.Allowed {
			rejected++
		}
		findings += len(e.Findings)
		sorted := slices.IsSortedFunc(e.Findings, func(a, b struct{ Rule, Severity, Field string }) int {
			return cmp.Or(validators.ComparePaths(a.Field, b.Field), cmp.Compare(a.Rule, b.Rule))
		})
		if !sorted {
			t.Fatalf("the findings are not sorted by field and rule: %v", e.Findings)
		}
	}
	if (rejected+unreadable > 0) != (results["json"].Code == clitest.ExitFailed) {
		t.Fatalf("code %d with %d rejected virtual machines and %d unreadable documents", results["json"].Code, rejected, unreadable)
	}
	var log struct{ Runs []struct{ Results []any } }
	clitest.Decode(t, json.Unmarshal, results["sarif"].Out, &log)
	if n := len(log.Runs[0].Results); n != findings+unreadable {
		t.Fatalf("%d results in SARIF of %d findings and %d unreadable documents", n, findings, unreadable)
	}
	if n := strings.Count(results["github"].Out, "\n"); n != findings+unreadable || n != strings.Count("\n"+results["github"].Out, "\n::") {
		t.Fatalf("%d commands for GitHub of %d findings and %d unreadable documents:\n%s", n, findings, unreadable, results["github"].Out)
	}
	var report junit.Testsuites
	clitest.Decode(t, xml.Unmarshal, results["junit"].Out, &report)
	if report.Tests != len(all) || report.Failures != rejected || report.Errors != unreadable {
		t.Fatalf("%d tests, %d failures and %d errors of %d virtual machines, %d of them rejected, %d unreadable", report.Tests, report.Failures, report.Errors, len(all), rejected, unreadable)
	}
	if len(all) == 1 && unreadable == 0 { // a text can have a separator of documents
		var effective map[string]any
		clitest.Decode(t, func(data []byte, into any) error { return yaml.Unmarshal(data, into) }, results["yaml"].Out, &effective)
		if diff := gocmp.Diff(all[0].Effective, effective); diff != "" {
			t.Fatalf("without its comments the YAML is not the JSON (-json +yaml):\n%s", diff)
		}
	}
}
