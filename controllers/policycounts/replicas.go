package policycounts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/virtward/virtward/policycounts"
)

// PortName is the name of the port of the Service and of its EndpointSlices.
const PortName = "policy-counts"

// Bounds of a read.
const (
	// maxReplicas bounds the addresses that are read: the first ones, sorted. A replica can have two.
	maxReplicas = 64
	// maxSlices bounds the EndpointSlices. Each has up to 100 endpoints.
	maxSlices = 20
	// parallelReads bounds the Reports that are decoded at once.
	parallelReads = 4
	// readTimeout bounds the read of one replica.
	readTimeout = 5 * time.Second
)

// Replicas reads the Reports of the webhook's replicas.
type Replicas struct {
	Client kubernetes.Interface
	// Namespace and Service select the EndpointSlices of the replicas.
	Namespace, Service string
	// ServerName is the name in the serving certificate of the replicas.
	ServerName string
	// Configuration is the MutatingWebhookConfiguration whose CA bundle verifies the replicas.
	Configuration string
	// Now is the time.
	Now func() time.Time
}

// Read returns the Reports, sorted by address, and an error for each replica that could not be read.
func (r *Replicas) Read(ctx context.Context) ([]policycounts.Report, []error) {
	addresses, err := r.addresses(ctx)
	if err != nil {
		return nil, []error{err}
	}
	if len(addresses) == 0 {
		return nil, nil
	}
	roots, err := r.roots(ctx)
	if err != nil {
		return nil, []error{err}
	}
	client := &http.Client{
		Timeout:       readTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: r.ServerName},
		},
	}
	reports, errs := make([]*policycounts.Report, len(addresses)), make([]error, len(addresses))
	var group errgroup.Group
	group.SetLimit(parallelReads)
	for i, address := range addresses {
		group.Go(func() error {
			reports[i], errs[i] = r.read(ctx, client, address)
			return nil
		})
	}
	_ = group.Wait() // each has an error of its own
	var read []policycounts.Report
	for _, report := range reports {
		if report != nil {
			read = append(read, *report)
		}
	}
	return read, slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// addresses returns the addresses of the replicas, sorted. Those that are not ready count too: they can evaluate.
func (r *Replicas) addresses(ctx context.Context) ([]string, error) {
	list, err := r.Client.DiscoveryV1().EndpointSlices(r.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + r.Service, Limit: maxSlices,
	})
	if err != nil {
		return nil, fmt.Errorf("finding the replicas of Service %s: %w", r.Service, err)
	}
	var addresses []string
	for i := range list.Items {
		s := &list.Items[i]
		port := portOf(s)
		if port == "" || s.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for j := range s.Endpoints {
			for _, address := range s.Endpoints[j].Addresses {
				addresses = append(addresses, net.JoinHostPort(address, port))
			}
		}
	}
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	return addresses[:min(len(addresses), maxReplicas)], nil
}

func portOf(s *discoveryv1.EndpointSlice) string {
	for i := range s.Ports {
		if p := &s.Ports[i]; p.Name != nil && *p.Name == PortName && p.Port != nil {
			return strconv.Itoa(int(*p.Port))
		}
	}
	return ""
}

// errNoBundle means that no webhook has a CA bundle yet.
var errNoBundle = errors.New("it has no CA bundle yet")

// roots returns the CA bundles of the webhook configuration.
func (r *Replicas) roots(ctx context.Context) (*x509.CertPool, error) {
	configuration, err := r.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, r.Configuration, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the CA bundle of %s: %w", r.Configuration, err)
	}
	roots, found := x509.NewCertPool(), false
	for i := range configuration.Webhooks {
		found = roots.AppendCertsFromPEM(configuration.Webhooks[i].ClientConfig.CABundle) || found
	}
	if !found {
		return nil, fmt.Errorf("reading the CA bundle of %s: %w", r.Configuration, errNoBundle)
	}
	return roots, nil
}

// read reads one replica.
func (r *Replicas) read(ctx context.Context, client *http.Client, address string) (*policycounts.Report, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+policycounts.Path, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the replica at %s: %w", address, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the replica at %s: %w", address, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the replica at %s: it answers with HTTP status %d", address, response.StatusCode)
	}
	report, err := policycounts.Read(response.Body, r.Now())
	if err != nil {
		return nil, fmt.Errorf("reading the replica at %s: %w", address, err)
	}
	return &report, nil
}
