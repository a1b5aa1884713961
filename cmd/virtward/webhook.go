package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/webhooks"
)

// The providers of the serving certificate.
const (
	certificatesSelf  = "self"
	certificatesFiles = "files"
)

// webhookOptions are the flags of `virtward webhook`.
type webhookOptions struct {
	process
	assumptions
	port          int
	deletionsPort int

	certificates         string
	certDir              string
	certSecret           string
	tokensFile           string
	mutating, validating []string
	clientCA             string
	clientNames          []string
	commonImages         string
	checkNodes           bool
	checkQuotas          bool
	countsAddress        string
}

func webhookCommand() *cobra.Command {
	o := &webhookOptions{}
	o.countsPolicies = true
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Serve the admission webhooks, which complete and validate virtual machines",
		Long: `Serves the admission webhooks over HTTPS. It reads the cluster with the kubeconfig in $KUBECONFIG, or as the service
account of its pod. It is ready when its watches are synced, its policies are compiled, and the webhook configurations
trust its certificate.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *webhookOptions) addFlags(flags *pflag.FlagSet) {
	o.process.addFlags(flags)
	flags.IntVar(&o.port, "webhook-port", 9443, "port on which the webhooks are served")
	flags.IntVar(&o.deletionsPort, "deletions-port", 9444, "port on which the webhook of deletions is served")
	flags.StringVar(&o.certificates, "cert-provider", certificatesSelf, "provider of the serving certificate: self (a Secret that the controller writes) or files (in --cert-dir, for example from cert-manager)")
	flags.StringVar(&o.certDir, "cert-dir", "/tmp/virtward-certificates", "directory of the serving certificate, with --cert-provider=files")
	flags.StringVar(&o.certSecret, "cert-secret", "virtward-webhook-cert", "Secret with the serving certificate and the tokens of the paths, with --cert-provider=self")
	flags.StringVar(&o.tokensFile, "path-tokens-file", "", "file with the valid tokens of the webhooks' paths, one in each line, with --cert-provider=files; without it, the paths have no token")
	flags.StringSliceVar(&o.mutating, "mutating-webhook-configuration", nil, "MutatingWebhookConfigurations that must trust the certificate before the process is ready")
	flags.StringSliceVar(&o.validating, "validating-webhook-configuration", nil, "ValidatingWebhookConfigurations that must trust the certificate before the process is ready")
	flags.StringVar(&o.clientCA, "client-ca-file", "", "CA of the client certificates that the webhooks require; without it, clients need no certificate")
	flags.StringSliceVar(&o.clientNames, "client-name", nil, "accepted common names of client certificates, with --client-ca-file; by default all")
	flags.StringVar(&o.commonImages, "common-images", "", "file with the common images of golden image catalogs, whose names other images must not use")
	flags.BoolVar(&o.checkNodes, "check-nodes", false, "compare virtual machines with the nodes of the cluster, which it watches: rule node-fits, and policies that read migrationTargets")
	flags.BoolVar(&o.checkQuotas, "check-quotas", false, "compare virtual machines with the ResourceQuotas of their namespace: rules quota-fits and quota-left")
	flags.StringVar(&o.countsAddress, "policy-counts-address", "0", "address at which the controller reads how often policies fail, with the certificate of the webhooks; 0 for none")
	o.assumptions.addFlags(flags)
}

func (o *webhookOptions) validate() error {
	switch {
	case o.certificates != certificatesSelf && o.certificates != certificatesFiles:
		return fmt.Errorf("--cert-provider is %q: it must be %s or %s", o.certificates, certificatesSelf, certificatesFiles)
	case len(o.clientNames) > 0 && o.clientCA == "":
		return errors.New("--client-name requires --client-ca-file")
	case o.port < 1 || o.port > 65535:
		return fmt.Errorf("--webhook-port is %d: it must be within 1 and 65535", o.port)
	case o.deletionsPort < 1 || o.deletionsPort > 65535 || o.deletionsPort == o.port:
		return fmt.Errorf("--deletions-port is %d: it must be within 1 and 65535, and not the port of the other webhooks", o.deletionsPort)
	}
	if err := o.assumptions.validate(); err != nil {
		return err
	}
	return o.process.validate()
}

func (o *webhookOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	log, config, err := o.begin()
	if err != nil {
		return err
	}
	mgr, err := o.manager(config)
	if err != nil {
		return err
	}
	p, err := newPorts(log.WithName("ports"))
	if err != nil {
		return err
	}
	if err := o.addCertificates(mgr, config, p, log.WithName("certificates")); err != nil {
		return err
	}
	log.Info("starting", "version", version, "namespace", o.namespace, "port", o.port)
	handlers, err := o.addWebhooks(mgr, config, p, log)
	if err != nil {
		return err
	}
	if err := o.addPorts(mgr, p, handlers); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func (o *webhookOptions) manager(config *rest.Config) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	grace := 25 * time.Second
	return ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		// Virtward serves these ports itself, with limits on connections.
		HealthProbeBindAddress:  "0",
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: &grace,
	})
}

// addCertificates adds the source of the certificate and of the tokens to the manager.
func (o *webhookOptions) addCertificates(mgr manager.Manager, config *rest.Config, p *ports, log logr.Logger) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	trust := &webhooks.Trust{Certificate: p.certificate, Client: client, Mutating: o.mutating, Validating: o.validating, Clock: clock.RealClock{}}
	p.ready["trust"] = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
		defer cancel()
		return trust.Ready(ctx)
	}
	p.ready["certificate"] = p.certificate.Ready
	if o.certificates == certificatesFiles {
		tokens, err := readTokens(o.tokensFile)
		if err != nil {
			return err
		}
		p.tokens.Set(tokens...)
		files := &webhooks.FileSource{Certificate: p.certificate, Dir: o.certDir, Log: log, Retry: time.Second}
		return mgr.Add(everywhere(files.Run))
	}
	secret := &webhooks.SecretSource{Certificate: p.certificate, Tokens: p.tokens, Client: client, Namespace: o.namespace, Name: o.certSecret, Log: log}
	return mgr.Add(everywhere(secret.Run))
}

// publishedCounts returns a reader of the counts of running VMs.
func publishedCounts(client kubernetes.Interface, namespace string) func(context.Context) (*v1alpha1.RunningCounts, error) {
	return func(ctx context.Context) (*v1alpha1.RunningCounts, error) {
		published, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, v1alpha1.CountsName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, v1alpha1.ErrNoCounts
		}
		if err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s: %w", v1alpha1.CountsName, err)
		}
		return v1alpha1.CountsOf(published.Data)
	}
}

// newCatalogs watches GoldenImageCatalogs.
func newCatalogs(mgr manager.Manager, config *rest.Config, common []imagev1alpha1.DataImportCronTemplate) (*configcache.Catalogs, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	catalogs, err := configcache.NewCatalogs(client, common)
	if err != nil {
		return nil, err
	}
	return catalogs, mgr.Add(everywhere(catalogs.Run))
}

// addNodes watches the nodes.
func addNodes(mgr manager.Manager, state *clusterState, log logr.Logger) error {
	nodes, err := configcache.NewNodes(state.client, func(all, kept int) {
		log.Info("the nodes need too much memory: no virtual machine is compared with them", "nodes", all, "kept", kept)
	})
	if err != nil {
		return err
	}
	state.nodes, state.nodesReady = nodes.Snapshot, nodes.Ready
	return mgr.Add(everywhere(nodes.Run))
}

// readTokens reads the tokens of the paths, one in each line. Without a file, the paths have no token.
func readTokens(file string) ([]string, error) {
	if file == "" {
		return []string{""}, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens of the paths: %w", err)
	}
	tokens := strings.Fields(string(content))
	if len(tokens) == 0 {
		return nil, fmt.Errorf("reading the tokens of the paths: %s has none", file)
	}
	return tokens, nil
}

// handlers are those of the ports, by path.
type handlers struct{ webhooks, deletions map[string]http.Handler }

func (o *webhookOptions) addWebhooks(mgr manager.Manager, config *rest.Config, p *ports, log logr.Logger) (*handlers, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	state, err := o.clusterState(config, o.settings(), log)
	if err != nil {
		return nil, err
	}
	if err := state.addTo(mgr); err != nil {
		return nil, err
	}
	measured, err := webhooks.NewMetrics(metrics.Registry, state.facts.Age, p.certificate.Expiry, state.objects.Statistics, state.policies.Exists)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	common, err := readCommonImages(o.commonImages)
	if err != nil { // the other webhooks must not fail because of it; the process of golden images does not start
		log.Error(err, "the names of common images are not compared")
	}
	catalogs, err := newCatalogs(mgr, config, common)
	if err != nil {
		return nil, err
	}
	state.nodeArchitectures = catalogs.NodeArchitectures
	if o.checkNodes {
		if err := addNodes(mgr, state, log.WithName("nodes")); err != nil {
			return nil, err
		}
	}
	evaluates, limits := state.evaluator(), webhooks.NewLimits()
	evaluates.VirtualImages, evaluates.Quotas = true, o.checkQuotas
	if err := serveCounts(mgr, p, o.countsAddress, newPolicyCounts(state.policies)); err != nil {
		return nil, err
	}
	mutator := webhooks.NewMutator(webhooks.Mutator{
		Evaluator:    evaluates,
		ReserveReads: state.objects.ReserveReads,
		Metrics:      measured,
		Log:          log.WithName("mutate"),
		Clock:        clock.RealClock{},
		Limits:       limits,
	})
	validator := webhooks.NewValidator(webhooks.Validator{
		Evaluator:         evaluates,
		Rules:             state.registry.Rules(),
		ReserveReads:      state.objects.ReserveReads,
		Authorizer:        webhooks.NewAuthorizer(client.AuthorizationV1().SubjectAccessReviews(), clock.RealClock{}, measured),
		ExceptionDuration: o.exceptionDuration(),
		CompilePolicy:     state.policies.Compile,
		Counts:            publishedCounts(client, o.namespace),
		Catalogs:          catalogs.Claims,
		CommonImages:      common,
		RolloutStrategy:   o.settings().RolloutStrategy,
		TemplateServer:    serviceaccount.MakeUsername(o.namespace, webhooks.TemplateServer),
		RolloutController: serviceaccount.MakeUsername(o.namespace, webhooks.RolloutController),
		Metrics:           measured,
		Log:               log.WithName("validate"),
		Clock:             clock.RealClock{},
		Limits:            limits,
	})
	maps.Copy(p.ready, state.ready())
	p.ready["catalogs"] = catalogs.Ready
	return &handlers{
		webhooks: map[string]http.Handler{webhooks.MutatePath: mutator, webhooks.ValidatePath: validator},
		// While the chart is upgraded, the configuration has the former path for a moment.
		deletions: map[string]http.Handler{webhooks.DeletionsPath: validator.Deletions, webhooks.ValidatePath: validator.Deletions},
	}, nil
}
