package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/simulators"
)

// bios is the field of the error of an impossible VM.
const bios = "spec.template.spec.domain.firmware.bootloader.bios arm64-bios"

// mine is a VM of mallory's that can run.
func mine(name string) *kubevirtv1.VirtualMachine {
	vm := build.VM(name).Obj()
	vm.Namespace = attacked
	return vm
}

// manyFinalizers are more than an object may have members that are evaluated. The webhooks do not see their writing.
func manyFinalizers() []string {
	finalizers := make([]string, 31_000)
	for i := range finalizers {
		finalizers[i] = fmt.Sprintf("mallory.example/%d", i)
	}
	return finalizers
}

// makeImpossible makes the template of a VM invalid.
func makeImpossible(vm *kubevirtv1.VirtualMachine) func() {
	return func() {
		vm.Spec.Template.Spec.Architecture = "arm64"
		vm.Spec.Template.Spec.Domain.Machine = &kubevirtv1.Machine{Type: "virt"}
		withBIOS(&vm.Spec.Template.Spec)
	}
}

// unchecked writes something behind the back of the webhooks, as it may have been there before them.
func unchecked(ctx context.Context, write func()) {
	GinkgoHelper()
	disable := func(to string) {
		for _, kind := range []string{"mutatingwebhookconfigurations/mutate.virtward.io", "validatingwebhookconfigurations/validate.virtward.io"} {
			patchNamespaces(ctx, kind, to)
		}
	}
	disable(attacked)
	defer func() {
		disable("")
		Eventually(func(ctx context.Context) error {
			return mallory.Create(ctx, impossible("probe", attacked), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("[virtward/arm64-bios]")))
	}()
	Eventually(func(ctx context.Context) error {
		return mallory.Create(ctx, impossible("probe", attacked), client.DryRunAll)
	}).WithContext(ctx).Should(Succeed())
	write()
}

var _ = Describe("Inflating an object", Serial, timed, func() {
	It("with finalizers does not change the evaluation", func(ctx SpecContext) {
		vm := mine("inflated")
		cleanUp(vm)
		Expect(mallory.Create(ctx, vm)).To(Succeed())
		Expect(change(ctx, mallory, vm, func() { vm.Finalizers = append(vm.Finalizers, manyFinalizers()...) })).To(Succeed())
		Expect(causes(change(ctx, mallory, vm, makeImpossible(vm)))).To(ConsistOf(bios))
		By("changing it to another valid one")
		Expect(change(ctx, mallory, vm, func() { vm.Spec.Template.Spec.Hostname = "renamed" })).To(Succeed())
	})

	It("with owner references does not change the evaluation", func(ctx SpecContext) {
		vm := mine("owned")
		cleanUp(vm)
		Expect(mallory.Create(ctx, vm)).To(Succeed())
		Expect(change(ctx, mallory, vm, func() {
			for i := range 12_000 {
				vm.OwnerReferences = append(vm.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: types.UID(fmt.Sprint(i))})
			}
		})).To(Succeed())
		Expect(causes(change(ctx, mallory, vm, makeImpossible(vm)))).To(ConsistOf(bios))
	})

	It("that was admitted without validation does not bypass it", func(ctx SpecContext) {
		user, heard := listening("mallory")
		vm := mine("from-before")
		cleanUp(vm)
		unchecked(ctx, func() {
			vm.Spec.Template.ObjectMeta.Annotations = map[string]string{}
			for i := range 31_000 {
				vm.Spec.Template.ObjectMeta.Annotations[fmt.Sprintf("m/%d", i)] = ""
			}
			Expect(mallory.Create(ctx, vm)).To(Succeed())
		})
		readable := "spec object-readable"
		Expect(causes(change(ctx, user, vm, makeImpossible(vm)))).To(ConsistOf(readable))
		Expect(causes(change(ctx, user, vm, func() { vm.Labels = map[string]string{"free": "yes"} }))).To(ConsistOf(readable))
		Expect(change(ctx, user, vm, func() { vm.Finalizers = append(vm.Finalizers, "mallory.example/hold") })).To(Succeed())
		By("shrinking it: its errors are new")
		Expect(causes(change(ctx, user, vm, func() {
			vm.Spec.Template.ObjectMeta.Annotations = nil
			makeImpossible(vm)()
		}))).To(ConsistOf(bios))
		heard.texts = nil
		Expect(change(ctx, user, vm, func() { vm.Spec.Template.ObjectMeta.Annotations = nil })).To(Succeed())
		Expect(heard.texts).To(BeEmpty())
	})

	It("that is being deleted, and an instancetype likewise, opens neither", func(ctx SpecContext) {
		vm := mine("leaving")
		vm.Finalizers = []string{"mallory.example/hold"}
		cleanUp(vm)
		Expect(mallory.Create(ctx, vm)).To(Succeed())
		Expect(mallory.Delete(ctx, vm)).To(Succeed())
		Expect(causes(change(ctx, mallory, vm, makeImpossible(vm)))).To(ConsistOf(bios))
		Expect(change(ctx, mallory, vm, func() { vm.Labels = map[string]string{"anything": "goes"} })).To(Succeed())

		instancetype := &instancetypev1beta1.VirtualMachineInstancetype{
			ObjectMeta: metav1.ObjectMeta{Namespace: attacked, Name: "leaving", Finalizers: []string{"mallory.example/hold"}},
			Spec:       instancetypev1beta1.VirtualMachineInstancetypeSpec{CPU: instancetypev1beta1.CPUInstancetype{Guest: 1}},
		}
		cleanUp(instancetype)
		Expect(mallory.Create(ctx, instancetype)).To(Succeed())
		Expect(mallory.Delete(ctx, instancetype)).To(Succeed())
		Expect(causes(change(ctx, mallory, instancetype, func() {
			instancetype.Spec.IOThreadsPolicy = new(kubevirtv1.IOThreadsPolicy("none"))
		}))).To(ConsistOf("spec.ioThreadsPolicy instancetype-iothreads-policy"))
	})

	It("does not keep KubeVirt from migrating, plugging and deleting", func(ctx SpecContext) {
		handler, controller := accountOf(ctx, simulators.HandlerAccount), accountOf(ctx, simulators.ControllerAccount)
		vmi := build.VMI("running").Namespace(attacked).Topology(1, 1, 1).Obj()
		cleanUp(vmi)
		unchecked(ctx, func() {
			vmi.Annotations = map[string]string{}
			for i := range 31_000 {
				vmi.Annotations[fmt.Sprintf("m/%d", i)] = ""
			}
			Expect(mallory.Create(ctx, vmi)).To(Succeed())
		})
		Expect(causes(change(ctx, mallory, vmi, func() { vmi.Labels = map[string]string{"free": "yes"} }))).To(ConsistOf("spec object-readable"))
		By("writing the whole typed object, as virt-handler and virt-controller do")
		Expect(change(ctx, handler, vmi, func() { vmi.Labels = map[string]string{kubevirtv1.NodeNameLabel: "node02"} })).To(Succeed())
		Expect(change(ctx, controller, vmi, func() {
			vmi.Spec.Domain.CPU.Sockets++
			vmi.Annotations["kubevirt.io/migration"] = "pending"
		})).To(Succeed())
		Expect(change(ctx, controller, vmi, func() { vmi.Finalizers = nil })).To(Succeed())
		Expect(causes(change(ctx, controller, vmi, func() { vmi.Spec.Architecture = "s390x" }))).To(ConsistOf("spec object-readable"))
	})
})

var _ = Describe("A deletion timestamp of a client's own", func() {
	It("skips neither webhook", func(ctx SpecContext) {
		raw, err := json.Marshal(impossible("dying", attacked))
		Expect(err).NotTo(HaveOccurred())
		body := strings.Replace(string(raw), `"metadata":{`, `"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z","deletionGracePeriodSeconds":0,`, 1)
		_, err = post(ctx, "mallory", "/apis/kubevirt.io/v1/namespaces/mallory/virtualmachines?dryRun=All", body)
		Expect(causes(err)).To(ConsistOf(bios))

		raw, err = json.Marshal(build.VMI("dying").Obj())
		Expect(err).NotTo(HaveOccurred())
		body = strings.Replace(string(raw), `"metadata":{`, `"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z",`, 1)
		body = strings.Replace(body, `"namespace":"default"`, `"namespace":"mallory"`, 1)
		answer, err := post(ctx, "mallory", "/apis/kubevirt.io/v1/namespaces/mallory/virtualmachineinstances?dryRun=All", body)
		Expect(err).NotTo(HaveOccurred())
		Expect(answer).To(ContainSubstring(`"model":"host-model"`), "it is not completed")
	})
})
