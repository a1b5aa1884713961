// Package examples_test validates the examples: every example decodes strictly into its Go type, every virtual machine is
// complete and valid, those in rejected/ have exactly the errors of their comment, and settings name existing rules.
package examples_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/validators"
)

// kinds of the examples.
var kinds = map[schema.GroupVersionKind]func() any{
	v1.GroupVersion.WithKind("VirtualMachine"):                                           func() any { return &v1.VirtualMachine{} },
	v1.GroupVersion.WithKind("VirtualMachineInstance"):                                   func() any { return &v1.VirtualMachineInstance{} },
	v1.GroupVersion.WithKind("KubeVirt"):                                                 func() any { return &v1.KubeVirt{} },
	instancetypev1beta1.SchemeGroupVersion.WithKind("VirtualMachineClusterInstancetype"): func() any { return &instancetypev1beta1.VirtualMachineClusterInstancetype{} },
	instancetypev1beta1.SchemeGroupVersion.WithKind("VirtualMachineClusterPreference"):   func() any { return &instancetypev1beta1.VirtualMachineClusterPreference{} },
	policyv1alpha1.GroupVersion.WithKind("RuleSettings"):                                 func() any { return &policyv1alpha1.RuleSettings{} },
}

// example is one file, decoded.
type example struct {
	content []byte
	object  *unstructured.Unstructured
	typed   any
}

func examples(t *testing.T) map[string]example {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.yaml", "kubevirt/*.yaml", "policy/*.yaml", "rejected/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("there are no examples %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	all := map[string]example{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e := example{content: content, object: &unstructured.Unstructured{}}
		if err := yaml.UnmarshalStrict(content, &e.object.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[file] = e
	}
	return all
}

// decode reads an example strictly, but for the field of VEP 97, which KubeVirt's type does not have.
func decode(t *testing.T, e *example) {
	t.Helper()
	kind, known := kinds[e.object.GroupVersionKind()]
	if !known {
		t.Fatalf("the kind %s is not one that examples are made of", e.object.GroupVersionKind())
	}
	e.typed = kind()
	object := e.object.DeepCopy()
	unstructured.RemoveNestedField(object.Object, "spec", "configuration", "hypervisor")
	content, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	strict, err := sigsjson.UnmarshalStrict(content, e.typed)
	if err != nil || len(strict) > 0 {
		t.Fatalf("%v %v", err, strict)
	}
}

func TestEveryExample(t *testing.T) {
	all := examples(t)
	var references []*unstructured.Unstructured
	for _, e := range all {
		if e.object.GroupVersionKind().Group == instancetypev1beta1.SchemeGroupVersion.Group {
			references = append(references, e.object)
		}
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Sorted(maps.Keys(all)) {
		e := all[file]
		t.Run(file, func(t *testing.T) {
			if !bytes.HasPrefix(e.content, []byte("# ")) {
				t.Error("it does not begin with a comment that describes it")
			}
			if !strings.Contains(string(readme), "("+file+")") {
				t.Error("README.md does not mention it")
			}
			decode(t, &e)
			causes := announced(e.content)
			if invalid := filepath.Dir(file) == "rejected"; invalid != (len(causes) > 0) {
				t.Errorf("it announces the causes %q, and is in the folder %s", causes, filepath.Dir(file))
			}
			switch object := e.typed.(type) {
			case *v1.VirtualMachine:
				isComplete(t, references, effective.Input{VM: object}, causes)
			case *v1.VirtualMachineInstance:
				isComplete(t, references, effective.Input{VMI: object}, causes)
			case *instancetypev1beta1.VirtualMachineClusterInstancetype:
				isValid(t, validators.OnInstancetype, &validators.Subject{Instancetype: &object.Spec})
			case *instancetypev1beta1.VirtualMachineClusterPreference:
				isValid(t, validators.OnPreference, &validators.Subject{Preference: &object.Spec})
			case *policyv1alpha1.RuleSettings:
				setsRules(t, object)
			}
		})
	}
}

// announced returns the errors that the comment of an example lists: `FIELD [virtward/RULE]`, one a line.
func announced(content []byte) []string {
	var causes []string
	for line := range strings.Lines(string(content)) {
		if cause, found := strings.CutPrefix(line, "#   "); found {
			causes = append(causes, strings.TrimSpace(cause))
		}
	}
	return causes
}

// told returns denying findings in the form of these comments.
func told(findings []validators.Finding) []string {
	var causes []string
	for _, f := range findings {
		if f.Severity == validators.Deny {
			causes = append(causes, f.Error.Field+" [virtward/"+f.Rule+"]")
		}
	}
	return causes
}

// isValid validates an instancetype or a preference, which does not depend on the hypervisor.
func isValid(t *testing.T, scope validators.Scope, subject *validators.Subject) {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	subject.Path = field.NewPath("spec")
	subject.Facts = platform.Defaults(platform.Settings{})
	findings, err := effective.NewPipeline(registry).CheckObject(subject, scope, nil, nil, nil)
	if err != nil || len(findings) > 0 {
		t.Errorf("%v %v", err, findings)
	}
}

// setsRules validates settings as the webhook does. Each of them must change a severity.
func setsRules(t *testing.T, settings *policyv1alpha1.RuleSettings) {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	if errs := validators.CheckSettings(registry.Rules(), settings); len(errs) > 0 {
		t.Error(errs)
	}
	for i := range settings.Spec.Rules {
		rule := settings.Spec.Rules[i]
		if rule.Reason == "" {
			t.Errorf("%s is set without a reason", rule.Rule)
		}
		if own := registry.Rules()[slices.IndexFunc(registry.Rules(), func(r validators.Rule) bool { return r.ID == rule.Rule })].Severity; own == validators.Severity(rule.Severity) {
			t.Errorf("%s is %s by default", rule.Rule, own)
		}
	}
}

// isComplete evaluates a virtual machine for every hypervisor, with the facts of KubeVirt's own defaults. It
// has exactly these errors, and no warnings.
func isComplete(t *testing.T, pointedAt []*unstructured.Unstructured, in effective.Input, causes []string) {
	t.Helper()
	objects, err := references.NewMemory("default", pointedAt...)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	found, warnings, err := references.For(t.Context(), objects, in.VM, in.VMI)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %v", err, warnings)
	}
	in.References = found
	for _, name := range platform.HypervisorNames() {
		hypervisor, err := platform.HypervisorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		in.Facts = platform.Defaults(platform.Settings{}).WithHypervisor(hypervisor)
		verdict, err := effective.NewPipeline(registry).Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(causes, told(verdict.Findings), cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("errors on %s (-comment +found):\n%s", name, diff)
		}
		if len(verdict.Findings) != len(causes) {
			t.Errorf("warnings on %s: %v", name, verdict.Findings)
		}
		if verdict.Spec.Architecture == "" || verdict.Spec.Domain.CPU.Model == "" || len(verdict.Changes) < 5 {
			t.Errorf("on %s it is not complete: %v", name, verdict.Changes)
		}
	}
}

// TestReadme compares the output that the front page shows with that of the examples.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	evaluate := func(file string) *effective.Verdict {
		e := examples(t)[file]
		decode(t, &e)
		verdict, err := effective.NewPipeline(registry).Decide(effective.Input{
			VM: e.typed.(*v1.VirtualMachine), Facts: platform.Defaults(platform.Settings{}),
		})
		if err != nil {
			t.Fatal(err)
		}
		return verdict
	}

	var denials []string
	for _, f := range evaluate("rejected/vm-arm64.yaml").Findings {
		denials = append(denials, "* "+f.Error.Field+": "+f.Message())
	}
	if diff := cmp.Diff(denials, printed(page, "$ kubectl apply -f examples/rejected/vm-arm64.yaml")[1:]); diff != "" {
		t.Errorf("what kubectl apply prints (-want +got):\n%s", diff)
	}

	filled := map[string]bool{}
	for _, c := range evaluate("vm-arm64.yaml").Changes {
		value, err := json.Marshal(c.Value)
		if err != nil {
			t.Fatal(err)
		}
		filled[strings.TrimPrefix(c.Path, "spec.template.spec.")+" "+strings.Trim(string(value), `"`)+" "+c.Layer] = true
	}
	rows := printed(page, "$ kubectl virtward explain -f examples/vm-arm64.yaml -o table")
	if len(rows) < 5 {
		t.Fatalf("the page shows too little: %q", rows)
	}
	for _, row := range rows[slices.Index(rows, "…")+2:] {
		if cells := strings.Fields(row); row != "…" && !filled[strings.Join(cells, " ")] {
			t.Errorf("explain does not print %q", row)
		}
	}
}

// printed returns the output of a command that a page shows.
func printed(page []byte, command string) []string {
	_, after, _ := strings.Cut(string(page), command+"\n")
	output, _, _ := strings.Cut(after, "\n```")
	return strings.Split(output, "\n")
}

// TestHypervisors checks the facts of the KubeVirt examples.
func TestHypervisors(t *testing.T) {
	all := examples(t)
	type outcome struct {
		Name          string
		Warning, Note bool
	}
	want := map[string]outcome{
		"kubevirt/defaults.yaml":           {Name: "kvm"},
		"kubevirt/hyperv-direct.yaml":      {Name: "hyperv-direct"},
		"kubevirt/mshv.yaml":               {Name: "mshv"},
		"kubevirt/gate-closed.yaml":        {Name: "kvm", Note: true},
		"kubevirt/unknown-hypervisor.yaml": {Name: "kvm", Warning: true},
	}
	got := map[string]outcome{}
	for file, e := range all {
		if e.object.GetKind() != "KubeVirt" {
			continue
		}
		if filepath.Dir(file) != "kubevirt" {
			t.Errorf("%s replaces the KubeVirt resource: move it to kubevirt/, which `kubectl apply -f examples` skips", file)
		}
		facts, err := platform.FromKubeVirt(e.object, platform.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		got[file] = outcome{Name: facts.Hypervisor.ConfiguredName, Warning: len(facts.Warnings) > 0, Note: len(facts.Notes) > 0}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The policies pass all cases of their suites, and lint reports nothing.
func TestEveryPolicy(t *testing.T) {
	repository := os.DirFS("..")
	all, problems := policytest.Load(repository, "examples/policy")
	if len(problems) > 0 || len(all) == 0 {
		t.Fatal(len(all), problems)
	}
	runner, err := policytest.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	report := runner.Run(t.Context(), all, policytest.Options{})
	var said bytes.Buffer
	if err := policytest.WriteTable(&said, report, true); err != nil {
		t.Fatal(err)
	}
	if counts := report.Counts(); counts.Passed == 0 || counts.Passed != counts.Total() {
		t.Errorf("%+v:\n%s", counts, &said)
	}
	written := policytest.LoadPolicies(repository, "examples/policy")
	if doubts := runner.Lint(written); len(doubts) > 0 {
		t.Error(doubts)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("policy/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if !strings.Contains(string(readme), "("+file+")") {
			t.Errorf("README.md does not mention %s", file)
		}
	}
}
