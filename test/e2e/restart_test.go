package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/certificates"
	"github.com/virtward/virtward/test/build"
)

// whileAnnounced is the time of a restart in every run; make soak has others.
const whileAnnounced = "while a new CA is announced"

var _ = Describe("An API server that restarts during a rotation, under load", Serial, Ordered, func() {
	var i *installation
	BeforeAll(func(ctx SpecContext) {
		i = installBeside(ctx)
		i.awaitCalls(ctx)
	}, NodeTimeout(3*time.Minute))

	DescribeTable("admits no object without validation, and the rotation ends", func(ctx SpecContext, keys []string, when func(before, now *corev1.Secret) bool) {
		if CurrentSpecReport().LeafNodeText != whileAnnounced {
			leaveToSoak()
		}
		i.rotated(ctx)
		before := secretOf(ctx, i.plane)
		l := startMixedLoad(i.admin, 3)
		defer l.stop()
		l.more(ctx, 20)
		By("asking for a rotation, and stopping the API server in the middle of it")
		secret := before.DeepCopy()
		Expect(change(ctx, i.admin, secret, func() {
			for _, key := range keys {
				delete(secret.Data, key)
			}
		})).To(Succeed())
		Eventually(func(ctx context.Context) bool { return when(before, secretOf(ctx, i.plane)) }).
			WithContext(ctx).WithPolling(10 * time.Millisecond).Should(BeTrue())
		Expect(i.plane.StopAPIServer()).To(Succeed())
		away := l.away.Load()
		Eventually(l.away.Load).WithContext(ctx).Should(BeNumerically(">", away), "the load meets no API server")
		Expect(i.webhook.PID()).NotTo(BeZero(), "the webhook serves on without an API server")
		Expect(i.plane.StartAPIServer(ctx)).To(Succeed())

		By("waiting until the rotation has ended")
		if i.controller.PID() == 0 { // it lost its lease, which ends it; the kubelet starts it again
			Expect(i.controller.Start(ctx)).To(Succeed())
		}
		i.rotated(ctx)
		after := secretOf(ctx, i.plane)
		for _, key := range []string{certificates.CertificateKey, certificates.TokenKey} {
			Expect(after.Data[key]).NotTo(Equal(before.Data[key]), "%s is not replaced", key)
		}
		i.awaitCalls(ctx)
		failed, errors := i.failedCalls(ctx), l.away.Load()
		l.more(ctx, 100)
		l.stop()
		Expect(i.failedCalls(ctx)).To(Equal(failed), "no call fails afterwards")
		Expect(l.away.Load()).To(Equal(errors), "and every request is answered: %v", l.errors())
		Expect(l.unchecked.Load()).To(BeZero(), "an impossible VM or VMI was admitted")
		Expect(l.incomplete.Load()).To(BeZero(), "a VMI was admitted uncompleted")
		AddReportEntry("load", fmt.Sprintf("%d admitted, %d denied, %d without an answer: %v", l.admitted.Load(), l.denied.Load(), l.away.Load(), l.errors()))
	},
		Entry("at the first write of a pair", NodeTimeout(3*time.Minute), []string{certificates.CertificateKey, certificates.PrivateKey}, func(_, now *corev1.Secret) bool {
			_, replacing := now.Data[certificates.PreviousTokenKey]
			return replacing
		}),
		Entry(whileAnnounced, NodeTimeout(3*time.Minute), []string{certificates.AuthorityPrivateKey}, func(_, now *corev1.Secret) bool {
			return len(now.Data[certificates.PreviousAuthorityKey]) > 0
		}),
		Entry("when the pair of the new CA is written", NodeTimeout(3*time.Minute), []string{certificates.AuthorityPrivateKey}, func(before, now *corev1.Secret) bool {
			return !bytes.Equal(before.Data[certificates.CertificateKey], now.Data[certificates.CertificateKey])
		}),
	)
})

// rotated waits until no rotation is under way.
func (i *installation) rotated(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		data := secretOf(ctx, i.plane).Data
		g.Expect(data).To(HaveKey(certificates.CertificateKey))
		g.Expect(data).To(HaveKey(certificates.AuthorityPrivateKey))
		g.Expect(data).NotTo(Or(HaveKey(certificates.PreviousTokenKey), HaveKey(certificates.PreviousAuthorityKey)))
		for _, config := range clientConfigsOf(ctx, i.admin) {
			g.Expect(config.CABundle).To(Equal(data[certificates.AuthorityKey]))
			g.Expect(*config.Service.Path).To(HaveSuffix("/" + string(data[certificates.TokenKey])))
		}
	}).WithContext(ctx).Should(Succeed())
}

// mixedLoad creates, as dry runs, valid VMIs and invalid VMs and VMIs, until it is stopped.
type mixedLoad struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	// admitted counts valid VMIs, and incomplete those of them that were not completed. denied counts invalid objects, and
	// unchecked those that were admitted. away counts requests without an answer of a webhook.
	admitted, incomplete, denied, unchecked, away atomic.Int64

	mu     sync.Mutex
	causes map[string]int // why requests were not decided
}

func startMixedLoad(user client.Client, workers int) *mixedLoad {
	ctx, cancel := context.WithCancel(context.Background())
	l := &mixedLoad{cancel: cancel, causes: map[string]int{}}
	for w := range workers {
		l.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("mixed-%d-%d", w, n)
				vmi := build.Typical(name).Obj()
				l.right(ctx, user.Create(ctx, vmi, client.DryRunAll), vmi.Spec.Domain.Machine != nil)
				l.impossible(ctx, user.Create(ctx, impossible(name), client.DryRunAll))
				l.impossible(ctx, user.Create(ctx, build.VMOf(impossibly(name)).Obj(), client.DryRunAll))
			}
		})
	}
	return l
}

func (l *mixedLoad) right(ctx context.Context, err error, complete bool) {
	switch {
	case err != nil:
		l.unanswered(ctx, err)
	case complete:
		l.admitted.Add(1)
	default:
		l.admitted.Add(1)
		l.incomplete.Add(1)
	}
}

func (l *mixedLoad) impossible(ctx context.Context, err error) {
	switch {
	case err == nil:
		l.unchecked.Add(1)
	case strings.Contains(err.Error(), "[virtward/arm64-bios]"):
		l.denied.Add(1)
	default:
		l.unanswered(ctx, err)
	}
}

func (l *mixedLoad) unanswered(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.away.Add(1)
	cause := err.Error()
	for _, known := range []string{"connection refused", "EOF", "GOAWAY", "connection reset", "not yet ready", "vmi-complete", "could not check this object"} {
		if strings.Contains(cause, known) {
			cause = known
		}
	}
	if _, after, found := strings.Cut(cause, "failed calling webhook "); found {
		_, after, _ = strings.Cut(after, "?timeout=") // the path has a token, the timeout is no cause
		cause = "failed calling webhook: " + strings.TrimLeft(after, "0123456789s\": ")
	}
	l.mu.Lock()
	l.causes[cause]++
	l.mu.Unlock()
	select { // a client that meets no API server waits a little
	case <-ctx.Done():
	case <-time.After(10 * time.Millisecond):
	}
}

// errors are why requests were not decided, and how many.
func (l *mixedLoad) errors() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, cause := range slices.Sorted(maps.Keys(l.causes)) {
		all = append(all, fmt.Sprintf("%d × %s", l.causes[cause], cause))
	}
	return all
}

// more waits until a number of requests of either kind was decided from now on.
func (l *mixedLoad) more(ctx context.Context, n int64) {
	GinkgoHelper()
	admitted, denied := l.admitted.Load(), l.denied.Load()
	Eventually(func() int64 { return min(l.admitted.Load()-admitted, l.denied.Load()-denied) }).
		WithContext(ctx).WithPolling(5 * time.Millisecond).Should(BeNumerically(">=", n))
}

func (l *mixedLoad) stop() {
	l.cancel()
	l.done.Wait()
}
