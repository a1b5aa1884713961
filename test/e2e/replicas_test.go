package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/certificates"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// userData must never be seen in a log.
const userData = "correct-horse-battery-staple"

var _ = Describe("Two replicas on a fresh Secret", Serial, func() {
	It("agree on one certificate, follow its rotation, and log no objects", func(ctx SpecContext) {
		pair := planes.Start(GinkgoTB(), controlplane.Options{})
		chart, err := pair.VirtwardChart(map[string]any{"log": map[string]any{"level": "debug"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(pair.InstallChart(ctx, chart)).To(Succeed())
		Expect(pair.PointServiceAtLocalhost(ctx, controlplane.VirtwardNamespace, controlplane.VirtwardService)).To(Succeed())
		first := replica{
			webhook: chart.Values["webhook"].(map[string]any)["port"].(int),
			health:  chart.Values["health"].(map[string]any)["port"].(int),
		}
		second, args := another(pair)
		_, err = pair.RunVirtward(ctx, controlplane.Workload{
			Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardController, Args: []string{"--rotation-settle=1s"},
		})
		Expect(err).NotTo(HaveOccurred())

		By("starting both at once, while a certificate is being made")
		started := make(chan error, 1)
		var beside *controlplane.Virtward
		go func() {
			var err error
			beside, err = pair.RunVirtward(ctx, controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardService, Args: args})
			started <- err
		}()
		_, err = pair.RunVirtward(ctx, controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardService})
		Expect(err).NotTo(HaveOccurred())
		Expect(<-started).To(Succeed())
		for _, r := range []replica{first, second} {
			Eventually(r.ready).WithContext(ctx).Should(Succeed())
		}
		fresh := secretOf(ctx, pair)
		for _, r := range []replica{first, second} {
			Eventually(r.served).WithContext(ctx).Should(Equal(leafOf(fresh)))
		}

		By("waiting until the first rotation has ended, and for a fight that does not come")
		Eventually(func(ctx context.Context) map[string][]byte {
			fresh = secretOf(ctx, pair)
			return fresh.Data
		}).WithContext(ctx).ShouldNot(HaveKey(certificates.PreviousTokenKey))
		Consistently(func(ctx context.Context) string {
			return secretOf(ctx, pair).ResourceVersion
		}).WithContext(ctx).WithTimeout(3 * time.Second).WithPolling(200 * time.Millisecond).Should(Equal(fresh.ResourceVersion))

		By("rotating the server's pair")
		secret := secretOf(ctx, pair)
		delete(secret.Data, corev1.TLSCertKey)
		delete(secret.Data, corev1.TLSPrivateKeyKey)
		Expect(pair.Client().Update(ctx, secret)).To(Succeed())
		Eventually(func(g Gomega, ctx context.Context) {
			rotated := secretOf(ctx, pair)
			g.Expect(rotated.Data["ca.crt"]).To(Equal(fresh.Data["ca.crt"]))
			g.Expect(leafOf(rotated)).NotTo(Or(BeEmpty(), Equal(leafOf(fresh))))
			for _, r := range []replica{first, second} {
				g.Expect(r.served()).To(Equal(leafOf(rotated)))
				g.Expect(r.ready(ctx)).To(Succeed())
			}
		}).WithContext(ctx).Should(Succeed())

		By("sending user data, in an object that is completed and in one that cannot be decoded")
		Eventually(func(g Gomega, ctx context.Context) {
			vmi := withUserData("secretive")
			g.Expect(pair.Client().Create(ctx, vmi, client.DryRunAll)).To(Succeed())
			g.Expect(vmi.Spec.Domain.Machine).NotTo(BeNil())
		}).WithContext(ctx).Should(Succeed())
		broken := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
			"metadata": map[string]any{"name": "undecodable", "namespace": "default"},
			"spec":     map[string]any{"domain": map[string]any{"devices": map[string]any{}, "cpu": map[string]any{"cores": userData}}},
		}}
		Expect(pair.Client().Create(ctx, broken, client.DryRunAll)).NotTo(Succeed())
		log, err := os.ReadFile(beside.Log()) // both write to it
		Expect(err).NotTo(HaveOccurred())
		Expect(string(log)).To(And(ContainSubstring(`"name":"secretive"`), ContainSubstring(`"name":"undecodable"`)), "each request is logged")
		Expect(strings.Contains(string(log), userData)).To(BeFalse(), "the log has the user data")
		Expect(strings.Contains(string(log), "PRIVATE KEY")).To(BeFalse(), "the log has a key")
	}, NodeTimeout(3*time.Minute))
})

// replica has the ports of a virtward process.
type replica struct{ webhook, health, deletions int }

// another returns the ports of a second replica, and the flags for them. The replica has its own files, like a pod.
func another(c *controlplane.ControlPlane) (replica, []string) {
	GinkgoHelper()
	var ports [5]int
	for i := range ports {
		port, err := c.TakePort()
		Expect(err).NotTo(HaveOccurred())
		ports[i] = port
	}
	return replica{webhook: ports[0], health: ports[1], deletions: ports[3]}, []string{
		"--webhook-port=" + strconv.Itoa(ports[0]),
		"--health-address=:" + strconv.Itoa(ports[1]),
		"--metrics-address=:" + strconv.Itoa(ports[2]),
		"--deletions-port=" + strconv.Itoa(ports[3]),
		"--policy-counts-address=:" + strconv.Itoa(ports[4]),
	}
}

func (r replica) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(r.health)+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz: %s", response.Status)
	}
	return nil
}

// served is the certificate that a handshake meets, in DER.
func (r replica) served() ([]byte, error) {
	connection, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.webhook)), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test reads the certificate
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	return bytes.Clone(connection.ConnectionState().PeerCertificates[0].Raw), nil
}

func secretOf(ctx context.Context, c *controlplane.ControlPlane) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(c.Client().Get(ctx, client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: "virtward-webhook-cert"}, secret)).To(Succeed())
	return secret
}

// leafOf is the serving certificate of a Secret, in DER; empty when it has none.
func leafOf(secret *corev1.Secret) []byte {
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return nil
	}
	return block.Bytes
}

func withUserData(name string) *kubevirtv1.VirtualMachineInstance {
	return build.VMI(name).Disk("root", "").With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
		spec.Volumes[0].VolumeSource = kubevirtv1.VolumeSource{CloudInitNoCloud: &kubevirtv1.CloudInitNoCloudSource{UserData: userData}}
	}).Obj()
}
