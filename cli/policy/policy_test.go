package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	standardsarif "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/policies/library"
)

// inFolder runs the test in a folder of its own, with files.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPolicyNew: a new policy is valid and passes its suite, and is never overwritten.
func TestPolicyNew(t *testing.T) {
	for _, language := range []string{"cel", "rego"} {
		t.Run(language, func(t *testing.T) {
			inFolder(t, nil)
			got := clitest.Call(t, "", "policy", "new", "my-cap", "--"+language, "--dir", "some/policies")
			want := clitest.Result{Out: "some/policies/my-cap/policy.yaml\nsome/policies/my-cap/suite.yaml\nTry it: kubectl virtward policy test some/policies/my-cap\n"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("new (-want +got):\n%s", diff)
			}
			got = clitest.Call(t, "", "policy", "test", "some/policies/my-cap", "--coverage", "--require-tests")
			if got.Code != clitest.ExitOK || !strings.HasPrefix(got.Out, "ok      some/policies/my-cap/suite.yaml  my-cap: 4 passed\ncoverage my-cap: ") || strings.Contains(got.Out, "never") || strings.Contains(got.Out, "not all") {
				t.Errorf("test: code %d, errors %q, output\n%s", got.Code, got.ErrOut, got.Out)
			}
			got = clitest.Call(t, "", "policy", "lint", "some", "--strict")
			if diff := cmp.Diff(clitest.Result{Out: "1 policy is valid\n"}, got); diff != "" {
				t.Errorf("lint (-want +got):\n%s", diff)
			}
			before, err := os.ReadFile("some/policies/my-cap/policy.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if got = clitest.Call(t, "", "policy", "new", "my-cap", "--rego", "--dir", "some/policies"); got.Code != clitest.ExitFailed || got.ErrOut != "error: some/policies/my-cap exists already\n" {
				t.Errorf("a second time: code %d, errors %q", got.Code, got.ErrOut)
			}
			if after, err := os.ReadFile("some/policies/my-cap/policy.yaml"); err != nil || string(after) != string(before) {
				t.Errorf("it was overwritten: %v", err)
			}
		})
	}
}

// TestPolicyNewFrom writes each policy of the library with another name: it is valid, passes its suite, and explains each of its
// parameters.
func TestPolicyNewFrom(t *testing.T) {
	inFolder(t, nil)
	for _, entry := range library.All() {
		got := clitest.Call(t, "", "policy", "new", "our-"+entry.Name, "--from", entry.Name, "--dir", "written")
		if !strings.HasSuffix(got.Out, "Try it: kubectl virtward policy test written/our-"+entry.Name+"\n") || got.Code != clitest.ExitOK {
			t.Fatalf("%s: %+v", entry.Name, got)
		}
		written, err := os.ReadFile("written/our-" + entry.Name + "/policy.yaml")
		if err != nil {
			t.Fatal(err)
		}
		text := string(written)
		if !strings.HasPrefix(text, "# Started from the policy "+entry.Name+" of Virtward's library: docs/policy-library.md#"+entry.Name+"\n") || !strings.Contains(text, "\n  name: our-"+entry.Name+"\n") {
			t.Errorf("%s begins with\n%.300s", entry.Name, text)
		}
		for _, p := range entry.Parameters {
			lines := strings.Split(text, "\n")
			if strings.Contains(text, "      # "+p.Name+": "+strings.Fields(p.Schema.Description)[0]) {
				continue // it has no value
			}
			at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "      "+p.Name+":") })
			if at < 1 || !strings.HasPrefix(lines[at-1], "      # ") || !strings.Contains(text, "      # "+strings.Fields(p.Schema.Description)[0]) {
				t.Errorf("%s: the parameter %s is not explained in\n%s", entry.Name, p.Name, text)
			}
		}
	}
	if got := clitest.Call(t, "", "policy", "lint", "written", "--strict"); got.Code != clitest.ExitOK {
		t.Errorf("lint: %+v", got)
	}
	if got := clitest.Call(t, "", "policy", "test", "written", "--require-tests"); got.Code != clitest.ExitOK || strings.Count(got.Out, "\nok ")+1 < len(library.All()) {
		t.Errorf("test: %+v", got)
	}
	const want = `    values:
      # The maximum memory of a VM, as a quantity. Type: string; default: "64Gi".
`
	if got := clitest.Call(t, "", "policy", "new", "--from", "memory-cap"); got.Code != clitest.ExitOK || !strings.Contains(got.Out, "memory-cap/policy.yaml\n") {
		t.Errorf("without a name: %+v", got)
	}
	if text, err := os.ReadFile("memory-cap/policy.yaml"); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, no %q in\n%s", err, want, text)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--from", "memory-caps"}, `there is no policy "memory-caps" in the library: policy install --list lists them`},
		{[]string{"a", "--from", "memory-cap", "--cel"}, "--from and a language exclude each other: a policy of the library has its language: see kubectl virtward policy new --help"},
		{[]string{"a", "b", "--from", "memory-cap"}, "add the name of one policy: see kubectl virtward policy new --help"},
		{[]string{"A", "--from", "memory-cap"}, `"A" is not a valid name of a policy`},
	} {
		if got := clitest.Call(t, "", append([]string{"policy", "new"}, c.args...)...); got.Code != clitest.ExitUsage || !strings.HasPrefix(got.ErrOut, "error: "+c.want) {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
}

// TestSuiteBeyond runs suites whose policies are outside of the current directory, by each relative path to them. Other objects
// there are not read, and neither are hidden files and links; no error has a part of them.
func TestSuiteBeyond(t *testing.T) {
	suite := func(policy, base string) string {
		return "apiVersion: policy.virtward.io/v1alpha1\nkind: Suite\nmetadata: {name: s}\ntests:\n- name: t\n  policies: [" + policy + "]\n  base: " + base + "\n  cases:\n  - {name: a, expect: {verdict: allowed}}\n"
	}
	inFolder(t, map[string]string{
		"rules/cap.yaml": capPolicy, "rules/.hidden.yaml": capPolicy, "rules/secret.yaml": "password: hunter2\n", "rules/broken.yaml": "password: [hunter2\n", "rules/key.pem": "hunter2",
		"rules/twice.yaml": strings.Replace(capPolicy, "spec:\n", "spec:\n  enforcement: Audit\n", 1), "rules/partly.yaml": capPolicy + "---\npassword: [hunter2\n",
		"suites/a/twice.yaml": suite("../../rules/twice.yaml", "vm.yaml"), "suites/a/partly.yaml": suite("../../rules/partly.yaml", "vm.yaml"),
		"suites/a/vm.yaml": clitest.VM, "suites/vm.yaml": clitest.VM,
		"suites/a/suite.yaml": suite("../../rules/cap.yaml", "vm.yaml"), "suites/a/dots.yaml": suite("./../a/../../rules/./cap.yaml", "vm.yaml"),
		"suites/a/base.yaml": suite("../../rules/cap.yaml", "../vm.yaml"), "suites/a/none.yaml": suite("../../rules/caps.yaml", "vm.yaml"),
		"suites/a/hidden.yaml": suite("../../rules/.hidden.yaml", "vm.yaml"), "suites/a/secret.yaml": suite("../../rules/secret.yaml", "vm.yaml"),
		"suites/a/broken.yaml": suite("../../rules/broken.yaml", "vm.yaml"), "suites/a/key.yaml": suite("../../rules/key.pem", "vm.yaml"),
		"suites/a/directory.yaml": suite("../../rules", "vm.yaml"), "suites/a/link.yaml": suite("../../rules/link.yaml", "vm.yaml"),
	})
	if err := os.Symlink("cap.yaml", "rules/link.yaml"); err != nil {
		t.Fatal(err)
	}
	t.Chdir("suites/a")
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"suite.yaml", "./suite.yaml", "../a/suite.yaml", "dots.yaml", folder + "/suite.yaml"} {
		if got := clitest.Call(t, "", "policy", "test", name); got.Code != clitest.ExitOK || got.Out != "ok      "+name+"  s: 1 passed\n" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	const advice = "; a suite can name policies there, but not other objects or directories: to read them, name a directory that has them and the suite"
	for name, want := range map[string]string{
		"base.yaml":      "../vm.yaml: it is outside of the current directory and of the directories that you name: name it on the command line" + advice,
		"none.yaml":      "../../rules/caps.yaml: no such file or directory",
		"hidden.yaml":    "../../rules/.hidden.yaml: its name, or that of its directory, begins with a dot: name it on the command line" + advice,
		"secret.yaml":    "../../rules/secret.yaml: has no VirtualMachinePolicy" + advice,
		"broken.yaml":    "../../rules/broken.yaml: has no VirtualMachinePolicy" + advice,
		"twice.yaml":     "../../rules/twice.yaml: document 1: line 6: spec.enforcement is already set in line 5",
		"partly.yaml":    "../../rules/partly.yaml: document 2 cannot be read" + advice,
		"key.yaml":       "../../rules/key.pem: it is not a .yaml, .yml or .json file: name it on the command line" + advice,
		"directory.yaml": "../../rules: it is not a .yaml, .yml or .json file: name it on the command line" + advice,
		"link.yaml":      "../../rules/link.yaml: it is not a file, but a link or a directory: name it on the command line" + advice,
	} {
		if got := clitest.Call(t, "", "policy", "test", name); got.Code != clitest.ExitUsage || !strings.Contains(got.Out, want+"\n") || strings.Contains(got.Out+got.ErrOut, "hunter2") {
			t.Errorf("%s: no %q in %+v", name, want, got)
		}
	}
	if got := clitest.Call(t, "", "policy", "test", "../.."); got.Code != clitest.ExitUsage || !strings.Contains(got.Out, "ok      ../../suites/a/base.yaml  s: 1 passed\n") {
		t.Errorf("a directory that has both: %+v", got)
	}
}

const (
	capPolicy = `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: cap}
spec:
  enforcement: Deny
  validations:
  - expression: quantity(vm.spec.domain.memory.guest).compareTo(quantity('8Gi')) <= 0
    message: at most 8Gi
    fieldPath: spec.domain.memory.guest
`
	capSuite = `apiVersion: policy.virtward.io/v1alpha1
kind: Suite
metadata: {name: cap}
tests:
- name: cap
  policies: [../policy.yaml]
  base:
    apiVersion: kubevirt.io/v1
    kind: VirtualMachine
    metadata: {name: db}
    spec: {runStrategy: Always, template: {spec: {domain: {memory: {guest: 4Gi}, devices: {}}}}}
  cases:
  - name: small
    expect: {verdict: allowed}
  - name: large
    patches: [{op: replace, path: /spec/template/spec/domain/memory/guest, value: 16Gi}]
    expect: {verdict: VERDICT}
`
)

// TestPolicyTest shows the exit codes and the output.
func TestPolicyTest(t *testing.T) {
	good, bad := strings.Replace(capSuite, "VERDICT", "denied", 1), strings.Replace(capSuite, "VERDICT", "allowed", 1)
	for _, c := range []struct {
		name  string
		files map[string]string
		args  []string
		want  clitest.Result
	}{
		{"all pass", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": good}, []string{"."}, clitest.Result{Out: "ok      t/s.yaml  cap: 2 passed\n"}},
		{"a file above", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": good, "here/x": ""}, []string{"here/../t/s.yaml"}, clitest.Result{Out: "ok      here/../t/s.yaml  cap: 2 passed\n"}},
		{"one fails", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": bad}, []string{"t"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: "error: 1 of 2 cases failed\n",
			Out: "--- FAILED: cap/large (t/s.yaml:15)\n    verdict: expected allowed, got denied\n" +
				"    found deny: spec.template.spec.domain.memory.guest: Invalid value: \"16Gi\": at most 8Gi [virtward/policy/cap]\n" + "FAILED  t/s.yaml  cap: 1 passed, 1 failed\n",
		}},
		{"one is not run", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": bad}, []string{"t", "--run", "^cap$/small"}, clitest.Result{Out: "ok      t/s.yaml  cap: 1 passed\n"}},
		{"none is run", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": bad}, []string{"t", "--run", "nothing"}, clitest.Result{Code: clitest.ExitUsage, Out: "empty   t/s.yaml  cap: no cases\n", ErrOut: "error: no case was run\n"}},
		{"a policy is missing", map[string]string{"t/s.yaml": good}, []string{"t", "--fail-fast"}, clitest.Result{
			Code: clitest.ExitUsage, ErrOut: "error: 1 of 1 case cannot be evaluated\n",
			Out: "--- BROKEN: cap/small (t/s.yaml:13)\n    t/s.yaml:6:14: tests[0].policies[0]: policy.yaml: no such file or directory\nBROKEN  t/s.yaml  cap: 1 broken\n",
		}},
		{"a suite is broken", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": good, "t/z.yaml": capSuite}, []string{"t"}, clitest.Result{
			Code: clitest.ExitUsage, Out: "ok      t/s.yaml  cap: 2 passed\nBROKEN  t/z.yaml:17:14: tests[0].cases[1].expect.verdict: \"VERDICT\" must be one of denied, warned, allowed\n",
			ErrOut: "error: 1 file or suite cannot be run, the first one t/z.yaml:17:14\n",
		}},
		{"an object of a case is invalid", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": strings.Replace(good, "- name: small", "- name: small\n    patches: [{op: add, path: /spec/runStrat, value: a}]", 1)}, []string{"t"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: "error: 1 of 2 cases failed\n",
			Out: "--- FAILED: cap/small (t/s.yaml:13)\n    t/s.yaml:11:5: spec.runStrat: Forbidden: is not a field of VirtualMachine: did you mean runStrategy? [virtward/unknown-field]\nFAILED  t/s.yaml  cap: 1 passed, 1 failed\n",
		}},
		{"an unknown field is a note", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": strings.Replace(good, "- name: small", "- name: small\n    patches: [{op: add, path: /spec/runStrat, value: a}]", 1)}, []string{"t", "--unknown-fields", "warn"}, clitest.Result{Out: "ok      t/s.yaml  cap: 2 passed\n"}},
		{"an object is unknown", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": strings.Replace(good, "- name: small", "- name: small\n    patches: [{op: add, path: /spec/preference, value: {name: a}}]", 1)}, []string{"t", "--strict"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: "error: 1 of 2 cases failed\n",
			Out: "--- FAILED: cap/small (t/s.yaml:13)\n    t/s.yaml:11:5: spec.preference: VirtualMachineClusterPreference a is not among the objects\n    note: spec.preference: there is no VirtualMachineClusterPreference a; the VM is evaluated without it, and what it determines is checked when the VM starts\nFAILED  t/s.yaml  cap: 1 passed, 1 failed\n",
		}},
		{"policies with a label", map[string]string{"policy.yaml": strings.Replace(capPolicy, "{name: cap}", "{name: cap, labels: {team: a}}", 1), "t/s.yaml": good}, []string{"t", "-l", "team=a"}, clitest.Result{Out: "ok      t/s.yaml  cap: 2 passed\n"}},
		{"no policies with a label", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": bad}, []string{"t", "-l", "team=a"}, clitest.Result{Code: clitest.ExitUsage, Out: "empty   t/s.yaml  cap: no cases\n", ErrOut: "error: no case was run\n"}},
		{"a policy is not tested", map[string]string{"policy.yaml": capPolicy, "t/s.yaml": good, "t/other.yaml": strings.Replace(capPolicy, "name: cap", "name: other", 1)}, []string{"t", "--require-tests"}, clitest.Result{
			Code: clitest.ExitFailed, Out: "ok      t/s.yaml  cap: 2 passed\nUNTESTED t/other.yaml:3:12: no case was run for the policy other\n", ErrOut: "error: 1 policy is without a case\n",
		}},
		{"nothing is there", nil, []string{"nowhere"}, clitest.Result{Code: clitest.ExitUsage, Out: "BROKEN  nowhere: no such file or directory\n0 suites: no cases\n", ErrOut: "error: 1 file or suite cannot be run, the first one nowhere\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFolder(t, c.files)
			got := clitest.Call(t, "", append([]string{"policy", "test"}, c.args...)...)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPolicyTestOutputs(t *testing.T) {
	inFolder(t, map[string]string{"policy.yaml": capPolicy, "t/s.yaml": strings.Replace(capSuite, "VERDICT", "denied", 1)})
	for output, want := range map[string]string{
		"table": "ok  ", "json": `"status": "passed"`, "junit": `<testsuites name="virtward policies" tests="2">`,
		"markdown": "## Policy tests: 2 passed", "tap": "TAP version 14\n1..2\nok 1 - cap/cap/small\nok 2 - cap/cap/large\n",
	} {
		if got := clitest.Call(t, "", "policy", "test", "t", "-o", output); got.Code != clitest.ExitOK || !strings.Contains(got.Out, want) {
			t.Errorf("%s: code %d, errors %q, output\n%s", output, got.Code, got.ErrOut, got.Out)
		}
	}
	if got := clitest.Call(t, "", "policy", "test", "t", "-v", "--trace"); got.Code != clitest.ExitOK || !strings.Contains(got.Out, "        vm.spec.domain.memory.guest = \"16Gi\"\n") {
		t.Errorf("--trace: code %d, output\n%s", got.Code, got.Out)
	}
}

// TestPolicyTestReports reports a case that fails, a policy without a case and a document that cannot be read in every
// output.
func TestPolicyTestReports(t *testing.T) {
	inFolder(t, map[string]string{
		"policy.yaml": capPolicy, "t/other.yaml": strings.Replace(capPolicy, "name: cap", "name: other", 1),
		"t/s.yaml": strings.Replace(capSuite, "VERDICT", "allowed", 1) + "---\n[\n",
	})
	const unreadable = "document 2: line 19: did not find expected node content"
	for output, wants := range map[string][]string{
		"table":    {"BROKEN  t/s.yaml:19:1: " + unreadable + "\n"},
		"json":     {`"unreadable": [`, `"line": 19,`, `"message": "` + unreadable + `"`},
		"junit":    {`<testsuite name="unreadable files" tests="1" failures="0" errors="1"`, `<testcase name="t/s.yaml:19:1" classname="unreadable files" time="0">`, `<error message="` + unreadable + `" type="Unreadable">`},
		"markdown": {"### Files and suites that cannot be read\n\n- `t/s.yaml:19:1`: " + unreadable + "\n"},
		"tap":      {"1..4\n", "not ok 4 - " + unreadable + "\n# t/s.yaml:19:1\n"},
		"github": {
			"::error file=t/other.yaml,line=3,col=12,title=lint/tested::metadata.name: no case was run for the policy other\n",
			"::error file=t/s.yaml,line=19,col=1,title=unreadable::" + unreadable + "\n",
			"::error file=t/s.yaml,line=15,col=1,title=failed%3A cap/large::verdict: expected allowed, got denied\n",
		},
	} {
		got := clitest.Call(t, "", "policy", "test", "t", "--require-tests", "-o", output)
		if want := "error: 1 file or suite cannot be run, the first one t/s.yaml:19:1\n"; got.Code != clitest.ExitUsage || !strings.HasSuffix(got.ErrOut, want) {
			t.Errorf("%s: code %d, errors %q", output, got.Code, got.ErrOut)
		}
		for _, want := range wants {
			if !strings.Contains(got.Out, want) {
				t.Errorf("%s: want %q in\n%s", output, want, got.Out)
			}
		}
	}
}

func TestPolicyLint(t *testing.T) {
	files := map[string]string{"p.yaml": strings.Replace(capPolicy, "domain.memory.guest)", "domain.memory.gest)", 1) + "---\n" + strings.Replace(strings.Replace(capPolicy, "name: cap", "name: two", 1), "spec:\n", "spec:\n  title: 't, u: 100%'\n  description: d\n  category: c\n  severity: low\n", 1)}
	const wrong, doubt = "spec.validations[0].expression: undefined field 'gest'; did you mean 'guest'?", "spec.remedy: should be set: it ends every message, and tells users what to do"
	for _, c := range []struct{ output, out string }{
		{"table", "p.yaml:7:47: " + wrong + " [lint/compiles]\np.yaml:13:12: warning: metadata.name: no suite in these files has a case for this policy [lint/tested]\np.yaml:14:1: warning: " + doubt + " [lint/documented]\n"},
		{"github", "::error file=p.yaml,line=7,col=47,title=lint/compiles::" + wrong + "\n::warning file=p.yaml,line=13,col=12,title=lint/tested::metadata.name: no suite in these files has a case for this policy\n::warning file=p.yaml,line=14,col=1,title=lint/documented::" + doubt + "\n"},
	} {
		inFolder(t, files)
		got := clitest.Call(t, "", "policy", "lint", "p.yaml", "-o", c.output)
		want := clitest.Result{Code: clitest.ExitFailed, Out: c.out, ErrOut: "error: 1 error and 2 warnings\n"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.output, diff)
		}
	}
	var report struct {
		Problems []struct {
			Rule, File, Field, Message string
			Line, Column               int
			Warning                    bool
		}
	}
	if err := json.Unmarshal([]byte(clitest.Call(t, "", "policy", "lint", ".", "-o", "json").Out), &report); err != nil || len(report.Problems) != 3 || report.Problems[0].Rule != "lint/compiles" || report.Problems[0].Line != 7 || !report.Problems[2].Warning {
		t.Errorf("json: %v, %+v", err, report)
	}
	read, err := standardsarif.FromBytes([]byte(clitest.Call(t, "", "policy", "lint", ".", "-o", "sarif").Out))
	if err != nil {
		t.Fatal(err)
	}
	run := read.Runs[0] // what the library writes although it is not set, and the schema rejects
	run.Language, run.Tool.Driver.Language, run.NewlineSequences = "en-US", "en-US", []string{"\n"}
	if err := read.Validate(); err != nil {
		t.Error(err)
	}
	if r := run.Results[0]; len(run.Results) != 3 || *r.RuleID != "lint/compiles" || r.Level != "error" || *r.Locations[0].PhysicalLocation.Region.StartLine != 7 || *r.Message.Text != wrong {
		t.Errorf("sarif: %d results, the first one %+v", len(run.Results), r)
	}
	// Warnings fail only with --strict.
	inFolder(t, map[string]string{"p.yaml": capPolicy})
	if got := clitest.Call(t, "", "policy", "lint", "p.yaml"); got.Code != clitest.ExitOK || !strings.Contains(got.Out, "[lint/tested]") {
		t.Errorf("warnings: code %d, output\n%s", got.Code, got.Out)
	}
	if got := clitest.Call(t, "", "policy", "lint", "p.yaml", "--strict"); got.Code != clitest.ExitFailed || got.ErrOut != "error: 0 errors and 6 warnings\n" {
		t.Errorf("--strict: code %d, errors %q", got.Code, got.ErrOut)
	}
}

// TestPolicyFiles lints and tests with the flags of kubectl.
func TestPolicyFiles(t *testing.T) {
	files := map[string]string{"policy.yaml": capPolicy, "t/s.yaml": strings.Replace(capSuite, "VERDICT", "denied", 1), "kustomization.yaml": "resources: [policy.yaml]\nnamePrefix: site-\n"}
	const untested = "warning: metadata.name: no suite in these files has a case for this policy [lint/tested]"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"lint", "-f", "policy.yaml"}, "policy.yaml:3:12: " + untested},
		{[]string{"lint", "-"}, "standard input:3:12: " + untested},
		{[]string{"lint", "-f", "-", "-o", "github"}, "::warning title=lint/tested::standard input metadata.name: metadata.name: no suite"},
		{[]string{"lint", "-k", "."}, untested},
		{[]string{"lint", "-f", "policy.yaml", "-l", "team!=a"}, "policy.yaml:3:12: " + untested},
		{[]string{"test", "-f", "t"}, "ok      t/s.yaml  cap: 2 passed\n"},
		{[]string{"test", "-f", "t/s.yaml", "-R"}, "ok      t/s.yaml  cap: 2 passed\n"},
	} {
		inFolder(t, files)
		if got := clitest.Call(t, capPolicy, append([]string{"policy"}, c.args...)...); got.Code != clitest.ExitOK || !strings.Contains(got.Out, c.want) {
			t.Errorf("%v: code %d, errors %q, want %q in\n%s", c.args, got.Code, got.ErrOut, c.want, got.Out)
		}
	}
}

func TestPolicyWrongCalls(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"tset"}, `unknown command "tset": did you mean "test"?: see kubectl virtward policy --help`},
		{[]string{"test"}, "add a file or a directory with suites: see kubectl virtward policy test --help"},
		{[]string{"test", "a", "-o", "yaml"}, `unknown output "yaml": the known ones are table, json, junit, markdown, tap, github`},
		{[]string{"test", "a", "--run", "a(/b"}, "--run a(/b: error parsing regexp: missing closing ): `a(`"},
		{[]string{"test", "a", "--run", "a/b("}, "--run a/b(: error parsing regexp: missing closing ): `b(`"},
		{[]string{"lint"}, "add a file or a directory with policies: see kubectl virtward policy lint --help"},
		{[]string{"lint", "a", "-o", "yaml"}, `unknown output "yaml": the known ones are table, json, sarif, github`},
		{[]string{"lint", "../rules"}, "../rules: no VirtualMachinePolicy was found: explain -f evaluates virtual machines, and policy convert converts policies of other engines"},
		{[]string{"lint", "../rules", "-l", "a=b"}, `../rules: no VirtualMachinePolicy was found, with the labels "a=b": explain -f evaluates virtual machines, and policy convert converts policies of other engines`},
		{[]string{"lint", "a", "-l", "a b"}, "--selector: unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"},
		{[]string{"test", "a", "--unknown-fields", "ignore"}, `unknown mode of --unknown-fields "ignore": the known ones are error, warn`},
		{[]string{"new"}, "add the name of one policy: see kubectl virtward policy new --help"},
		{[]string{"new", "a"}, "add a language, --cel or --rego, or a policy of the library, --from: see kubectl virtward policy new --help"},
		{[]string{"new", "a", "--cel", "--rego"}, "add a language, --cel or --rego, or a policy of the library, --from: see kubectl virtward policy new --help"},
		{[]string{"new", "../a", "--cel"}, `"../a" is not a valid name of a policy: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
		{[]string{"new", strings.Repeat("a", 64), "--cel"}, `"` + strings.Repeat("a", 64) + `": the name of a policy must have at most 63 characters`},
	} {
		got := clitest.Call(t, "", append([]string{"policy"}, c.args...)...)
		if diff := cmp.Diff(clitest.Result{Code: clitest.ExitUsage, ErrOut: "error: " + c.want + "\n"}, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.args, diff)
		}
	}
	for _, words := range [][]string{{"policy"}, {"policy", "--help"}, {"policy", "test", "--help"}, {"policy", "lint", "--help"}, {"policy", "new", "--help"}} {
		if got := clitest.Call(t, "", words...); got.Code != clitest.ExitOK || !strings.Contains(got.Out, "Usage:\n  kubectl virtward policy") {
			t.Errorf("%v: code %d, output\n%s", words, got.Code, got.Out)
		}
	}
}
