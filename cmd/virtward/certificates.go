package main

import (
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/virtward/virtward/controllers/certificates"
	"github.com/virtward/virtward/webhooks"
)

// certificateInterval is how often the certificates are looked at without a change. It is short against the lifetime of
// any certificate, and a clock that jumps is noticed within it.
const certificateInterval = 10 * time.Minute

// certificateOptions are the flags of the controller about the certificates of the webhooks.
type certificateOptions struct {
	secret, service      string
	mutating, validating string
	settle               time.Duration
}

func (o *certificateOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.secret, "cert-secret", "", "Secret in which the certificates of the webhooks and the tokens of their paths are kept; without one, none are kept")
	flags.StringVar(&o.service, "service-name", "virtward-webhook", "Service through which the API server calls the webhooks")
	flags.StringVar(&o.mutating, "mutating-webhook-configuration", "mutate.virtward.io", "MutatingWebhookConfiguration whose CA bundle and paths are kept")
	flags.StringVar(&o.validating, "validating-webhook-configuration", "validate.virtward.io", "ValidatingWebhookConfiguration, likewise")
	flags.DurationVar(&o.settle, "rotation-settle", 2*time.Minute, "how long a rotation waits between its steps, for replicas to know the Secret and for API servers to know the webhook configurations")
}

// reconciler says what the certificates are kept for.
func (o *certificateOptions) reconciler(namespace string) *certificates.Options {
	return &certificates.Options{
		Namespace: namespace, Secret: o.secret, Service: o.service,
		Mutating: o.mutating, Validating: o.validating, MutatePath: webhooks.MutatePath, ValidatePath: webhooks.ValidatePath,
		Settle: o.settle, Interval: certificateInterval, Clock: clock.RealClock{},
	}
}

// cached limits what the manager's cache holds for the certificates.
func (o *certificateOptions) cached(namespace string) map[client.Object]cache.ByObject {
	if o.secret == "" {
		return nil
	}
	return o.reconciler(namespace).Cached()
}

// addTo makes the leader keep the certificates.
func (o *certificateOptions) addTo(mgr manager.Manager, typed kubernetes.Interface, namespace string, log logr.Logger) error {
	if o.secret == "" {
		return nil
	}
	options := o.reconciler(namespace)
	options.Client, options.Log = typed, log
	return certificates.New(*options).SetupWithManager(mgr)
}
