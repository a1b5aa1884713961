package main

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/controllers/certificates"
	"github.com/virtward/virtward/webhooks"
)

// certificateInterval is the interval at which the certificates are checked without a change. It is much shorter than the
// validity of a certificate, and a changed clock is noticed within it.
const certificateInterval = 10 * time.Minute

// certificateOptions are the controller's flags for the certificates of the webhooks and of the aggregated API.
type certificateOptions struct {
	secret, service      string
	mutating, validating string
	serverSecret, server string
	serverAPIServices    []string
	copies, copiesServer string
	settle               time.Duration
}

func (o *certificateOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.secret, "cert-secret", "", "Secret for the certificates of the webhooks and the tokens of their paths; without one, the controller manages none")
	flags.StringVar(&o.service, "service-name", "virtward-webhook", "Service through which the API server calls the webhooks")
	flags.StringVar(&o.mutating, "mutating-webhook-configuration", "mutate.virtward.io", "MutatingWebhookConfiguration whose CA bundle and paths the controller sets")
	flags.StringVar(&o.validating, "validating-webhook-configuration", "validate.virtward.io", "ValidatingWebhookConfiguration whose CA bundle and paths the controller sets")
	flags.StringVar(&o.serverSecret, "apiserver-cert-secret", "", "Secret for the certificate of the aggregated API; without one, the controller manages none")
	flags.StringVar(&o.server, "apiserver-service-name", "virtward-apiserver", "Service through which the API server calls the aggregated API")
	flags.StringSliceVar(&o.serverAPIServices, "api-service", []string{"v1alpha1." + subresources.Group, "v1beta1." + subresources.Group}, "APIServices whose CA bundle the controller sets")
	flags.StringVar(&o.copies, "copies-cert-secret", "", "Secret for the certificate of the server from which CDI copies images; without one, the controller manages none")
	flags.StringVar(&o.copiesServer, "copies-service-name", "virtward-copies", "Service through which CDI reads images")
	flags.DurationVar(&o.settle, "rotation-settle", 2*time.Minute, "wait between the steps of a certificate replacement; meanwhile all replicas read the Secret, and all API servers read the webhook configurations")
}

// reconcilers returns the options of the reconcilers: one for each Secret.
func (o *certificateOptions) reconcilers(namespace string) []certificates.Options {
	common := certificates.Options{Namespace: namespace, Settle: o.settle, Interval: certificateInterval, Clock: clock.RealClock{}}
	var all []certificates.Options
	if o.secret != "" {
		webhook := common
		webhook.Secret, webhook.Service, webhook.Mutating, webhook.Validating = o.secret, o.service, o.mutating, o.validating
		webhook.MutatePath, webhook.ValidatePath, webhook.DeletionsPath = webhooks.MutatePath, webhooks.ValidatePath, webhooks.DeletionsPath
		all = append(all, webhook)
	}
	if o.serverSecret != "" {
		server := common
		server.Secret, server.Service, server.APIServices = o.serverSecret, o.server, o.serverAPIServices
		all = append(all, server)
	}
	if o.copies != "" {
		server := common
		server.Secret, server.Service = o.copies, o.copiesServer
		all = append(all, server)
	}
	return all
}

// addTo adds the reconcilers of the certificates to the manager.
func (o *certificateOptions) addTo(mgr manager.Manager, typed kubernetes.Interface, namespace string, log logr.Logger) error {
	all := o.reconcilers(namespace)
	if len(all) == 0 {
		return nil
	}
	light, err := metadata.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	for _, options := range all {
		options.Client, options.Metadata, options.Dynamic, options.Log = typed, light, objects, log.WithValues("secret", options.Secret)
		if err := certificates.New(options).SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return nil
}
