package bench

import (
	"testing"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies"
)

// previewSet has one policy that reads a field of a document.
func previewSet(tb testing.TB, expression string) *policies.Set {
	tb.Helper()
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	policy.Name = "one"
	policy.Spec.Validations = []policyv1alpha1.PolicyValidation{{Expression: expression, Message: "no"}}
	return policies.NewSet("virtward-system", policyOf(tb, environment(tb), policy))
}

// BenchmarkValidateVM is BenchmarkValidateRequest with one policy that reads vm: the base of the two that follow.
func BenchmarkValidateVM(b *testing.B) {
	benchmarkValidatePolicies(b, previewSet(b, "vm.kind == 'VirtualMachineInstance'"))
}

// BenchmarkValidatePod is the same with a policy that reads the pod.
func BenchmarkValidatePod(b *testing.B) {
	benchmarkValidatePolicies(b, previewSet(b, "pod.kind == 'Pod'"))
}

// BenchmarkValidateDomain is the same with a policy that reads the domain.
func BenchmarkValidateDomain(b *testing.B) {
	benchmarkValidatePolicies(b, previewSet(b, "domain.type == 'kvm'"))
}
