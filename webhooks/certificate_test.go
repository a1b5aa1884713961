package webhooks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/webhooks/serving"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// pair is a certificate and its private key.
type pair struct{ certificate, key []byte }

func newPair(t *testing.T, serial int64) pair {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: "virtward"},
		DNSNames:     []string{"virtward.default.svc"},
		NotBefore:    time.Unix(1700000000, 0),
		NotAfter:     time.Unix(4000000000+serial, 0),
		IsCA:         true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	}
}

// handshake returns the serial number of the served certificate, or 0 without one.
func handshake(c *Certificate) int64 {
	client, server := net.Pipe()
	defer client.Close()
	go func() {
		defer server.Close()
		_ = tls.Server(server, &tls.Config{GetCertificate: c.GetCertificate, MinVersion: tls.VersionTLS12}).Handshake() // the client has the result
	}()
	connection := tls.Client(client, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test reads the certificate
	if connection.Handshake() != nil {
		return 0
	}
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func eventuallyServes(t *testing.T, c *Certificate, serial int64) {
	t.Helper()
	await.Until(t, func() error {
		if got := handshake(c); got != serial {
			return fmt.Errorf("certificate %d is served, want %d", got, serial)
		}
		return nil
	})
	if want := time.Unix(4000000000+serial, 0); !c.Expiry().Equal(want) {
		t.Errorf("it expires at %v, want %v", c.Expiry(), want)
	}
	if err := c.Ready(); err != nil {
		t.Error(err)
	}
}

// journal is a log in memory.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, line)
	}, funcr.Options{})
}

// count returns the number of lines with a text.
func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(strings.Join(j.lines, "\n"), text)
}

// eventuallyHas waits until a number of lines has a text.
func (j *journal) eventuallyHas(t *testing.T, text string, more int) {
	t.Helper()
	await.Until(t, func() error {
		if j.count(text) < more {
			return fmt.Errorf("the log has no %q", text)
		}
		return nil
	})
}

func TestWithoutACertificate(t *testing.T) {
	c := &Certificate{}
	if err := c.Ready(); err == nil || err.Error() != "there is no serving certificate yet" {
		t.Errorf("ready: %v", err)
	}
	if !c.Expiry().IsZero() || handshake(c) != 0 {
		t.Errorf("expiry %v, handshake %d", c.Expiry(), handshake(c))
	}
}

// mounted is a directory that changes like a mounted Secret: all files at once, by a link.
type mounted struct {
	dir        string
	generation int
}

func (m *mounted) write(t *testing.T, p pair) {
	t.Helper()
	m.generation++
	version := filepath.Join(m.dir, fmt.Sprintf("..v%d", m.generation))
	if err := os.Mkdir(version, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{corev1.TLSCertKey: p.certificate, corev1.TLSPrivateKeyKey: p.key} {
		if err := os.WriteFile(filepath.Join(version, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	data, next := filepath.Join(m.dir, "..data"), filepath.Join(m.dir, "..data_tmp")
	before, _ := os.Readlink(data) // there is none at first
	if err := errors.Join(os.Symlink(filepath.Base(version), next), os.Rename(next, data)); err != nil {
		t.Fatal(err)
	}
	if before != "" {
		if err := os.RemoveAll(filepath.Join(m.dir, before)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFileSource(t *testing.T) {
	files, log := &mounted{dir: t.TempDir()}, &journal{}
	source := &FileSource{Certificate: &Certificate{}, Dir: files.dir, Log: log.logger(), Retry: 20 * time.Millisecond}
	await.Run(t, source.Run)

	log.eventuallyHas(t, "waiting for the serving certificate", 2)
	first, second, third := newPair(t, 1), newPair(t, 2), newPair(t, 3)
	files.write(t, pair{certificate: first.certificate, key: second.key})
	log.eventuallyHas(t, "private key does not match public key", 1)
	if err := source.Certificate.Ready(); err == nil {
		t.Error("a certificate with another private key is served")
	}
	files.write(t, first)
	eventuallyServes(t, source.Certificate, 1)
	files.write(t, second)
	eventuallyServes(t, source.Certificate, 2)

	files.write(t, pair{certificate: third.certificate, key: first.key})
	time.Sleep(200 * time.Millisecond) // no change is expected
	eventuallyServes(t, source.Certificate, 2)
	files.write(t, third)
	eventuallyServes(t, source.Certificate, 3)
}

func TestFileSourceStopsWhileItWaits(t *testing.T) {
	source := &FileSource{Certificate: &Certificate{}, Dir: t.TempDir(), Log: logr.Discard(), Retry: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := source.Run(ctx); err != nil {
		t.Error(err)
	}
}

// TestWithAPIServer runs several tests with one control plane, because its start takes longer than the tests.
func TestWithAPIServer(t *testing.T) {
	cluster := planes.Start(t, controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{}})
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("SecretSource", func(t *testing.T) { testSecretSource(t, client) })
	t.Run("Trust", func(t *testing.T) { testTrust(t, client) })
}

// rejected is the log line for an unusable Secret.
const rejected = "the Secret has no usable certificate; the previous one stays in use"

func testSecretSource(t *testing.T, client kubernetes.Interface) {
	secrets, log := client.CoreV1().Secrets("default"), &journal{}
	source := &SecretSource{
		Certificate: &Certificate{}, Tokens: &serving.Tokens{}, Client: client, Namespace: "default", Name: "certificate", Log: log.logger(),
	}
	await.Run(t, source.Run)

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "certificate"}}
	write := func(data map[string][]byte) {
		t.Helper()
		secret.Data = data
		var err error
		if secret.ResourceVersion == "" {
			secret, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
		} else {
			secret, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	of := func(p pair) map[string][]byte {
		return map[string][]byte{corev1.TLSCertKey: p.certificate, corev1.TLSPrivateKeyKey: p.key, "ca.key": []byte("unused")}
	}
	first, second, third := newPair(t, 1), newPair(t, 2), newPair(t, 3)

	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "another"}, Data: of(third)}
	if _, err := secrets.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	write(nil) // as the chart creates it
	if err := source.Certificate.Ready(); err == nil {
		t.Error("there is a certificate, but none was written")
	}
	write(of(first))
	eventuallyServes(t, source.Certificate, 1)
	write(of(second))
	eventuallyServes(t, source.Certificate, 2)

	if log.count(rejected) != 0 {
		t.Error("an empty Secret is logged as an error")
	}
	for i, broken := range []map[string][]byte{
		{corev1.TLSCertKey: third.certificate, corev1.TLSPrivateKeyKey: first.key},
		{corev1.TLSCertKey: third.certificate},
		{corev1.TLSCertKey: []byte("garbage"), corev1.TLSPrivateKeyKey: third.key},
		{corev1.TLSCertKey: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("garbage")}), corev1.TLSPrivateKeyKey: third.key},
	} {
		write(broken)
		log.eventuallyHas(t, rejected, i+1)
		eventuallyServes(t, source.Certificate, 2)
	}

	if err := secrets.Delete(t.Context(), "certificate", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "certificate"}}
	write(of(third))
	eventuallyServes(t, source.Certificate, 3)
	for _, p := range []pair{first, second, third} {
		if key, _ := pem.Decode(p.key); log.count(string(p.key)) > 0 || log.count(string(key.Bytes)) > 0 {
			t.Error("a private key is in the log")
		}
	}
}
