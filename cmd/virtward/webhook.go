package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/inforce"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/webhooks"
)

// Where the serving certificate comes from.
const (
	certificatesSelf  = "self"
	certificatesFiles = "files"
)

// webhookOptions are the flags of `virtward webhook`.
type webhookOptions struct {
	logging
	port           int
	healthAddress  string
	metricsAddress string
	namespace      string

	certificates         string
	certDir              string
	certSecret           string
	serviceName          string
	mutating, validating []string

	rolloutStrategy  string
	mshvCPUModel     string
	paramsNamespaces []string
}

func webhookCommand() *cobra.Command {
	o := &webhookOptions{}
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Complete virtual machines when they are created",
		Long: `Serves the admission webhooks over HTTPS. It reads the cluster with the kubeconfig in $KUBECONFIG, or as
the service account of its pod, and is ready once it knows the KubeVirt configuration and has a certificate.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *webhookOptions) addFlags(flags *pflag.FlagSet) {
	o.logging.addFlags(flags)
	flags.IntVar(&o.port, "webhook-port", 9443, "port on which the webhooks are served")
	flags.StringVar(&o.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address of /metrics; 0 for none")
	flags.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace that Virtward is installed in; by default $POD_NAMESPACE")
	flags.StringVar(&o.certificates, "cert-provider", certificatesSelf, "where the serving certificate comes from: self (made and rotated here, kept in a Secret) or files (in --cert-dir, as with cert-manager)")
	flags.StringVar(&o.certDir, "cert-dir", "/tmp/virtward-certificates", "directory of the serving certificate")
	flags.StringVar(&o.certSecret, "cert-secret", "virtward-webhook-cert", "Secret that holds the serving certificate and its CA, with --cert-provider=self")
	flags.StringVar(&o.serviceName, "service-name", "virtward-webhook", "Service through which the API server calls the webhooks")
	flags.StringSliceVar(&o.mutating, "mutating-webhook-configuration", nil, "MutatingWebhookConfigurations that must trust the certificate before this is ready; with --cert-provider=self their CA bundle is kept in step")
	flags.StringSliceVar(&o.validating, "validating-webhook-configuration", nil, "ValidatingWebhookConfigurations, likewise")
	flags.StringSliceVar(&o.paramsNamespaces, "params-namespace", nil, "namespaces whose ConfigMaps may hold the parameters of policies; by default that of --namespace")
	flags.StringVar(&o.rolloutStrategy, "rollout-strategy", "", "vmRolloutStrategy to assume where the KubeVirt resource names none: LiveUpdate or Stage; KubeVirt's own default is LiveUpdate")
	flags.StringVar(&o.mshvCPUModel, "mshv-cpu-model", "auto", "CPU model of amd64 guests on mshv: a model, none to leave it to the cluster, or auto: "+platform.SeedCPUModel+" where KubeVirt names the hypervisor mshv, none where it names it hyperv-direct")
}

func (o *webhookOptions) validate() error {
	switch {
	case o.namespace == "":
		return errors.New("--namespace is empty and $POD_NAMESPACE is not set: name the namespace that Virtward is installed in")
	case o.certificates != certificatesSelf && o.certificates != certificatesFiles:
		return fmt.Errorf("--cert-provider is %q: it must be %s or %s", o.certificates, certificatesSelf, certificatesFiles)
	case !slices.Contains([]string{"", string(v1.VMRolloutStrategyLiveUpdate), string(v1.VMRolloutStrategyStage)}, o.rolloutStrategy):
		return fmt.Errorf("--rollout-strategy is %q: it must be LiveUpdate, Stage or empty", o.rolloutStrategy)
	case o.port < 1 || o.port > 65535:
		return fmt.Errorf("--webhook-port is %d: it must be within 1 and 65535", o.port)
	}
	return nil
}

func (o *webhookOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	log, config, err := o.begin()
	if err != nil {
		return err
	}
	certificate := &webhooks.Certificate{}
	mgr, err := o.manager(config, certificate)
	if err != nil {
		return err
	}
	if err := o.addCertificates(mgr, config, certificate, log.WithName("certificates")); err != nil {
		return err
	}
	log.Info("starting", "version", version, "namespace", o.namespace, "port", o.port)
	if err := o.addWebhooks(mgr, config, certificate, log); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func (o *webhookOptions) manager(config *rest.Config, certificate *webhooks.Certificate) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	grace := 25 * time.Second
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		HealthProbeBindAddress:  o.healthAddress,
		Metrics:                 metricsserver.Options{BindAddress: o.metricsAddress},
		GracefulShutdownTimeout: &grace,
		WebhookServer: webhook.NewServer(webhook.Options{
			Port: o.port,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) {
				c.MinVersion = tls.VersionTLS12
				c.GetCertificate = certificate.GetCertificate
			}},
		}),
	})
}

func (o *webhookOptions) addCertificates(mgr manager.Manager, config *rest.Config, certificate *webhooks.Certificate, log logr.Logger) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	trust := &webhooks.Trust{Certificate: certificate, Client: client, Mutating: o.mutating, Validating: o.validating, Clock: clock.RealClock{}}
	if err := mgr.AddReadyzCheck("trust", func(r *http.Request) error { return trust.Ready(r.Context()) }); err != nil {
		return err
	}
	if o.certificates == certificatesFiles {
		files := &webhooks.FileSource{Certificate: certificate, Dir: o.certDir, Log: log, Retry: time.Second}
		return mgr.Add(manager.RunnableFunc(files.Run))
	}
	secret := &webhooks.SecretSource{Certificate: certificate, Client: client, Namespace: o.namespace, Name: o.certSecret, Dir: o.certDir, Log: log}
	if err := mgr.Add(manager.RunnableFunc(secret.Run)); err != nil {
		return err
	}
	var kept []rotator.WebhookInfo
	for _, name := range o.mutating {
		kept = append(kept, rotator.WebhookInfo{Name: name, Type: rotator.Mutating})
	}
	for _, name := range o.validating {
		kept = append(kept, rotator.WebhookInfo{Name: name, Type: rotator.Validating})
	}
	host := o.serviceName + "." + o.namespace + ".svc"
	err = rotator.AddRotator(mgr, &rotator.CertRotator{
		SecretKey:      types.NamespacedName{Namespace: o.namespace, Name: o.certSecret},
		CertDir:        o.certDir,
		CAName:         "virtward-ca",
		CAOrganization: "virtward",
		DNSName:        host,
		ExtraDNSNames:  []string{host + ".cluster.local"},
		IsReady:        make(chan struct{}),
		Webhooks:       kept,
		FieldOwner:     "virtward-certificates",
	})
	if err != nil {
		return fmt.Errorf("setting up the rotation of certificates: %w", err)
	}
	return nil
}

func (o *webhookOptions) addWebhooks(mgr manager.Manager, config *rest.Config, certificate *webhooks.Certificate, log logr.Logger) error {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return err
	}
	assumed := platform.Settings{RolloutStrategy: v1.VMRolloutStrategy(o.rolloutStrategy), MSHVCPUModel: o.mshvCPUModel}
	policies := inforce.PoliciesOptions{Namespace: o.namespace, ParamsNamespaces: o.paramsNamespaces}
	if len(policies.ParamsNamespaces) == 0 {
		policies.ParamsNamespaces = []string{o.namespace}
	}
	world, err := newWorld(config, assumed, registry.Rules(), policies, log)
	if err != nil {
		return err
	}
	if err := world.addTo(mgr); err != nil {
		return err
	}
	measured, err := webhooks.NewMetrics(metrics.Registry, world.facts.Age, certificate.Expiry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	pipeline, room := effective.NewPipeline(registry), webhooks.NewRoom()
	server := mgr.GetWebhookServer()
	server.Register(webhooks.MutatePath, webhooks.NewMutator(webhooks.Mutator{
		Pipeline: pipeline,
		Facts:    world.facts.Facts,
		Objects:  world.objects,
		Site:     world.defaults.Current,

		NamespaceLabels: world.namespaces.NamespaceLabels,

		Metrics: measured,
		Log:     log.WithName("mutate"),
		Clock:   clock.RealClock{},
		Room:    room,
	}))
	server.Register(webhooks.ValidatePath, webhooks.NewValidator(webhooks.Validator{
		Pipeline:        pipeline,
		Rules:           registry.Rules(),
		Facts:           world.facts.Facts,
		Objects:         world.objects,
		Settings:        world.settings.Current,
		Site:            world.defaults.Current,
		NamespaceLabels: world.namespaces.NamespaceLabels,
		Policies:        world.policies.Current,
		Namespace:       world.namespaces.Namespace,
		Authorizer:      world.rights,
		CompilePolicy:   world.policies.Compile,
		Refused:         world.refusals.tell,
		Metrics:         measured,
		Log:             log.WithName("validate"),
		Clock:           clock.RealClock{},
		Room:            room,
	}))
	ready := world.ready()
	ready["certificate"] = certificate.Ready
	return addChecks(mgr, ready)
}

func addChecks(mgr manager.Manager, ready map[string]func() error) error {
	if err := mgr.AddHealthzCheck("alive", func(*http.Request) error { return nil }); err != nil {
		return err
	}
	for name, check := range ready {
		if err := mgr.AddReadyzCheck(name, func(*http.Request) error { return check() }); err != nil {
			return err
		}
	}
	return nil
}
