package attack

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
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/certificates"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/soak"
)

// endpoint is the webhook's port for a client without an account.
type endpoint struct {
	address, token string
	config         *tls.Config
	// health is the address of the kubelet's probes.
	health string
}

func findEndpoint(ctx context.Context) endpoint {
	GinkgoHelper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: "mutate.virtward.io"}, configuration)).To(Succeed())
	target := configuration.Webhooks[0].ClientConfig
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(target.CABundle)).To(BeTrue())
	secret := &corev1.Secret{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: "virtward-webhook-cert"}, secret)).To(Succeed())
	d := endpoint{
		address: fmt.Sprintf("127.0.0.1:%d", *target.Service.Port), token: string(secret.Data[certificates.TokenKey]),
		config: &tls.Config{RootCAs: roots, ServerName: controlplane.VirtwardService + "." + controlplane.VirtwardNamespace + ".svc", MinVersion: tls.VersionTLS12},
	}
	for _, argument := range virtward.Args() {
		if port, found := strings.CutPrefix(argument, "--health-address="); found {
			d.health = "http://127.0.0.1" + port
		}
	}
	Expect(d.health).NotTo(BeEmpty())
	return d
}

// dial opens a TLS connection.
func (d endpoint) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return (&tls.Dialer{Config: d.config}).DialContext(ctx, "tcp", d.address)
}

// send sends a request over a new connection, and returns the status and the beginning of the response.
func (d endpoint) send(ctx context.Context, method, path, body string) (int, string) {
	GinkgoHelper()
	caller := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: d.config.Clone()}}
	request, err := http.NewRequestWithContext(ctx, method, "https://"+d.address+path, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	response, err := caller.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(answer)
}

// keep does something with workers at once, again and again with a pause, until the function that it returns is called.
// The pause leaves the machine, which attacker and attacked share, to the attacked.
func keep(workers int, pause time.Duration, do func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for ctx.Err() == nil {
				do(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	end = func() {
		cancel()
		done.Wait()
	}
	DeferCleanup(end) // of a spec that fails
	return end
}

// held keeps an attacker's connection open until the server or the end of the attack closes it.
func held(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

var _ = Describe("The webhook's port", Serial, timed, func() {
	// underAttack runs an attack while another user creates objects and a kubelet probes. It does not use the API server.
	underAttack := func(ctx context.Context, d endpoint, attack func() (end func())) {
		GinkgoHelper()
		probes := probed(d.health)
		end := attack()
		p99 := served(ctx, innocentCreates())
		end()
		slowest := probes()
		memory := peak(virtward.PID())
		figures := fmt.Sprintf("p99 of a create: idle %s, attacked %s; slowest probe %s; VmHWM %d MiB", idle, p99, slowest, memory>>20)
		AddReportEntry("figures", figures)
		Expect(memory).To(BeNumerically("<", containerLimit))
		if soak.On() {
			Expect(p99).To(BeNumerically("<=", max(3*idle, acceptable)), figures)
		}
	}

	It("outlives 400 stalled headers", func(ctx SpecContext) {
		d := findEndpoint(ctx)
		underAttack(ctx, d, func() func() {
			return keep(400, 4*time.Second, func(ctx context.Context) {
				c, err := d.dial(ctx)
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(c, "POST /mutate/%s HTTP/1.1\r\nHost: x\r\nX-Stalled: %s", d.token, strings.Repeat("x", 3<<10))
				held(ctx, c)
			})
		})
	}, NodeTimeout(4*time.Minute))

	It("outlives silent connections without TLS, one after the other", func(ctx SpecContext) {
		d := findEndpoint(ctx)
		underAttack(ctx, d, func() func() {
			return keep(100, 50*time.Millisecond, func(ctx context.Context) {
				c, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.address)
				if err != nil {
					return
				}
				held(ctx, c)
			})
		})
	}, NodeTimeout(4*time.Minute))

	It("outlives slow bodies behind the right path", func(ctx SpecContext) {
		d := findEndpoint(ctx)
		underAttack(ctx, d, func() func() {
			return keep(40, 100*time.Millisecond, func(ctx context.Context) {
				c, err := d.dial(ctx)
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(c, "POST /mutate/%s HTTP/1.1\r\nHost: x\r\nContent-Length: 6000000\r\n\r\n{", d.token)
				held(ctx, c)
			})
		})
	}, NodeTimeout(4*time.Minute))

	It("outlives stalled and giant requests for probes and metrics", func(ctx SpecContext) {
		d := findEndpoint(ctx)
		underAttack(ctx, d, func() func() {
			return keep(12, 100*time.Millisecond, func(ctx context.Context) {
				c, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(d.health, "http://"))
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(c, "GET /readyz HTTP/1.1\r\nHost: x\r\nX: %s", strings.Repeat("x", 4<<10))
				held(ctx, c)
			})
		})
	}, NodeTimeout(4*time.Minute))

	It("answers a wrong path with 404 before it reads a body, and headers that are too large with 431", func(ctx SpecContext) {
		d := findEndpoint(ctx)
		Expect(d.token).To(MatchRegexp("^[a-z0-9]{26}$"))
		for _, path := range []string{"/mutate", "/validate", "/mutate/", "/mutate/" + strings.Repeat("a", 26), "/", "/metrics", "/readyz", "/mutate/" + d.token + "/x"} {
			status, answer := d.send(ctx, http.MethodPost, path, `{}`)
			Expect(status).To(Equal(http.StatusNotFound), path)
			Expect(answer).To(Equal("Not Found\n"), path)
		}
		status, _ := d.send(ctx, http.MethodGet, "/mutate/"+d.token, "")
		Expect(status).To(Equal(http.StatusNotFound))

		c, err := d.dial(ctx)
		Expect(err).NotTo(HaveOccurred())
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = fmt.Fprintf(c, "POST /mutate/wrong HTTP/1.1\r\nHost: x\r\nContent-Length: 7000000\r\n\r\n")
		answer, _ := io.ReadAll(c)
		Expect(string(answer)).To(HavePrefix("HTTP/1.1 404 "))
		_ = c.Close()

		c, err = d.dial(ctx)
		Expect(err).NotTo(HaveOccurred())
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = fmt.Fprintf(c, "POST /mutate/%s HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", d.token, strings.Repeat("x", 64<<10))
		answer, _ = io.ReadAll(c)
		if len(answer) > 0 { // the reset of a connection may overtake the answer
			Expect(string(answer)).To(HavePrefix("HTTP/1.1 431 "))
		}
		_ = c.Close()
	})

	It("writes nothing for forged reviews, and does not disclose the labels of a volume", func(ctx SpecContext) {
		d := findEndpoint(ctx)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "labelled", Labels: map[string]string{
			"instancetype.kubevirt.io/default-instancetype": "s3cret-instancetype", "instancetype.kubevirt.io/default-preference": "s3cret-preference",
		}}}
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		Expect(admin.Create(ctx, claim)).To(Succeed())
		cleanUp(claim)
		events := &corev1.EventList{}
		Expect(admin.List(ctx, events)).To(Succeed())
		before := len(events.Items)
		const user = `"userInfo":{"username":"system:serviceaccount:kubevirt:kubevirt-controller"}`
		for i := range 50 {
			vmi := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"%d","kind":{"group":"kubevirt.io","version":"v1","kind":"VirtualMachineInstance"},"operation":"CREATE","namespace":"default","name":"x",%s,
				"object":{"metadata":{"name":"x","ownerReferences":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","name":"free text %d","uid":"1","controller":true}]},"spec":{"architecture":"arm64","domain":{"firmware":{"bootloader":{"bios":{}}},"devices":{}}}}}}`, i, user, i)
			status, answer := d.send(ctx, http.MethodPost, "/validate/"+d.token, vmi)
			Expect(status).To(Equal(http.StatusOK))
			Expect(answer).To(ContainSubstring(`"allowed":false`))
		}
		vm := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"group":"kubevirt.io","version":"v1","kind":"VirtualMachine"},"operation":"CREATE","namespace":"default","name":"x",` + user + `,
			"object":{"metadata":{"name":"x"},"spec":{"instancetype":{"inferFromVolume":"root"},"preference":{"inferFromVolume":"root"},"runStrategy":"Halted","template":{"spec":{"domain":{"devices":{}},"volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"labelled"}}]}}}}}}`
		for _, path := range []string{"/validate/", "/mutate/"} {
			status, answer := d.send(ctx, http.MethodPost, path+d.token, vm)
			Expect(status).To(Equal(http.StatusOK))
			Expect(answer).NotTo(ContainSubstring("s3cret"))
			Expect(answer).To(ContainSubstring("there is no object of the inferred name"))
		}
		Consistently(func(ctx context.Context) int {
			Expect(admin.List(ctx, events)).To(Succeed())
			forged := 0
			for i := range events.Items {
				if events.Items[i].Source.Component == "virtward" || strings.Contains(events.Items[i].Message, "free text") {
					forged++
				}
			}
			return forged
		}).WithContext(ctx).WithTimeout(2*time.Second).Should(BeZero(), "of %d events before", before)
	})
})

var _ = Describe("A stolen token", func() {
	thief := func(ctx context.Context, account string) client.Client {
		GinkgoHelper()
		config, err := cluster.ServiceAccountConfig(ctx, controlplane.VirtwardNamespace, account)
		Expect(err).NotTo(HaveOccurred())
		return clientFor(config)
	}
	forbidden := WithTransform(func(err error) bool { return apierrors.IsForbidden(err) }, BeTrue())

	It("of the webhook writes nothing, and reads one Secret", func(ctx SpecContext) {
		stolen := thief(ctx, "virtward-webhook")
		mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: "mutate.virtward.io"}, mutating)).To(Succeed())
		mutating.Webhooks[0].Rules[0].APIGroups, mutating.Webhooks[0].Rules[0].Resources = []string{"*"}, []string{"*"}
		Expect(stolen.Update(ctx, mutating)).To(forbidden)
		Expect(stolen.Delete(ctx, mutating)).To(forbidden)
		Expect(stolen.Patch(ctx, mutating, client.RawPatch("application/json-patch+json", []byte(`[{"op":"remove","path":"/webhooks"}]`)))).To(forbidden)
		validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "validate.virtward.io"}}
		Expect(stolen.Delete(ctx, validating)).To(forbidden)
		Expect(stolen.List(ctx, &admissionregistrationv1.MutatingWebhookConfigurationList{})).To(forbidden)
		Expect(stolen.List(ctx, &corev1.SecretList{}, client.InNamespace(controlplane.VirtwardNamespace))).To(forbidden)
		Expect(stolen.List(ctx, &corev1.SecretList{})).To(forbidden)
		secret := &corev1.Secret{}
		Expect(stolen.Get(ctx, client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: "virtward-webhook-cert"}, secret)).To(Succeed())
		Expect(stolen.Update(ctx, secret)).To(forbidden)
		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "forged"}, InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "x"}}
		Expect(stolen.Create(ctx, event)).To(forbidden)
		Expect(stolen.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "virtward-accounts"}})).To(forbidden)
		Expect(stolen.Create(ctx, build.VM("forged").Obj())).To(forbidden)
	})

	It("of the controller changes the CA bundle and the path of our configurations, and no guard", func(ctx SpecContext) {
		stolen := thief(ctx, "virtward-controller")
		mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mutate.virtward.io"}}
		everything := client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["*"]},{"op":"replace","path":"/webhooks/0/rules/0/apiGroups","value":["*"]}]`))
		Expect(stolen.Patch(ctx, mutating, everything, client.DryRunAll)).To(And(forbidden, MatchError(ContainSubstring("account-fields: "))))
		elsewhere := client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/webhooks/0/clientConfig/service/namespace","value":"default"}]`))
		Expect(stolen.Patch(ctx, mutating, elsewhere, client.DryRunAll)).To(And(forbidden, MatchError(ContainSubstring("account-fields: "))))
		Expect(stolen.Delete(ctx, mutating)).To(forbidden)
		for _, guard := range []string{"virtward-accounts", "virtward-policies"} {
			Expect(stolen.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: guard}})).To(forbidden)
			Expect(stolen.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: guard}})).To(forbidden)
		}
		Expect(stolen.List(ctx, &corev1.SecretList{}, client.InNamespace(controlplane.VirtwardNamespace))).To(forbidden)
	})
})
