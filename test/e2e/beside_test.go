package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// installation is Virtward on a separate control plane, for specs that restart the API server.
type installation struct {
	plane      *controlplane.ControlPlane
	chart      controlplane.Chart
	admin      client.Client
	webhook    *controlplane.Virtward
	controller *controlplane.Virtward
	replica    replica
}

// installBeside starts a control plane with Virtward until the end of the spec or the container.
func installBeside(ctx context.Context) *installation {
	GinkgoHelper()
	return installWith(ctx, func(*controlplane.ControlPlane) map[string]any { return nil })
}

// installWith does so with values of the chart.
func installWith(ctx context.Context, values func(*controlplane.ControlPlane) map[string]any) *installation {
	GinkgoHelper()
	plane := planes.Start(GinkgoTB(), controlplane.Options{})
	chart, err := plane.VirtwardChart(values(plane))
	Expect(err).NotTo(HaveOccurred())
	i := &installation{plane: plane, chart: chart, admin: plane.Client(), replica: replica{
		webhook: chart.Values["webhook"].(map[string]any)["port"].(int),
		health:  chart.Values["health"].(map[string]any)["port"].(int),
	}}
	i.install(ctx)
	i.controller, err = plane.RunVirtward(ctx, controlplane.Workload{
		Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardController, Args: []string{"--rotation-settle=2s"},
	})
	Expect(err).NotTo(HaveOccurred())
	i.roll(ctx)
	return i
}

// install installs or upgrades the release.
func (i *installation) install(ctx context.Context) {
	GinkgoHelper()
	Expect(i.plane.InstallChart(ctx, i.chart)).To(Succeed())
	Expect(i.plane.PointServiceAtLocalhost(ctx, controlplane.VirtwardNamespace, controlplane.VirtwardService)).To(Succeed())
}

// roll restarts the webhook with its current Deployment.
func (i *installation) roll(ctx context.Context) {
	GinkgoHelper()
	if i.webhook != nil {
		Expect(i.webhook.Stop()).To(Succeed())
	}
	var err error
	i.webhook, err = i.plane.RunVirtward(ctx, controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardService})
	Expect(err).NotTo(HaveOccurred())
}

// awaitCalls waits until the API server calls both webhooks: a VMI is completed, and an impossible VM is denied.
func (i *installation) awaitCalls(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		vmi := build.VMI("probe").Obj()
		g.Expect(i.admin.Create(ctx, vmi, client.DryRunAll)).To(Succeed())
		g.Expect(vmi.Spec.Domain.Machine).NotTo(BeNil(), "it is not completed")
		g.Expect(i.admin.Create(ctx, build.VMOf(impossibly("probe")).Obj(), client.DryRunAll)).To(MatchError(ContainSubstring("[virtward/arm64-bios]")))
	}).WithContext(ctx).Should(Succeed())
}

// failedCalls is how often the API server could not call one of our webhooks.
func (i *installation) failedCalls(ctx context.Context) float64 {
	GinkgoHelper()
	open, err := i.plane.Metric(ctx, "apiserver_admission_webhook_fail_open_count", map[string]string{"name": webhook})
	Expect(err).NotTo(HaveOccurred())
	closed, err := i.plane.Metric(ctx, "apiserver_admission_webhook_rejection_count", map[string]string{"error_type": "calling_webhook_error"})
	Expect(err).NotTo(HaveOccurred())
	return open + closed
}
