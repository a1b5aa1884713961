package policies

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/test/build"
)

// TestBothLanguagesSeeTheSame compares what expressions and modules read under each name.
func TestBothLanguagesSeeTheSame(t *testing.T) {
	vm := build.VMOf(build.Typical("db")).Obj()
	vm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	d := &cel.Documents{
		Kind: "VirtualMachine", Object: vm, OldObject: build.VM("before").Obj(), VM: build.Typical("db").Architecture("arm64").Obj(),
		Namespace:    &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"tier": "prod"}}},
		Instancetype: &instancetypev1beta1.VirtualMachineInstancetypeSpec{CPU: instancetypev1beta1.CPUInstancetype{Guest: 2}},
		Preference:   &instancetypev1beta1.VirtualMachinePreferenceSpec{Machine: &instancetypev1beta1.MachinePreferences{PreferredMachineType: "q35"}},
		Provenance:   []provenance.Change{{Path: "spec.architecture", Layer: "base"}, {Path: "spec.architecture", Layer: "kvm"}},
		Facts:        platform.Defaults(platform.Settings{}), Requester: "alice", References: cel.NewReferences(), Params: map[string]any{"a": []any{int64(1), "b"}, "c": 2.5},
		Previews: &cel.Previews{
			Pod: func() (*corev1.Pod, error) {
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "launcher"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "compute"}}}}, nil
			},
			Domain: func() (*domain.Domain, error) {
				return &domain.Domain{Name: "db", VCPU: &domain.DomainVCPU{Value: 2}, Features: &domain.DomainFeatureList{}}, nil
			},
			Targets: func(*cel.References) (int, error) { return 3, nil },
		},
		Request: cel.Request{Operation: "UPDATE", Name: "db", Namespace: "default", Kind: metav1.GroupVersionKind{Kind: "VirtualMachine"}, Resource: metav1.GroupVersionResource{Resource: "virtualmachines"}},
	}
	d.Instancetype.(*instancetypev1beta1.VirtualMachineInstancetypeSpec).Memory.Guest = resource.MustParse("2048Mi")
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	scope, issues := env.Scope(cel.ScopeOptions{Kinds: []string{"VirtualMachine"}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	documents := regoDocuments(d)
	documents["params"] = d.Params
	if len(documents) != len(rego.Documents()) {
		t.Errorf("modules read %d documents, and are given %d", len(rego.Documents()), len(documents))
	}
	for name, document := range documents {
		program, issues := scope.Compile(name, cel.Any)
		if len(issues) > 0 {
			t.Fatal(issues)
		}
		value, err := program.Eval(scope.Activation(d), cel.NewBudget())
		if err != nil {
			t.Fatal(err)
		}
		if compute, later := document.(rego.Computed); later {
			if document, err = compute(); err != nil {
				t.Fatal(err)
			}
		}
		if made, later := document.(rego.Later); later {
			document = made()
		}
		expression, module := jsonOf(t, value), jsonOf(t, document)
		if expression == nil || module == nil {
			t.Errorf("%s is %v in CEL and %v in Rego", name, expression, module)
		}
		if diff := cmp.Diff(expression, module); diff != "" {
			t.Errorf("%s (-CEL +Rego):\n%s", name, diff)
		}
	}
}

// jsonOf is a value as JSON has it, without what is null or empty: to expressions that is absent. Managed fields
// are removed when the documents are converted for modules.
func jsonOf(t *testing.T, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	return bare(plain)
}

func bare(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			if v[key] = bare(v[key]); v[key] == nil || key == "managedFields" {
				delete(v, key)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = bare(v[i])
		}
	}
	return value
}
