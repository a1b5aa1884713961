package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	instancetypeapi "kubevirt.io/api/instancetype"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/controllers/audit"
	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/exceptionstatus"
	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/controllers/policystatus"
	"github.com/virtward/virtward/controllers/reports"
	"github.com/virtward/virtward/texts"
)

// reasonViolation is the reason of the event for an object that newly violates a policy.
const reasonViolation = "PolicyViolation"

// controllerLease is the name of the leader's Lease.
const controllerLease = "virtward-controller"

// Bounds of the audit results whose messages are kept.
const (
	// mostResults bounds --audit-max-results: a Report must fit into etcd.
	mostResults = 500
	// mostHeld bounds the results of all namespaces together. Each has at most 1.5 kB.
	mostHeld = 1 << 16
)

// controllerOptions are the flags of `virtward controller`.
type controllerOptions struct {
	leader
	assumptions
	exempt []string

	pace         audit.Pace
	reports      bool
	certificates certificateOptions
	counts       countOptions
	limit        auditresults.Limits
}

func controllerCommand() *cobra.Command {
	o := &controllerOptions{}
	o.countsPolicies = true
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Audit existing objects, and manage the statuses of policies and the certificates of the webhooks",
		Long: `Evaluates all existing virtual machines, instances, replica sets, pools, namespaced instancetypes and namespaced
preferences with the active policies. It writes the findings as reports, metrics and events, and into the statuses of the
policies. With --cert-secret, it also manages the certificates of the webhooks. It reads the cluster with the kubeconfig
in $KUBECONFIG, or as the service account of its pod. If there are several replicas, only the leader is active.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *controllerOptions) addFlags(flags *pflag.FlagSet) {
	o.leader.addFlags(flags)
	flags.StringSliceVar(&o.exempt, "exempt-namespace", nil, "namespaces that the audit skips: those that the webhooks exempt; kube-system and --namespace are always skipped")
	o.assumptions.addFlags(flags)
	flags.DurationVar(&o.pace.Interval, "audit-interval", time.Hour, "longest time between two audits of all objects")
	flags.DurationVar(&o.pace.Least, "audit-min-interval", 30*time.Second, "shortest time between two audits of all objects, even if policies and instancetypes change more often")
	flags.DurationVar(&o.pace.Quiet, "audit-delay", 2*time.Second, "delay after the last change before the changed objects are audited")
	o.certificates.addFlags(flags)
	o.counts.addFlags(flags)
	flags.BoolVar(&o.reports, "reports", true, "write a Report for each namespace if the cluster has OpenReports")
	flags.IntVar(&o.limit.PerNamespace, "audit-max-results", 200, fmt.Sprintf("maximum number of results in the Report of a namespace, at most %d; its summary counts all results", mostResults))
	flags.IntVar(&o.limit.PerSource, "audit-max-results-per-policy", 20, "maximum number of results of one policy in the Report of a namespace")
}

func (o *controllerOptions) validate() error {
	if err := errors.Join(o.leader.validate(), o.assumptions.validate(), o.counts.validate()); err != nil {
		return err
	}
	switch {
	case o.pace.Quiet < 0:
		return fmt.Errorf("--audit-delay is %s: it must not be negative", o.pace.Quiet)
	case o.pace.Interval < o.pace.Least || o.pace.Least < 0:
		return fmt.Errorf("--audit-interval is %s and --audit-min-interval is %s: both must not be negative, and the first must not be shorter than the second", o.pace.Interval, o.pace.Least)
	case o.pace.Interval < time.Minute:
		return fmt.Errorf("--audit-interval is %s: it must be a minute or longer", o.pace.Interval)
	case o.limit.PerNamespace < 1 || o.limit.PerNamespace > mostResults:
		return fmt.Errorf("--audit-max-results is %d: it must be within 1 and %d", o.limit.PerNamespace, mostResults)
	case o.limit.PerSource < 1:
		return fmt.Errorf("--audit-max-results-per-policy is %d: it must be 1 or more", o.limit.PerSource)
	case o.certificates.settle < 0:
		return fmt.Errorf("--rotation-settle is %s: it must not be negative", o.certificates.settle)
	}
	return nil
}

func (o *controllerOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	return o.start(ctx, o.managerWithSchemes, o.addControllers)
}

func (o *controllerOptions) managerWithSchemes(config *rest.Config) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, openreports.Install} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return o.manager(config, controllerLease, cacheOptions(nil), scheme)
}

// cacheOptions returns options for a manager that caches only these objects. Reading an object of another kind through
// the cache fails, instead of caching all objects of that kind.
func cacheOptions(objects map[client.Object]cache.ByObject) cache.Options {
	return cache.Options{ByObject: objects, ReaderFailOnMissingInformer: true, DefaultTransform: cache.TransformStripManagedFields()}
}

func (o *controllerOptions) addControllers(mgr manager.Manager, config *rest.Config, log logr.Logger) error {
	state, err := o.clusterState(config, o.settings(), log)
	if err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	events := newEvents(typed.CoreV1())
	if err := mgr.Add(everywhere(events.Run)); err != nil {
		return err
	}
	statuses := policystatus.New(policystatus.Options{
		Client: state.client, Policies: state.policies.Compiled, Clock: clock.RealClock{},
		Tell: func(policy *policyv1alpha1.VirtualMachinePolicy, kind, reason, message string) {
			events.recorder.Event(&corev1.ObjectReference{
				APIVersion: policyv1alpha1.GroupVersion.String(), Kind: apikinds.VirtualMachinePolicy, Name: policy.Name, UID: policy.UID,
			}, kind, reason, shortEvent(message))
		},
	})
	reader, err := pages.NewReader(config)
	if err != nil {
		return err
	}
	auditor, err := o.auditor(mgr, config, reader, state, events, statuses, log.WithName("audit"))
	if err != nil {
		return err
	}
	exceptions := exceptionstatus.New(exceptionstatus.Options{
		Client: state.client, Exceptions: state.exceptions.Current, Clock: clock.RealClock{},
		Changed: func() { auditor.Ask("an exception changed") },
		Tell: func(exception *policyv1alpha1.VirtualMachinePolicyException, kind, reason, message string) {
			events.recorder.Event(&corev1.ObjectReference{
				APIVersion: policyv1alpha1.GroupVersion.String(), Kind: apikinds.VirtualMachinePolicyException,
				Namespace: exception.Namespace, Name: exception.Name, UID: exception.UID,
			}, kind, reason, shortEvent(message))
		},
	})
	state.changed = func(what string) {
		auditor.Ask("the " + what + " changed")
		switch what {
		case "policies":
			statuses.Changed()
		case "exceptions":
			exceptions.Changed()
		}
	}
	if err := state.addTo(mgr); err != nil {
		return err
	}
	if err := o.addWatches(mgr, config, reader, auditor); err != nil {
		return err
	}
	if err := errors.Join(statuses.SetupWithManager(mgr), exceptions.SetupWithManager(mgr), metrics.Registry.Register(exceptionstatus.Metrics(state.exceptions.Current, clock.RealClock{}))); err != nil {
		return err
	}
	if err := auditor.SetupWithManager(mgr); err != nil {
		return err
	}
	if err := o.addCounts(mgr, typed, state.policies, statuses, log.WithName("policycounts")); err != nil {
		return err
	}
	// Without certificates the webhooks do not serve, so their reconciler does not wait for the audit.
	if err := o.certificates.addTo(mgr, typed, o.namespace, log.WithName("certificates")); err != nil {
		return err
	}
	p, err := newPorts(log.WithName("ports"))
	if err != nil {
		return err
	}
	maps.Copy(p.ready, state.ready())
	return p.addSide(mgr, o.healthAddress, o.metricsAddress)
}

func (o *controllerOptions) auditor(mgr manager.Manager, config *rest.Config, reader *pages.Reader, state *clusterState, events *events, statuses *policystatus.Reconciler, log logr.Logger) (*audit.Auditor, error) {
	measured, err := audit.NewMetrics(metrics.Registry, state.policies.Exists)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	direct, err := client.New(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	limits := o.limit
	limits.Total = mostHeld
	options := audit.Options{
		Criteria: &audit.Criteria{
			Evaluator: state.evaluator(), Exempt: append([]string{"kube-system", o.namespace}, o.exempt...),
		},
		Stored: audit.NewAPI(reader), Metrics: measured, Pace: o.pace, Limit: limits, Clock: clock.RealClock{}, Log: log,
		Ready: allReady(state.ready()), Audited: statuses.Audited,
		Tell: func(f auditresults.Held) {
			events.recorder.Event(&corev1.ObjectReference{
				APIVersion: f.APIVersion, Kind: f.Kind, Namespace: f.Namespace, Name: f.Subject.Name, UID: f.UID,
			}, corev1.EventTypeWarning, reasonViolation, shortEvent(f.String()))
		},
	}
	if o.reports {
		options.Reports = &reports.Store{Client: direct, Pages: reader}
	}
	return audit.New(options), nil
}

// shortEvent shortens a message to the API server's limit for events.
func shortEvent(message string) string { return texts.ShortenCharacters(message, 1000) }

// addWatches requests an audit of objects that change.
func (o *controllerOptions) addWatches(mgr manager.Manager, config *rest.Config, reader *pages.Reader, auditor *audit.Auditor) error {
	light, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	instancetypes := schema.GroupVersion{Group: instancetypeapi.GroupName, Version: "v1beta1"}
	everything := []schema.GroupVersionResource{ // a change of these can affect every object
		instancetypes.WithResource(instancetypeapi.PluralResourceName), instancetypes.WithResource(instancetypeapi.ClusterPluralResourceName),
		instancetypes.WithResource(instancetypeapi.PluralPreferenceResourceName), instancetypes.WithResource(instancetypeapi.ClusterPluralPreferenceResourceName),
		corev1.SchemeGroupVersion.WithResource("namespaces"),
	}
	var watches []metadatawatch.Watch
	for _, what := range everything {
		watches = append(watches, metadatawatch.Watch{Resource: what, Changed: func(types.NamespacedName) { auditor.Ask("the " + what.Resource + " changed") }})
	}
	for _, kind := range audit.Kinds() {
		if slices.Contains(everything, kind.GroupVersionResource) {
			continue
		}
		watches = append(watches, metadatawatch.Watch{Resource: kind.GroupVersionResource, Changed: func(name types.NamespacedName) {
			auditor.Changed(auditresults.Key{Namespace: name.Namespace, Kind: kind.Kind, Name: name.Name})
		}})
	}
	for i := range watches {
		w := &watches[i]
		w.Client, w.Pages = light, reader
		w.Began = func() { auditor.Ask("the watch of " + w.Resource.Resource + " began") }
		if err := mgr.Add(manager.RunnableFunc(w.Run)); err != nil {
			return err
		}
	}
	return nil
}
