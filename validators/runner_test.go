package validators

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/platform"
)

// ruleCase is something that rules look at, and what they say of it. Objects are written in YAML, and so in JSON
// where that is shorter; fields that do not exist are an error.
type ruleCase struct {
	name string
	// spec is that of a VMI; it stands for a vmi with nothing else.
	spec string
	// vm and old are a VM and what it was, and running its VMI; vmi and oldVMI a VMI and what it was.
	vm, old, running string
	vmi, oldVMI      string
	// instancetype and preference are the specs of these objects by themselves.
	instancetype, preference string
	// requester is the user name of the requester, and node the node that its token is bound to.
	requester, node string
	// configuration is the KubeVirt resource's; KubeVirt's defaults if empty.
	configuration string
	// want is the id and the message of each finding, sorted by field.
	want []string
}

// runCases checks each case, and that the cases hold a finding of every rule of the table in this scope.
func runCases(t *testing.T, table Table, scope Scope, cases []ruleCase) {
	t.Helper()
	seen := map[string]bool{}
	for i := range cases {
		tc := &cases[i]
		t.Run(tc.name, func(t *testing.T) {
			findings := table.Check(tc.subject(t), scope)
			for _, f := range findings {
				seen[f.Rule] = true
			}
			if diff := cmp.Diff(tc.want, messages(findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
	for i := range table {
		if table[i].Scope&scope != 0 && !seen[table[i].ID] {
			t.Errorf("no case has a finding of %s", table[i].ID)
		}
	}
}

// messages are the id and the message of each finding. A message begins with the field, and says the type.
func messages(findings []Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, fmt.Sprintf("%s: %s", f.Rule, f.Error.Error()))
	}
	return all
}

// area is the part of a table whose ids begin with the name of an area.
func (t Table) area(name string) Table {
	var part Table
	for i := range t {
		if strings.HasPrefix(t[i].ID, name+"-") {
			part = append(part, t[i])
		}
	}
	return part
}

func (tc *ruleCase) subject(t *testing.T) *Subject {
	t.Helper()
	s := &Subject{
		Facts:        configuredFacts(t, tc.configuration),
		VM:           decoded[v1.VirtualMachine](t, tc.vm),
		OldVM:        decoded[v1.VirtualMachine](t, tc.old),
		Running:      decoded[v1.VirtualMachineInstance](t, tc.running),
		VMI:          decoded[v1.VirtualMachineInstance](t, tc.vmi),
		OldVMI:       decoded[v1.VirtualMachineInstance](t, tc.oldVMI),
		Instancetype: decoded[instancetypev1beta1.VirtualMachineInstancetypeSpec](t, tc.instancetype),
		Preference:   decoded[instancetypev1beta1.VirtualMachinePreferenceSpec](t, tc.preference),
		Path:         field.NewPath("spec"),
		Requester:    tc.requester,
	}
	if tc.node != "" {
		s.RequesterExtra = map[string][]string{"authentication.kubernetes.io/node-name": {tc.node}}
	}
	if spec := decoded[v1.VirtualMachineInstanceSpec](t, tc.spec); spec != nil {
		s.VMI = &v1.VirtualMachineInstance{Spec: *spec}
	}
	switch {
	case s.VMI != nil:
		s.Spec, s.Meta, s.MetaPath = &s.VMI.Spec, &s.VMI.ObjectMeta, field.NewPath("metadata")
	case s.VM != nil:
		s.Path, s.MetaPath = field.NewPath("spec", "template", "spec"), field.NewPath("spec", "template", "metadata")
		if s.VM.Spec.Template == nil {
			s.VM.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
		}
		s.Spec, s.Meta = &s.VM.Spec.Template.Spec, &s.VM.Spec.Template.ObjectMeta
	}
	return s
}

// decoded reads an object; nil if there is no text.
func decoded[T any](t *testing.T, text string) *T {
	t.Helper()
	if text == "" {
		return nil
	}
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return object
}

// configuredFacts are those of a cluster whose KubeVirt resource has this configuration.
func configuredFacts(t *testing.T, configuration string) *platform.Facts {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(configuration), &object); err != nil {
		t.Fatal(err)
	}
	facts, err := platform.FromKubeVirt(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "kubevirt", "namespace": "kubevirt"},
		"spec":     map[string]any{"configuration": object},
	}}, platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return facts
}
