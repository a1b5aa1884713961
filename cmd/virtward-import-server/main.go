// Command virtward-import-server serves the disks of one import of a VM template to CDI. It is a program of its own: its pods run in the
// namespaces of users with their credentials, so it has no client of the API server, and nothing else in it.
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

	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/importserver"
	"github.com/virtward/virtward/importserver/stages"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/webhooks/serving"
)

// version is set by the linker.
var version = "development"

// The limits of a source.
const (
	// timeout bounds each connection and the wait for each answer, stall the time without a byte.
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
		Use:   "virtward-import-server",
		Short: "Serve the disks of an import to CDI",
		Long: `Serves each disk of a package of OVF, or of an OCI artifact, as a file over HTTPS, to requests with a token. The plan names the places of
the disks: ranges of files on web servers or of the OVA of a volume, or blobs of a registry. The OVA of a volume is served too. No disk is stored: layers with zstd are decompressed
while they are sent. The server inspects the header of an image before its first byte, continues broken connections, and withholds the end
of a disk whose digest is another one than in the plan. With a copy in the plan, the program copies a file into the volume instead, and ends.
It has no client of the API server.`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	o.log.AddFlags(flags)
	flags.StringVar(&o.plan, "plan", "", "file with the plan in JSON")
	flags.StringVar(&o.address, "address", ":8443", "address of the disks, /status, /metrics and /healthz")
	flags.DurationVar(&o.grace, "grace", 20*time.Second, "time for the transfers in progress when the process ends")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	log, err := o.log.Begin()
	if err != nil {
		return err
	}
	if o.plan == "" {
		return errors.New("--plan is empty: name the file of the plan")
	}
	plan, err := readPlan(o.plan)
	if err != nil {
		return fmt.Errorf("--plan: %w", err)
	}
	source, err := sourceOptions(plan)
	if err != nil {
		return err
	}
	client, err := web.New(*source)
	if err != nil {
		return err
	}
	defer client.Close()
	registry, stop, err := artifacts.Guarded(source, plan.Sources.Values)
	if err != nil {
		return err
	}
	defer stop()
	token, err := startup.ReadText(plan.Serving.TokenFile)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	certificate, err := tls.LoadX509KeyPair(plan.Serving.CertificateFile, plan.Serving.KeyFile)
	if err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var copying *stages.Copy
	options := importserver.Options{
		Plan: plan, Token: token, Client: client, Registry: &registry, Log: log, Metrics: metrics,
		Scrapes: promhttp.HandlerFor(metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}),
	}
	if plan.Stage != nil {
		copying = stages.New(client, &registry, plan.Stage, plan.Volume)
		options.Staged = copying.Status
	}
	server, err := importserver.New(options)
	if err != nil {
		return err
	}
	connections, err := serving.NewMetrics(metrics)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	listening, err := serving.Listen(serving.Options{
		Name: "imports", Address: o.address, TLS: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}},
		Route: func(r *http.Request) http.Handler { return server.Route(r) }, Limits: serving.ImportLimits(),
		Metrics: connections, Log: log, ShutdownTimeout: o.grace,
	})
	if err != nil {
		return err
	}
	log.Info("starting", "version", version, "address", listening.Listener.Addr().String(), "disks", len(plan.Disks))
	if copying != nil {
		return stage(ctx, log, copying, listening.Start)
	}
	return listening.Start(ctx)
}

// stage copies a file while a server tells how far it is, and ends the server.
func stage(ctx context.Context, log logr.Logger, copying *stages.Copy, serve func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	copied := make(chan error, 1)
	go func() {
		copied <- copying.Run(ctx)
		end()
	}()
	served := serve(ctx)
	end()
	err := <-copied
	if err == nil && served != nil { // the copy is complete, whatever client is still connected
		log.Error(served, "the server of the progress ended with an error")
		return nil
	}
	return errors.Join(err, served)
}

// sourceOptions are how the web servers and the registry of a plan are connected to.
func sourceOptions(plan *transfer.Plan) (*web.Options, error) {
	permitted, err := plan.Sources.Permitted()
	if err != nil {
		return nil, err
	}
	o := &web.Options{
		Sources: permitted, Timeout: timeout, Stall: stall, Proxy: http.ProxyFromEnvironment,
		Connections: importserver.MaxAnswers + 1, HTTP1: true,
	}
	if plan.AuthoritiesFile != "" {
		if o.Authorities, err = startup.ReadFile(plan.AuthoritiesFile, startup.MaxFile); err != nil {
			return nil, fmt.Errorf("reading the authorities: %w", err)
		}
	}
	if c := plan.Credentials; c != nil {
		if o.User, err = startup.ReadText(c.UserFile); err != nil {
			return nil, fmt.Errorf("reading the credentials: %w", err)
		}
		if o.Password, err = startup.ReadText(c.PasswordFile); err != nil {
			return nil, fmt.Errorf("reading the credentials: %w", err)
		}
	}
	return o, nil
}

func readPlan(name string) (*transfer.Plan, error) {
	data, err := startup.ReadFile(name, transfer.MaxBytes)
	if err != nil {
		return nil, err
	}
	return transfer.Parse(data)
}
