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

// certificateInterval is the interval at which the certificates are checked without a change. It is much shorter than the
// validity of a certificate, and a changed clock is noticed within it.
const certificateInterval = 10 * time.Minute

// certificateOptions are the controller's flags for the certificates of the webhooks.
type certificateOptions struct {
	secret, service      string
	mutating, validating string
	settle               time.Duration
}

func (o *certificateOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.secret, "cert-secret", "", "Secret for the certificates of the webhooks and the tokens of their paths; without one, the controller manages none")
	flags.StringVar(&o.service, "service-name", "virtward-webhook", "Service through which the API server calls the webhooks")
	flags.StringVar(&o.mutating, "mutating-webhook-configuration", "mutate.virtward.io", "MutatingWebhookConfiguration whose CA bundle and paths the controller sets")
	flags.StringVar(&o.validating, "validating-webhook-configuration", "validate.virtward.io", "ValidatingWebhookConfiguration whose CA bundle and paths the controller sets")
	flags.DurationVar(&o.settle, "rotation-settle", 2*time.Minute, "wait between the steps of a certificate replacement; meanwhile all replicas read the Secret, and all API servers read the webhook configurations")
}

// reconciler returns the options of the reconciler.
func (o *certificateOptions) reconciler(namespace string) *certificates.Options {
	return &certificates.Options{
		Namespace: namespace, Secret: o.secret, Service: o.service,
		Mutating: o.mutating, Validating: o.validating, MutatePath: webhooks.MutatePath, ValidatePath: webhooks.ValidatePath,
		Settle: o.settle, Interval: certificateInterval, Clock: clock.RealClock{},
	}
}

// cached returns the objects that the manager caches for the certificates.
func (o *certificateOptions) cached(namespace string) map[client.Object]cache.ByObject {
	if o.secret == "" {
		return nil
	}
	return o.reconciler(namespace).Cached()
}

// addTo adds the reconciler of the certificates to the manager.
func (o *certificateOptions) addTo(mgr manager.Manager, typed kubernetes.Interface, namespace string, log logr.Logger) error {
	if o.secret == "" {
		return nil
	}
	options := o.reconciler(namespace)
	options.Client, options.Log = typed, log
	return certificates.New(*options).SetupWithManager(mgr)
}
