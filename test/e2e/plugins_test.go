package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("Previews in policies", Serial, Ordered, func() {
	const arguments = `Domain{QEMUCommandline: DomainQEMUCommandline{Args: domainSpec.QEMUCommandline.Args + [DomainQEMUCommandlineArg{Value: "-no-shutdown"}]}}`

	// hooked is a Plugin with a domain hook.
	hooked := func(expression string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "plugin.kubevirt.io/v1alpha1", "kind": "Plugin", "metadata": map[string]any{"name": "tuning"},
			"spec": map[string]any{"domainHooks": []any{map[string]any{"cel": map[string]any{"expression": expression}}}},
		}}
	}

	BeforeAll(func(ctx SpecContext) {
		preparePoliced(ctx)
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "plugin-writer"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"plugin.kubevirt.io"}, Resources: []string{"plugins"}, Verbs: []string{"create"}},
				{APIGroups: []string{"template.kubevirt.io"}, Resources: []string{"virtualmachinetemplates"}, Verbs: []string{"bypass-approval"}}, // for the guard of Plugins
			},
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "policed-admins"}},
		}
		Expect(admin.Create(ctx, role)).To(Succeed())
		cleanUp(role)
		Expect(admin.Create(ctx, binding)).To(Succeed())
		cleanUp(binding)
		Eventually(func(ctx context.Context) error { // the API server learns of rights a moment later
			user, _ := userOf("alice")
			return user.Create(ctx, hooked(`Domain{OnReboot: "destroy"}`), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
	})

	It("deny a VM because of its pod or its domain", func(ctx SpecContext) {
		enforce(ctx, "pod-cap", `
enforcement: Deny
match: {kinds: [VirtualMachine]}
validations:
  - {expression: "quantity(pod.spec.containers[0].resources.requests.memory).compareTo(quantity('4Gi')) <= 0", message: the pod is too large, fieldPath: vm.spec.domain.memory.guest}`)
		enforce(ctx, "domain-cap", `
enforcement: Deny
match: {kinds: [VirtualMachine]}
validations:
  - {expression: "domain.vcpu.value <= 16", message: the domain has too many vCPUs}`)
		eventuallyAnswers(ctx, machine(memory("4Gi")), And(HavePrefix("FieldValueInvalid spec.template.spec.domain.memory.guest"), ContainSubstring("the pod is too large")))
		eventuallyAnswers(ctx, machine(memory("2Gi"), cpus(8)), And(HavePrefix("FieldValueForbidden spec"), ContainSubstring("the domain has too many vCPUs")))
		Expect(answer(ctx, machine(memory("2Gi")), "alice")).To(BeEmpty())
	})

	It("deny a Plugin because of the domains that it would make", func(ctx SpecContext) {
		eventuallyAnswers(ctx, hooked("Domain{Titel: 'a'}"), ContainSubstring("[virtward/plugin-works]"))
		Expect(answer(ctx, hooked(arguments), "alice")).To(BeEmpty(), "no policy matches it")
		enforce(ctx, "no-arguments", `
enforcement: Deny
match: {kinds: [VirtualMachine, Plugin], namespaceSelector: {}}
validations:
  - {expression: "!has(domain.qemu_commandline)", message: QEMU would have arguments}`)
		enforce(ctx, "no-arguments-in-rego", `
enforcement: Warn
match: {kinds: [Plugin], namespaceSelector: {}}
rego: {module: "package p\nimport rego.v1\nwarn contains {\"msg\": \"the domain has arguments\"} if input.domain.qemu_commandline\n"}`)
		Eventually(func(ctx context.Context) []string { return answer(ctx, hooked(arguments), "alice") }).WithContext(ctx).Should(ConsistOf(
			And(HavePrefix("FieldValueForbidden spec"), ContainSubstring("QEMU would have arguments")), And(HavePrefix("warning: "), ContainSubstring("the domain has arguments")),
		))
		Expect(answer(ctx, hooked(`Domain{OnReboot: "destroy"}`), "alice")).To(BeEmpty())
	})
})
