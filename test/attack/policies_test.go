package attack

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/test/build"
)

var _ = Describe("Policies as a lever", Serial, timed, func() {
	// Policies that read user data as YAML, of the library and of an admin who trusts functions to be cheap.
	BeforeEach(func(ctx SpecContext) {
		for _, entry := range library.All() {
			if entry.Name == "no-inline-cloud-init" {
				policy := entry.Policy.DeepCopy()
				policy.Name, policy.Spec.Enforcement = "attack-cloud-init", policyv1alpha1.PolicyAudit
				install(ctx, policy)
			}
		}
		install(ctx, &policyv1alpha1.VirtualMachinePolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "attack-yaml"},
			Spec: policyv1alpha1.VirtualMachinePolicySpec{
				Enforcement: policyv1alpha1.PolicyAudit,
				Rego: &policyv1alpha1.PolicyRego{Module: `package attack
deny contains "valid" if yaml.is_valid(input.vm.metadata.annotations.text)
deny contains "read" if yaml.unmarshal(input.vm.metadata.annotations.text)
deny contains "taken apart" if count(split(input.vm.metadata.annotations.text, "")) > 0
deny contains "matched" if regex.match("(a|b)*c$", input.vm.metadata.annotations.text)`},
			},
		})
		By("waiting for a policy that was created after them")
		enforce(ctx, "attack-active", `{enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [{expression: "object.metadata.name != 'forbidden'", message: it is forbidden}]}`, sized("forbidden", "1Gi"))
	}, NodeTimeout(3*time.Minute))

	It("cannot make Virtward exceed the chart's memory limit with the contents of virtual machines", func(ctx SpecContext) {
		inflated := []string{
			strings.Repeat("a: 1\n", 50_000), strings.Repeat("? \n", 80_000), "[" + strings.Repeat("[],", 80_000) + "[]]", "{" + strings.Repeat("a,", 120_000) + "}",
			strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), strings.Repeat("- &a 1\n", 30_000), strings.Repeat("---\n", 60_000),
		}
		var requests []sent
		for _, text := range inflated {
			machine := build.VMOf(build.VMI("inflated").Namespace(attacked).With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
				spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: "data", VolumeSource: kubevirtv1.VolumeSource{CloudInitNoCloud: &kubevirtv1.CloudInitNoCloudSource{UserData: text}}})
				spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirtv1.Disk{Name: "data"})
			})).Obj()
			machine.Spec.Template.ObjectMeta.Annotations = map[string]string{"text": text}
			requests = append(requests, request(virtualMachines, machine))
		}
		beside(ctx, func() func() string { return flood(2, 20, requests...) })
	}, NodeTimeout(nodeTimeout))
})

// install stores a policy, and deletes it at the end of the spec.
func install(ctx context.Context, policy *policyv1alpha1.VirtualMachinePolicy) {
	GinkgoHelper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy)
	Expect(err).NotTo(HaveOccurred())
	stored := &unstructured.Unstructured{Object: fields}
	stored.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
	cleanUp(stored)
	Expect(admin.Create(ctx, stored)).To(Succeed())
}
