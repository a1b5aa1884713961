package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
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
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/controllers/audit"
	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/exceptionstatus"
	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/controllers/policystatus"
	"github.com/virtward/virtward/controllers/reports"
)

// mostResults bounds --audit-max-results: a Report must fit into etcd.
const mostResults = 500

// controllerOptions are the flags of `virtward controller`.
type controllerOptions struct {
	leader
	assumptions
	exempt        []string
	exemptByLabel bool

	pace         audit.Pace
	reports      []string
	certificates certificateOptions
	counts       countOptions
	limit        auditresults.Limits
	checkNodes   bool
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
	flags.BoolVar(&o.exemptByLabel, "exempt-by-label", false, "skip namespaces with the label "+policyv1alpha1.ExemptLabel+": true in the audit, as the webhooks do")
	o.assumptions.addFlags(flags)
	flags.DurationVar(&o.pace.Interval, "audit-interval", time.Hour, "longest time between two audits of all objects")
	flags.DurationVar(&o.pace.Least, "audit-min-interval", 30*time.Second, "shortest time between two audits of all objects, even if policies and instancetypes change more often")
	flags.DurationVar(&o.pace.Quiet, "audit-delay", 2*time.Second, "delay after the last change before the changed objects are audited")
	flags.BoolVar(&o.checkNodes, "check-nodes", false, "watch the nodes of the cluster, for policies that read migrationTargets")
	o.certificates.addFlags(flags)
	o.counts.addFlags(flags)
	flags.StringSliceVar(&o.reports, "reports", reports.Names()[:1], "APIs to which a report of each namespace is written, if the cluster has them, of "+strings.Join(reports.Names(), " and ")+"; empty for none")
	flags.IntVar(&o.limit.PerNamespace, "audit-max-results", 200, fmt.Sprintf("maximum number of results in the Report of a namespace, at most %d; its summary counts all results", mostResults))
	flags.IntVar(&o.limit.PerSource, "audit-max-results-per-policy", 20, "maximum number of results of one policy in the Report of a namespace")
}

func (o *controllerOptions) validate() error {
	if err := errors.Join(o.leader.validate(), o.assumptions.validate(), o.counts.validate()); err != nil {
		return err
	}
	if _, err := reports.APIsNamed(o.reports); err != nil {
		return fmt.Errorf("--reports: %w", err)
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
	scheme, err := newScheme(openreports.Install, policyv1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return o.manager(config, processes.Controller, cacheOptions(nil), scheme)
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
	recorded := newRecorder(typed.CoreV1())
	if err := mgr.Add(everywhere(recorded.Run)); err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	statuses := policystatus.New(policystatus.Options{
		Client: direct, Policies: state.policies.Compiled, Clock: clock.RealClock{},
		Tell: tellOf[*policyv1alpha1.VirtualMachinePolicy](recorded, apikinds.Policies.GroupVersionKind),
	})
	reader, err := pages.NewReader(config)
	if err != nil {
		return err
	}
	if o.checkNodes {
		if err := addNodes(mgr, state, log.WithName("nodes")); err != nil {
			return err
		}
	}
	auditor, err := o.auditor(reader, state, recorded, direct, statuses, log.WithName("audit"))
	if err != nil {
		return err
	}
	exceptions := exceptionstatus.New(exceptionstatus.Options{
		Client: direct, Exceptions: state.exceptions.Current, Clock: clock.RealClock{},
		Changed: func() { auditor.Ask("an exception changed") },
		Tell:    tellOf[*policyv1alpha1.VirtualMachinePolicyException](recorded, apikinds.PolicyExceptions.GroupVersionKind),
	})
	state.changed = func(what part) {
		auditor.Ask("the " + string(what) + " changed")
		switch what {
		case partPolicies:
			statuses.Changed()
		case partExceptions:
			exceptions.Changed()
		case partFacts, partSettings, partDefaults: // only results of evaluations depend on them
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
	return p.addSide(mgr, &o.process)
}

func (o *controllerOptions) auditor(reader *pages.Reader, state *clusterState, told *recorder, direct client.Client, statuses *policystatus.Reconciler, log logr.Logger) (*audit.Auditor, error) {
	measured, err := audit.NewMetrics(metrics.Registry, state.policies.Exists)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	limits := o.limit
	limits.Total = auditresults.MaxHeld
	criteria := &audit.Criteria{Evaluator: state.evaluator(), Exempt: append([]string{"kube-system", o.namespace}, o.exempt...)}
	if o.exemptByLabel {
		criteria.Labels = state.namespaces.NamespaceLabels
	}
	options := audit.Options{
		Criteria: criteria,
		Stored:   audit.NewAPI(reader), Metrics: measured, Pace: o.pace, Limit: limits, Clock: clock.RealClock{}, Log: log,
		Ready: allReady(state.ready()), Audited: statuses.Audited,
		Tell: func(f auditresults.Held, e events.Event) {
			told.tell(&corev1.ObjectReference{Namespace: f.Namespace, Name: f.Subject.Name, UID: f.UID}, schema.FromAPIVersionAndKind(f.APIVersion, f.Kind), e)
		},
	}
	apis, err := reports.APIsNamed(o.reports)
	if err != nil {
		return nil, err
	}
	if len(apis) > 0 {
		options.Reports = reports.NewStores(apis, direct, reader)
	}
	return audit.New(options), nil
}

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
		w.Reader = metadatawatch.Reader{Client: light, Pages: reader}
		w.Began = func() { auditor.Ask("the watch of " + w.Resource.Resource + " began") }
		if err := mgr.Add(manager.RunnableFunc(w.Run)); err != nil {
			return err
		}
	}
	return nil
}
