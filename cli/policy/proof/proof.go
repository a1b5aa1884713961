package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/texts"
)

// Result is what a rule makes of an object, in the words of Kyverno's tests.
type Result string

// The results.
const (
	Pass Result = "pass"
	Fail Result = "fail"
	Skip Result = "skip"
)

// Case is an object and its result.
type Case struct {
	convert.Case

	Result Result
	// Violations is the number of findings.
	Violations int
}

// Cases evaluates the objects of a converted rule. Results without a rule in patterns have none.
func Cases(env *cel.Environment, r *convert.Result) ([]Case, error) {
	if r.Policy == nil || r.Written == nil {
		return nil, nil
	}
	policy, err := compiled(env, r.Policy)
	if err != nil {
		return nil, err
	}
	probe := &policyv1alpha1.VirtualMachinePolicy{}
	probe.Name = "skipped"
	probe.Spec.Enforcement, probe.Spec.Match = policyv1alpha1.PolicyDeny, policyv1alpha1.PolicyMatch{Kinds: r.Policy.Spec.Match.Kinds}
	probe.Spec.Validations = []policyv1alpha1.PolicyValidation{{Expression: "!(" + r.Written.Skipped + ")", Message: "skipped"}}
	skipped, err := compiled(env, probe)
	if err != nil {
		return nil, err
	}
	var all []Case
	for _, c := range r.Written.Cases() {
		subject, object, ok := documents(c.Object)
		if !ok || slices.ContainsFunc(all, func(other Case) bool { return reflect.DeepEqual(other.Object, object) }) {
			continue
		}
		c.Object = object // both engines read the same
		one := Case{Case: c, Result: Pass, Violations: len(policy.Evaluate(subject, at))}
		switch {
		case one.Violations > 0:
			one.Result = Fail
		case len(skipped.Evaluate(subject, at)) > 0:
			one.Result = Skip
		}
		all = append(all, one)
	}
	return all, nil
}

// at is when the policies are evaluated.
var at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// compiled returns a set with one policy.
func compiled(env *cel.Environment, policy *policyv1alpha1.VirtualMachinePolicy) (*policies.Set, error) {
	made, problems := policies.Compile(env, policy, nil)
	if made.Broken() != "" {
		return nil, fmt.Errorf("compiling the policy %s: %v", policy.Name, problems)
	}
	return policies.NewSet("virtward-system", made), nil
}

// documents returns what policies read of an object that is created, and the object in the form of the API, which leaves out empty
// lists. It is false if the object is no VirtualMachine.
func documents(object map[string]any) (*cel.Documents, map[string]any, bool) {
	data, err := json.Marshal(object)
	vm := &v1.VirtualMachine{}
	if err != nil || json.Unmarshal(data, vm) != nil {
		return nil, nil, false
	}
	normal, err := runtime.DefaultUnstructuredConverter.ToUnstructured(vm)
	if err != nil {
		return nil, nil, false
	}
	delete(normal, "status")
	d := &cel.Documents{Kind: "VirtualMachine", Object: vm, Facts: platform.Defaults(platform.Settings{}), Requester: policytest.DefaultUser}
	d.Request = cel.Request{Operation: "CREATE", Name: vm.Name, Namespace: vm.Namespace}
	return d, normal, true
}

// Written is a directory with the tests of a policy.
type Written struct {
	Directory string
	// Cases are those of the files, and Left is how many objects are no valid virtual machines, or have another verdict after
	// completion.
	Cases []Case
	Left  int
}

// Write writes the original, the policy, a suite and a test of Kyverno to a directory. It keeps no case that does not pass in the
// suite.
func Write(ctx context.Context, env *cel.Environment, directory string, original *unstructured.Unstructured, r *convert.Result) (*Written, error) {
	cases, err := Cases(env, r)
	if err != nil {
		return nil, err
	}
	policy, err := r.YAML()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return nil, err
	}
	first, err := yaml.Marshal(original.Object)
	if err != nil {
		return nil, err
	}
	w := &Written{Directory: directory}
	for name, content := range map[string][]byte{"policy.yaml": policy, "original.yaml": first} {
		if err := w.file(name, content); err != nil {
			return nil, err
		}
	}
	if err := w.suite(r, cases); err != nil {
		return nil, err
	}
	passed, err := w.passed(ctx)
	if err != nil {
		return nil, err
	}
	w.Cases = slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return !passed[c.Name] })
	w.Left = len(cases) - len(w.Cases)
	if err := w.suite(r, w.Cases); err != nil {
		return nil, err
	}
	return w, w.kyverno(original, r)
}

func (w *Written) file(name string, content []byte) error {
	return os.WriteFile(filepath.Join(w.Directory, name), content, 0o600)
}

// suite writes the suite of some cases.
func (w *Written) suite(r *convert.Result, cases []Case) error {
	verdict := map[policyv1alpha1.PolicyEnforcement]policytest.Verdict{policyv1alpha1.PolicyDeny: policytest.Denied, policyv1alpha1.PolicyWarn: policytest.Warned}
	test := policytest.Test{Name: "as the original", Policies: []policytest.Source{{File: "policy.yaml"}}}
	for i := range cases {
		one := policytest.Case{Name: cases[i].Name, Object: &policytest.Source{Object: cases[i].Object}, Expect: policytest.Expect{Verdict: policytest.Allowed, Violations: &cases[i].Violations}}
		if found := verdict[r.Policy.Spec.Enforcement]; found != "" && cases[i].Result == Fail {
			one.Expect.Verdict = found
		}
		test.Cases = append(test.Cases, one)
	}
	suite := policytest.Spec{Metadata: policytest.Metadata{Name: r.Policy.Name}, Tests: []policytest.Test{test}}
	suite.APIVersion, suite.Kind = policyv1alpha1.GroupVersion.String(), policytest.Kind
	content, err := yaml.Marshal(suite)
	if err != nil {
		return err
	}
	return w.file("suite.yaml", content)
}

// passed runs the suite, and returns the names of the cases that pass.
func (w *Written) passed(ctx context.Context) (map[string]bool, error) {
	suites, problems := policytest.Load(os.DirFS(w.Directory), "suite.yaml")
	if len(problems) > 0 {
		return nil, fmt.Errorf("reading the suite of %s: %s", w.Directory, problems[0].Message)
	}
	runner, err := policytest.NewRunner()
	if err != nil {
		return nil, err
	}
	passed := map[string]bool{}
	for _, suite := range runner.Run(ctx, suites, policytest.Options{}).Suites {
		for _, test := range suite.Tests {
			for _, c := range test.Cases {
				passed[c.Name] = c.Status == policytest.Passed
			}
		}
	}
	return passed, nil
}

// kyvernoTest is a test of Kyverno's program.
type kyvernoTest struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Metadata   policytest.Metadata `json:"metadata"`
	Policies   []string            `json:"policies"`
	Resources  []string            `json:"resources"`
	Results    []kyvernoResult     `json:"results"`
}

// kyvernoResult expects one result of several objects.
type kyvernoResult struct {
	Policy    string   `json:"policy"`
	Rule      string   `json:"rule"`
	Kind      string   `json:"kind"`
	Resources []string `json:"resources"`
	Result    Result   `json:"result"`
}

// kyverno writes the test of Kyverno, in which each object has a namespace of its own.
func (w *Written) kyverno(original *unstructured.Unstructured, r *convert.Result) error {
	test := kyvernoTest{
		APIVersion: "cli.kyverno.io/v1alpha1", Kind: "Test", Metadata: policytest.Metadata{Name: r.Policy.Name},
		Policies: []string{"original.yaml"}, Resources: []string{"resources.yaml"},
	}
	name := original.GetName()
	if original.GetNamespace() != "" {
		name = original.GetNamespace() + "/" + name
	}
	var objects []string
	byResult := map[Result][]string{}
	for i, c := range w.Cases {
		object := runtime.DeepCopyJSON(c.Object)
		metadata, _ := object["metadata"].(map[string]any)
		metadata["namespace"] = fmt.Sprintf("case-%d", i+1)
		content, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		objects = append(objects, "# "+texts.OneLine(c.Name)+"\n"+string(content))
		byResult[c.Result] = append(byResult[c.Result], fmt.Sprintf("%s/%v", metadata["namespace"], metadata["name"]))
	}
	for _, result := range []Result{Pass, Fail, Skip} {
		if len(byResult[result]) > 0 {
			test.Results = append(test.Results, kyvernoResult{Policy: name, Rule: r.Written.Rule, Kind: "VirtualMachine", Resources: byResult[result], Result: result})
		}
	}
	content, err := yaml.Marshal(test)
	if err != nil {
		return err
	}
	return errors.Join(w.file("kyverno-test.yaml", content), w.file("resources.yaml", []byte(strings.Join(objects, "---\n"))))
}

// maxOutput is how much of the output of the engine an error has, in bytes.
const maxOutput = 2000

// Engine runs the test of Kyverno in the directory with a program. An error says which results differ.
func (w *Written) Engine(ctx context.Context, program string) error {
	output, err := exec.CommandContext(ctx, program, "test", w.Directory).CombinedOutput()
	if err == nil {
		return nil
	}
	text := string(output)
	if len(text) > maxOutput {
		text = text[len(text)-maxOutput:]
	}
	return fmt.Errorf("%s test %s: %w: %s", program, w.Directory, err, strings.TrimSpace(text))
}
