package library_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/references"
)

var environment = sync.OnceValues(cel.NewEnvironment)

// unauditable are the policies that cannot be audited, with the reason.
var unauditable = map[string]string{
	"instances-owned":        "it reads the requester",
	"no-default-namespace":   "it reads the requester",
	"mac-address-permission": "it checks permissions of the requester",
	"restart-window":         "it evaluates updates",
	"changes-effective":      "it evaluates updates",
}

// warns are the policies that only warn.
var warns = map[string]bool{"changes-effective": true}

func TestEveryPolicyIsComplete(t *testing.T) {
	env, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range library.All() {
		t.Run(entry.Name, func(t *testing.T) {
			compiled, problems := policies.Compile(env, entry.Policy, nil)
			for _, problem := range problems {
				t.Errorf("problem: %s", problem)
			}
			if reasons := compiled.Unauditable(); (len(reasons) > 0) != (unauditable[entry.Name] != "") {
				t.Errorf("it cannot be audited for the reasons %q, and is listed with the reason %q", reasons, unauditable[entry.Name])
			}
			if cost := compiled.EstimatedCost(); cost > cel.PolicyLimit {
				t.Errorf("its cost for a large VM is up to %d; the limit is %d", cost, uint64(cel.PolicyLimit))
			}
			spec := &entry.Policy.Spec
			if entry.Policy.Name != entry.Name {
				t.Errorf("its name is %s", entry.Policy.Name)
			}
			for field, value := range map[string]string{
				"title": spec.Title, "description": spec.Description, "category": spec.Category, "severity": string(spec.Severity), "remedy": spec.Remedy,
			} {
				if value == "" {
					t.Errorf("it has no %s", field)
				}
			}
			if !slices.Contains([]string{"governance", "lifecycle", "network", "resources", "security", "storage"}, spec.Category) {
				t.Errorf("the category %s is not one of the library's", spec.Category)
			}
			if spec.Enforcement != policyv1alpha1.PolicyDeny && !warns[entry.Name] {
				t.Errorf("its enforcement is %s", spec.Enforcement)
			}
			if len(spec.Exceptions) > 0 || len(spec.ExportTo) > 0 {
				t.Error("it has exceptions or exports, which are for the user who installs it")
			}
		})
	}
}

// Parameters are documented in their schema and in the description of the policy, and their values are the defaults.
func TestParameters(t *testing.T) {
	for _, entry := range library.All() {
		t.Run(entry.Name, func(t *testing.T) {
			if entry.Policy.Spec.Params == nil {
				return
			}
			values := map[string]json.RawMessage{}
			if err := json.Unmarshal(entry.Policy.Spec.Params.Values.Raw, &values); err != nil {
				t.Fatal(err)
			}
			for _, p := range entry.Parameters {
				if p.Schema.Description == "" || p.Default == "" {
					t.Errorf("%s has no description, or no default", p.Name)
				}
				if !strings.Contains(entry.Policy.Spec.Description, "- `"+p.Name+"`") {
					t.Errorf("the description has no item for %s", p.Name)
				}
				if given := values[p.Name]; given != nil {
					if diff := cmp.Diff(decoded(t, []byte(p.Default)), decoded(t, given)); diff != "" {
						t.Errorf("%s (-default +value):\n%s", p.Name, diff)
					}
				}
			}
		})
	}
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// load reads the suites of the library, by folder.
func load(t *testing.T) map[string][]*policytest.Suite {
	t.Helper()
	all, problems := policytest.Load(library.Files(), ".")
	for _, problem := range problems {
		t.Fatalf("problem: %s", problem)
	}
	byFolder := map[string][]*policytest.Suite{}
	for _, suite := range all {
		folder, _, _ := strings.Cut(suite.File, "/")
		byFolder[folder] = append(byFolder[folder], suite)
	}
	return byFolder
}

func evaluate(t *testing.T) *policytest.Runner {
	t.Helper()
	j, err := policytest.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Every policy passes its suite. Every suite has allowed and denied cases, for all kinds that the policy matches.
func TestSuites(t *testing.T) {
	j, loaded := evaluate(t), load(t)
	for _, entry := range library.All() {
		t.Run(entry.Name, func(t *testing.T) {
			its := loaded[entry.Name]
			if len(its) != 1 || its[0].Metadata.Name != entry.Name {
				t.Fatalf("it has %d suites, or one of another name", len(its))
			}
			for _, test := range its[0].Tests {
				if diff := cmp.Diff([]policytest.Source{{File: library.PolicyFile}}, test.Policies); diff != "" {
					t.Errorf("%s tests other policies (-want +got):\n%s", test.Name, diff)
				}
			}
			if !slices.ContainsFunc(its[0].Tests, func(test policytest.Test) bool { return test.Name == "evasions" }) {
				t.Error("no test of its suite is named evasions: add attempts to bypass it")
			}
			report := j.Run(t.Context(), its, policytest.Options{Coverage: true})
			verdicts := map[policytest.Verdict]int{}
			for _, test := range report.Suites[0].Tests {
				for _, c := range test.Cases {
					verdicts[c.Verdict]++
					if c.Status != policytest.Passed {
						t.Errorf("%s/%s: %s %v %v", test.Name, c.Name, c.Status, c.Problem, c.Reasons)
					}
				}
			}
			if warns[entry.Name] {
				verdicts[policytest.Denied] += verdicts[policytest.Warned]
			}
			if verdicts[policytest.Allowed] < 2 || verdicts[policytest.Denied] < 2 {
				t.Errorf("the verdicts of its cases are %v: at least two must be allowed, and two denied", verdicts)
			}
			if kinds := kindsOf(t, its[0]); !slices.Equal(kinds, sorted(entry.Policy.Spec.Match.Kinds)) {
				t.Errorf("it matches %v; its cases are denied or warned for %v", entry.Policy.Spec.Match.Kinds, kinds)
			}
			for _, coverage := range report.Coverage {
				for _, missing := range uncovered(&coverage) {
					t.Errorf("no case reaches %s", missing)
				}
			}
		})
	}
}

// uncovered are the results that no case has. The failure of an expression does not count.
func uncovered(c *policytest.Coverage) []string {
	var missing []string
	for i := range c.Expressions {
		for _, outcome := range c.Expressions[i].Missing() {
			missing = append(missing, c.Expressions[i].Field+": "+outcome)
		}
	}
	for _, line := range c.Lines {
		if !line.Reached {
			missing = append(missing, fmt.Sprintf("%s:%d", c.File, line.Line))
		}
	}
	return missing
}

// kindsOf returns the kinds of the objects for which a suite expects violations.
func kindsOf(t *testing.T, suite *policytest.Suite) []policyv1alpha1.PolicyKind {
	t.Helper()
	var kinds []policyv1alpha1.PolicyKind
	for i := range suite.Tests {
		for n := range suite.Tests[i].Cases {
			if suite.Tests[i].Cases[n].Expect.Verdict == policytest.Allowed {
				continue
			}
			situation, err := suite.Situation(i, n)
			if err != nil {
				t.Fatal(err)
			}
			kind := policyv1alpha1.PolicyKind(situation.Object.GetKind())
			if situation.Object.GetKind() == apikinds.VirtualMachineInstanceReplicaSet { // policies are evaluated on its instances
				kind = policyv1alpha1.PolicyVirtualMachineInstance
			}
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return sorted(kinds)
}

func sorted(kinds []policyv1alpha1.PolicyKind) []policyv1alpha1.PolicyKind {
	return slices.Sorted(slices.Values(kinds))
}

// lint reports nothing.
func TestLint(t *testing.T) {
	for _, problem := range evaluate(t).Lint(policytest.LoadPolicies(library.Files(), ".")) {
		t.Errorf("%s: %s", problem.Rule, problem)
	}
}

// The policies that depend on the effective VM, and only they, have another result for the manifest in one of their
// cases.
func TestEffective(t *testing.T) {
	env, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	loaded := load(t)
	for _, entry := range library.All() {
		t.Run(entry.Name, func(t *testing.T) {
			suite, different := loaded[entry.Name][0], ""
			for i := range suite.Tests {
				for n := range suite.Tests[i].Cases {
					c := &suite.Tests[i].Cases[n]
					if c.OldObject != nil || c.OldPatches != nil || c.Expect.Error || c.May != nil {
						continue // pre-existing violations and permissions are not evaluated here
					}
					situation, err := suite.Situation(i, n)
					if err != nil {
						t.Fatal(err)
					}
					if situation.Object.GetKind() == apikinds.VirtualMachineInstanceReplicaSet {
						continue // policies are evaluated on its instances
					}
					if wrong := len(asWritten(t, env, situation)) > 0; wrong != (c.Expect.Verdict == policytest.Denied) {
						different = c.Name
					}
				}
			}
			if (different != "") != (entry.Effective != "") {
				t.Errorf("on manifests, its result for the case %q differs; the entry has %q", different, entry.Effective)
			}
		})
	}
}

// asWritten returns the messages of the policies of a situation for an object without completion.
func asWritten(t *testing.T, env *cel.Environment, s *policytest.Situation) []string {
	t.Helper()
	compiled, problems := policies.Compile(env, s.Policies[0], nil)
	if diagnostics.Broken(problems) {
		t.Fatal(problems)
	}
	d := &cel.Documents{Kind: s.Object.GetKind(), Facts: s.Facts, Namespace: s.Namespace, Requester: s.User.Username}
	d.Request = cel.Request{Operation: s.Operation, Name: s.Object.GetName(), Namespace: s.Object.GetNamespace(), UserInfo: s.User}
	vm := &v1.VirtualMachine{}
	switch d.Kind {
	case apikinds.VirtualMachine:
		decode(t, s, vm)
		d.Object = vm
	case apikinds.VirtualMachinePool:
		pool := &poolv1beta1.VirtualMachinePool{}
		decode(t, s, pool)
		d.Object = pool
		vm.Spec, vm.Namespace = pool.Spec.VirtualMachineTemplate.Spec, pool.Namespace
	default:
		vmi := &v1.VirtualMachineInstance{}
		decode(t, s, vmi)
		d.Object, d.VM = vmi, vmi
	}
	memory, err := references.NewMemory(s.Namespace.Name, s.Objects...)
	if err != nil {
		t.Fatal(err)
	}
	spec := &v1.VirtualMachineInstanceSpec{}
	if d.VM != nil {
		spec = &d.VM.Spec
	} else if vm.Spec.Template != nil {
		spec = &vm.Spec.Template.Spec
	}
	d.References = references.NewGathering(memory, s.Namespace.Name, spec, vm.Spec.DataVolumeTemplates).Gather(t.Context(), cel.ReferenceKinds(), references.GatherTimeout)
	if d.VM == nil {
		d.VM = &v1.VirtualMachineInstance{ObjectMeta: vm.Spec.Template.ObjectMeta, Spec: vm.Spec.Template.Spec}
		d.VM.Name, d.VM.Namespace = vm.Name, vm.Namespace
	}
	if s.Operation == string(policyv1alpha1.PolicyDelete) {
		d.Object, d.OldObject = nil, d.Object
	}
	findings := policies.NewSet("virtward-system", compiled).Evaluate(d, s.Now)
	var messages []string
	for i := range findings {
		messages = append(messages, findings[i].Message())
	}
	return messages
}

func decode(t *testing.T, s *policytest.Situation, object any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(s.Object.Object, object); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	entry, ok := library.Find("memory-cap")
	if !ok || entry.Name != "memory-cap" || entry.Language != library.CEL || entry.Category != "resources" || entry.Severity != policyv1alpha1.PolicyHigh {
		t.Errorf("memory-cap is %+v, %v", entry, ok)
	}
	if want := []string{"max"}; len(entry.Parameters) != 1 || entry.Parameters[0].Name != want[0] || entry.Parameters[0].Default != `"64Gi"` {
		t.Errorf("its parameters are %+v", entry.Parameters)
	}
	if rego, ok := library.Find("disk-bus-virtio"); !ok || rego.Language != library.Rego {
		t.Errorf("disk-bus-virtio is %+v, %v", rego, ok)
	}
	if entry, ok := library.Find("memory"); ok {
		t.Errorf("memory is %+v", entry)
	}
	entry.Policy.Spec.Title = "changed"
	if again, _ := library.Find("memory-cap"); again.Policy.Spec.Title == "changed" {
		t.Error("a change by one caller affects another")
	}
}

// The folders have only policies, their suites, and files of suites.
func TestFolders(t *testing.T) {
	folders, err := fs.ReadDir(library.Files(), ".")
	if err != nil {
		t.Fatal(err)
	}
	rego, effective := 0, 0
	for _, entry := range library.All() {
		if entry.Language == library.Rego {
			rego++
		}
		if entry.Effective != "" {
			effective++
		}
	}
	if len(folders) < 18 || rego < 5 || effective < 6 {
		t.Errorf("%d policies, %d of them in Rego, %d that depend on the effective VM", len(folders), rego, effective)
	}
	for _, folder := range folders {
		for _, file := range []string{library.PolicyFile, library.SuiteFile} {
			if _, err := fs.Stat(library.Files(), folder.Name()+"/"+file); err != nil {
				t.Error(err)
			}
		}
	}
}
