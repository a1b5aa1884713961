package policytest_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/policytest"
)

var update = flag.Bool("update", false, "write the golden files")

var shared = sync.OnceValues(policytest.NewRunner)

func evaluate(t testing.TB) *policytest.Runner {
	t.Helper()
	j, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// files are by name; the text may be indented.
func files(texts map[string]string) fstest.MapFS {
	all := fstest.MapFS{}
	for name, text := range texts {
		all[name] = &fstest.MapFile{Data: []byte(strings.TrimPrefix(text, "\n"))}
	}
	return all
}

// load reads suites that have no problems.
func load(t testing.TB, texts map[string]string) []*policytest.Suite {
	t.Helper()
	all, problems := policytest.Load(files(texts), ".")
	if len(problems) > 0 {
		t.Fatalf("problems %v", problems)
	}
	return all
}

// lines are problems as users see them.
func lines(problems []policytest.Problem) []string {
	var all []string
	for i := range problems {
		all = append(all, problems[i].String())
	}
	return all
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-golden +got):\n%s", path, diff)
	}
}

// head begins a suite with one test of the policy in policy.yaml and the VM in vm.yaml.
const head = `apiVersion: policy.virtward.io/v1alpha1
kind: Suite
metadata: {name: s}
tests:
- name: t
  policies: [policy.yaml]
  base: vm.yaml
`

const memoryPolicy = `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: memory}
spec:
  enforcement: Deny
  params: {values: {max: 8Gi}, schema: {type: object, properties: {max: {type: string}}}}
  validations:
  - expression: quantity(vm.spec.domain.memory.guest).compareTo(quantity(params.max)) <= 0
    messageExpression: "'a VM may have ' + params.max"
    message: too much memory
    fieldPath: spec.domain.memory.guest
`

const vmOf4Gi = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: db}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        memory: {guest: 4Gi}
        devices: {}
`

func TestLoadErrors(t *testing.T) {
	cases := head + "  cases:\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"a misspelt field", cases + "  - {name: a, expct: {verdict: allowed}}\n", []string{"s.yaml:9:15: tests[0].cases[0].expct: unknown field: did you mean expect?"}},
		{"a field that is like no other", cases + "  - {name: a, zzzzzzzz: 1, expect: {error: true}}\n", []string{"s.yaml:9:15: tests[0].cases[0].zzzzzzzz: unknown field"}},
		{"a time that is none", cases + "  - {name: a, now: tomorrow, expect: {error: true}}\n", []string{`s.yaml:9:15: tests[0].cases[0].now: "tomorrow" is no time of RFC 3339, such as 2026-01-31T12:00:00Z or 2026-01-31`}},
		{"another form", head + "  cases: {}\n", []string{"s.yaml:8:3: tests[0].cases: is an object where a list is expected"}},
		{"a number where a file is expected", strings.Replace(cases, "base: vm.yaml", "base: 3", 1), []string{"s.yaml:7:3: tests[0].base: must be the name of a file, or an object"}},
		{"null where a file is expected", strings.Replace(cases, "policy.yaml", "null", 1), []string{"s.yaml:6:14: tests[0].policies[0]: must be the name of a file, or an object"}},
		{"no tests", "apiVersion: policy.virtward.io/v1alpha1\nkind: Suite\nmetadata: {name: s}\n", []string{"s.yaml:1:1: tests: must have at least one test"}},
		{"no names", "apiVersion: policy.virtward.io/v1alpha1\nkind: Suite\ntests:\n- {policies: [p.yaml]}\n", []string{"s.yaml:1:1: metadata.name: must not be empty", "s.yaml:4:3: tests[0].name: must not be empty"}},
		{"no policies", "apiVersion: policy.virtward.io/v1alpha1\nkind: Suite\nmetadata: {name: s}\ntests:\n- name: t\n", []string{"s.yaml:5:3: tests[0].policies: must have at least one policy"}},
		{"another version", "apiVersion: policy.virtward.io/v2\nkind: Suite\n", []string{"s.yaml:1:1: apiVersion: policy.virtward.io/v2 must be policy.virtward.io/v1alpha1"}},
		{"names twice", cases + "  - {name: a, expect: {error: true}}\n  - {name: a, expect: {error: true}}\n", []string{`s.yaml:10:6: tests[0].cases[1].name: "a" is the name of another one`}},
		{"a name of two lines", cases + "  - {name: \"a\\nb\", expect: {error: true}}\n", []string{"s.yaml:9:6: tests[0].cases[0].name: must be one line"}},
		{"no object", strings.Replace(cases, "base: vm.yaml", "params: {}", 1) + "  - {name: a, expect: {error: true}}\n", []string{"s.yaml:9:5: tests[0].cases[0]: must have an object, if the test has no base"}},
		{"nothing is expected", cases + "  - {name: a, expect: {}}\n", []string{"s.yaml:9:15: tests[0].cases[0].expect: must have a verdict, violations, a message, a field, exempted policies or an error"}},
		{"an unknown verdict", cases + "  - {name: a, expect: {verdict: deny}}\n", []string{`s.yaml:9:24: tests[0].cases[0].expect.verdict: "deny" must be one of denied, warned, allowed`}},
		{"fewer than none", cases + "  - {name: a, expect: {violations: -1}}\n", []string{"s.yaml:9:24: tests[0].cases[0].expect.violations: must be 0 or more"}},
		{"no regular expression", cases + "  - {name: a, expect: {message: '('}}\n", []string{"s.yaml:9:24: tests[0].cases[0].expect.message: must be a regular expression: missing closing ): `(`"}},
		{"a VM that runs and is created", cases + "  - {name: a, running: true, expect: {error: true}}\n", []string{"s.yaml:9:15: tests[0].cases[0].running: requires oldObject or oldPatches"}},
		{"an update without an old object", cases + "  - {name: a, operation: UPDATE, expect: {error: true}}\n", []string{"s.yaml:9:15: tests[0].cases[0].operation: UPDATE requires oldObject or oldPatches"}},
		{"a creation with one", cases + "  - {name: a, operation: CREATE, oldObject: vm.yaml, expect: {error: true}}\n", []string{"s.yaml:9:15: tests[0].cases[0].operation: CREATE excludes oldObject and oldPatches"}},
		{"another operation", cases + "  - {name: a, operation: CONNECT, expect: {error: true}}\n", []string{`s.yaml:9:15: tests[0].cases[0].operation: "CONNECT" must be one of CREATE, UPDATE, DELETE`}},
		{"a deletion with an old object", cases + "  - {name: a, operation: DELETE, oldPatches: [], expect: {error: true}}\n", []string{`s.yaml:9:15: tests[0].cases[0].operation: DELETE excludes oldObject and oldPatches`}},
		{"facts of nowhere", head + "  facts: {hypervisor: xen, architecture: x86}\n", []string{
			`s.yaml:8:11: tests[0].facts.hypervisor: unknown hypervisor "xen": the known ones are hyperv-direct, kvm, mshv`,
			`s.yaml:8:28: tests[0].facts.architecture: "x86" must be one of amd64, arm64, s390x`,
		}},
		{"patches", cases + "  - name: a\n    patches: [{op: set, path: spec}, {op: add, path: /a}, {op: move, path: /a}, {op: remove, path: /a, from: /b}, {op: remove, path: ''}]\n    expect: {error: true}\n", []string{
			`s.yaml:10:16: tests[0].cases[0].patches[0].op: "set" must be one of add, remove, replace, move, copy, test`,
			`s.yaml:10:25: tests[0].cases[0].patches[0].path: "spec" must have the form /spec/template: see RFC 6901`,
			"s.yaml:10:38: tests[0].cases[0].patches[1]: add requires a value",
			"s.yaml:10:59: tests[0].cases[0].patches[2].from: is required for move and copy, and not allowed otherwise",
			"s.yaml:10:104: tests[0].cases[0].patches[3].from: is required for move and copy, and not allowed otherwise",
			"s.yaml:10:128: tests[0].cases[0].patches[4].path: must not be the whole object: set object instead",
		}},
		{"permissions", cases + "  - {name: a, may: [{resource: x}, {verb: get, path: /x, name: x}], expect: {error: true}}\n", []string{
			"s.yaml:9:21: tests[0].cases[0].may[0].verb: must be a verb, or * for all verbs",
			"s.yaml:9:48: tests[0].cases[0].may[1].path: excludes group, resource, subresource, namespace and name",
		}},
		{"no YAML", "kind: Suite # of policy.virtward.io\n  a: b: c\n", []string{"s.yaml:1:1: document 1: line 1: did not find expected key"}},
		{"no suite", "kind: Pod\n", []string{".: has no suite: no object of the kind Suite of policy.virtward.io/v1alpha1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, problems := policytest.Load(files(map[string]string{"s.yaml": c.text}), ".")
			if diff := cmp.Diff(c.want, lines(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if len(all) > 0 {
				t.Errorf("%d suites are run all the same", len(all))
			}
		})
	}
}

// TestLoadAroundErrors runs the suites of a file in which one document cannot be read, and one suite has an error.
func TestLoadAroundErrors(t *testing.T) {
	suite := func(name string) string { return strings.Replace(head, "name: s", "name: "+name, 1) + "  cases: []\n" }
	text := suite("first") + "---\n[\n---\n" + strings.Replace(suite("second"), "tests:", "test:", 1) + "---\n" + suite("third")
	all, problems := policytest.Load(files(map[string]string{"s.yaml": text, "t.yaml": suite("other")}), ".")
	var got []string
	for _, s := range all {
		got = append(got, s.Metadata.Name)
	}
	if diff := cmp.Diff([]string{"first", "third", "other"}, got); diff != "" {
		t.Errorf("suites (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"s.yaml:10:1: document 2: line 10: did not find expected node content", "s.yaml:15:1: test: unknown field: did you mean tests?"}, lines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestLoadFinds(t *testing.T) {
	suite := head + "  cases: []\n"
	tree := files(map[string]string{
		"a/s.yaml": suite, "a/deep/s.yml": suite, "a/b.json": `{"apiVersion": "policy.virtward.io/v1alpha1", "kind": "Suite", "metadata": {"name": "j"}, "tests": [{"name": "t", "policies": ["p"]}]}`,
		"a/.hidden/s.yaml": suite, "a/.s.yaml": suite, "a/s.txt": suite,
		"a/template.yaml": "{{ broken }}: {{", "a/other.yaml": "kind: Suite\napiVersion: test.gatekeeper.sh/v1alpha1\n",
	})
	all, problems := policytest.Load(tree, "a", "a/s.yaml", "nowhere")
	if diff := cmp.Diff([]string{"nowhere: file does not exist"}, lines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	var got []string
	for _, s := range all {
		got = append(got, s.File+" "+s.Metadata.Name)
	}
	if diff := cmp.Diff([]string{"a/b.json j", "a/deep/s.yml s", "a/s.yaml s"}, got); diff != "" {
		t.Errorf("suites (-want +got):\n%s", diff)
	}
	if _, problems = policytest.Load(tree, "a/template.yaml"); len(problems) != 1 {
		t.Errorf("a file that was named and cannot be read: problems %v", problems)
	}
}

func TestBounds(t *testing.T) {
	var many strings.Builder
	many.WriteString("apiVersion: policy.virtward.io/v1alpha1\nkind: Suite\nmetadata: {name: " + strings.Repeat("x", 300) + "}\ntests:\n")
	for range 1001 {
		many.WriteString("- {}\n")
	}
	_, problems := policytest.Load(files(map[string]string{"s.yaml": many.String()}), "s.yaml")
	if diff := cmp.Diff([]string{"s.yaml:3:12: metadata.name: must be no longer than 256 bytes", "s.yaml:4:1: tests: must have at most 1000 tests, and has 1001"}, lines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	cases := head + "  objects: [" + strings.Repeat("x,", 1001) + "]\n  cases: [" + strings.Repeat("{},", 1001) + "]\n"
	_, problems = policytest.Load(files(map[string]string{"s.yaml": cases}), "s.yaml")
	if diff := cmp.Diff([]string{"s.yaml:8:3: tests[0].objects: must have at most 1000 entries, and has 1001", "s.yaml:9:3: tests[0].cases: must have at most 1000 cases, and has 1001"}, lines(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
