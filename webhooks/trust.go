package webhooks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Trust reports whether the API server trusts the serving certificate: whether the CA bundles of Virtward's webhook
// configurations verify it. If the process were ready earlier, the API server's first calls would fail, and objects would
// be admitted without completion.
type Trust struct {
	Certificate *Certificate
	Client      kubernetes.Interface
	// Mutating and Validating are the names of the webhook configurations.
	Mutating, Validating []string

	// Clock decides when to verify again.
	Clock clock.PassiveClock

	verified atomic.Pointer[verification]
}

// verification is a trusted certificate, and the time of the check.
type verification struct {
	certificate *x509.Certificate
	at          time.Time
}

// trustFor is the time after which a certificate is verified again, because a CA bundle may change.
const trustFor = time.Minute

// Ready returns nil once the current certificate is trusted. It ignores a webhook configuration that does not exist,
// because that webhook is switched off.
func (t *Trust) Ready(ctx context.Context) error {
	current := t.Certificate.current.Load()
	if current == nil {
		return nil // Certificate.Ready reports it
	}
	if v := t.verified.Load(); v != nil && v.certificate == current.Leaf && t.Clock.Since(v.at) < trustFor {
		return nil
	}
	hooks, err := t.hooks(ctx)
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		if err := verify(current, hook); err != nil {
			return err
		}
	}
	t.verified.Store(&verification{certificate: current.Leaf, at: t.Clock.Now()})
	return nil
}

// hook is a webhook of a configuration of either kind.
type hook struct {
	name   string
	client admissionregistrationv1.WebhookClientConfig
}

// hooks returns the webhooks of the configurations that exist.
func (t *Trust) hooks(ctx context.Context) ([]hook, error) {
	var hooks []hook
	for _, name := range t.Mutating {
		list, err := t.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, named(name))
		if err != nil {
			return nil, fmt.Errorf("reading webhook configuration %s: %w", name, err)
		}
		for i := range list.Items {
			for _, h := range list.Items[i].Webhooks {
				hooks = append(hooks, hook{h.Name, h.ClientConfig})
			}
		}
	}
	for _, name := range t.Validating {
		list, err := t.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, named(name))
		if err != nil {
			return nil, fmt.Errorf("reading webhook configuration %s: %w", name, err)
		}
		for i := range list.Items {
			for _, h := range list.Items[i].Webhooks {
				hooks = append(hooks, hook{h.Name, h.ClientConfig})
			}
		}
	}
	return hooks, nil
}

func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: metav1.ObjectNameField + "=" + name}
}

// verify does what the API server does in a call: it takes the intermediate certificates from the handshake, and verifies
// the name of the Service.
func verify(current *tls.Certificate, hook hook) error {
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	options.Roots.AppendCertsFromPEM(hook.client.CABundle)
	for _, der := range current.Certificate[1:] {
		if intermediate, err := x509.ParseCertificate(der); err == nil {
			options.Intermediates.AddCert(intermediate)
		}
	}
	if service := hook.client.Service; service != nil {
		options.DNSName = service.Name + "." + service.Namespace + ".svc"
	}
	if _, err := current.Leaf.Verify(options); err != nil {
		return fmt.Errorf("the CA bundle of webhook %s does not verify the serving certificate yet: %w", hook.name, err)
	}
	return nil
}
