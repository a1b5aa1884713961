package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// logging has the flags of the log, which is written to standard error.
type logging struct {
	level, format string
}

func (l *logging) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.level, "log-level", "info", "log level: error, warn, info, or debug, which logs every request; objects are never logged")
	flags.StringVar(&l.format, "log-format", "json", "json or text")
}

func (l *logging) logger() (logr.Logger, error) {
	options := &slog.HandlerOptions{}
	switch l.level {
	case "error":
		options.Level = slog.LevelError
	case "warn":
		options.Level = slog.LevelWarn
	case "info":
		options.Level = slog.LevelInfo
	case "debug":
		options.Level = slog.Level(-1)
	default:
		return logr.Discard(), fmt.Errorf("--log-level is %q: it must be error, warn, info or debug", l.level)
	}
	switch l.format {
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, options)), nil
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, options)), nil
	}
	return logr.Discard(), fmt.Errorf("--log-format is %q: it must be json or text", l.format)
}

// begin sets up the log of the process, and returns the client configuration of the cluster.
func (l *logging) begin() (logr.Logger, *rest.Config, error) {
	log, err := l.logger()
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
