package webhooks

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
)

// testTrust is a part of TestWithAPIServer.
func testTrust(t *testing.T, client kubernetes.Interface) {
	const name = "trust.virtward.test"
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	trust := &Trust{Certificate: &Certificate{}, Client: client, Mutating: []string{name}, Clock: clock}
	check := func(when, want string) {
		t.Helper()
		err := trust.Ready(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", when, err, want)
		}
	}
	use := func(p pair) {
		t.Helper()
		certificate, err := tls.X509KeyPair(p.certificate, p.key)
		if err != nil {
			t.Fatal(err)
		}
		if err := trust.Certificate.set(certificate); err != nil {
			t.Fatal(err)
		}
	}
	configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	none := admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "mutate." + name, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "virtward"},
			},
		}},
	}
	trusting := func(bundle []byte) {
		t.Helper()
		configuration.Webhooks[0].ClientConfig.CABundle = bundle
		updated, err := configurations.Update(t.Context(), configuration, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		configuration = updated
	}
	const distrusted = "the CA bundle of webhook mutate." + name + " does not verify the serving certificate yet: "
	first, second := newPair(t, 1), newPair(t, 2)

	check("without a certificate", "")
	use(first)
	check("without a configuration", "")
	var err error
	if configuration, err = configurations.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(2 * time.Minute))
	check("with an empty bundle", distrusted)
	trusting(second.certificate)
	check("with another's bundle", distrusted)
	trusting(first.certificate)
	check("with its own", "")
	trusting(second.certificate)
	check("soon after", "")
	clock.SetTime(clock.Now().Add(2 * time.Minute))
	check("some time after the bundle has changed", distrusted)
	use(second)
	check("with the certificate that the bundle trusts", "")
	use(first)
	check("with one that it does not", distrusted)
	trusting(append(append([]byte{}, first.certificate...), second.certificate...))
	check("with a bundle of both", "")
}
