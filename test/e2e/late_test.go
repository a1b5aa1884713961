package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/simulators"
)

var _ = Describe("A VM that is applied before the objects that it refers to", func() {
	It("is rejected when it starts, with an event of KubeVirt, and starts once the preference is corrected", func(ctx SpecContext) {
		warned, heard := listening("alice")
		vm := build.VMOf(build.VMI("early-bird").Architecture("arm64").Disk("root", "")).Instancetype("e2e.late").Preference("e2e.late").Obj()
		cleanUp(vm)
		Expect(warned.Create(ctx, vm)).To(Succeed())
		Expect(heard.texts).To(ContainElements(
			"spec.instancetype: there is no VirtualMachineClusterInstancetype e2e.late; the VM is evaluated without it, and what it determines is checked when the VM starts",
			"spec.preference: there is no VirtualMachineClusterPreference e2e.late; the VM is evaluated without it, and what it determines is checked when the VM starts",
		))

		By("making them, a preference that arm64 does not fit among them, and starting the VM")
		preference := preferring("e2e.late", "")
		preference.Spec = instancetypev1beta1.VirtualMachinePreferenceSpec{Devices: &instancetypev1beta1.DevicePreferences{PreferredDiskBus: kubevirtv1.DiskBusSATA}}
		install(ctx, sized("e2e.late"), preference)
		Eventually(func(g Gomega, ctx context.Context) { // the watches of virtward catch up
			g.Expect(warned.Create(ctx, renamed(vm, "another"), client.DryRunAll)).To(MatchError(ContainSubstring("[virtward/arm64-disk-bus]")))
		}).WithContext(ctx).Should(Succeed())
		heard.texts = nil
		Expect(change(ctx, warned, vm, func() { vm.Spec.RunStrategy = new(kubevirtv1.RunStrategyAlways) })).To(Succeed())
		Expect(heard.texts).To(ContainElement(And(HavePrefix("spec.preference.name: "), ContainSubstring("(pre-existing: tolerated on update"), ContainSubstring("[virtward/arm64-disk-bus]"))))

		Eventually(func(ctx context.Context) []corev1.Event { return eventsOn(ctx, vm) }).WithContext(ctx).Should(ContainElement(And(
			HaveField("Reason", simulators.ReasonFailedCreate), HaveField("Type", corev1.EventTypeWarning), HaveField("Source.Component", "virtualmachine-controller"),
			HaveField("Message", And(
				HavePrefix("Error creating virtual machine instance: "),
				ContainSubstring("spec.domain.devices.disks[0].disk.bus: Unsupported value: \"sata\""),
				ContainSubstring("[virtward/arm64-disk-bus]"),
			)),
		)))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), &kubevirtv1.VirtualMachineInstance{})).To(MatchError(ContainSubstring("not found")))

		By("mending the preference")
		preference.Spec.Devices.PreferredDiskBus = kubevirtv1.DiskBusVirtio
		Expect(admin.Update(ctx, preference)).To(Succeed())
		vmi := &kubevirtv1.VirtualMachineInstance{}
		Eventually(func(ctx context.Context) error { // virt-controller tries again less and less often
			return alice.Get(ctx, client.ObjectKeyFromObject(vm), vmi)
		}).WithContext(ctx).Should(Succeed())
		Expect(vmi.Spec.Domain.Devices.Disks[0].Disk.Bus).To(Equal(kubevirtv1.DiskBusVirtio))
	}, NodeTimeout(3*time.Minute))

	It("gets no event of Virtward, even if a rejected object names it as its owner", func(ctx SpecContext) {
		vm := build.VM("unreported").Obj()
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())
		vmi := impossible("unreported")
		vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)}
		Expect(causes(controllerAccount(ctx).Create(ctx, vmi))).To(ConsistOf(diskBus+" arm64-disk-bus", bios+" arm64-bios"))
		Consistently(func(ctx context.Context) []corev1.Event { return eventsOn(ctx, vm) }).WithContext(ctx).WithTimeout(2 * time.Second).Should(BeEmpty())
	})
})

// renamed is the same VM under another name, not yet applied.
func renamed(vm *kubevirtv1.VirtualMachine, name string) *kubevirtv1.VirtualMachine {
	again := vm.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: vm.Namespace}
	return again
}

// change applies a change to an object as it is now. Others write to it too, and so it may take a few attempts.
func change(ctx context.Context, c client.Client, object client.Object, how func()) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		how()
		return c.Update(ctx, object)
	})
}

// eventsOn are the events about an object.
func eventsOn(ctx context.Context, object client.Object) []corev1.Event {
	GinkgoHelper()
	list := &corev1.EventList{}
	Expect(admin.List(ctx, list, client.InNamespace(object.GetNamespace()))).To(Succeed())
	var found []corev1.Event
	for i := range list.Items {
		if event := list.Items[i]; event.InvolvedObject.UID == object.GetUID() {
			found = append(found, event)
		}
	}
	return found
}

// controllerAccount is the client of KubeVirt's controller.
func controllerAccount(ctx context.Context) client.Client {
	GinkgoHelper()
	config, err := cluster.ServiceAccountConfig(ctx, simulators.Namespace, simulators.ControllerAccount)
	Expect(err).NotTo(HaveOccurred())
	return clientFor(config)
}
