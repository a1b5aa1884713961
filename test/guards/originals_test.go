package guards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policytest"
)

// originals has policies of other engines, each with the policy that it is converted to, and its suite.
const originals = repository + "/examples/converted"

// installOriginals installs the originals, each for objects with its label, and returns the cases of their suites. Kyverno
// evaluates a ValidatingPolicy, and a rule in CEL, as the API server evaluates a native policy with the same fields; Gatekeeper so
// evaluates a template in CEL, with the object and the parameters as variables.
func (e *exports) installOriginals(t *testing.T) []situation {
	t.Helper()
	folders, err := filepath.Glob(originals + "/*/original.yaml")
	if err != nil || len(folders) < 10 {
		t.Fatalf("%d originals, %v", len(folders), err)
	}
	runner, err := policytest.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	var found []situation
	for i, file := range folders {
		if isPattern(t, file) {
			continue
		}
		native := e.original(t, fmt.Sprintf("original%d", i), file)
		suites, problems := policytest.Load(os.DirFS(originals), filepath.Base(filepath.Dir(file)))
		if len(problems) > 0 || len(suites) != 1 {
			t.Fatalf("%d suites, %v", len(suites), problems)
		}
		for k, outcome := range runner.Run(t.Context(), suites, policytest.Options{}).Suites[0].Tests[0].Cases {
			s, err := suites[0].Situation(0, k)
			if err != nil || outcome.Status != policytest.Passed {
				t.Fatalf("%s: %s is %s: %v", file, outcome.Name, outcome.Status, err)
			}
			found = append(found, situation{
				Situation: s, policy: s.Policies[0], native: native, denied: denies(&outcome, s.Policies[0]),
				name: suites[0].Metadata.Name + "/" + outcome.Name,
			})
		}
	}
	return found
}

// isPattern reports whether a file has rules in patterns, which the API server cannot evaluate. Answers of Kyverno's engine are in
// the test data of package convert.
func isPattern(t *testing.T, file string) bool {
	t.Helper()
	for _, object := range read(t, file) {
		rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "rules")
		for _, rule := range rules {
			if fields, _ := rule.(map[string]any); fields != nil {
				if _, ok, _ := unstructured.NestedMap(fields, "validate", "pattern"); ok {
					return true
				}
			}
		}
	}
	return false
}

// original creates the objects of a file, and those of params.yaml beside it. It returns the native policy.
func (e *exports) original(t *testing.T, id, file string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range read(t, filepath.Join(filepath.Dir(file), "params.yaml")) {
		if namespace := object.GetNamespace(); namespace != "" {
			if err := e.EnsureNamespace(t.Context(), namespace); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range asNative(t, read(t, file)) {
		var into any = policy
		switch object.GetKind() {
		case "ValidatingAdmissionPolicyBinding":
			into = binding
		case "ValidatingPolicy":
			binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
			unstructured.RemoveNestedField(object.Object, "spec", "validationActions")
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
			t.Fatal(err)
		}
	}
	policy.TypeMeta, binding.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
	policy.Labels = map[string]string{labelExported: id}
	binding.Name, binding.Spec.PolicyName = policy.Name, policy.Name
	if binding.Spec.MatchResources == nil {
		binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{}
	}
	binding.Spec.MatchResources.ObjectSelector = &metav1.LabelSelector{MatchLabels: policy.Labels}
	for _, object := range []client.Object{policy, binding} {
		if err := e.Client().Create(t.Context(), object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return policy
}

// asNative returns a rule of a ClusterPolicy in CEL, or a constraint with its template in CEL, as the native policy that it is
// evaluated like. Other objects do not change.
func asNative(t *testing.T, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	native := func(name string, operations, conditions, variables, validations any) []*unstructured.Unstructured {
		spec := map[string]any{
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []any{"kubevirt.io"}, "apiVersions": []any{"v1"}, "resources": []any{"virtualmachines"}, "operations": operations,
			}}},
			"matchConditions": conditions, "variables": variables, "validations": validations,
		}
		policy := object("ValidatingAdmissionPolicy", name, spec)
		binding := object("ValidatingAdmissionPolicyBinding", name, map[string]any{"policyName": name, "validationActions": []any{"Deny"}})
		return []*unstructured.Unstructured{policy, binding}
	}
	switch objects[0].GetKind() {
	case "ClusterPolicy":
		rule := at(t, objects[0].Object, "spec", "rules", 0)
		validate := at(t, rule, "validate").(map[string]any)
		var validations []any
		for _, v := range at(t, validate, "cel", "expressions").([]any) {
			one := v.(map[string]any)
			one["message"] = validate["message"]
			validations = append(validations, one)
		}
		return native(objects[0].GetName(), at(t, rule, "match", "any", 0, "resources", "operations"), at(t, rule, "celPreconditions"), at(t, validate, "cel", "variables"), validations)
	case "ConstraintTemplate":
		source := at(t, objects[0].Object, "spec", "targets", 0, "code", 0, "source")
		parameters, err := json.Marshal(at(t, objects[1].Object, "spec", "parameters"))
		if err != nil {
			t.Fatal(err)
		}
		variables := append([]any{
			map[string]any{"name": "anyObject", "expression": "object == null ? oldObject : object"},
			map[string]any{"name": "params", "expression": string(parameters)}, // JSON is CEL
		}, at(t, source, "variables").([]any)...)
		return native(objects[0].GetName(), []any{"CREATE", "UPDATE"}, at(t, source, "matchCondition"), variables, at(t, source, "validations"))
	}
	return objects
}

func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// at returns the value at a path of names and indexes.
func at(t *testing.T, value any, steps ...any) any {
	t.Helper()
	for _, step := range steps {
		switch s := step.(type) {
		case string:
			value = value.(map[string]any)[s]
		case int:
			value = value.([]any)[s]
		}
		if value == nil {
			t.Fatalf("%v: nothing is there", steps)
		}
	}
	return value
}

// read returns the objects of a file; none if it does not exist.
func read(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := manifests.Read(file, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, d := range found {
		all = append(all, d.Object)
	}
	return all
}
