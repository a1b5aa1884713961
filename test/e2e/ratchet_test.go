package e2e

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/virtward/virtward/test/build"
)

// knownBus is the warning about a disk that was on SATA before an update.
func knownBus(place string) OmegaMatcher {
	return And(
		HavePrefix("spec.template.spec.domain.devices.disks["+place+"].disk.bus: "),
		ContainSubstring("(pre-existing: tolerated on update, denied on create) [virtward/arm64-disk-bus]"),
	)
}

var _ = Describe("A VM with a fault from before", Serial, func() {
	var vm *kubevirtv1.VirtualMachine
	var user client.Client
	var heard *recordedWarnings

	BeforeEach(func(ctx SpecContext) {
		user, heard = listening("alice")
		vm = build.VMOf(build.VMI("grown-old").Architecture("arm64").Disk("root", kubevirtv1.DiskBusSATA)).Obj()
		cleanUp(vm)
		remove := setRules(ctx, "from-before", setting{Rule: "arm64-disk-bus", Severity: "Off"})
		Eventually(func(ctx context.Context) error { return alice.Create(ctx, vm) }).WithContext(ctx).Should(Succeed())
		remove(ctx)
		Eventually(func(ctx context.Context) error {
			return alice.Create(ctx, renamed(vm, "newer"), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("[virtward/arm64-disk-bus]")))
	})

	disks := func(add kubevirtv1.Disk, at int) func() {
		return func() {
			spec := &vm.Spec.Template.Spec
			spec.Domain.Devices.Disks = slices.Insert(spec.Domain.Devices.Disks, at, add)
			spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: add.Name, VolumeSource: kubevirtv1.VolumeSource{
				ContainerDisk: &kubevirtv1.ContainerDiskSource{Image: "quay.io/containerdisks/fedora:41"},
			}})
		}
	}
	disk := func(name string, bus kubevirtv1.DiskBus) kubevirtv1.Disk {
		return kubevirtv1.Disk{Name: name, DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: bus}}}
	}

	It("can be changed in other fields, with a warning", func(ctx SpecContext) {
		Expect(change(ctx, user, vm, func() { vm.Spec.Template.Spec.Hostname = "elsewhere" })).To(Succeed())
		Expect(heard.texts).To(HaveEach(knownBus("0"))) // an attempt that conflicts is warned too
	})

	It("can have its disks moved", func(ctx SpecContext) {
		Expect(change(ctx, user, vm, disks(disk("first", kubevirtv1.DiskBusVirtio), 0))).To(Succeed())
		Expect(heard.texts).To(HaveEach(knownBus("1")))
	})

	It("does not get another", func(ctx SpecContext) {
		Expect(causes(change(ctx, user, vm, disks(disk("second", kubevirtv1.DiskBusSATA), 1)))).To(ConsistOf(
			"spec.template.spec.domain.devices.disks[1].disk.bus arm64-disk-bus"))
		Expect(heard.texts).To(HaveEach(knownBus("0")), "the pre-existing error is only a warning")
	})

	It("does not get a worse one in its place", func(ctx SpecContext) {
		Expect(causes(change(ctx, user, vm, func() {
			vm.Spec.Template.Spec.Domain.Devices.Disks[0].Disk.Bus = kubevirtv1.DiskBusUSB
		}))).To(ConsistOf("spec.template.spec.domain.devices.disks[0].disk.bus arm64-disk-bus"))
	})

	It("can be corrected", func(ctx SpecContext) {
		Expect(change(ctx, user, vm, func() { vm.Spec.Template.Spec.Domain.Devices.Disks[0].Disk.Bus = kubevirtv1.DiskBusVirtio })).To(Succeed())
		Expect(heard.texts).To(BeEmpty())
	})

	It("can be deleted, and its finalizers can be removed", func(ctx SpecContext) {
		const hold = "example.com/hold"
		Expect(change(ctx, admin, vm, func() { controllerutil.AddFinalizer(vm, hold) })).To(Succeed())
		heard.texts = nil
		Expect(user.Delete(ctx, vm)).To(Succeed())
		Expect(user.Get(ctx, client.ObjectKeyFromObject(vm), vm)).To(Succeed(), "it waits")
		Expect(vm.DeletionTimestamp).NotTo(BeNil())
		Expect(change(ctx, user, vm, func() { controllerutil.RemoveFinalizer(vm, hold) })).To(Succeed())
		Eventually(func(ctx context.Context) error {
			return user.Get(ctx, client.ObjectKeyFromObject(vm), vm)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("not found")))
		Expect(heard.texts).To(BeEmpty(), "an object that is being deleted is not evaluated")
	})
})
