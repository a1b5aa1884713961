package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// leader has the flags of a process of which only one replica works, the leader.
type leader struct {
	process
	leaseFor time.Duration
}

func (l *leader) addFlags(flags *pflag.FlagSet) {
	l.process.addFlags(flags)
	flags.DurationVar(&l.leaseFor, "lease-duration", 15*time.Second, "time after which another replica replaces a leader that does not renew its Lease")
}

func (l *leader) validate() error {
	if l.leaseFor < 3*time.Second {
		return fmt.Errorf("--lease-duration is %s: it must be three seconds or longer", l.leaseFor)
	}
	return l.process.validate()
}

// manager returns the manager of the process. lease is the name of its Lease; a nil scheme is that of client-go.
func (l *leader) manager(config *rest.Config, lease string, cached cache.Options, scheme *runtime.Scheme) (manager.Manager, error) {
	renew, retry := l.leaseFor*2/3, l.leaseFor*2/15
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cached,
		HealthProbeBindAddress:        "0", // Virtward serves these ports itself, with limits on connections
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       l.namespace,
		LeaderElectionReleaseOnCancel: true, // no part of the process runs after the manager has ended
		LeaseDuration:                 &l.leaseFor,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	})
}

// start runs the process: it creates the manager, adds the parts of the process, and starts the manager.
func (l *leader) start(ctx context.Context, newManager func(*rest.Config) (manager.Manager, error), add func(manager.Manager, *rest.Config, logr.Logger) error) error {
	log, config, err := l.begin()
	if err != nil {
		return err
	}
	mgr, err := newManager(config)
	if err != nil {
		return err
	}
	log.Info("starting", "version", version, "namespace", l.namespace)
	if err := add(mgr, config, log); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
