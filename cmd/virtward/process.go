package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/virtward/virtward/cmd/internal/startup"
)

// process has the flags of all processes.
type process struct {
	log              startup.Log
	healthAddress    string
	metricsAddress   string
	metricsSecure    bool
	metricsCertDir   string
	namespace        string
	paramsNamespaces []string
	exceptionDays    int
	policyReferences []string
	// countsPolicies reports whether the process counts evaluations of policies. It is no flag.
	countsPolicies bool
}

func (p *process) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&p.metricsAddress, "metrics-address", ":8080", "address of /metrics; 0 for none")
	flags.BoolVar(&p.metricsSecure, "metrics-secure", false, "serve /metrics over HTTPS, to clients whose bearer token the API server permits to get the path")
	flags.StringVar(&p.metricsCertDir, "metrics-cert-dir", "", "folder with the certificate of --metrics-secure, tls.crt and tls.key; without one, the process makes a certificate that clients cannot verify")
	flags.StringVar(&p.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace that Virtward is installed in; by default $POD_NAMESPACE")
	flags.StringSliceVar(&p.paramsNamespaces, "params-namespace", nil, "namespaces whose ConfigMaps may hold the parameters of policies; by default that of --namespace")
	flags.IntVar(&p.exceptionDays, "policy-exception-max-days", 0, "most days until a VirtualMachinePolicyException ends; 0 for no exceptions")
	flags.StringSliceVar(&p.policyReferences, "policy-reference", nil, "kinds of objects that policies may read if virtual machines point at them, as plural names of resources; by default none")
	p.log.AddFlags(flags)
}

func (p *process) validate() error {
	if p.namespace == "" {
		return errors.New("--namespace is empty and $POD_NAMESPACE is not set: name the namespace that Virtward is installed in")
	}
	if p.metricsCertDir != "" && !p.metricsSecure {
		return errors.New("--metrics-cert-dir needs --metrics-secure")
	}
	if p.exceptionDays < 0 || p.exceptionDays > mostExceptionDays {
		return fmt.Errorf("--policy-exception-max-days is %d: it must be within 0 and %d", p.exceptionDays, mostExceptionDays)
	}
	return nil
}

// exceptionDuration returns the longest time until a VirtualMachinePolicyException ends; 0 for no exceptions.
func (p *process) exceptionDuration() time.Duration {
	return time.Duration(p.exceptionDays) * 24 * time.Hour
}

// mostExceptionDays bounds --policy-exception-max-days.
const mostExceptionDays = 3650

// begin sets up the log of the process, and returns the client configuration of the cluster.
func (p *process) begin() (logr.Logger, *rest.Config, error) {
	log, err := p.log.Begin()
	if err != nil {
		return log, nil, err
	}
	klog.SetLogger(log.WithName("client")) // the log lines of client-go, in the same format
	config, err := ctrl.GetConfig()
	if err != nil {
		return log, nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	config.QPS = -1                           // the API server limits clients by its fairness; a limit here would cause timeouts of admission requests
	config.WarningHandler = rest.NoWarnings{} // presets are deprecated: Virtward still reads them
	return log, config, nil
}
