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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
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

	certificates   string
	certDir        string
	certSecret     string
	serviceName    string
	configurations []string

	rolloutStrategy string
	mshvCPUModel    string
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
	flags.StringSliceVar(&o.configurations, "webhook-configuration", nil, "MutatingWebhookConfigurations that must trust the certificate before this is ready; with --cert-provider=self their CA bundle is kept in step")
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
	log, err := o.logger()
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("client")) // client-go's own words, in the same form
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	config.WarningHandler = rest.NoWarnings{} // that presets are deprecated is no news to the admin
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
	trust := &webhooks.Trust{Certificate: certificate, Client: client, Configurations: o.configurations, Clock: clock.RealClock{}}
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
	kept := make([]rotator.WebhookInfo, 0, len(o.configurations))
	for _, name := range o.configurations {
		kept = append(kept, rotator.WebhookInfo{Name: name, Type: rotator.Mutating})
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
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	settings := platform.Settings{RolloutStrategy: v1.VMRolloutStrategy(o.rolloutStrategy), MSHVCPUModel: o.mshvCPUModel}
	facts, err := platform.NewWatcher(client, settings, clock.RealClock{}, logFacts(log.WithName("facts")))
	if err != nil {
		return err
	}
	objects, err := platform.NewWatchedObjects(client)
	if err != nil {
		return err
	}
	for _, run := range []func(context.Context) error{facts.Run, objects.Run} {
		if err := mgr.Add(manager.RunnableFunc(run)); err != nil {
			return err
		}
	}
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return err
	}
	measured, err := webhooks.NewMetrics(metrics.Registry, facts.Age, certificate.Expiry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	mgr.GetWebhookServer().Register(webhooks.MutatePath, webhooks.NewMutator(webhooks.Mutator{
		Pipeline: effective.NewPipeline(registry),
		Facts:    facts.Facts,
		Objects:  objects,
		Metrics:  measured,
		Log:      log.WithName("mutate"),
		Clock:    clock.RealClock{},
	}))
	return addChecks(mgr, map[string]func() error{
		"facts":       facts.Ready,
		"references":  objects.Ready,
		"certificate": certificate.Ready,
	})
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

// logFacts tells the admin what the webhooks believe of the cluster, whenever that changes.
func logFacts(log logr.Logger) func(*platform.Facts, error) {
	return func(facts *platform.Facts, err error) {
		if err != nil {
			log.Error(err, "the configuration cannot be used; the one before stays in force", "source", facts.Source)
			return
		}
		log.Info("facts in force", "source", facts.Source, "hypervisor", facts.Hypervisor.ConfiguredName,
			"architecture", facts.DefaultArchitecture, "liveUpdate", facts.LiveUpdate,
			"warnings", facts.Warnings, "notes", facts.Notes)
	}
}
