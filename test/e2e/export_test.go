package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/test/controlplane"
)

var _ = Describe("The export", Serial, func() {
	const exported = `
match: {kinds: [VirtualMachine]}
exportTo: [APIServer]
enforcement: Deny
validations: [{expression: "object.spec.runStrategy != 'Always'", message: not always, fieldPath: spec.runStrategy}]`
	var i *installation
	// soon waits for a result of the export process, which has the permissions of its account.
	soon := func(ctx context.Context, check func(g Gomega, ctx context.Context)) {
		GinkgoHelper()
		Eventually(check).WithContext(ctx).WithPolling(100 * time.Millisecond).Should(Succeed())
	}
	// natives are how many native policies have our label.
	natives := func(g Gomega, ctx context.Context) int {
		GinkgoHelper()
		list := &admissionregistrationv1.ValidatingAdmissionPolicyList{}
		g.Expect(i.admin.List(ctx, list, client.MatchingLabels{export.ManagedBy: export.Manager})).To(Succeed())
		return len(list.Items)
	}
	says := func(g Gomega, ctx context.Context, name string, generation int64) {
		GinkgoHelper()
		object := policyObject(name, "{}")
		g.Expect(i.admin.Get(ctx, client.ObjectKey{Name: name}, object)).To(Succeed())
		policy := &policyv1alpha1.VirtualMachinePolicy{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy)).To(Succeed())
		is := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.PolicyExported)
		g.Expect(is).NotTo(BeNil())
		g.Expect([]any{is.Status, is.Reason, is.ObservedGeneration}).To(Equal([]any{metav1.ConditionTrue, policyv1alpha1.PolicyReasonExported, generation}))
		g.Expect(policy.Status.EnforcedBy).To(ConsistOf(policyv1alpha1.PolicyByWebhook, policyv1alpha1.PolicyByAPIServer))
		g.Expect(meta.IsStatusConditionTrue(policy.Status.Conditions, policyv1alpha1.PolicyReady)).To(BeTrue())
	}

	It("keeps native forms with the rights of its account, also after it was killed", func(ctx SpecContext) {
		i = installWith(ctx, func(plane *controlplane.ControlPlane) map[string]any {
			metrics, err := plane.TakePort()
			Expect(err).NotTo(HaveOccurred())
			health, err := plane.TakePort()
			Expect(err).NotTo(HaveOccurred())
			return map[string]any{"policies": map[string]any{"export": map[string]any{"enabled": true, "metricsPort": metrics, "healthPort": health}}}
		})
		process, err := i.plane.RunVirtward(ctx, controlplane.Workload{
			Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardExport, Args: []string{controlplane.ShortLease},
		})
		Expect(err).NotTo(HaveOccurred())
		i.awaitCalls(ctx)
		before := natives(Default, ctx)

		By("exporting a policy, whose status two controllers write")
		policy := policyObject("exported", exported)
		Expect(i.admin.Create(ctx, policy)).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) { says(g, ctx, "exported", 1) })

		By("changing and deleting while the process is away")
		process.Kill()
		name := export.Prefix + "exported"
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
		Expect(i.admin.Delete(ctx, binding)).To(Succeed())
		Expect(change(ctx, i.admin, policy, func() {
			Expect(unstructured.SetNestedField(policy.Object, "Warn", "spec", "enforcement")).To(Succeed())
		})).To(Succeed())
		Expect(process.Start(ctx)).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			says(g, ctx, "exported", 2)
			g.Expect(i.admin.Get(ctx, client.ObjectKey{Name: name}, binding)).To(Succeed())
			g.Expect(binding.Spec.ValidationActions).To(Equal([]admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}))
			g.Expect(natives(g, ctx)).To(Equal(before+1), "there is one, and no duplicate")
		})

		By("deleting the policy")
		Expect(i.admin.Delete(ctx, policy)).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			err := i.admin.Get(ctx, client.ObjectKey{Name: name}, binding)
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			g.Expect(natives(g, ctx)).To(Equal(before))
		})
	}, NodeTimeout(3*time.Minute))
})
