package convert_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
	"github.com/virtward/virtward/policytest"
)

var update = flag.Bool("update", false, "write the golden files")

var shared = sync.OnceValues(cel.NewEnvironment)

func environment(t testing.TB) *cel.Environment {
	t.Helper()
	env, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// objects reads the objects of files that exist.
func objects(t testing.TB, names ...string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, name := range names {
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		found, err := manifests.Read(name, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range found {
			all = append(all, d.Object)
		}
	}
	return all
}

// printed returns all results as YAML.
func printed(t testing.TB, results []convert.Result) string {
	t.Helper()
	var all []string
	for i := range results {
		text, err := results[i].YAML()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "---\n")
}

// inOneLine returns all results as YAML in one line, without the marks of comments, so that a note is found however it is wrapped.
func inOneLine(t testing.TB, results []convert.Result) string {
	t.Helper()
	return strings.Join(strings.Fields(strings.ReplaceAll(printed(t, results), "#", "")), " ")
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-golden +got):\n%s", path, diff)
	}
}

// TestConvert compares the policies and the comments of each file. Every output is YAML, and reads as the policy.
func TestConvert(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			results := convert.Convert(environment(t), objects(t, file), effective.AlwaysSet())
			golden(t, filepath.Join("testdata", "goldens", filepath.Base(file)), printed(t, results))
			for i := range results {
				again(t, &results[i])
			}
		})
	}
}

// again reads the YAML of a result, which must be the same policy.
func again(t testing.TB, r *convert.Result) {
	t.Helper()
	if r.Policy == nil {
		if r.Notes == nil {
			t.Errorf("%s: neither a policy nor a note", r.Source)
		}
		return
	}
	text, err := r.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var read policyv1alpha1.VirtualMachinePolicy
	if err := yaml.UnmarshalStrict(text, &read); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	want, err := yaml.Marshal(r.Policy)
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(&read)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-policy +its YAML):\n%s", r.Source, diff)
	}
}

// public has the patterns of public policies: originals, and the policies and suites beside them.
const public = "../../examples/converted"

// TestPublic converts the patterns of public policies: completely, to the policy beside the original, which passes its
// suite. Another test compares the verdicts with those of an API server.
func TestPublic(t *testing.T) {
	originals, err := filepath.Glob(public + "/*/original.yaml")
	if err != nil || len(originals) < 10 {
		t.Fatalf("%d originals, %v", len(originals), err)
	}
	for _, original := range originals {
		folder := filepath.Dir(original)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			results := convert.Convert(environment(t), objects(t, original, filepath.Join(folder, "params.yaml")), effective.AlwaysSet())
			results = slices.DeleteFunc(results, func(r convert.Result) bool { return r.Policy == nil && r.Complete() })
			for i := range results {
				if !results[i].Complete() {
					t.Errorf("%s: %+v", results[i].Source, results[i].Notes)
				}
				if compiled, problems := policies.Compile(environment(t), results[i].Policy, nil); compiled.Broken() != "" {
					t.Error(problems)
				}
			}
			golden(t, filepath.Join(folder, "policy.yaml"), printed(t, results))
		})
	}
	runner, err := policytest.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	suites, problems := policytest.Load(os.DirFS(public), ".")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	verdicts := map[policytest.Status]int{}
	for _, suite := range runner.Run(t.Context(), suites, policytest.Options{}).Suites {
		for _, test := range suite.Tests {
			for _, c := range test.Cases {
				if verdicts[c.Status]++; c.Status != policytest.Passed {
					t.Errorf("%s: %s: %s: %v", suite.Name, c.Name, c.Status, c.Reasons)
				}
			}
		}
	}
	if verdicts[policytest.Passed] < 40 {
		t.Errorf("only %v", verdicts)
	}
}

// TestComments: no text of an original ends a comment.
func TestComments(t *testing.T) {
	object := objects(t, "testdata/cases/native.yaml")[0].DeepCopy()
	object.SetName("a\nkind: Secret # \x1b[2J")
	if err := unstructured.SetNestedField(object.Object, "x", "spec", "b\n  enforcement: Audit"); err != nil {
		t.Fatal(err)
	}
	for _, r := range convert.Convert(environment(t), []*unstructured.Unstructured{object}, effective.AlwaysSet()) {
		again(t, &r)
		text, err := r.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\x1b") || strings.Contains(string(text), "\nkind: Secret") || strings.Contains(string(text), "\n  enforcement: Audit\n  enforcement") {
			t.Errorf("a text of the original is not in a comment:\n%s", text)
		}
	}
}

// FuzzConvert: no object makes converting panic. Each result has a policy or a note, and complete policies compile.
func FuzzConvert(f *testing.F) {
	for _, pattern := range []string{"testdata/cases/*.yaml", public + "/*/original.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%d files, %v", len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	env := environment(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		found, err := manifests.Read("fuzz", bytes.NewReader(data))
		if err != nil {
			return
		}
		var all []*unstructured.Unstructured
		for _, d := range found {
			all = append(all, d.Object)
		}
		for _, r := range convert.Convert(env, all, effective.AlwaysSet()) {
			again(t, &r)
			if r.Policy == nil || !r.Complete() {
				continue
			}
			if compiled, problems := policies.Compile(env, r.Policy, nil); compiled.Broken() != "" {
				t.Errorf("%s is complete, and does not compile: %v", r.Source, problems)
			}
		}
	})
}
