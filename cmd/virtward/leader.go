package main

import (
	"errors"
	"fmt"
	"os"
	"time"

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
	logging
	healthAddress    string
	metricsAddress   string
	namespace        string
	paramsNamespaces []string
	leaseFor         time.Duration
}

func (l *leader) addFlags(flags *pflag.FlagSet) {
	l.logging.addFlags(flags)
	flags.StringVar(&l.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&l.metricsAddress, "metrics-address", ":8080", "address of /metrics; 0 for none")
	flags.StringVar(&l.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace that Virtward is installed in; by default $POD_NAMESPACE")
	flags.StringSliceVar(&l.paramsNamespaces, "params-namespace", nil, "namespaces whose ConfigMaps may hold the parameters of policies; by default that of --namespace")
	flags.DurationVar(&l.leaseFor, "lease-duration", 15*time.Second, "time after which another replica replaces a leader that does not renew its Lease")
}

func (l *leader) validate() error {
	switch {
	case l.namespace == "":
		return errors.New("--namespace is empty and $POD_NAMESPACE is not set: name the namespace that Virtward is installed in")
	case l.leaseFor < 3*time.Second:
		return fmt.Errorf("--lease-duration is %s: it must be three seconds or longer", l.leaseFor)
	}
	return nil
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
