// Command virtward-export-server serves a VM template and its disks as an OVA. It is a program of its own: its pods run in the namespaces of
// users and mount their volumes, so it has no client of the API server, and nothing else in it.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/webhooks/serving"
)

// version is set by the linker.
var version = "development"

// The limits of servers of disks: timeout bounds each connection and the wait for each answer, stall the time without a byte.
const (
	timeout = 30 * time.Second
	stall   = 2 * time.Minute
)

func main() { startup.Main(command()) }

// options are the flags.
type options struct {
	log           startup.Log
	plan, address string
	grace         time.Duration
}

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "virtward-export-server",
		Short: "Serve a VM template and its disks as an OVA",
		Long: `Serves a VM template and its disks as an OVA over HTTPS, to requests with a token. The plan names the disks: raw images in mounted
volumes, block devices, or raw images on web servers. No OVA is stored. The server reads all disks once, and learns the size and the
digests. Then each download makes its bytes again: the same parts have the same bytes, so downloads can continue after a break. It has no
client of the API server.`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	o.log.AddFlags(flags)
	flags.StringVar(&o.plan, "plan", "", "file with the plan in JSON")
	flags.StringVar(&o.address, "address", ":8443", "address of /export.ova, /status, /metrics and /healthz")
	flags.DurationVar(&o.grace, "grace", 20*time.Second, "time for the downloads in progress when the process ends")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	log, err := o.log.Begin()
	if err != nil {
		return err
	}
	p, err := o.listen(log)
	if err != nil {
		return err
	}
	defer p.client.Close()
	log.Info("starting", "version", version, "address", p.listening.Listener.Addr().String())
	return p.serve(ctx)
}

// process is what serves one export.
type process struct {
	client    *web.Client
	server    *exportserver.Server
	listening *manager.Server
}

// listen reads the plan and its files, and listens on the address.
func (o *options) listen(log logr.Logger) (*process, error) {
	if o.plan == "" {
		return nil, errors.New("--plan is empty: name the file of the plan")
	}
	plan, err := readPlan(o.plan)
	if err != nil {
		return nil, fmt.Errorf("--plan: %w", err)
	}
	token, err := startup.ReadText(plan.Serving.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("reading the token: %w", err)
	}
	certificate, err := tls.LoadX509KeyPair(plan.Serving.CertificateFile, plan.Serving.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	client, err := newClient(plan)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	server, err := exportserver.New(exportserver.Options{
		Plan: plan, Token: token, Client: client, Log: log, Metrics: registry,
		Scrapes: promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}),
	})
	if err != nil {
		return nil, err
	}
	connections, err := serving.NewMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	listening, err := serving.Listen(serving.Options{
		Name: "exports", Address: o.address, TLS: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}},
		Route: func(r *http.Request) http.Handler { return server.Route(r) }, Limits: serving.ExportLimits(),
		Metrics: connections, Log: log, ShutdownTimeout: o.grace,
	})
	return &process{client, server, listening}, err
}

// serve serves until the context ends, and gives the downloads in progress time to end.
func (p *process) serve(ctx context.Context) error {
	reading, end := context.WithCancel(context.WithoutCancel(ctx)) // downloads in progress read disks until the process ends
	defer end()
	go p.server.Run(reading)
	return p.listening.Start(ctx)
}

// newClient returns the client of the URLs of a plan.
func newClient(plan *exportserver.Plan) (*web.Client, error) {
	permitted, err := plan.Sources.Permitted()
	if err != nil {
		return nil, err
	}
	o := web.Options{
		Sources: permitted, Timeout: timeout, Stall: stall, Proxy: http.ProxyFromEnvironment,
		Connections: exportserver.MaxAnswers + 1, HTTP1: true, Headers: map[string]string{},
	}
	if plan.AuthoritiesFile != "" {
		if o.Authorities, err = startup.ReadFile(plan.AuthoritiesFile, startup.MaxFile); err != nil {
			return nil, fmt.Errorf("reading the authorities: %w", err)
		}
	}
	for name, file := range plan.Headers {
		if o.Headers[name], err = startup.ReadText(file); err != nil {
			return nil, fmt.Errorf("reading the header %s: %w", name, err)
		}
	}
	return web.New(o)
}

func readPlan(name string) (*exportserver.Plan, error) {
	data, err := startup.ReadFile(name, transfer.MaxBytes)
	if err != nil {
		return nil, err
	}
	return exportserver.Parse(data)
}
