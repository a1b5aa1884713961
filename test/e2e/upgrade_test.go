package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// balancer simulates kube-proxy for a port of a Service: each new connection goes to one of the endpoints, in turn. As in a
// cluster, a connection stays with its endpoint after that is removed.
type balancer struct {
	listener net.Listener

	mu        sync.Mutex
	endpoints []int
	next      int
}

// balance begins to serve a port, until the end of the spec. Nothing is served before there is an endpoint.
func balance(ctx context.Context, port int) *balancer {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
	Expect(err).NotTo(HaveOccurred())
	b := &balancer{listener: listener}
	DeferCleanup(listener.Close)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go b.pass(connection)
		}
	}()
	return b
}

// to replaces the endpoints.
func (b *balancer) to(ports ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endpoints = ports
}

func (b *balancer) pass(caller net.Conn) {
	defer caller.Close()
	b.mu.Lock()
	if len(b.endpoints) == 0 {
		b.mu.Unlock()
		return
	}
	port := b.endpoints[b.next%len(b.endpoints)]
	b.next++
	b.mu.Unlock()
	endpoint, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return
	}
	defer endpoint.Close()
	go func() {
		defer endpoint.Close()
		_, _ = io.Copy(endpoint, caller)
	}()
	_, _ = io.Copy(caller, endpoint)
}

var _ = Describe("An upgrade under load", Serial, func() {
	It("costs no call, admits no object without validation, and keeps the protection of deletions", func(ctx SpecContext) {
		plane := planes.Start(GinkgoTB(), controlplane.Options{})
		chart, err := plane.VirtwardChart(map[string]any{})
		Expect(err).NotTo(HaveOccurred())
		i := &installation{plane: plane, chart: chart, admin: plane.Client()}
		i.install(ctx)
		i.controller, err = plane.RunVirtward(ctx, controlplane.Workload{
			Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardController, Args: []string{"--rotation-settle=1s"},
		})
		Expect(err).NotTo(HaveOccurred())
		service := chart.Values["webhook"].(map[string]any)
		calls, deletions := balance(ctx, service["port"].(int)), balance(ctx, service["deletionsPort"].(int))
		// pod starts a replica of the current Deployment, and adds it to the Service when it is ready.
		var pods []*controlplane.Virtward
		var served []replica
		serve := func(served []replica) {
			var ports, others []int
			for _, r := range served {
				ports, others = append(ports, r.webhook), append(others, r.deletions)
			}
			calls.to(ports...)
			deletions.to(others...)
		}
		pod := func() {
			GinkgoHelper()
			ports, args := another(plane)
			if len(pods) == 0 { // the others are ready when the probe of the chart's port succeeds, and their own
				ports.health = chart.Values["health"].(map[string]any)["port"].(int)
				args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--health-address=") })
			}
			p, err := plane.RunVirtward(ctx, controlplane.Workload{
				Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardService, Args: args, Replica: "-" + strconv.Itoa(ports.webhook),
			})
			Expect(err).NotTo(HaveOccurred())
			Eventually(ports.ready).WithContext(ctx).Should(Succeed())
			pods, served = append(pods, p), append(served, ports)
			serve(served)
		}
		pod()
		pod()
		i.awaitCalls(ctx)

		By("protecting a virtual machine from deletion")
		kept := build.VM("kept").Obj()
		kept.Labels = map[string]string{"keep": "true"}
		Expect(i.admin.Create(ctx, kept)).To(Succeed())
		Expect(i.admin.Create(ctx, policyObject("keep", `{enforcement: Deny, match: {kinds: [VirtualMachine], operations: [DELETE]}, validations: [{expression: "oldObject.metadata.?labels.orValue({})[?'keep'].orValue('') != 'true'", message: it is kept}]}`))).To(Succeed())
		Eventually(func(ctx context.Context) error { return i.admin.Delete(ctx, kept, client.DryRunAll) }).WithContext(ctx).Should(MatchError(ContainSubstring("it is kept")))
		i.rotated(ctx)
		failed := i.failedCalls(ctx)
		openDeletions := func() float64 {
			GinkgoHelper()
			open, err := plane.Metric(ctx, "apiserver_admission_webhook_fail_open_count", map[string]string{"name": "deletions.validate.virtward.io"})
			Expect(err).NotTo(HaveOccurred())
			return open
		}
		opened := openDeletions()
		l := startMixedLoad(i.admin, 3)
		defer l.stop()
		var denied, lost atomic.Int64
		done := make(chan struct{})
		deleting, stop := context.WithCancel(ctx)
		go func() {
			defer close(done)
			for deleting.Err() == nil {
				err := i.admin.Delete(deleting, kept, client.DryRunAll)
				switch {
				case deleting.Err() != nil:
				case err != nil && strings.Contains(err.Error(), "it is kept"):
					denied.Add(1)
				default:
					lost.Add(1)
				}
			}
		}()
		l.more(ctx, 50)

		By("upgrading, as the Deployments roll: a new pod is ready before an old one ends")
		chart.Values["log"] = map[string]any{"level": "debug"}
		i.install(ctx)
		Expect(i.controller.Stop()).To(Succeed())
		i.controller, err = plane.RunVirtward(ctx, controlplane.Workload{
			Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardController, Args: []string{"--rotation-settle=1s"},
		})
		Expect(err).NotTo(HaveOccurred())
		for _, old := range []int{1, 0} {
			pod()
			l.more(ctx, 20)
			ended := pods[old]
			pods, served = slices.Delete(pods, old, old+1), slices.Delete(served, old, old+1)
			serve(served)
			time.Sleep(time.Second) // of the pod's preStop
			Expect(ended.Stop()).To(Succeed())
			l.more(ctx, 20)
		}
		l.more(ctx, 50)
		stop()
		<-done
		l.stop()
		AddReportEntry("load", fmt.Sprintf("%d admitted, %d denied, %d without an answer: %v; deletions: %d denied", l.admitted.Load(), l.denied.Load(), l.away.Load(), l.errors(), denied.Load()))
		Expect(l.unchecked.Load()).To(BeZero(), "an impossible VM or VMI was admitted")
		Expect(l.incomplete.Load()).To(BeZero(), "a VMI was admitted uncompleted")
		Expect(lost.Load()).To(BeZero(), "deletions of a protected virtual machine")
		Expect(openDeletions()).To(Equal(opened))
		Expect(i.failedCalls(ctx)).To(Equal(failed))
		Expect(l.away.Load()).To(BeZero(), "%v", l.errors())
	}, NodeTimeout(3*time.Minute))
})
