package evaluator

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// templateOf is a request for a template on arm64 with a bus of disks and parameters, in YAML.
func templateOf(t testing.TB, bus, parameters string, change ...func(*Request)) Request {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(`
apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplate
metadata: {name: web}
spec:
  virtualMachine:
    metadata: {name: "${NAME}"}
    spec:
      runStrategy: Halted
      template:
        spec:
          architecture: arm64
          domain:
            devices: {disks: [{name: root, disk: {bus: "` + bus + `"}}]}
            memory: {guest: 1Gi}
          volumes: [{name: root, containerDisk: {image: registry.example/a}}]
  parameters: [{name: NAME, required: true}` + parameters + `]
`))
	if err != nil {
		t.Fatal(err)
	}
	r := of(t, Template, nil, change...)
	r.Object = raw
	return r
}

const (
	templateBus  = "spec.virtualMachine.spec.template.spec.domain.devices.disks[0].disk.bus"
	notValidated = "Warn template-not-validated spec.parameters[0].value"
)

func given(name, value string) func(*Request) {
	return func(r *Request) { r.Values = map[string]string{name: value} }
}

// The VM of a template is evaluated with its defaults. Built-in rules warn; what depends on a required parameter is left out.
func TestTemplates(t *testing.T) {
	admitted := func(r *Request) { r.Stage, r.Operation = Admitted, admissionv1.Create }
	for name, c := range map[string]struct {
		request Request
		want    []string
	}{
		"right":                       {templateOf(t, "virtio", "", admitted), []string{notValidated}},
		"a rule":                      {templateOf(t, "sata", "", admitted), []string{notValidated, "Warn arm64-disk-bus " + templateBus}},
		"stored":                      {templateOf(t, "sata", "", at(Stored)), []string{"Warn arm64-disk-bus " + templateBus}},
		"by a default":                {templateOf(t, "${BUS}", ", {name: BUS, value: sata}", admitted), []string{notValidated, "Warn arm64-disk-bus " + templateBus}},
		"a value instead":             {templateOf(t, "${BUS}", ", {name: BUS, value: sata}", admitted, given("BUS", "virtio")), []string{notValidated}},
		"by a required parameter":     {templateOf(t, "${BUS}", ", {name: BUS, required: true, enum: [sata]}", admitted), []string{notValidated, "Warn template-not-validated spec.parameters[1].value"}},
		"that cannot be rendered":     {templateOf(t, "${BUZ}", "", admitted), []string{"Warn template-not-validated spec.parameters[0].value", "Deny template-undefined-parameter " + templateBus}},
		"with a value that is denied": {templateOf(t, "virtio", "", admitted, given("NOM", "x")), []string{"Deny template-unknown-given-parameter parameters[NOM]", notValidated}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, rules(newFixture(t).evaluate(t, c.request))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Policies that match templates keep their enforcement, unless their findings depend on a required parameter.
func TestPoliciesOfTemplates(t *testing.T) {
	const match = "match: {kinds: [VirtualMachineTemplate]}, "
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"the effective VM":        {match + `validations: [{expression: "vm.spec.domain.cpu.cores > 1u", message: more, fieldPath: spec.domain.cpu.cores}]`, []string{"Deny policy/p spec.virtualMachine.spec.template.spec.domain.cpu.cores"}},
		"a field of the template": {match + `validations: [{expression: "has(object.spec.message)", message: say, fieldPath: spec.message}]`, []string{"Deny policy/p spec.message"}},
		"the text of the VM":      {match + `validations: [{expression: "object.spec.virtualMachine.metadata.name != '${NAME}'", message: no, fieldPath: spec.virtualMachine.metadata}]`, nil},
		"a required parameter":    {match + `validations: [{expression: "vm.metadata.name == 'sample'", message: no, fieldPath: spec.runStrategy}]`, nil},
		"of VMs":                  {`validations: [{expression: "false", message: never}]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.policy(t, "p", "{enforcement: Deny, "+c.spec+"}")
			if diff := cmp.Diff(append([]string{notValidated}, c.want...), rules(f.evaluate(t, templateOf(t, "virtio", "", at(Admitted), by(admissionv1.Create)))), cmp.Transformer("sorted", sorted)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func sorted(all []string) map[string]bool {
	set := map[string]bool{}
	for _, one := range all {
		set[one] = true
	}
	return set
}

// Pre-existing findings of a template are warnings, of rendering too.
func TestRatchetOfTemplates(t *testing.T) {
	f := newFixture(t)
	f.policy(t, "p", `{enforcement: Deny, match: {kinds: [VirtualMachineTemplate]}, validations: [{expression: "vm.spec.domain.cpu.cores > 1u", message: more, fieldPath: spec.domain.cpu.cores}]}`)
	update := func(old Request) func(*Request) {
		return func(r *Request) { r.Stage, r.Operation, r.OldObject = Admitted, admissionv1.Update, old.Object }
	}
	for name, c := range map[string]struct {
		request Request
		allowed bool
	}{
		"the same policy":     {templateOf(t, "scsi", "", update(templateOf(t, "virtio", ""))), true},
		"the same fault":      {templateOf(t, "${A}", "", update(templateOf(t, "${A}", ", {name: X, value: a}"))), true},
		"another fault":       {templateOf(t, "${B}", "", update(templateOf(t, "${A}", ""))), false},
		"it was right before": {templateOf(t, "${A}", "", update(templateOf(t, "virtio", ""))), false},
	} {
		if got := f.evaluate(t, c.request); got.Allowed() != c.allowed {
			t.Errorf("%s: %v", name, rules(got))
		}
	}
}

// What a template makes is evaluated as a VM that a user creates, and the findings are at fields of the template.
func TestEvaluateMade(t *testing.T) {
	const ofVM = `{enforcement: Deny, validations: [{expression: "vm.metadata.name.startsWith('team-')", message: prefix, fieldPath: object.metadata.name}]}`
	for name, c := range map[string]struct {
		request Request
		want    []string
	}{
		"a value":           {templateOf(t, "sata", "", given("NAME", "web")), []string{"Deny policy/p spec.virtualMachine.metadata.name", "Deny arm64-disk-bus " + templateBus}},
		"a better value":    {templateOf(t, "virtio", "", given("NAME", "team-web")), nil},
		"without the value": {templateOf(t, "sata", ""), []string{notValidated, "Deny arm64-disk-bus " + templateBus}},
		"a fault":           {templateOf(t, "${A}", "", given("NAME", "web")), []string{"Deny template-undefined-parameter " + templateBus}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.policy(t, "p", ofVM)
			got, err := f.snapshot(t).EvaluateMade(t.Context(), c.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, rules(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if rendered := !strings.Contains(name, "fault"); rendered != (got.Verdict != nil) || rendered && (got.Verdict.Container == nil || got.Verdict.Spec.Domain.CPU.Cores != 1) {
				t.Errorf("verdict %+v", got.Verdict)
			}
		})
	}
}

// A VM that exceeds the limits of decoding is a finding at its field.
func TestTemplateWithOddQuantity(t *testing.T) {
	r := templateOf(t, "virtio", "", at(Admitted), by(admissionv1.Create))
	r.Object = []byte(strings.Replace(string(r.Object), `"1Gi"`, `"1e99999999"`, 1))
	got := newFixture(t).evaluate(t, r)
	if got.Allowed() || got.Verdict != nil || !strings.Contains(strings.Join(rules(got), "\n"), " spec.virtualMachine.spec.template.spec.domain.memory.guest") {
		t.Errorf("findings %v", rules(got))
	}
}

// No template and no value panics or fails, and every finding names a field of the template or a value.
func FuzzEvaluateMade(f *testing.F) {
	f.Add(`{"metadata":{"name":"${A}"},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"cpu":{"cores":"${{B}}"},"devices":{}}}}}}`, "4", true)
	f.Add(`{"spec":{"instancetype":{"name":"${B}"},"template":{"spec":{"architecture":"${A}","domain":{"memory":{"guest":"${B}"}}}}}}`, "arm64", false)
	f.Add(`{"spec":{"template":{"spec":{"volumes":"${{A}}"}}}}`, `[{"name":"a"}]`, true)
	fixture := newFixture(f)
	fixture.policy(f, "memory", `{enforcement: Deny, match: {kinds: [VirtualMachine, VirtualMachineTemplate]}, validations: [{expression: "vm.spec.domain.memory.guest != ''", message: none}]}`)
	f.Fuzz(func(t *testing.T, vm, value string, given bool) {
		template := map[string]any{"spec": map[string]any{
			"virtualMachine": json.RawMessage(vm), "parameters": []any{map[string]any{"name": "A", "value": value}, map[string]any{"name": "B", "required": true}},
		}}
		raw, err := json.Marshal(template)
		if err != nil {
			t.Skip("no JSON")
		}
		r := Request{Object: raw, Kind: metav1.GroupVersionKind{Group: Template.Group, Version: "v1beta1", Kind: Template.Kind}, Namespace: "default"}
		if given {
			r.Values = map[string]string{"B": value}
		}
		result, err := fixture.snapshot(t).EvaluateMade(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for i := range result.Findings {
			if at := result.Findings[i].Error.Field; !strings.HasPrefix(at, "spec") && !strings.HasPrefix(at, "parameters[") {
				t.Errorf("%s is at %s", result.Findings[i].Rule, at)
			}
		}
	})
}
