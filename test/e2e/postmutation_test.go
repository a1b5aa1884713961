package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
)

var _ = Describe("A new VMI", func() {
	It("is evaluated equally for every requester", func(ctx SpecContext) {
		byUser := alice.Create(ctx, impossible("requested"))
		byController := controllerAccount(ctx).Create(ctx, impossible("requested"))
		byAdmin := admin.Create(ctx, impossible("requested"))
		Expect(causes(byUser)).To(ConsistOf(diskBus+" arm64-disk-bus", bios+" arm64-bios"))
		Expect(detailed(byController)).To(Equal(detailed(byUser)))
		Expect(detailed(byAdmin)).To(Equal(detailed(byUser)))
	})

	It("that is not completed is rejected, with a cause for each missing field", Serial, func(ctx SpecContext) {
		without(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{}, webhook)
		var rejected error
		Eventually(func(g Gomega, ctx context.Context) { // the API server notices it a moment later
			rejected = alice.Create(ctx, build.VMI("uncompleted").Disk("root", "").Obj(), client.DryRunAll)
			g.Expect(rejected).To(MatchError(ContainSubstring("[virtward/vmi-complete]")))
		}).WithContext(ctx).Should(Succeed())
		lacking := []string{
			"spec.domain.cpu.cores", "spec.domain.cpu.maxSockets", "spec.domain.cpu.model", "spec.domain.cpu.sockets", "spec.domain.cpu.threads",
			"spec.domain.devices.disks[0].disk.bus", "spec.domain.devices.interfaces", "spec.domain.features.acpi.enabled",
			"spec.evictionStrategy", "spec.networks", "spec.volumes[0].containerDisk.imagePullPolicy", "status.currentCPUTopology", "status.memory",
		}
		for i := range lacking {
			lacking[i] += " vmi-complete"
		}
		Expect(causes(rejected)).To(ConsistOf(lacking))
		Expect(rejected).To(MatchError(ContainSubstring("spec.domain.cpu.model: Required value: the layer base sets this field, but the request does not have it")))

		By("creating it in an exempt namespace")
		admitted := build.VMI("uncompleted").Namespace("kube-system").Obj()
		Expect(admin.Create(ctx, admitted, client.DryRunAll)).To(Succeed())
	})
})
