package v1alpha1_test

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

func TestDefinition(t *testing.T) {
	for _, resource := range []string{"virtualmachinepolicies", "rulesettings"} {
		data, err := policyv1alpha1.Definition(resource)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			t.Fatal(err)
		}
		if crd.Name != resource+"."+policyv1alpha1.GroupVersion.Group {
			t.Errorf("the definition of %s is that of %s", resource, crd.Name)
		}
	}
	if _, err := policyv1alpha1.Definition("pods"); err == nil || err.Error() != "there is no definition of pods" {
		t.Errorf("error %v", err)
	}
}

func TestKindsAreInTheScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := policyv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for kind := range scheme.KnownTypes(policyv1alpha1.GroupVersion) {
		kinds = append(kinds, kind)
	}
	for _, kind := range []string{"RuleSettings", "RuleSettingsList", "VirtualMachinePolicy", "VirtualMachinePolicyList"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("%s is not in the scheme", kind)
		}
	}
}
