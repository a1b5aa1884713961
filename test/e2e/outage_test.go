package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/simulators"
)

var _ = Describe("While the webhook is dead", Serial, Ordered, func() {
	const hold = "example.com/hold"
	var running, halted *kubevirtv1.VirtualMachine
	var rules client.Object

	// isNotChecked matches the API server's answer if the webhook cannot be called.
	isNotChecked := And(Satisfy(apierrors.IsInternalError), MatchError(ContainSubstring(notCalled)))

	BeforeAll(func(ctx SpecContext) {
		running = build.VM("outage-running").RunStrategy(kubevirtv1.RunStrategyAlways).Obj()
		halted = build.VM("outage-halted").Obj()
		for _, vm := range []*kubevirtv1.VirtualMachine{running, halted} {
			cleanUp(vm)
			Expect(alice.Create(ctx, vm)).To(Succeed())
		}
		Eventually(phase).WithContext(ctx).WithArguments(running).Should(Equal(kubevirtv1.Running))
		rules = settings("outage", setting{Rule: "arm64-disk-bus", Severity: policyv1alpha1.Warn})
		Expect(admin.Create(ctx, rules)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, rules))).To(Succeed()) })

		virtward.Kill()
		DeferCleanup(func(ctx SpecContext) {
			if virtward.PID() == 0 {
				Expect(virtward.Start(ctx)).To(Succeed())
			}
		})
	})

	It("no new object is admitted for any requester, and the API server counts the failures", func(ctx SpecContext) {
		labels := map[string]string{"name": machineCheck, "error_type": "calling_webhook_error"}
		before, err := cluster.Metric(ctx, "apiserver_admission_webhook_rejection_count", labels)
		Expect(err).NotTo(HaveOccurred())
		Expect(alice.Create(ctx, build.VM("outage-new").Obj())).To(isNotChecked)
		Expect(alice.Create(ctx, build.VMI("outage-new").Obj())).To(isNotChecked)
		Expect(controllerAccount(ctx).Create(ctx, build.VMI("outage-new").Obj())).To(isNotChecked)
		Expect(cluster.Metric(ctx, "apiserver_admission_webhook_rejection_count", labels)).To(BeNumerically(">=", before+3))
	})

	It("a changed spec, label or annotation is not admitted either", func(ctx SpecContext) {
		Expect(change(ctx, alice, halted, func() { halted.Spec.Template.Spec.Hostname = "other" })).To(isNotChecked)
		Expect(change(ctx, alice, halted, func() { halted.Labels = map[string]string{"app": "other"} })).To(isNotChecked)
		Expect(change(ctx, alice, halted, func() { halted.Annotations = map[string]string{"example.com/note": "other"} })).To(isNotChecked)
		Expect(change(ctx, admin, rules, func() {
			rules.(*unstructured.Unstructured).Object["spec"] = map[string]any{"rules": []any{}}
		})).To(MatchError(ContainSubstring(`failed calling webhook "rulesettings.` + checks + `"`)))
	})

	It("the status of VMIs is written", func(ctx SpecContext) {
		config, err := cluster.ServiceAccountConfig(ctx, simulators.Namespace, simulators.HandlerAccount)
		Expect(err).NotTo(HaveOccurred())
		handler := clientFor(config)
		vmi := &kubevirtv1.VirtualMachineInstance{}
		vmi.Name, vmi.Namespace = running.Name, running.Namespace
		Expect(change(ctx, handler, vmi, func() { vmi.Status.NodeName = "node-of-the-outage" })).To(Succeed())
		Expect(alice.Get(ctx, client.ObjectKeyFromObject(vmi), vmi)).To(Succeed())
		Expect(vmi.Status.NodeName).To(Equal("node-of-the-outage"))
	})

	It("the status of VMs is written", func(ctx SpecContext) {
		status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"printableStatus":"Unknown"}}`))
		Expect(controllerAccount(ctx).Status().Patch(ctx, halted.DeepCopy(), status)).To(Succeed())
	})

	It("finalizers and owners come and go", func(ctx SpecContext) {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		vmi.Name, vmi.Namespace = running.Name, running.Namespace
		for _, object := range []client.Object{vmi, halted} {
			Expect(change(ctx, admin, object, func() { controllerutil.AddFinalizer(object, hold) })).To(Succeed())
			Expect(object.GetFinalizers()).To(ContainElement(hold))
			Expect(change(ctx, admin, object, func() { controllerutil.RemoveFinalizer(object, hold) })).To(Succeed())
			owners := object.GetOwnerReferences()
			Expect(change(ctx, admin, object, func() { object.SetOwnerReferences(nil) })).To(Succeed())
			Expect(change(ctx, admin, object, func() { object.SetOwnerReferences(owners) })).To(Succeed())
		}
	})

	It("exempt namespaces do not notice", func(ctx SpecContext) {
		Expect(admin.Create(ctx, build.VM("outage-exempt").Obj(), client.DryRunAll)).To(isNotChecked)
		Expect(admin.Create(ctx, build.VMOf(build.VMI("outage-exempt").Namespace("kube-system")).Obj(), client.DryRunAll)).To(Succeed())
	})

	It("everything can be deleted, finalizers and all", func(ctx SpecContext) {
		Expect(change(ctx, admin, halted, func() { controllerutil.AddFinalizer(halted, hold) })).To(Succeed())
		Expect(alice.Delete(ctx, halted)).To(Succeed())
		Expect(change(ctx, alice, halted, func() { controllerutil.RemoveFinalizer(halted, hold) })).To(Succeed())
		Expect(alice.Delete(ctx, running)).To(Succeed())
		Expect(admin.Delete(ctx, rules)).To(Succeed())
		for _, vm := range []*kubevirtv1.VirtualMachine{halted, running} {
			Eventually(func(ctx context.Context) error {
				return alice.Get(ctx, client.ObjectKeyFromObject(vm), &kubevirtv1.VirtualMachine{})
			}).WithContext(ctx).Should(Satisfy(apierrors.IsNotFound))
			Eventually(func(ctx context.Context) error {
				return alice.Get(ctx, client.ObjectKeyFromObject(vm), &kubevirtv1.VirtualMachineInstance{})
			}).WithContext(ctx).Should(Satisfy(apierrors.IsNotFound))
		}
	})

	It("and when it is back, all is as it was", func(ctx SpecContext) {
		Expect(virtward.Start(ctx)).To(Succeed())
		vm := build.VM("outage-over").RunStrategy(kubevirtv1.RunStrategyAlways).Obj()
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())
		Eventually(phase).WithContext(ctx).WithArguments(vm).Should(Equal(kubevirtv1.Running))
		Expect(causes(alice.Create(ctx, impossible("outage-over")))).To(HaveLen(2))
	})
})

// phase of the VMI of a VM; empty while there is none.
func phase(ctx context.Context, vm *kubevirtv1.VirtualMachine) (kubevirtv1.VirtualMachineInstancePhase, error) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	err := admin.Get(ctx, client.ObjectKeyFromObject(vm), vmi)
	return vmi.Status.Phase, client.IgnoreNotFound(err)
}
