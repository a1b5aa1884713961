package webhooks

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Trust tells whether the API server trusts the serving certificate: whether the CA bundle of each of our
// webhook configurations verifies it. A server that says it is ready before that makes the API server's
// first calls fail, and objects pass uncompleted.
type Trust struct {
	Certificate *Certificate
	Client      kubernetes.Interface
	// Configurations are the names of MutatingWebhookConfigurations.
	Configurations []string

	// Clock says when to ask again.
	Clock clock.PassiveClock

	verified atomic.Pointer[verification]
}

// verification is a certificate that was found trusted, and when.
type verification struct {
	certificate *x509.Certificate
	at          time.Time
}

// trustFor is how long a certificate stays trusted without asking again. Someone may empty the bundle later.
const trustFor = time.Minute

// Ready returns nil once the certificate in use is trusted. A configuration that does not exist is switched
// off, and nothing to wait for.
func (t *Trust) Ready(ctx context.Context) error {
	current := t.Certificate.current.Load()
	if current == nil {
		return nil // whether there is a certificate is another question
	}
	if v := t.verified.Load(); v != nil && v.certificate == current.Leaf && t.Clock.Since(v.at) < trustFor {
		return nil
	}
	for _, name := range t.Configurations {
		list, err := t.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{FieldSelector: metav1.ObjectNameField + "=" + name})
		if err != nil {
			return fmt.Errorf("reading webhook configuration %s: %w", name, err)
		}
		for i := range list.Items {
			for _, hook := range list.Items[i].Webhooks {
				roots := x509.NewCertPool()
				roots.AppendCertsFromPEM(hook.ClientConfig.CABundle)
				if _, err := current.Leaf.Verify(x509.VerifyOptions{Roots: roots}); err != nil {
					return fmt.Errorf("the CA bundle of webhook %s does not verify the serving certificate yet: %w", hook.Name, err)
				}
			}
		}
	}
	t.verified.Store(&verification{certificate: current.Leaf, at: t.Clock.Now()})
	return nil
}
