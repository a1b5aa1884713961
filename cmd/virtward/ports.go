package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/webhooks"
	"github.com/virtward/virtward/webhooks/serving"
)

const (
	// readyTimeout bounds the check of one condition of readiness.
	readyTimeout = 2 * time.Second
	// drainTimeout bounds the time of requests in progress when the process ends.
	drainTimeout = 10 * time.Second
)

// ports has the parts that the servers of a process share.
type ports struct {
	certificate *webhooks.Certificate
	tokens      *serving.Tokens
	metrics     *serving.Metrics
	drain       serving.Drain
	// ready has the conditions of readiness, by name.
	ready map[string]func() error
	log   logr.Logger
}

func newPorts(log logr.Logger) (*ports, error) {
	measured, err := serving.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return &ports{certificate: &webhooks.Certificate{}, tokens: &serving.Tokens{}, metrics: measured, ready: map[string]func() error{}, log: log}, nil
}

// addPorts adds the servers of the webhooks, the probes and the metrics to the manager.
func (o *webhookOptions) addPorts(mgr manager.Manager, p *ports, h *handlers) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: p.certificate.GetCertificate}
	if o.clientCA != "" {
		clients, err := serving.NewClients(o.clientCA, o.clientNames, p.log)
		if err != nil {
			return err
		}
		clients.Configure(config)
		if err := mgr.Add(everywhere(clients.Run)); err != nil {
			return err
		}
	}
	// The manager ends this before it shuts the servers down.
	if err := mgr.Add(everywhere(p.drain.Run)); err != nil {
		return err
	}
	for _, server := range []serving.Options{
		{Name: "webhook", Address: fmt.Sprintf(":%d", o.port), TLS: config, Limits: serving.WebhookLimits(), Route: serving.ByToken(p.tokens, h.webhooks)},
		{Name: "deletions", Address: fmt.Sprintf(":%d", o.deletionsPort), TLS: config, Limits: serving.DeletionLimits(), Route: serving.ByToken(p.tokens, h.deletions)},
	} {
		if err := p.add(mgr, server); err != nil {
			return err
		}
	}
	return p.addSide(mgr, &o.process)
}

// addSide adds the servers of the probes and the metrics to the manager. The address "0" means no server.
func (p *ports) addSide(mgr manager.Manager, o *process) error {
	probes := serving.ByPath(map[string]http.Handler{"/healthz": probe(nil), "/readyz": probe(p.ready)})
	scrapes := promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	health := serving.Options{Name: "health", Address: o.healthAddress, Route: probes}
	measured := serving.Options{Name: "metrics", Address: o.metricsAddress}
	if o.metricsSecure && o.metricsAddress != "0" {
		client, err := kubernetes.NewForConfig(mgr.GetConfig())
		if err != nil {
			return fmt.Errorf("creating a client: %w", err)
		}
		scrapes = serving.NewPermitted(client, scrapes, clock.RealClock{}, p.log)
		if measured.TLS, err = metricsCertificate(mgr, o.metricsCertDir); err != nil {
			return err
		}
	}
	measured.Route = serving.ByPath(map[string]http.Handler{"/metrics": scrapes})
	for _, side := range []serving.Options{health, measured} {
		if side.Address == "0" {
			continue
		}
		side.Limits = serving.SideLimits()
		if err := p.add(mgr, side); err != nil {
			return err
		}
	}
	return nil
}

// metricsCertificate returns the configuration of TLS with the certificate of a folder, which can be replaced, or with a new one.
func metricsCertificate(mgr manager.Manager, folder string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if folder == "" {
		certificate, key, err := cert.GenerateSelfSignedCertKey("virtward-metrics", nil, nil)
		if err != nil {
			return nil, fmt.Errorf("making a certificate for the metrics: %w", err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("making a certificate for the metrics: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
		return config, nil
	}
	watched, err := certwatcher.New(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the metrics: %w", err)
	}
	config.GetCertificate = watched.GetCertificate
	return config, mgr.Add(everywhere(watched.Start))
}

func (p *ports) add(mgr manager.Manager, o serving.Options) error {
	o.Metrics, o.Drain, o.Log, o.ShutdownTimeout = p.metrics, &p.drain, p.log.WithValues("server", o.Name), drainTimeout
	server, err := serving.Listen(o)
	if err != nil {
		return err
	}
	return mgr.Add(server)
}

// probe answers 200 if all conditions hold. Otherwise it lists those that do not.
func probe(conditions map[string]func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var failing []string
		for name, holds := range conditions {
			if err := holds(); err != nil {
				failing = append(failing, name+": "+err.Error())
			}
		}
		if len(failing) == 0 {
			_, _ = w.Write([]byte("ok")) // the kubelet is gone if this fails
			return
		}
		slices.Sort(failing)
		http.Error(w, strings.Join(failing, "\n"), http.StatusInternalServerError)
	})
}
