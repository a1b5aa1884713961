package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/simulators"
)

var _ = Describe("A VM that runs", func() {
	It("is changed with a warning of what waits for a restart", func(ctx SpecContext) {
		user, heard := listening("alice")
		vm := build.VMOf(build.Typical("long-runner").With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
			spec.Domain.Firmware = &kubevirtv1.Firmware{UUID: "11111111-2222-4333-8444-555555555555"}
		})).RunStrategy(kubevirtv1.RunStrategyAlways).Obj()
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())
		awaitRunning(ctx, vm)

		By("changing its labels, and then a field of its template")
		Expect(change(ctx, user, vm, func() { vm.Labels = map[string]string{"team": "a"} })).To(Succeed())
		Expect(heard.texts).To(BeEmpty())
		Expect(change(ctx, user, vm, func() { vm.Spec.Template.Spec.Hostname = "elsewhere" })).To(Succeed())
		Expect(heard.texts).To(ContainElement("spec.template.spec.hostname: takes effect when the VM restarts. KubeVirt applies this field only when the VM starts."))

		By("changing another field")
		heard.texts = nil
		Expect(change(ctx, user, vm, func() { vm.Spec.Template.Spec.Subdomain = "sub" })).To(Succeed())
		Expect(heard.texts).To(HaveEach("spec.template.spec.subdomain: takes effect when the VM restarts. KubeVirt applies this field only when the VM starts."))
	}, NodeTimeout(3*time.Minute))
})

// started makes a VM one that runs, as KubeVirt's controllers do: with an instance, and a revision of its start.
func started(ctx context.Context, vm *kubevirtv1.VirtualMachine) {
	GinkgoHelper()
	account := controllerAccount(ctx)
	vmi, err := simulators.Run(ctx, account, account, vm)
	Expect(err).NotTo(HaveOccurred())
	cleanUp(vmi)
}
