package proof

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
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

// Result is what a rule makes of a request, in the words of Kyverno's tests.
type Result string

// The results.
const (
	Pass  Result = "pass"
	Fail  Result = "fail"
	Skip  Result = "skip"
	Error Result = "error"
)

// Case is a request and its result.
type Case struct {
	convert.Case

	Result Result
	// Violations is the number of findings.
	Violations int
	// Pod is the pod of the virtual machine, if the original is about pods.
	Pod map[string]any
}

// evaluation evaluates a policy, and where its original has an error or is skipped.
type evaluation struct {
	policy, errors, skipped *policies.Set
	// pods are those of virtual machines; nil if the original is not about pods.
	pods *pods
}

// evaluationOf compiles a policy.
func evaluationOf(env *cel.Environment, r *convert.Result) (*evaluation, error) {
	e := &evaluation{}
	var err error
	if r.Written.Pods() {
		if e.pods, err = newPods(); err != nil {
			return nil, err
		}
	}
	if e.policy, err = compiled(env, r.Policy); err != nil {
		return nil, err
	}
	for _, probe := range []struct {
		expression string
		set        **policies.Set
	}{{r.Written.Skipped, &e.skipped}, {r.Written.Errors, &e.errors}} {
		policy := r.Policy.DeepCopy()
		policy.Spec.Rego, policy.Spec.Params = nil, nil
		if r.Written.Pods() { // preconditions in CEL are among the conditions of the match
			policy.Spec.Match.MatchConditions = nil
		}
		policy.Spec.Enforcement = policyv1alpha1.PolicyDeny
		policy.Spec.Validations = []policyv1alpha1.PolicyValidation{{Expression: "!(" + probe.expression + ")", Message: "probe"}}
		if *probe.set, err = compiled(env, policy); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// result returns what the original makes of a request.
func (e *evaluation) result(d *cel.Documents) (result Result, violations int) {
	violations = len(e.policy.Evaluate(d, at))
	switch {
	case len(e.errors.Evaluate(d, at)) > 0:
		return Error, violations
	case violations > 0:
		return Fail, violations
	case len(e.skipped.Evaluate(d, at)) > 0:
		return Skip, violations
	}
	return Pass, violations
}

// Cases evaluates the requests of a converted rule, up to 2,000 times. Results that are not of Kyverno's rules or Gatekeeper's modules
// have none. The error is the cause of the end of ctx, or convert.ErrTooLarge.
func Cases(ctx context.Context, env *cel.Environment, r *convert.Result) ([]Case, error) {
	if r.Policy == nil || r.Written == nil {
		return nil, nil
	}
	e, err := evaluationOf(env, r)
	if err != nil {
		return nil, err
	}
	derived, err := r.Written.Cases(func(c convert.Case) (bool, error) {
		d, _, ok := e.documents(ctx, c)
		return ok && ctx.Err() == nil && len(e.policy.Evaluate(d, at)) > 0, context.Cause(ctx)
	})
	if err != nil {
		return nil, err
	}
	return e.evaluated(ctx, derived)
}

// Results evaluates a policy for the requests of another one, as a test of one does with a change of the policy.
func Results(ctx context.Context, env *cel.Environment, r *convert.Result, cases []Case) ([]Case, error) {
	e, err := evaluationOf(env, r)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(cases)
	for i := range all {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if d, _, ok := e.documents(ctx, all[i].Case); ok {
			all[i].Result, all[i].Violations = e.result(d)
		}
	}
	return all, nil
}

// evaluated returns the results of requests. Those that are no requests about virtual machines, or are equal, are left out.
func (e *evaluation) evaluated(ctx context.Context, derived []convert.Case) ([]Case, error) {
	var all []Case
	known := map[[sha256.Size]byte]bool{}
	for _, c := range derived {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		d, normal, ok := e.documents(ctx, c)
		if !ok {
			continue
		}
		one := Case{Case: normal}
		if e.pods != nil {
			var err error
			if one.Pod, err = e.pods.created(d); err != nil {
				continue
			}
		}
		key, err := json.Marshal([]any{normal.Object, normal.OldObject, normal.Operation, normal.User})
		digest := sha256.Sum256(key)
		if err != nil || known[digest] {
			continue
		}
		known[digest] = true
		one.Result, one.Violations = e.result(d)
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

// documents returns what policies read of a request, and the request in the form of the API, which leaves out empty lists. It is
// false if an object is no VirtualMachine.
func (e *evaluation) documents(ctx context.Context, c convert.Case) (d *cel.Documents, normal convert.Case, ok bool) {
	d = &cel.Documents{Kind: "VirtualMachine", Facts: platform.Defaults(platform.Settings{}), Requester: cmp.Or(c.User, policytest.DefaultUser)}
	d.Request = cel.Request{Operation: cmp.Or(c.Operation, "CREATE")}
	d.Request.UserInfo.Username = d.Requester
	set := func(object *map[string]any, document *any) bool {
		if *object == nil {
			return true
		}
		data, err := json.Marshal(*object)
		vm := &v1.VirtualMachine{}
		if err != nil || json.Unmarshal(data, vm) != nil {
			return false
		}
		made, err := runtime.DefaultUnstructuredConverter.ToUnstructured(vm)
		if err != nil {
			return false
		}
		delete(made, "status")
		*object, *document = made, vm // both engines read the same
		d.Request.Name, d.Request.Namespace = vm.Name, vm.Namespace
		return true
	}
	ok = set(&c.OldObject, &d.OldObject) && set(&c.Object, &d.Object)
	if ok && e.pods != nil {
		ok = e.pods.preview(ctx, d)
	}
	return d, c, ok
}

// Written is a directory with the tests of a policy.
type Written struct {
	Directory string
	// Cases are those of the files, and Left is how many objects are no valid virtual machines, or have another verdict after
	// completion.
	Cases []Case
	Left  int
	// Engine is the program that can run the test: kyverno or gator.
	Engine string
}

// Write writes the original, the policy, a suite and a test of Kyverno or Gatekeeper to a directory. It keeps no case that does not
// pass in the suite.
func Write(ctx context.Context, env *cel.Environment, directory string, original *unstructured.Unstructured, r *convert.Result) (*Written, error) {
	cases, err := Cases(ctx, env, r)
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
		return nil, errors.Join(err, os.Remove(filepath.Join(directory, "suite.yaml"))) // it would have cases that do not pass
	}
	w.Cases = slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return !passed[c.Name] })
	w.Left = len(cases) - len(w.Cases)
	if err := w.suite(r, w.Cases); err != nil {
		return nil, err
	}
	if r.Written.Template != nil {
		return w, w.gator(r.Written.Template, original)
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
		one := policytest.Case{Name: cases[i].Name, Operation: cases[i].Operation, Expect: policytest.Expect{Verdict: policytest.Allowed, Violations: &cases[i].Violations}}
		if cases[i].Object != nil {
			one.Object = &policytest.Source{Object: cases[i].Object}
		}
		switch {
		case cases[i].Operation == "DELETE":
			one.Object = &policytest.Source{Object: cases[i].OldObject}
		case cases[i].OldObject != nil:
			one.OldObject = &policytest.Source{Object: cases[i].OldObject}
		}
		if cases[i].User != "" {
			one.UserInfo = &authenticationv1.UserInfo{Username: cases[i].User}
		}
		if found := verdict[r.Policy.Spec.Enforcement]; found != "" && cases[i].Violations > 0 {
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
	report := runner.Run(ctx, suites, policytest.Options{})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, suite := range report.Suites {
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

	// kind is that of the resources.
	kind string
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
	w.Engine = Kyverno
	var objects []string
	byResult := map[Result][]string{}
	for i, c := range w.Cases {
		if c.OldObject != nil || c.User != "" || c.Result == Error { // Kyverno's tests have only creations by one user, without errors
			continue
		}
		object, kind := runtime.DeepCopyJSON(c.Object), "VirtualMachine"
		if c.Pod != nil {
			object, kind = runtime.DeepCopyJSON(c.Pod), "Pod"
		}
		test.kind = kind
		metadata, _ := object["metadata"].(map[string]any)
		if r.Written.ByNamespace {
			metadata["name"] = fmt.Sprintf("case-%d", i+1)
		} else {
			metadata["namespace"] = fmt.Sprintf("case-%d", i+1)
		}
		content, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		objects = append(objects, "# "+texts.OneLine(c.Name)+"\n"+string(content))
		byResult[c.Result] = append(byResult[c.Result], fmt.Sprintf("%s/%v", metadata["namespace"], metadata["name"]))
	}
	for _, result := range []Result{Pass, Fail, Skip} {
		if len(byResult[result]) > 0 {
			test.Results = append(test.Results, kyvernoResult{Policy: name, Rule: r.Written.Rule, Kind: test.kind, Resources: byResult[result], Result: result})
		}
	}
	content, err := yaml.Marshal(test)
	if err != nil {
		return err
	}
	return errors.Join(w.file("kyverno-test.yaml", content), w.file("resources.yaml", []byte(strings.Join(objects, "---\n"))))
}

// gatorSuite is a suite of Gatekeeper's program.
type gatorSuite struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Metadata   policytest.Metadata `json:"metadata"`
	Tests      []gatorTest         `json:"tests"`
}

type gatorTest struct {
	Name       string      `json:"name"`
	Template   string      `json:"template"`
	Constraint string      `json:"constraint"`
	Cases      []gatorCase `json:"cases"`
}

type gatorCase struct {
	Name       string           `json:"name"`
	Object     string           `json:"object"`
	Assertions []gatorAssertion `json:"assertions"`
}

type gatorAssertion struct {
	Violations string `json:"violations"`
}

// gator writes the suite of Gatekeeper, with a file for each request.
func (w *Written) gator(template, constraint *unstructured.Unstructured) error {
	w.Engine = Gator
	test := gatorTest{Name: "as the policy", Template: "template.yaml", Constraint: "original.yaml"}
	content, err := yaml.Marshal(template.Object)
	if err != nil {
		return err
	}
	if err := errors.Join(w.file("template.yaml", content), os.MkdirAll(filepath.Join(w.Directory, "cases"), 0o750)); err != nil {
		return err
	}
	for i, c := range w.Cases {
		content, err := yaml.Marshal(Review(&w.Cases[i]))
		if err != nil {
			return err
		}
		one := gatorCase{Name: c.Name, Object: fmt.Sprintf("cases/%03d.yaml", i+1), Assertions: []gatorAssertion{{Violations: "no"}}}
		if c.Violations > 0 {
			one.Assertions[0].Violations = "yes"
		}
		if err := w.file(one.Object, content); err != nil {
			return err
		}
		test.Cases = append(test.Cases, one)
	}
	suite := gatorSuite{APIVersion: "test.gatekeeper.sh/v1alpha1", Kind: "Suite", Metadata: policytest.Metadata{Name: constraint.GetName()}, Tests: []gatorTest{test}}
	content, err = yaml.Marshal(suite)
	if err != nil {
		return err
	}
	return w.file("gator-suite.yaml", content)
}

// Review returns the AdmissionReview of a request to the original engine.
func Review(c *Case) map[string]any {
	kind, resource, newer := map[string]any{"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachine"}, "virtualmachines", c.Object
	if c.Pod != nil {
		kind, resource, newer = map[string]any{"group": "", "version": "v1", "kind": "Pod"}, "pods", c.Pod
	}
	request := map[string]any{
		"uid": "00000000-0000-0000-0000-000000000000", "operation": cmp.Or(c.Operation, "CREATE"), "kind": kind,
		"resource": map[string]any{"group": kind["group"], "version": "v1", "resource": resource},
		"userInfo": map[string]any{"username": cmp.Or(c.User, policytest.DefaultUser)},
	}
	for _, of := range []struct {
		field  string
		object map[string]any
	}{{"oldObject", c.OldObject}, {"object", newer}} { // the name is that of the object, if there is one
		if of.object != nil {
			metadata, _ := of.object["metadata"].(map[string]any)
			request[of.field], request["name"], request["namespace"] = of.object, metadata["name"], metadata["namespace"]
		}
	}
	return map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
}

// The engines of the originals.
const (
	Kyverno = "kyverno"
	Gator   = "gator"
)

// maxOutput is how much of the output of the engine an error has, in bytes.
const maxOutput = 2000

// patience is how long a program that was stopped can keep its output open.
const patience = time.Second

// tail keeps the last bytes that are written.
type tail struct{ kept []byte }

func (t *tail) Write(data []byte) (int, error) {
	t.kept = append(t.kept, data[max(0, len(data)-maxOutput):]...)
	t.kept = t.kept[max(0, len(t.kept)-maxOutput):]
	return len(data), nil
}

// Run runs the test of the engine in the directory with a program. An error says which results differ. The end of ctx kills the program.
func (w *Written) Run(ctx context.Context, program string) error {
	args := []string{"test", w.Directory}
	if w.Engine == Gator {
		args = []string{"verify", filepath.Join(w.Directory, "gator-suite.yaml")}
	}
	output := &tail{}
	command := exec.CommandContext(ctx, program, args...)
	command.Stdout, command.Stderr, command.WaitDelay = output, output, patience
	err := command.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(strings.ToValidUTF8(string(output.kept), "")))
}
