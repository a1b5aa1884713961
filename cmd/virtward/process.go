package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// process has the flags of all processes. The log is written to standard error.
type process struct {
	level, format    string
	healthAddress    string
	metricsAddress   string
	namespace        string
	paramsNamespaces []string
}

func (p *process) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&p.metricsAddress, "metrics-address", ":8080", "address of /metrics; 0 for none")
	flags.StringVar(&p.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace that Virtward is installed in; by default $POD_NAMESPACE")
	flags.StringSliceVar(&p.paramsNamespaces, "params-namespace", nil, "namespaces whose ConfigMaps may hold the parameters of policies; by default that of --namespace")
	flags.StringVar(&p.level, "log-level", "info", "log level: error, warn, info or debug; objects are never logged")
	flags.StringVar(&p.format, "log-format", "json", "json or text")
}

func (p *process) logger() (logr.Logger, error) {
	options := &slog.HandlerOptions{}
	switch p.level {
	case "error":
		options.Level = slog.LevelError
	case "warn":
		options.Level = slog.LevelWarn
	case "info":
		options.Level = slog.LevelInfo
	case "debug":
		options.Level = slog.Level(-1)
	default:
		return logr.Discard(), fmt.Errorf("--log-level is %q: it must be error, warn, info or debug", p.level)
	}
	switch p.format {
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, options)), nil
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, options)), nil
	}
	return logr.Discard(), fmt.Errorf("--log-format is %q: it must be json or text", p.format)
}

func (p *process) validate() error {
	if p.namespace == "" {
		return errors.New("--namespace is empty and $POD_NAMESPACE is not set: name the namespace that Virtward is installed in")
	}
	return nil
}

// begin sets up the log of the process, and returns the client configuration of the cluster.
func (p *process) begin() (logr.Logger, *rest.Config, error) {
	log, err := p.logger()
	if err != nil {
		return log, nil, err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("client")) // the log lines of client-go, in the same format
	if err := limitMemory(); err != nil {
		return log, nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return log, nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	config.QPS = -1                           // the API server limits clients by its fairness; a limit here would cause timeouts of admission requests
	config.WarningHandler = rest.NoWarnings{} // presets are deprecated: Virtward still reads them
	return log, config, nil
}
