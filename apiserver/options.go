package apiserver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/templates/approvals"
	"github.com/virtward/virtward/templates/randomness"
)

// defaultCheckInterval is the time between two checks of all approvals.
const defaultCheckInterval = 5 * time.Minute

// The bounds of the requests that are processed at the same time.
const (
	defaultInFlight = 200
	mostInFlight    = 400
)

// Options are the flags of the server.
type Options struct {
	SecureServing  *options.SecureServingOptionsWithLoopback
	Authentication *options.DelegatingAuthenticationOptions
	Authorization  *options.DelegatingAuthorizationOptions
	Audit          *options.AuditOptions
	Features       *options.FeatureOptions
	CoreAPI        *options.CoreAPIOptions
	Admission      *options.AdmissionOptions
	// RequireApproval: VirtualMachines are created from approved templates only, in every namespace.
	RequireApproval bool
	// Namespace has the Secret with the keys of approvals.
	Namespace string
	// CheckInterval is the time between two checks of all approvals.
	CheckInterval time.Duration
	// MaxInFlight bounds the requests that are processed at the same time. More are answered with 429.
	MaxInFlight int
	// ShutdownDelay is the time for which the server serves after a signal to end, while it is not ready.
	ShutdownDelay time.Duration
	// Version is that of the program.
	Version string
}

// NewOptions are the options with their defaults.
func NewOptions(programVersion string) *Options {
	serving := options.NewSecureServingOptions()
	serving.BindPort = 6443
	serving.HTTP2MaxStreamsPerConnection = maxStreams
	serving.ServerCert.CertDirectory = ""
	authorization := options.NewDelegatingAuthorizationOptions()
	authorization.WithClientTimeout(authorizationTimeout)
	retries := *options.DefaultAuthWebhookRetryBackoff()
	retries.Steps = authorizationTries
	authorization.WithCustomRetryBackoff(retries)
	features := options.NewFeatureOptions()
	features.EnableProfiling, features.EnablePriorityAndFairness = false, false // kube-apiserver is fair to users; MaxInFlight bounds the memory
	return &Options{
		SecureServing: serving.WithLoopback(), Authentication: options.NewDelegatingAuthenticationOptions(), Authorization: authorization,
		Audit: options.NewAuditOptions(), Features: features, CoreAPI: options.NewCoreAPIOptions(), Admission: options.NewAdmissionOptions(),
		MaxInFlight: defaultInFlight, CheckInterval: defaultCheckInterval, Version: programVersion,
	}
}

// AddFlags adds the flags, which are those of Kubernetes' API servers.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.SecureServing.AddFlags(flags)
	o.Authentication.AddFlags(flags)
	o.Authorization.AddFlags(flags)
	o.Audit.AddFlags(flags)
	o.Features.AddFlags(flags)
	o.CoreAPI.AddFlags(flags)
	flags.BoolVar(&o.RequireApproval, "require-approval", false, "create VirtualMachines from approved templates only, in every namespace; without it, only in namespaces with the label "+v1beta1.ApprovedOnlyLabel)
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the Secret "+ApprovalKeys+", which has the keys that sign approvals")
	flags.DurationVar(&o.CheckInterval, "approval-check-interval", o.CheckInterval, "time between two checks of all approvals, which correct the conditions of templates and sign approvals of old keys again")
	flags.IntVar(&o.MaxInFlight, "max-requests-in-flight", o.MaxInFlight, fmt.Sprintf("maximum number of requests that are processed at the same time, at most %d; more are answered with 429", mostInFlight))
	flags.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", 0, "time for which the server serves after a signal to end, until clients know that it is not ready")
}

// Validate reports what is wrong with the flags.
func (o *Options) Validate() error {
	var all []error
	for _, errs := range [][]error{o.SecureServing.Validate(), o.Authentication.Validate(), o.Authorization.Validate(), o.Audit.Validate(), o.Features.Validate(), o.CoreAPI.Validate()} {
		all = append(all, errs...)
	}
	if o.SecureServing.ServerCert.CertKey.CertFile == "" {
		all = append(all, errors.New("--tls-cert-file and --tls-private-key-file are required"))
	}
	if o.MaxInFlight < 1 || o.MaxInFlight > mostInFlight {
		all = append(all, fmt.Errorf("--max-requests-in-flight is %d: it must be within 1 and %d", o.MaxInFlight, mostInFlight))
	}
	if o.Namespace == "" {
		all = append(all, errors.New("--namespace is required: the keys of approvals are in its Secret "+ApprovalKeys))
	}
	if o.CheckInterval <= 0 {
		all = append(all, fmt.Errorf("--approval-check-interval is %s: it must be positive", o.CheckInterval))
	}
	if o.ShutdownDelay < 0 {
		all = append(all, fmt.Errorf("--shutdown-delay-duration is %s: it must not be negative", o.ShutdownDelay))
	}
	return errors.Join(all...)
}

// Run serves until the context ends.
func (o *Options) Run(ctx context.Context) error {
	scheme := NewScheme()
	codecs := serializer.NewCodecFactory(scheme)
	config := NewConfig(codecs, scheme, &version.Info{GitVersion: o.Version})
	if err := o.apply(config); err != nil {
		return err
	}
	cluster, err := NewCluster(config.ClientConfig)
	if err != nil {
		return err
	}
	server, err := config.Complete().New("virtward-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return fmt.Errorf("making the server: %w", err)
	}
	typed, err := kubernetes.NewForConfig(config.ClientConfig)
	if err != nil {
		return err
	}
	events := newRecorder(typed.CoreV1())
	defer events.stop()
	services := &Services{
		Cluster: timed{cluster}, Authorizer: config.Authorization.Authorizer, Random: randomness.Source{}, Events: events, Clock: clock.RealClock{}, RequireApproval: o.RequireApproval,
		Keys: newSecretKeys(typed.CoreV1().Secrets(o.Namespace), func() []byte { return randomness.Source{}.Bytes(approvals.KeyBytes) }),
	}
	if err := Install(server, scheme, codecs, services); err != nil {
		return err
	}
	if err := knowCallers(ctx, config.SecureServing, config.Authentication.RequestHeaderConfig, authoritiesTimeout); err != nil {
		return err
	}
	go (&upkeep{storage: storage{Services: services}}).run(ctx, o.CheckInterval)
	if err := server.AddPostStartHook("virtward-give-back-memory", giveBack); err != nil {
		return err
	}
	return server.PrepareRun().RunWithContext(ctx)
}

// giveBack returns the memory that only the start needs, for the documents of OpenAPI, to the system. An idle server would keep it.
func giveBack(genericapiserver.PostStartHookContext) error {
	debug.FreeOSMemory()
	return nil
}

// apply configures the server. What depends on another option comes after it.
func (o *Options) apply(config *genericapiserver.RecommendedConfig) error {
	config.MaxMutatingRequestsInFlight, config.MaxRequestsInFlight = o.MaxInFlight, mostInFlight
	config.ShutdownDelayDuration = o.ShutdownDelay
	if err := o.SecureServing.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	config.SecureServing.Listener = bound(config.SecureServing.Listener, maxConnections)
	if err := o.Authentication.ApplyTo(&config.Authentication, config.SecureServing, config.OpenAPIConfig); err != nil {
		return fmt.Errorf("authentication: %w", err)
	}
	if err := o.Authorization.ApplyTo(&config.Authorization); err != nil {
		return fmt.Errorf("authorization: %w", err)
	}
	config.Authorization.Authorizer = &fair{config.Authorization.Authorizer, memory.NewParts(int64(max(1, o.MaxInFlight/4)))}
	if err := o.Audit.ApplyTo(&config.Config); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if err := o.CoreAPI.ApplyTo(config); err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	config.ClientConfig.QPS = -1 // the API server limits clients by its fairness; a limit here would be one for all users together
	typed, err := kubernetes.NewForConfig(config.ClientConfig)
	if err != nil {
		return err
	}
	config.SharedInformerFactory = informers.NewSharedInformerFactoryWithOptions(typed, 0, informers.WithTransform(shrink))
	if err := o.Features.ApplyTo(&config.Config, typed, config.SharedInformerFactory); err != nil {
		return fmt.Errorf("features: %w", err)
	}
	return o.applyAdmission(config, typed)
}

// applyAdmission turns the admission chain on, so that the cluster's policies and webhooks are called for requests. The
// plugin of MutatingAdmissionPolicies never becomes ready in a cluster that does not serve them: it is off there.
func (o *Options) applyAdmission(config *genericapiserver.RecommendedConfig, typed kubernetes.Interface) error {
	served, err := discovery.IsResourceEnabled(typed.Discovery(), schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"})
	if err != nil {
		return fmt.Errorf("discovering MutatingAdmissionPolicies: %w", err)
	}
	if !served {
		o.Admission.DisablePlugins = append(o.Admission.DisablePlugins, mutatingpolicy.PluginName)
	}
	objects, err := dynamic.NewForConfig(config.ClientConfig)
	if err != nil {
		return err
	}
	if err := o.Admission.ApplyTo(&config.Config, config.SharedInformerFactory, typed, objects, feature.DefaultFeatureGate, config.EffectiveVersion); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}
