package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	return p.addSide(mgr, o.healthAddress, o.metricsAddress)
}

// addSide adds the servers of the probes and the metrics to the manager. The address "0" means no server.
func (p *ports) addSide(mgr manager.Manager, health, measured string) error {
	probes := serving.ByPath(map[string]http.Handler{"/healthz": probe(nil), "/readyz": probe(p.ready)})
	scrapes := serving.ByPath(map[string]http.Handler{"/metrics": promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})})
	for _, o := range []serving.Options{
		{Name: "health", Address: health, Route: probes},
		{Name: "metrics", Address: measured, Route: scrapes},
	} {
		if o.Address == "0" {
			continue
		}
		o.Limits = serving.SideLimits()
		if err := p.add(mgr, o); err != nil {
			return err
		}
	}
	return nil
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
