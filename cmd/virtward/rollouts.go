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
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// rolloutsLease is the name of the leader's Lease.
const rolloutsLease = "virtward-rollouts"

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
		Short: "Report pending changes of running virtual machines",
		Long: `Compares each running VirtualMachine with its instance, and writes into an annotation which changes are pending: those
that need a live migration or a restart, are blocked, or have no effect. It is a separate process, because its account may
change VirtualMachines. It reads the cluster with the kubeconfig in $KUBECONFIG, or as the service account of its pod. If
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
		scheme := runtime.NewScheme()
		if err := clientgoscheme.AddToScheme(scheme); err != nil {
			return nil, err
		}
		return o.manager(config, rolloutsLease, cacheOptions(nil), scheme)
	}, o.addTo)
}

func (o *rolloutsOptions) addTo(mgr manager.Manager, config *rest.Config, log logr.Logger) error {
	state, err := o.clusterState(config, o.settings(), log)
	if err != nil {
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
	return p.addSide(mgr, o.healthAddress, o.metricsAddress)
}
