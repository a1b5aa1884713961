package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
)

// The TLS alerts to a client without an accepted certificate.
const (
	noCertificate  = "remote error: tls: certificate required"
	unknownCA      = "remote error: tls: unknown certificate authority"
	badCertificate = "remote error: tls: bad certificate"
)

// followed is how long a new CA in the ConfigMap may take: ten seconds, as docs/port.md says, and the kubelet's
// share, which is half a second here.
const followed = 11 * time.Second

// The specs take the steps of docs/port.md, "Client certificates", in their order.
var _ = Describe("Client certificates", Serial, Ordered, func() {
	var i *installation
	var folder string // for /etc/kubernetes/virtward
	var first, second *clientAuthority
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.VirtwardNamespace, Name: "api-servers"}}

	BeforeAll(func(ctx SpecContext) {
		i = installBeside(ctx)
		i.awaitCalls(ctx)
		folder = filepath.Join(i.plane.Dir(), "client-certificates")
		Expect(os.Mkdir(folder, 0o700)).To(Succeed())
		first, second = newClientAuthority(), newClientAuthority()
	}, NodeTimeout(3*time.Minute))

	It("are shown by an API server with the configuration of the documentation, and ignored at first", func(ctx SpecContext) {
		By("step 1: a CA in a ConfigMap, and a client certificate")
		configMap.Data = map[string]string{"ca.crt": string(first.ca.CertPEM)}
		Expect(i.admin.Create(ctx, configMap)).To(Succeed())
		first.write(folder, "api-server")
		By("steps 2 and 3: the kubeconfig and the file of the API server's flag")
		documented := documentedFiles()
		Expect(documented).To(HaveLen(2))
		port := i.chart.Values["webhook"].(map[string]any)["servicePort"].(int)
		deletions := i.chart.Values["webhook"].(map[string]any)["deletionsServicePort"].(int)
		kubeconfig := strings.NewReplacer(
			"virtward-system.svc:9444", "virtward-system.svc:"+strconv.Itoa(deletions), "virtward-system.svc", "virtward-system.svc:"+strconv.Itoa(port),
		).Replace(documented[0])
		Expect(kubeconfig).To(ContainSubstring("virtward-webhook.virtward-system.svc:"))
		for name, content := range map[string]string{"kubeconfig": kubeconfig, "admission.yaml": documented[1]} {
			content = strings.ReplaceAll(content, "/etc/kubernetes/virtward", folder)
			Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)).To(Succeed())
		}
		Expect(i.plane.RestartAPIServer(ctx, "--admission-control-config-file="+filepath.Join(folder, "admission.yaml"))).To(Succeed())
		i.awaitCalls(ctx)
		Expect(i.replica.handshake(tls.VersionTLS13)).To(Succeed(), "clients need no certificate yet")
	}, NodeTimeout(3*time.Minute))

	It("are required once the values are set", func(ctx SpecContext) {
		By("step 4: the values of the chart")
		section := i.chart.Values["webhook"].(map[string]any)
		section["clientCertificates"] = map[string]any{"configMap": configMap.Name, "names": []string{"api-server"}}
		i.install(ctx)
		i.roll(ctx)
		Expect(i.webhook.Args()).To(ContainElements(HavePrefix("--client-ca-file="), Equal("--client-name=api-server")))
		By("deleting, on the port of deletions")
		vm := build.VM("deleted").Obj()
		Expect(i.admin.Create(ctx, vm)).To(Succeed())
		Expect(i.admin.Delete(ctx, vm)).To(Succeed())
		Expect(i.plane.Metric(ctx, "apiserver_admission_webhook_fail_open_count", map[string]string{"name": "deletions.validate.virtward.io"})).To(BeZero())
		i.awaitCalls(ctx)
		failed := i.failedCalls(ctx)
		i.awaitCalls(ctx)
		Expect(i.failedCalls(ctx)).To(Equal(failed))
	}, NodeTimeout(3*time.Minute))

	DescribeTable("end the handshake of other clients", func(ctx SpecContext, of func() []tls.Certificate, alert, alert12 string) {
		Expect(i.replica.handshake(tls.VersionTLS13, of()...)).To(MatchError(ContainSubstring(alert)))
		Expect(i.replica.handshake(tls.VersionTLS12, of()...)).To(MatchError(ContainSubstring(alert12)))
		probed(ctx, i)
	},
		Entry("who has none", func() []tls.Certificate { return nil }, noCertificate, "remote error: tls: handshake failure"),
		Entry("who has one of the cluster's CA, with the right name", func() []tls.Certificate {
			config, err := i.plane.UserConfig("api-server")
			Expect(err).NotTo(HaveOccurred())
			pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
			Expect(err).NotTo(HaveOccurred())
			return []tls.Certificate{pair}
		}, unknownCA, unknownCA),
		Entry("who has one of an unknown CA with the same name", func() []tls.Certificate { return []tls.Certificate{second.issue("api-server")} }, unknownCA, unknownCA),
		Entry("who has another name", func() []tls.Certificate { return []tls.Certificate{first.issue("mallory")} }, badCertificate, badCertificate),
		Entry("whose certificate is one for servers", func() []tls.Certificate {
			pair, err := tls.X509KeyPair(first.pair("api-server", x509.ExtKeyUsageServerAuth))
			Expect(err).NotTo(HaveOccurred())
			return []tls.Certificate{pair}
		}, badCertificate, badCertificate),
	)

	It("may be of a new CA, which replaces the old one without a failed call", func(ctx SpecContext) {
		before, after := first.issue("api-server"), second.issue("api-server")
		session := tls.NewLRUClientSessionCache(1)
		Expect(i.replica.resume(session, before)).To(Succeed())
		failed := i.failedCalls(ctx)
		l := loadBy(i.admin, 3)
		defer l.cancel()
		stop := probing(i)
		l.more(ctx, 50)

		By("both CAs in the ConfigMap")
		Expect(i.replica.handshake(tls.VersionTLS13, after)).To(MatchError(ContainSubstring(unknownCA)))
		setCA(ctx, i, configMap, string(first.ca.CertPEM)+string(second.ca.CertPEM))
		Eventually(func() error { return i.replica.handshake(tls.VersionTLS13, after) }).WithContext(ctx).WithTimeout(followed).Should(Succeed())
		Expect(i.replica.handshake(tls.VersionTLS13, before)).To(Succeed())
		l.more(ctx, 50)

		By("a certificate of the new CA on the API server, which is not restarted")
		second.write(folder, "api-server")
		l.more(ctx, 50)

		By("only the new CA")
		setCA(ctx, i, configMap, string(second.ca.CertPEM))
		Eventually(func() error { return i.replica.handshake(tls.VersionTLS13, before) }).WithContext(ctx).WithTimeout(followed).Should(MatchError(ContainSubstring(unknownCA)))
		Expect(i.replica.handshake(tls.VersionTLS13, after)).To(Succeed())
		Expect(i.replica.resume(session, before)).To(MatchError(ContainSubstring(unknownCA)), "a session of before is not resumed")
		l.more(ctx, 100)
		l.stop()
		Expect(stop()).To(Succeed(), "probes and metrics answer all the time")
		Expect(l.unchecked.Load()).To(BeZero())
		Expect(i.failedCalls(ctx)).To(Equal(failed), "the API server counts every call that failed")
		Expect(l.complete.Load()).To(Equal(l.applied.Load()), "every VMI was completed")

		By("new connections of the API server, with the new certificate")
		i.roll(ctx)
		i.awaitCalls(ctx)
		failed = i.failedCalls(ctx)
		i.awaitCalls(ctx)
		Expect(i.failedCalls(ctx)).To(Equal(failed))
	}, NodeTimeout(3*time.Minute))

	It("keep the CA before if the ConfigMap holds none", func(ctx SpecContext) {
		setCA(ctx, i, configMap, "no certificate")
		Eventually(func() (string, error) {
			content, err := os.ReadFile(i.webhook.Log())
			return string(content), err
		}).WithContext(ctx).WithTimeout(followed).Should(ContainSubstring("the CA of clients cannot be read; the previous one stays in use"))
		Expect(i.replica.handshake(tls.VersionTLS13, second.issue("api-server"))).To(Succeed())
		Expect(i.replica.handshake(tls.VersionTLS13)).To(MatchError(ContainSubstring(noCertificate)))
		i.awaitCalls(ctx)
	}, NodeTimeout(3*time.Minute))
})

// documentedFiles are the YAML files that docs/port.md shows under "Client certificates".
func documentedFiles() []string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", "port.md"))
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(content), "\n## Client certificates\n")
	Expect(found).To(BeTrue())
	section, _, _ = strings.Cut(section, "\n## ")
	var files []string
	for _, block := range regexp.MustCompile("(?s)\n   ```yaml\n(.*?)\n   ```\n").FindAllStringSubmatch(section, -1) {
		files = append(files, regexp.MustCompile("(?m)^   ").ReplaceAllString(block[1], "")+"\n")
	}
	return files
}

// clientAuthority is a CA of clients.
type clientAuthority struct{ ca *rotator.KeyPairArtifacts }

func newClientAuthority() *clientAuthority {
	GinkgoHelper()
	ca, err := (&rotator.CertRotator{CAName: "api-servers", CAOrganization: "example"}).CreateCACert(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	Expect(err).NotTo(HaveOccurred())
	return &clientAuthority{ca}
}

// pair is a certificate with a common name and its key, in PEM.
func (a *clientAuthority) pair(name string, usage x509.ExtKeyUsage) (certificate, key []byte) {
	GinkgoHelper()
	issuer := &rotator.CertRotator{DNSName: name, ExtKeyUsages: &[]x509.ExtKeyUsage{usage}}
	certificate, key, err := issuer.CreateCertPEM(a.ca, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	Expect(err).NotTo(HaveOccurred())
	return certificate, key
}

func (a *clientAuthority) issue(name string) tls.Certificate {
	GinkgoHelper()
	pair, err := tls.X509KeyPair(a.pair(name, x509.ExtKeyUsageClientAuth))
	Expect(err).NotTo(HaveOccurred())
	return pair
}

// write puts a certificate where the API server reads it, in place of the one before.
func (a *clientAuthority) write(folder, name string) {
	GinkgoHelper()
	certificate, key := a.pair(name, x509.ExtKeyUsageClientAuth)
	Expect(os.WriteFile(filepath.Join(folder, "client.crt.new"), certificate, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "client.key.new"), key, 0o600)).To(Succeed())
	Expect(os.Rename(filepath.Join(folder, "client.crt.new"), filepath.Join(folder, "client.crt"))).To(Succeed())
	Expect(os.Rename(filepath.Join(folder, "client.key.new"), filepath.Join(folder, "client.key"))).To(Succeed())
}

func setCA(ctx context.Context, i *installation, configMap *corev1.ConfigMap, content string) {
	GinkgoHelper()
	Expect(change(ctx, i.admin, configMap, func() { configMap.Data = map[string]string{"ca.crt": content} })).To(Succeed())
}

// handshake is the error that a caller with a certificate, or with none, meets on the webhook's port.
func (r replica) handshake(version uint16, certificates ...tls.Certificate) error {
	return r.connect(&tls.Config{MinVersion: version, MaxVersion: version}, certificates)
}

// resume is a handshake that resumes a session if there is one, and keeps one otherwise.
func (r replica) resume(sessions tls.ClientSessionCache, certificate tls.Certificate) error {
	return r.connect(&tls.Config{MinVersion: tls.VersionTLS13, ClientSessionCache: sessions}, []tls.Certificate{certificate})
}

// connect asks for a path that does not exist: a client of TLS 1.3 learns only with an answer that it is rejected.
func (r replica) connect(config *tls.Config, certificates []tls.Certificate) error {
	config.InsecureSkipVerify, config.ServerName = true, serverName // who calls is what is tested
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if len(certificates) > 0 {
			return &certificates[0], nil // also if the server does not ask for its CA
		}
		return &tls.Certificate{}, nil
	}
	connection, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.webhook)), config)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: webhook\r\n\r\n"); err != nil {
		return err
	}
	answer := make([]byte, len("HTTP/1.1 404"))
	if _, err := io.ReadFull(connection, answer); err != nil {
		return err
	}
	if string(answer) != "HTTP/1.1 404" {
		return fmt.Errorf("the answer is %q", answer)
	}
	return nil
}

// probed fails unless the probes and the metrics answer, without a certificate.
func probed(ctx context.Context, i *installation) {
	GinkgoHelper()
	Expect(probe(ctx, i)).To(Succeed())
}

func probe(ctx context.Context, i *installation) error {
	metrics := i.chart.Values["metrics"].(map[string]any)["port"].(int)
	for _, target := range []string{
		fmt.Sprintf("http://127.0.0.1:%d/healthz", i.replica.health),
		fmt.Sprintf("http://127.0.0.1:%d/readyz", i.replica.health),
		fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics),
	} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", target, response.Status)
		}
	}
	return nil
}

// probing probes until the returned function is called, which returns the first error.
func probing(i *installation) func() error {
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		for {
			err := probe(ctx, i)
			if ctx.Err() != nil {
				result <- nil
				return
			}
			if err != nil {
				result <- err
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	DeferCleanup(cancel)
	return func() error {
		cancel()
		return <-result
	}
}
