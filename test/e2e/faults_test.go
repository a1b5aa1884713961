package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/certificates"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
)

// load applies VMIs, as dry runs, until it is stopped.
type load struct {
	cancel   context.CancelFunc
	done     sync.WaitGroup
	applied  atomic.Int64
	complete atomic.Int64
	// unchecked counts rejections because a webhook did not answer, had not read the cluster yet, or only the validating
	// webhook was called. rejected is the first rejection of another kind.
	unchecked atomic.Int64
	rejected  atomic.Pointer[error]
}

func startLoad(workers int) *load { return loadBy(alice, workers) }

// loadBy starts a load with a client.
func loadBy(user client.Client, workers int) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel}
	for w := range workers {
		l.done.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				vmi := build.Typical(fmt.Sprintf("load-%d-%d", w, i)).Obj()
				err := user.Create(ctx, vmi, client.DryRunAll)
				switch {
				case ctx.Err() != nil:
				case err != nil && (strings.Contains(err.Error(), notCalled) || apierrors.IsServiceUnavailable(err) || strings.Contains(err.Error(), "[virtward/vmi-complete]")):
					l.unchecked.Add(1)
				case err != nil:
					l.rejected.CompareAndSwap(nil, &err)
				default:
					l.applied.Add(1)
					if vmi.Spec.Domain.Machine != nil {
						l.complete.Add(1)
					}
				}
			}
		})
	}
	return l
}

// stop ends the load. No VMI may have been rejected by a rule.
func (l *load) stop() {
	GinkgoHelper()
	l.cancel()
	l.done.Wait()
	if err := l.rejected.Load(); err != nil {
		Fail("a VMI was rejected: " + (*err).Error())
	}
}

// more waits until the load has applied a number of VMIs from now on.
func (l *load) more(ctx context.Context, n int64) {
	GinkgoHelper()
	from := l.applied.Load()
	Eventually(func() int64 { return l.applied.Load() - from }).WithContext(ctx).WithPolling(5 * time.Millisecond).Should(BeNumerically(">=", n))
}

var _ = Describe("Under load", Serial, func() {
	It("a killed webhook has VMIs rejected, and admits them again, complete, as soon as it is back", func(ctx SpecContext) {
		l := startLoad(3)
		l.more(ctx, 50)
		virtward.Kill()
		Eventually(l.unchecked.Load).WithContext(ctx).Should(BeNumerically(">", 20))
		Expect(virtward.Start(ctx)).To(Succeed())
		l.more(ctx, 50)

		unchecked, failed := l.unchecked.Load(), failedCalls(ctx)
		l.more(ctx, 100)
		l.stop()
		Expect(l.unchecked.Load()).To(Equal(unchecked), "nothing is rejected once it is ready")
		Expect(failedCalls(ctx)).To(Equal(failed), "and no call fails")
		Expect(l.complete.Load()).To(Equal(l.applied.Load()), "nothing passed uncompleted")
	})

	It("a killed webhook lets VMIs pass where the checks are not installed", func(ctx SpecContext) {
		failed := failedCalls(ctx)
		without(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{}, checks)
		l := startLoad(3)
		l.more(ctx, 50)
		virtward.Kill()
		l.more(ctx, 20)
		Expect(virtward.Start(ctx)).To(Succeed())
		Expect(failedCalls(ctx)).To(BeNumerically(">", failed), "calls failed while it was dead")
		l.more(ctx, 50)

		settled := failedCalls(ctx)
		complete, applied := l.complete.Load(), l.applied.Load()
		l.more(ctx, 100)
		l.stop()
		Expect(l.unchecked.Load()).To(BeZero(), "no object was rejected")
		Expect(failedCalls(ctx)).To(Equal(settled), "no call fails once it is ready")
		Expect(l.complete.Load()-complete).To(BeNumerically(">=", l.applied.Load()-applied-3), "every VMI is completed, but for those under way")
	})

	It("a webhook that is stopped answers the requests in progress", func(ctx SpecContext) {
		l := startLoad(3)
		l.more(ctx, 50)
		Expect(virtward.Stop()).To(Succeed())
		Expect(virtward.Start(ctx)).To(Succeed())
		l.more(ctx, 10)
		l.stop()
		Expect(l.complete.Load()).To(Equal(l.applied.Load()))
	})
})

var _ = Describe("A body that is not an AdmissionReview", func() {
	It("is answered with an error, and does not stop the process", func(ctx SpecContext) {
		address, roots := endpoint(ctx)
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}}}
		for body, want := range map[string]string{
			`{`:                          "400 the body is not an AdmissionReview: unexpected end of JSON input",
			`[]`:                         "400 the body is not an AdmissionReview: json: cannot unmarshal array into Go value of type v1.AdmissionReview",
			`{"kind":"Pod"}`:             `400 the body is "" "Pod", not an AdmissionReview of admission.k8s.io/v1`,
			strings.Repeat("x", 7<<20+1): "400 the body has no request with a uid before its byte 16384",
		} {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/mutate/"+token(ctx), strings.NewReader(body))
			Expect(err).NotTo(HaveOccurred())
			response, err := caller.Do(request)
			Expect(err).NotTo(HaveOccurred())
			answer, err := io.ReadAll(response.Body)
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())
			Expect(fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(answer)))).To(Equal(want))
		}
		vmi := build.VMI("after").Obj()
		Expect(alice.Create(ctx, vmi, client.DryRunAll)).To(Succeed())
		Expect(vmi.Spec.Domain.Machine.Type).To(Equal("q35"))
	})
})

// serverName is the DNS name of the certificate.
const serverName = controlplane.VirtwardService + "." + controlplane.VirtwardNamespace + ".svc"

// token returns the current token of the paths.
func token(ctx context.Context) string {
	GinkgoHelper()
	return string(certificateSecret(ctx).Data[certificates.TokenKey])
}

func certificateSecret(ctx context.Context) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: "virtward-webhook-cert"}, secret)).To(Succeed())
	return secret
}

// endpoint is where the API server calls us, and whom it trusts there.
func endpoint(ctx context.Context) (string, *x509.CertPool) {
	GinkgoHelper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: webhook}, configuration)).To(Succeed())
	target := configuration.Webhooks[0].ClientConfig
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(target.CABundle)).To(BeTrue())
	return net.JoinHostPort("localhost", fmt.Sprint(*target.Service.Port)), roots
}

// served is the serial and the beginning of the certificate that a handshake meets now.
func served(ctx context.Context) string {
	GinkgoHelper()
	address, roots := endpoint(ctx)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	Expect(err).NotTo(HaveOccurred())
	defer connection.Close()
	leaf := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
	return fmt.Sprintf("%x", leaf.Signature)
}
