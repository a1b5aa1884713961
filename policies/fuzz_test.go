package policies_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

// FuzzCompilePolicy: compiling a policy never panics, its problems are within their bounds, and the result can be
// evaluated.
func FuzzCompilePolicy(f *testing.F) {
	for _, spec := range []string{
		memoryCap, memoryInRego, never, "enforcement: Deny\n" + valid, "enforcement: Deny",
		"enforcement: Audit\nfailurePolicy: Ignore\nmatch: {kinds: [VirtualMachinePool], namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}, matchConditions: [{name: a, expression: 'true'}]}\n" + valid,
		"enforcement: Warn\nparams: {configMap: {namespace: a, name: b}, schema: {properties: {a: {type: integer, default: 1}}}}\nvariables: [{name: a, expression: params.a}]\nvalidations: [{expression: variables.a > 0, messageExpression: \"'a'\"}]",
		"enforcement: Deny\nexceptions: [{namespaces: [a*], expires: '2026-01-01T00:00:00Z', reason: r}]\nexportTo: [APIServer]\n" + valid,
		"enforcement: Deny\nvalidations: [{expression: \"vm.spec.volumes.all(v, v.name.matches('(a+)+$'))\", message: m, fieldPath: 'spec.volumes[0].name'}]",
	} {
		f.Add([]byte(spec), "a: 5")
	}
	template := vm(f, build.Typical("db"))
	f.Fuzz(func(t *testing.T, spec []byte, data string) {
		policy := &policyv1alpha1.VirtualMachinePolicy{}
		policy.Name = "fuzz"
		if len(spec) > 1<<13 || yaml.Unmarshal(spec, &policy.Spec) != nil {
			return
		}
		before := policy.DeepCopy()
		p, problems := policies.Compile(env(t), policy, func(string, string) (map[string]string, bool) {
			return map[string]string{"a": data}, true
		})
		if !reflect.DeepEqual(before, policy) {
			t.Error("compiling changed the policy")
		}
		if len(problems) > policyv1alpha1.MaxPolicyProblems || diagnostics.Broken(problems) != (p.Broken() != "") {
			t.Errorf("%d problems of a policy that is broken by %q", len(problems), p.Broken())
		}
		for _, problem := range problems {
			if problem.Field == "" || problem.Message == "" || len(problem.Message) > policyv1alpha1.MaxPolicyProblemLength || problem.Column < 0 || problem.Line < 0 {
				t.Errorf("a problem that says nothing, or too much: %+v", problem)
			}
		}
		d := *template
		checkFound(t, p, policies.NewSet("virtward-system", p).Evaluate(&d, noon))
	})
}

// FuzzEvaluate: no object makes evaluating panic, and what is found is valid.
func FuzzEvaluate(f *testing.F) {
	objects := recordedObjects(f)
	for i := 0; i < len(objects); i += 50 {
		f.Add(objects[i], objects[(i*7)%len(objects)])
	}
	j := newEvaluator(f)
	f.Fuzz(j.check)
}

// TestEvaluateTakesEverything evaluates every recorded object, with another one as what it was before.
func TestEvaluateTakesEverything(t *testing.T) {
	objects, j := recordedObjects(t), newEvaluator(t)
	if len(objects) < 1000 {
		t.Fatalf("only %d objects", len(objects))
	}
	for i := range objects {
		j.check(t, objects[i], objects[(i*31+7)%len(objects)])
	}
	if j.found < len(objects) {
		t.Errorf("only %d findings on %d objects: the policies are hardly asked", j.found, len(objects))
	}
}

// evaluate asks a few policies about any object.
type evaluate struct {
	pipeline *effective.Pipeline
	set      *policies.Set
	found    int
}

func newEvaluator(t testing.TB) *evaluate {
	t.Helper()
	p, err := pipeline()
	if err != nil {
		t.Fatal(err)
	}
	return &evaluate{pipeline: p, set: policies.NewSet("virtward-system",
		compile(t, "memory", memoryCap), compile(t, "rego", memoryInRego),
		compile(t, "walk", `
enforcement: Deny
variables:
- {name: disks, expression: "vm.spec.domain.devices.?disks.orValue([])"}
- {name: volumes, expression: "vm.spec.?volumes.orValue([])"}
validations:
- {expression: "variables.disks.all(d, variables.volumes.exists(v, v.name == d.name))", message: a disk without a volume, fieldPath: spec.domain.devices.disks}
- {expression: "variables.disks.all(d, !has(d.disk) || d.disk.bus == 'virtio')", messageExpression: "'buses: ' + variables.disks.map(d, d.?disk.?bus.orValue('none')).join(', ')", fieldPath: "spec.domain.devices.disks[0].disk.bus"}
- {expression: "vm.metadata.?labels.orValue({}).all(k, v, k != v)", message: m, fieldPath: vm.metadata.labels}
- {expression: "vm.spec.?nodeSelector.orValue({}).size() == 0", message: m, fieldPath: spec.nodeSelector, reason: Invalid}
- {expression: "!has(vm.spec.domain.resources.requests) || quantity(vm.spec.domain.resources.requests['memory']).isInteger()", message: m, fieldPath: "spec.domain.resources.requests[memory]"}
- {expression: "object == oldObject", message: changed, fieldPath: metadata.labels}
`),
		compile(t, "rego-walk", `
enforcement: Audit
rego:
  module: |
    package walk
    deny contains {"msg": sprintf("%v is %v", [path, value]), "field": concat(".", [p | some p in path; is_string(p)])} if {
      walk(input.vm.spec.domain, [path, value])
      is_string(value)
      contains(value, "i")
    }
`))}
}

func (j *evaluate) check(t *testing.T, object, old []byte) {
	t.Helper()
	for _, o := range [][]byte{object, old} {
		if decode.Object(o, reflect.TypeFor[v1.VirtualMachineInstance]()) != nil || decode.Object(o, reflect.TypeFor[v1.VirtualMachine]()) != nil {
			return // no caller decodes these
		}
	}
	vm, oldVM, vmi := &v1.VirtualMachine{}, &v1.VirtualMachine{}, &v1.VirtualMachineInstance{}
	for into, from := range map[any][]byte{vm: object, oldVM: old, vmi: object} {
		if json.Unmarshal(from, into) != nil {
			return
		}
	}
	facts := platform.Defaults(platform.Settings{})
	for _, in := range []effective.Input{{VM: vm, Facts: facts}, {VMI: vmi, Facts: facts}} {
		verdict, err := j.pipeline.Complete(in)
		if err != nil {
			t.Fatal(err)
		}
		d := &cel.Documents{Kind: "VirtualMachineInstance", Object: vmi, VM: verdict.VMI, Facts: facts, Provenance: verdict.Changes, Requester: "alice", Request: cel.Request{Operation: "CREATE"}}
		if in.VM != nil {
			d.Kind, d.Object, d.OldObject, d.Request.Operation = "VirtualMachine", vm, oldVM, "UPDATE"
			d.VM = &v1.VirtualMachineInstance{Spec: *verdict.Spec}
		}
		before := d.VM.DeepCopy()
		found := j.set.Evaluate(d, noon)
		checkFound(t, nil, found)
		j.found += len(found)
		if !reflect.DeepEqual(before, d.VM) {
			t.Error("evaluating changed the VM")
		}
	}
}

// checkFound holds what must be true of findings whatever was evaluated.
func checkFound(t *testing.T, p *policies.Policy, found []validators.Finding) {
	t.Helper()
	perRule := map[string]int{}
	for i := range found {
		f := &found[i]
		if perRule[f.Rule]++; perRule[f.Rule] > 20 {
			t.Errorf("more than 20 findings of %s", f.Rule)
		}
		if f.Rule == "" || f.Error == nil || f.Error.Type == "" || f.Error.Field == "" || f.Error.Detail == "" {
			t.Errorf("a finding that says nothing: %+v", f)
		}
		if len(f.Error.Detail) > 1200 || bytes.ContainsAny([]byte(f.Error.Detail), "\n\r") {
			t.Errorf("a message of %d bytes: %q", len(f.Error.Detail), f.Error.Detail)
		}
		if !slices.Contains([]validators.Severity{validators.Deny, validators.Warn, validators.Audit}, f.Severity) {
			t.Errorf("severity %q", f.Severity)
		}
		if p != nil && p.Spec().Enforcement != policyv1alpha1.PolicyDeny && p.Broken() == "" && f.Severity == validators.Deny {
			t.Errorf("a policy that does not deny denies: %s", f.Message())
		}
	}
	if !slices.IsSortedFunc(found, func(a, b validators.Finding) int { return validators.ComparePaths(a.Error.Field, b.Error.Field) }) {
		t.Error("findings are not sorted by field")
	}
}

func recordedObjects(t testing.TB) [][]byte {
	t.Helper()
	var objects [][]byte
	for _, name := range []string{"admission.jsonl", "panics.jsonl"} {
		data, err := os.ReadFile(filepath.Join("..", "conformance", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.SplitSeq(bytes.TrimSpace(data), []byte("\n")) {
			var c struct{ Object, OldObject json.RawMessage }
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatal(err)
			}
			objects = append(objects, c.Object)
			if len(c.OldObject) > 4 {
				objects = append(objects, c.OldObject)
			}
		}
	}
	return objects
}
