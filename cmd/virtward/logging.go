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

// logging is how the server writes its log, to standard error.
type logging struct {
	level, format string
}

func (l *logging) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.level, "log-level", "info", "what is logged: error, warn, info, or debug for every request; the objects themselves are never logged")
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

// begin sets up the log of the process, and finds the cluster.
func (l *logging) begin() (logr.Logger, *rest.Config, error) {
	log, err := l.logger()
	if err != nil {
		return log, nil, err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("client")) // client-go's own words, in the same form
	if err := limitMemory(); err != nil {
		return log, nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return log, nil, fmt.Errorf("finding the cluster: %w", err)
	}
	config.QPS = -1                           // the API server's own fairness bounds us; waiting here would let admission requests time out
	config.WarningHandler = rest.NoWarnings{} // that presets are deprecated is no news to the admin
	return log, config, nil
}
