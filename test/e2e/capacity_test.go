package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

var _ = Describe("A VM that the cluster has no room for", Serial, Ordered, func() {
	const (
		field   = "spec.template.spec.domain.memory.guest: "
		tooMuch = "warning: " + field + "Forbidden: no node of the cluster could run the virtual machine, even if nothing else ran there"
	)

	// forgotten waits, after the objects that a spec makes next are deleted, until Virtward knows: the next specs must not be warned because of them.
	forgotten := func() {
		DeferCleanup(func(ctx SpecContext) {
			Eventually(func(ctx context.Context) []string { return answer(ctx, machine(memory("256Gi")), "alice") }).WithContext(ctx).Should(BeEmpty())
		})
	}

	BeforeAll(func(ctx SpecContext) { preparePoliced(ctx) })

	It("is admitted with a warning if no node could ever run it, also with a change of the nodes", func(ctx SpecContext) {
		Expect(answer(ctx, machine(memory("64Gi")), "alice")).To(BeEmpty(), "there are no nodes")
		forgotten()
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "capable", Labels: map[string]string{"kubernetes.io/arch": "amd64", "machine-type.node.kubevirt.io/q35": "true"}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "ephemeral-storage": resource.MustParse("100Gi"), "pods": resource.MustParse("100"),
				"devices.kubevirt.io/kvm": resource.MustParse("1k"), "devices.kubevirt.io/tun": resource.MustParse("1k"), "devices.kubevirt.io/vhost-net": resource.MustParse("1k"),
			}},
		}
		Expect(admin.Create(ctx, node)).To(Succeed())
		cleanUp(node)
		eventuallyAnswers(ctx, machine(memory("64Gi")), HavePrefix(tooMuch))
		Expect(answer(ctx, machine(memory("16Gi")), "alice")).To(BeEmpty())

		By("an admin who raises the rule")
		settings := &policyv1alpha1.RuleSettings{
			ObjectMeta: metav1.ObjectMeta{Name: "capacity"}, Spec: policyv1alpha1.RuleSettingsSpec{Rules: []policyv1alpha1.RuleSetting{{Rule: "node-fits", Severity: policyv1alpha1.Deny}}},
		}
		Expect(admin.Create(ctx, settings)).To(Succeed())
		cleanUp(settings)
		eventuallyAnswers(ctx, machine(memory("64Gi")), HavePrefix("FieldValueForbidden "+field))

		By("a larger node")
		node.Status.Allocatable["memory"] = resource.MustParse("128Gi")
		Expect(admin.Status().Update(ctx, node)).To(Succeed())
		Eventually(func(ctx context.Context) []string { return answer(ctx, machine(memory("64Gi")), "alice") }).WithContext(ctx).Should(BeEmpty())
	})

	It("is admitted with a warning if its pod exceeds a quota", func(ctx SpecContext) {
		forgotten()
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: policed, Name: "small"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.memory": resource.MustParse("8Gi")}},
		}
		Expect(admin.Create(ctx, quota)).To(Succeed())
		cleanUp(quota)
		eventuallyAnswers(ctx, machine(memory("8Gi")), And(
			HavePrefix("warning: "+field+"Forbidden: the pod needs 8."), ContainSubstring("of requests.memory, more than a ResourceQuota of the namespace allows"),
		))
		Expect(answer(ctx, machine(memory("4Gi")), "alice")).To(BeEmpty())
	})

	It("is compared with the least rights", func(ctx SpecContext) {
		may := func(verb, what string) bool {
			GinkgoHelper()
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:virtward-system:virtward-webhook",
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: what, Namespace: "", Version: "v1"},
			}}
			Expect(admin.Create(context.Background(), review)).To(Succeed())
			return review.Status.Allowed
		}
		Expect(may("list", "nodes") && may("watch", "nodes") && may("list", "resourcequotas")).To(BeTrue())
		for _, verb := range []string{"get", "watch", "update", "create", "delete", "patch"} {
			Expect(may(verb, "resourcequotas")).To(BeFalse(), verb)
			Expect(verb != "watch" && may(verb, "nodes")).To(BeFalse(), verb)
		}
		Expect(may("list", "pods")).To(BeFalse())
	})
})
