package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers/export"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
)

// exportLease is the Lease that the replica holds which leads.
const exportLease = "virtward-export"

// exportOptions are the flags of `virtward export`.
type exportOptions struct {
	logging
	healthAddress    string
	metricsAddress   string
	namespace        string
	exempt           []string
	paramsNamespaces []string
	leaseFor         time.Duration
}

func exportCommand() *cobra.Command {
	o := &exportOptions{}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Keep native forms of policies in the API server",
		Long: `Keeps a ValidatingAdmissionPolicy of each policy that asks for it by exportTo. It is a process of its own, because
its account may write every ValidatingAdmissionPolicy, those that guard Virtward among them. It reads the cluster with
the kubeconfig in $KUBECONFIG, or as the service account of its pod. Of several replicas, one works.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *exportOptions) addFlags(flags *pflag.FlagSet) {
	o.logging.addFlags(flags)
	flags.StringVar(&o.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address of /metrics; 0 for none")
	flags.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace that Virtward is installed in; by default $POD_NAMESPACE")
	flags.StringSliceVar(&o.exempt, "exempt-namespace", nil, "namespaces about which exported policies are not asked, besides kube-system and that of --namespace: those that the webhooks do not see")
	flags.StringSliceVar(&o.paramsNamespaces, "params-namespace", nil, "namespaces whose ConfigMaps may hold the parameters of policies; by default that of --namespace")
	flags.DurationVar(&o.leaseFor, "lease-duration", 15*time.Second, "how long the other replicas wait for the one that leads")
}

func (o *exportOptions) validate() error {
	switch {
	case o.namespace == "":
		return errors.New("--namespace is empty and $POD_NAMESPACE is not set: name the namespace that Virtward is installed in")
	case o.leaseFor < 3*time.Second:
		return fmt.Errorf("--lease-duration is %s: it must be three seconds or longer", o.leaseFor)
	}
	return nil
}

func (o *exportOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	log, config, err := o.begin()
	if err != nil {
		return err
	}
	renew, retry := o.leaseFor*2/3, o.leaseFor*2/15
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Cache:                         cacheOptions(export.Cached()),
		HealthProbeBindAddress:        "0", // the ports are served by servers of our own, whose connections are bounded
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              exportLease,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.leaseFor,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	})
	if err != nil {
		return err
	}
	log.Info("starting", "version", version, "namespace", o.namespace)
	if err := o.addTo(mgr, config, log); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func (o *exportOptions) addTo(mgr manager.Manager, config *rest.Config, log logr.Logger) error {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return err
	}
	policies := configcache.PoliciesOptions{Namespace: o.namespace, ParamsNamespaces: o.paramsNamespaces}
	if len(policies.ParamsNamespaces) == 0 {
		policies.ParamsNamespaces = []string{o.namespace}
	}
	world, err := newWorld(config, platform.Settings{}, registry.Rules(), policies, log)
	if err != nil {
		return err
	}
	ready := map[string]func() error{"facts": world.facts.Ready, "policies": world.policies.Ready}
	exports := export.New(export.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Dynamic: world.client,
		Policies: world.policies.Compiled, Facts: world.facts.Facts, Ready: allReady(ready),
		Namespace: o.namespace, Exempt: o.exempt, Clock: clock.RealClock{},
	})
	world.changed = func(string) { exports.Changed() }
	for _, run := range []func(context.Context) error{world.facts.Run, world.policies.Run} {
		if err := mgr.Add(everywhere(run)); err != nil {
			return err
		}
	}
	if err := exports.SetupWithManager(mgr); err != nil {
		return err
	}
	p, err := newPorts(log.WithName("ports"))
	if err != nil {
		return err
	}
	maps.Copy(p.ready, ready)
	return p.addSide(mgr, o.healthAddress, o.metricsAddress)
}
