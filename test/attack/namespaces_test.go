package attack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/soak"
)

// How many namespaces a cluster has, each with 20 labels and annotations of 2 kB.
const (
	namespaces     = 1_000
	namespacesSoak = 10_000
)

// controllerLimit is the memory limit of the controller's container in the chart.
const controllerLimit = 512 << 20

// crowd is a namespace with as many labels and annotations as platforms write.
func crowd(i int) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("tenant-%05d", i), Labels: map[string]string{}, Annotations: map[string]string{"platform.example/notes": strings.Repeat("n", 2_000)},
	}}
	for l := range 20 {
		namespace.Labels[fmt.Sprintf("platform.example/label-%02d", l)] = fmt.Sprintf("value-%05d-of-a-namespace-%02d", i, l)
	}
	return namespace
}

var _ = Describe("A cluster of many namespaces", Serial, timed, func() {
	It("fits into the memory of both processes, and slows neither their start nor a create", func(ctx SpecContext) {
		count := namespaces
		if soak.On() {
			count = namespacesSoak
		}
		large := planes.Start(GinkgoTB(), controlplane.Options{})
		webhook, err := large.InstallVirtward(ctx, nil, controlplane.Workload{})
		Expect(err).NotTo(HaveOccurred())
		controller := large.VirtwardControllerProcess()
		user := clientFor(large.Config())
		few := creates(ctx, user, quiet)

		each(count, func(i int) error { return user.Create(ctx, crowd(i)) })
		arriving := []int64{peak(webhook.PID()) >> 20, peak(controller.PID()) >> 20}

		By("starting both among them")
		began := time.Now()
		Expect(webhook.Restart(ctx)).To(Succeed())
		webhookReady := time.Since(began)
		began = time.Now()
		Expect(controller.Restart(ctx)).To(Succeed())
		controllerReady := time.Since(began)
		many := creates(ctx, user, crowd(count-1).Name)
		AddReportEntry("figures", fmt.Sprintf("%d namespaces: ready after %s (webhook), %s (controller); p99 of a create %s, before them %s; VmHWM in MiB: webhook %d, controller %d; of those that saw them arrive %d, %d",
			count, webhookReady.Round(time.Millisecond), controllerReady.Round(time.Millisecond), many.Round(time.Millisecond), few.Round(time.Millisecond),
			peak(webhook.PID())>>20, peak(controller.PID())>>20, arriving[0], arriving[1]))
		Expect(peak(webhook.PID())).To(BeNumerically("<", containerLimit))
		Expect(peak(controller.PID())).To(BeNumerically("<", controllerLimit))
		if soak.On() {
			Expect(many).To(BeNumerically("<=", max(3*few, acceptable)))
		}
	}, NodeTimeout(nodeTimeout))
})

// creates is the 99th percentile of what creating a virtual machine takes, dry, one after the other. The first that
// succeed wait for the API server to know the webhooks.
func creates(ctx context.Context, user client.Client, namespace string) time.Duration {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		return user.Create(ctx, impossible("probe", namespace), client.DryRunAll)
	}).WithContext(ctx).Should(MatchError(ContainSubstring("[virtward/arm64-bios]")))
	var took []time.Duration
	for i := range 300 {
		vm := build.VMOf(build.Typical(fmt.Sprintf("tenant-%d", i)).Namespace(namespace)).Obj()
		began := time.Now()
		Expect(user.Create(ctx, vm, client.DryRunAll)).To(Succeed())
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
