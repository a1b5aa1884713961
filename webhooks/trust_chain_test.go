package webhooks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// The API server takes the certificate of an intermediate CA from the handshake. The CA bundle has only the root CA.
func TestTrustUsesTheServedChain(t *testing.T) {
	issue := func(serial int64, ca bool, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: big.NewInt(serial).String()}, DNSNames: []string{"virtward"},
			NotBefore: time.Unix(1700000000, 0), NotAfter: time.Unix(4000000000, 0), IsCA: ca, BasicConstraintsValid: true,
		}
		if parent == nil {
			parent, signer = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		issued, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return issued, key
	}
	root, rootKey := issue(1, true, nil, nil)
	middle, middleKey := issue(2, true, root, rootKey)
	leaf, leafKey := issue(3, false, middle, middleKey)
	certificate := &Certificate{}
	if err := certificate.set(tls.Certificate{Certificate: [][]byte{leaf.Raw, middle.Raw}, PrivateKey: leafKey, Leaf: leaf}); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(&admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a", ClientConfig: admissionregistrationv1.WebhookClientConfig{
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}),
		}}},
	})
	trust := &Trust{Certificate: certificate, Client: client, Mutating: []string{"a"}, Clock: clocktesting.NewFakePassiveClock(time.Now())}
	if err := trust.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
