package startup

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
)

// Log has the flags of the log, which is written to standard error.
type Log struct{ level, format string }

// AddFlags adds the flags.
func (l *Log) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.level, "log-level", "info", "log level: error, warn, info or debug; objects are never logged")
	flags.StringVar(&l.format, "log-format", "json", "json or text")
}

// Logger returns the logger that the flags select.
func (l *Log) Logger() (logr.Logger, error) {
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
