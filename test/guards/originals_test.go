package guards

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/test/crds"
)

// originals has policies of other engines, each with the policy that it is converted to, and its suite.
const originals = repository + "/examples/converted"

// definitions returns the definitions of KubeVirt and CDI, and that of the parameters of an original.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "requiredlabels", Singular: "requiredlabels", Kind: "RequiredLabels", ListKind: "RequiredLabelsList"}
	return append(all, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "requiredlabels.constraints.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "constraints.example.com", Scope: apiextensionsv1.ClusterScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	})
}

// installOriginals installs the originals, each for objects with its label, and returns the cases of their suites. Kyverno
// evaluates a ValidatingPolicy as the API server evaluates a native policy with the same fields.
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
	for _, object := range read(t, file) {
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
