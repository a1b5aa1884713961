package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/webhooks"
)

var _ = Describe("Deletions", Serial, Ordered, func() {
	const (
		deletionCheck = "deletions." + checks
		why           = "metadata.labels[e2e/keep]: Invalid value: \"true\": it is kept [virtward/policy/keep] Ask the team of the platform."
		owned         = "the garbage collector deletes the object together with its owners: it is kept"
	)
	name := 0
	// protected creates a VM with the label.
	protected := func(ctx context.Context) *kubevirtv1.VirtualMachine {
		GinkgoHelper()
		name++
		vm := build.VM("kept-" + string(rune('a'+name))).Obj()
		vm.Labels = map[string]string{"e2e/keep": "true"}
		Expect(alice.Create(ctx, vm)).To(Succeed())
		return vm
	}
	stored := func(ctx context.Context, vm client.Object) error {
		return admin.Get(ctx, client.ObjectKeyFromObject(vm), vm.DeepCopyObject().(client.Object))
	}
	gone := Satisfy(apierrors.IsNotFound)

	BeforeAll(func(ctx SpecContext) {
		policy := policyObject("keep", `
match:
  kinds: [VirtualMachine]
  operations: [DELETE]
  matchConditions: [{name: not-an-admin, expression: "!('system:masters' in request.userInfo.groups)"}]
remedy: Ask the team of the platform.
enforcement: Deny
validations:
  - {expression: "oldObject.metadata.?labels.orValue({})[?'e2e/keep'].orValue('') != 'true'", message: it is kept, fieldPath: "metadata.labels[e2e/keep]"}`)
		Expect(admin.Create(ctx, policy)).To(Succeed())
		cleanUp(policy)
		probe := protected(ctx)
		Eventually(func(ctx context.Context) error { return alice.Delete(ctx, probe, client.DryRunAll) }).
			WithContext(ctx).Should(MatchError(ContainSubstring(why)))
	})

	It("by kubectl are denied with the reason", func(ctx SpecContext) {
		vm, before := protected(ctx), scrape(ctx)
		got := kubectl(ctx, "alice", "", "delete", "vm", vm.Name)
		Expect(got.code).To(Equal(1))
		Expect(got.errors).To(Equal("The VirtualMachine \"" + vm.Name + "\" is invalid: " + why + " " + webhooks.ExceptionRemedy + "\n"))
		Expect(stored(ctx, vm)).To(Succeed())
		labels := map[string]string{"webhook": "validate", "kind": "VirtualMachine", "operation": "DELETE", "verdict": "denied"}
		const requests = "virtward_admission_requests_total"
		Expect(scrape(ctx).sum(requests, labels)).To(BeNumerically(">", before.sum(requests, labels)))
		Expect(alice.Delete(ctx, vm, client.DryRunAll)).To(MatchError(ContainSubstring(why)), "on a dry run")
		Expect(alice.Delete(ctx, vm, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(MatchError(ContainSubstring(why)))
	})

	It("of other objects, by other users and of KubeVirt are not", func(ctx SpecContext) {
		plain := build.VM("not-kept").Obj()
		Expect(alice.Create(ctx, plain)).To(Succeed())
		Expect(alice.Delete(ctx, plain)).To(Succeed())
		for _, c := range []client.Client{admin, controllerAccount(ctx)} {
			vm := protected(ctx)
			Expect(c.Delete(ctx, vm, client.DryRunAll)).To(Succeed())
		}
		vm := protected(ctx)
		Expect(admin.Delete(ctx, vm)).To(Succeed())
		Eventually(stored).WithContext(ctx).WithArguments(vm).Should(gone)
	})

	It("of all objects are denied for each of them", func(ctx SpecContext) {
		plain, vm := build.VM("not-kept").Obj(), protected(ctx)
		plain.Labels = map[string]string{"e2e/collected": "true"}
		Expect(alice.Create(ctx, plain)).To(Succeed())
		Expect(change(ctx, alice, vm, func() { vm.Labels["e2e/collected"] = "true" })).To(Succeed())
		all := func() error {
			return alice.DeleteAllOf(ctx, &kubevirtv1.VirtualMachine{}, client.InNamespace("default"), client.MatchingLabels{"e2e/collected": "true"})
		}
		Expect(all()).To(MatchError(ContainSubstring(why)))
		Expect(change(ctx, alice, vm, func() { delete(vm.Labels, "e2e/collected") })).To(Succeed())
		Expect(all()).To(Succeed())
		Expect(stored(ctx, vm)).To(Succeed())
		Eventually(stored).WithContext(ctx).WithArguments(plain).Should(gone)
	})

	It("through an owner that its deleter adds are denied, and others are not", func(ctx SpecContext) {
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: "default"}}
		Expect(admin.Create(ctx, owner)).To(Succeed())
		reference := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
		vm, byAdmin := protected(ctx), protected(ctx)
		Expect(change(ctx, alice, vm, func() { vm.OwnerReferences = reference })).To(MatchError(ContainSubstring(owned)))
		Expect(change(ctx, alice, vm, func() { vm.OwnerReferences, vm.Labels = reference, nil })).To(MatchError(ContainSubstring(owned)), "with the label removed")
		Expect(change(ctx, alice, vm, func() { vm.Finalizers = []string{"e2e/finalizer"} })).To(Succeed())
		Expect(change(ctx, alice, vm, func() { vm.Finalizers = nil })).To(Succeed())
		Expect(change(ctx, admin, byAdmin, func() { byAdmin.OwnerReferences = reference })).To(Succeed())

		Expect(admin.Delete(ctx, owner)).To(Succeed())
		Eventually(stored).WithContext(ctx).WithArguments(byAdmin).Should(gone)
		Expect(stored(ctx, vm)).To(Succeed())
	})

	It("with the namespace are not evaluated", func(ctx SpecContext) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept-none"}}
		Expect(admin.Create(ctx, namespace)).To(Succeed())
		vm := build.VMOf(build.VMI("kept").Namespace(namespace.Name)).Obj()
		vm.Labels = map[string]string{"e2e/keep": "true"}
		Expect(admin.Create(ctx, vm)).To(Succeed())
		Expect(admin.Delete(ctx, namespace)).To(Succeed())
		Eventually(stored).WithContext(ctx).WithArguments(vm).Should(gone)
	})

	It("are admitted while the webhook is dead, and owners too", func(ctx SpecContext) {
		labels := map[string]string{"name": deletionCheck}
		before, err := cluster.Metric(ctx, "apiserver_admission_webhook_fail_open_count", labels)
		Expect(err).NotTo(HaveOccurred())
		vm := protected(ctx)
		virtward.Kill()
		DeferCleanup(func(ctx SpecContext) {
			Expect(virtward.Start(ctx)).To(Succeed())
			awaitChecks(ctx)
		})
		Expect(change(ctx, alice, vm, func() {
			vm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "default", UID: "x"}}
		})).To(Succeed())
		Expect(client.IgnoreNotFound(alice.Delete(ctx, vm))).To(Succeed())
		Expect(cluster.Metric(ctx, "apiserver_admission_webhook_fail_open_count", labels)).To(BeNumerically(">", before))
	})

	It("are denied while the webhook is dead and fails closed, except those by the system", func(ctx SpecContext) {
		uncalled := MatchError(ContainSubstring(`failed calling webhook "` + deletionCheck + `"`))
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner-while-dead", Namespace: "default"}}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "deleted-while-dead"}}
		Expect(admin.Create(ctx, owner)).To(Succeed())
		Expect(admin.Create(ctx, namespace)).To(Succeed())
		reference := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
		vm, owned := protected(ctx), protected(ctx)
		Expect(change(ctx, admin, owned, func() { owned.OwnerReferences = reference })).To(Succeed())
		inNamespace := build.VMOf(build.VMI("kept").Namespace(namespace.Name)).Obj()
		exempt := build.VMOf(build.VMI("kept-exempt").Namespace("kube-system")).Obj()
		for _, other := range []*kubevirtv1.VirtualMachine{inNamespace, exempt} {
			other.Labels = map[string]string{"e2e/keep": "true"}
			Expect(admin.Create(ctx, other)).To(Succeed())
		}

		failClosed(ctx, deletionCheck)
		virtward.Kill()
		DeferCleanup(func(ctx SpecContext) {
			Expect(virtward.Start(ctx)).To(Succeed())
			awaitChecks(ctx)
		})
		Eventually(func(ctx context.Context) error { return alice.Delete(ctx, vm, client.DryRunAll) }).
			WithContext(ctx).Should(uncalled)
		Expect(alice.Delete(ctx, vm)).To(uncalled)
		Expect(admin.Delete(ctx, vm)).To(uncalled)
		Expect(controllerAccount(ctx).Delete(ctx, vm, client.DryRunAll)).To(uncalled, "by KubeVirt")
		Expect(change(ctx, alice, vm, func() { vm.OwnerReferences = reference })).To(uncalled)
		Expect(change(ctx, alice, vm, func() { vm.Finalizers = []string{"e2e/finalizer"} })).To(Succeed())
		Expect(change(ctx, alice, vm, func() { vm.Finalizers = nil })).To(Succeed())

		Expect(admin.Delete(ctx, owner)).To(Succeed())
		Expect(admin.Delete(ctx, namespace)).To(Succeed())
		Expect(admin.Delete(ctx, exempt)).To(Succeed())
		for _, other := range []*kubevirtv1.VirtualMachine{owned, inNamespace, exempt} {
			Eventually(stored).WithContext(ctx).WithArguments(other).Should(gone, other.Name)
		}
		Expect(stored(ctx, vm)).To(Succeed())
	}, NodeTimeout(3*time.Minute))
})

// failClosed sets the failurePolicy of a validating webhook to Fail until the end of the spec, as the chart's values do.
func failClosed(ctx context.Context, name string) {
	GinkgoHelper()
	set := func(ctx context.Context, policy admissionregistrationv1.FailurePolicyType) {
		GinkgoHelper()
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: checks}}
		Expect(change(ctx, admin, configuration, func() {
			for i := range configuration.Webhooks {
				if configuration.Webhooks[i].Name == name {
					configuration.Webhooks[i].FailurePolicy = &policy
				}
			}
		})).To(Succeed())
	}
	set(ctx, admissionregistrationv1.Fail)
	DeferCleanup(func(ctx SpecContext) { set(ctx, admissionregistrationv1.Ignore) })
}
