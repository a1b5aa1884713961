package policies

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	vcel "github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
)

// TestGathered: migrationTargets needs the access modes of claims, if Virtward may read them. The policy is valid without them, since not
// every virtual machine has claims.
func TestGathered(t *testing.T) {
	env, err := vcel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		expression string
		enabled    []string
		want       []string
	}{
		"all":           {"migrationTargets > 0", []string{"datavolumes", "persistentvolumeclaims", "configmaps"}, []string{"dataVolumes", "persistentVolumeClaims"}},
		"one":           {"migrationTargets > 0", []string{"persistentvolumeclaims"}, []string{"persistentVolumeClaims"}},
		"none":          {"migrationTargets > 0", nil, nil},
		"with its own":  {"migrationTargets > references.configMaps.size()", []string{"datavolumes", "configmaps"}, []string{"configMaps", "dataVolumes"}},
		"another value": {"vm.spec.domain.ioThreadsPolicy == ''", []string{"datavolumes"}, nil},
	} {
		object := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		if err := yaml.UnmarshalStrict([]byte("{enforcement: Deny, validations: [{message: no, expression: \""+c.expression+"\"}]}"), &object.Spec); err != nil {
			t.Fatal(err)
		}
		p, problems := Compile(env, object, nil)
		p, problems = WithReferences(p, c.enabled, problems)
		if diagnostics.Broken(problems) {
			t.Fatal(name, problems)
		}
		denying, others := NewSet("", p).References(policyv1alpha1.PolicyVirtualMachine, policyv1alpha1.PolicyCreate)
		if diff := cmp.Diff(c.want, denying); diff != "" || len(others) > 0 {
			t.Errorf("%s: %s, and %v", name, diff, others)
		}
	}
}
