package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/configcache"
	reader "github.com/virtward/virtward/controllers/policycounts"
	"github.com/virtward/virtward/controllers/policystatus"
	"github.com/virtward/virtward/policycounts"
	"github.com/virtward/virtward/webhooks/serving"
)

// newPolicyCounts returns the counts of this process.
func newPolicyCounts(policies *configcache.Policies) *policycounts.Source {
	return &policycounts.Source{Instance: uuid.NewString(), Started: time.Now(), Policies: policies.Counted}
}

// serveCounts adds the server of the counts to the manager. It has the certificate of the webhooks.
func serveCounts(mgr manager.Manager, p *ports, address string, counts *policycounts.Source) error {
	if address == "0" {
		return nil
	}
	return p.add(mgr, serving.Options{
		Name: "policy-counts", Address: address, Limits: serving.CountLimits(),
		TLS:   &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: p.certificate.GetCertificate},
		Route: serving.ByPath(map[string]http.Handler{policycounts.Path: counts}),
	})
}

// countOptions are the controller's flags for the counts of policies.
type countOptions struct {
	service  string
	interval time.Duration
}

func (o *countOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.service, "policy-counts-service", "", "Service in --namespace whose EndpointSlices have the replicas of the webhook; without one, only the audit counts the errors of policies")
	flags.DurationVar(&o.interval, "policy-counts-interval", 30*time.Second, "interval at which the counts of policies are read from the replicas of the webhook")
}

func (o *countOptions) validate() error {
	if o.interval < 100*time.Millisecond {
		return fmt.Errorf("--policy-counts-interval is %s: it must be 100ms or longer", o.interval)
	}
	return nil
}

// addCounts adds the reader of the counts to the manager, and the metrics of what is read.
func (o *controllerOptions) addCounts(mgr manager.Manager, client kubernetes.Interface, policies *configcache.Policies, statuses *policystatus.Reconciler, log logr.Logger) error {
	measured, err := reader.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	options := reader.Options{
		Own: newPolicyCounts(policies), Counted: statuses.Counted, Interval: o.counts.interval, Metrics: measured, Clock: clock.RealClock{}, Log: log,
	}
	if o.counts.service != "" {
		options.Replicas = &reader.Replicas{
			Client: client, Namespace: o.namespace, Service: o.counts.service, ServerName: o.certificates.service + "." + o.namespace + ".svc",
			Configuration: o.certificates.mutating, Now: time.Now,
		}
	}
	return errors.Join(reader.New(options).SetupWithManager(mgr), metrics.Registry.Register(policystatus.Metrics(policies.Compiled)))
}
