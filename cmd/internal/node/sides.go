package node

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/webhooks/serving"
)

// shutdownTimeout bounds the time of requests in progress when the process ends.
const shutdownTimeout = 2 * time.Second

// none is the address of a server that does not run.
const none = "0"

// Sides are the addresses of the probes and the metrics.
type Sides struct{ health, metrics string }

// AddFlags adds the flags.
func (s *Sides) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.health, "health-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&s.metrics, "metrics-address", ":8080", "address of /metrics, without TLS; 0 for none")
}

// Run serves until the context ends, or one of the functions returns.
func (s *Sides) Run(ctx context.Context, log logr.Logger, connections *serving.Metrics, ready func() error, functions ...func(context.Context) error) error {
	probes := map[string]http.Handler{"/healthz": probe(func() error { return nil }), "/readyz": probe(ready)}
	scrapes := map[string]http.Handler{"/metrics": promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})}
	for _, o := range []serving.Options{
		{Name: "health", Address: s.health, Route: serving.ByPath(probes)},
		{Name: "metrics", Address: s.metrics, Route: serving.ByPath(scrapes)},
	} {
		if o.Address == none {
			continue
		}
		o.Limits, o.Metrics, o.Log, o.ShutdownTimeout = serving.SideLimits(), connections, log.WithValues("server", o.Name), shutdownTimeout
		server, err := serving.Listen(o)
		if err != nil {
			return err
		}
		functions = append(functions, server.Start)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range functions {
		group.Go(func() error {
			defer cancel()
			return run(ctx)
		})
	}
	return group.Wait()
}

// probe answers 200, or 500 with the error.
func probe(holds func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := holds(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("ok")) // the kubelet is gone if this fails
	})
}
