package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/processes"
	rolloutv1alpha1 "github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/controllers/pending"
	"github.com/virtward/virtward/controllers/rollout"
)

// shortestResync bounds --resync-interval: every running VM is read once in each.
const shortestResync = time.Minute

// rolloutsOptions are the flags of `virtward rollouts`.
type rolloutsOptions struct {
	leader
	assumptions
	resync time.Duration
}

func rolloutsCommand() *cobra.Command {
	o := &rolloutsOptions{}
	cmd := &cobra.Command{
		Use:   "rollouts",
		Short: "Report pending changes of running virtual machines, and apply VirtualMachineRollouts",
		Long: `Compares each running VirtualMachine with its instance, and writes into an annotation which changes are pending: those
that need a live migration or a restart, are blocked, or have no effect. Applies VirtualMachineRollouts: it patches, migrates
and restarts the selected virtual machines step by step, with the permissions that the author of the rollout has.

It is a separate process, because its account may change VirtualMachines. It reads the cluster with the kubeconfig in $KUBECONFIG, or as the service account of its pod. If
there are several replicas, only the leader is active.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *rolloutsOptions) addFlags(flags *pflag.FlagSet) {
	o.leader.addFlags(flags)
	o.assumptions.addFlags(flags)
	flags.DurationVar(&o.resync, "resync-interval", 15*time.Minute, "time after which a running virtual machine is compared again without a change")
}

func (o *rolloutsOptions) validate() error {
	if o.resync < shortestResync {
		return fmt.Errorf("--resync-interval is %s: it must be %s or longer", o.resync, shortestResync)
	}
	return errors.Join(o.leader.validate(), o.assumptions.validate())
}

func (o *rolloutsOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	return o.start(ctx, func(config *rest.Config) (manager.Manager, error) {
		scheme, err := newScheme(kubevirtv1.AddToScheme, rolloutv1alpha1.AddToScheme)
		if err != nil {
			return nil, err
		}
		return o.manager(config, processes.Rollouts, cacheOptions(nil), scheme)
	}, o.addTo)
}

func (o *rolloutsOptions) addTo(mgr manager.Manager, config *rest.Config, log logr.Logger) error {
	state, err := o.clusterState(config, o.settings(), log)
	if err != nil {
		return err
	}
	c, err := newClients(mgr, config, config)
	if err != nil {
		return err
	}
	if err := o.addPending(mgr, state, c, log.WithName("pending")); err != nil {
		return err
	}
	if err := o.addRollouts(mgr, config, state, c); err != nil {
		return err
	}
	if err := state.addTo(mgr); err != nil {
		return err
	}
	p, err := newPorts(log.WithName("ports"))
	if err != nil {
		return err
	}
	maps.Copy(p.ready, state.ready())
	return p.addSide(mgr, &o.process)
}

// addPending adds the controller of pending changes.
func (o *rolloutsOptions) addPending(mgr manager.Manager, state *clusterState, c *clients, log logr.Logger) error {
	compares := pending.New(pending.Options{
		Objects: state.objects, Client: state.client, Facts: state.facts.Facts, Ready: state.facts.Ready, Resync: o.resync, Clock: clock.RealClock{},
		Tell: tellOf[*kubevirtv1.VirtualMachine](c.events, apikinds.VirtualMachines.GroupVersionKind),
	})
	state.changed = func(what part) {
		if what == partFacts {
			compares.Changed()
		}
	}
	if err := metrics.Registry.Register(compares.Collector()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if err := mgr.Add(&pending.Publisher{Reconciler: compares, ConfigMaps: c.typed.CoreV1().ConfigMaps(o.namespace), Clock: clock.RealClock{}, Log: log}); err != nil {
		return err
	}
	return compares.SetupWithManager(mgr, c.metadata())
}

// observed is the time between two observations of a rollout.
const observed = time.Second

// addRollouts adds the controller of VirtualMachineRollouts. It has pages of its own, so that the controller of pending
// changes does not wait for it.
func (o *rolloutsOptions) addRollouts(mgr manager.Manager, config *rest.Config, state *clusterState, c *clients) error {
	reader, err := pages.NewReader(config)
	if err != nil {
		return err
	}
	measured, err := rollout.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	carries := rollout.New(rollout.Options{
		Client: c.direct, Pages: reader, Objects: state.objects, Evaluator: state.evaluator(), Ready: allReady(state.ready()),
		Guards:     &guarded.Guards{Reader: c.direct, All: admissionpolicies.RolloutGuards()},
		Authorizer: rollout.Reviews{Client: c.direct}, Restarter: rollout.Subresources{Client: c.typed.CoreV1().RESTClient()},
		Interval: observed, Metrics: measured, Clock: clock.RealClock{},
		Tell: tellOf[*rolloutv1alpha1.VirtualMachineRollout](c.events, apikinds.Rollouts.GroupVersionKind),
	})
	pendingChanged := state.changed
	state.changed = func(what part) {
		pendingChanged(what)
		carries.Changed()
	}
	return carries.SetupWithManager(mgr, metadatawatch.Reader{Client: c.light, Pages: reader})
}
