package templateexport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/exportserver/exports"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/ovf/transfer"
)

// Prober reads the statuses of pods.
type Prober interface {
	// Status reads the status of a pod. The link has the name and the certificate of its server.
	Status(ctx context.Context, pod *corev1.Pod, link *v1beta1.ExportLink) (*exportserver.Status, error)
}

// LiveProber reads the statuses of pods at their addresses.
type LiveProber struct{}

var _ Prober = LiveProber{}

// probes bounds the time of a probe.
const probes = 5 * time.Second

// Status implements Prober. Who controls the pod controls what it says: only its form is certain.
func (LiveProber) Status(ctx context.Context, pod *corev1.Pod, link *v1beta1.ExportLink) (*exportserver.Status, error) {
	at, err := url.Parse(link.URL)
	if err != nil {
		return nil, errors.New("the link in the status is no URL")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(link.Cert)) {
		return nil, errors.New("the link in the status has no certificate")
	}
	address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(servers.Port))
	dialer := &net.Dialer{Timeout: probes}
	transport := &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: probes, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at.Host+"/status", nil)
	if err != nil {
		return nil, fmt.Errorf("asking the server: %w", err)
	}
	request.Header.Set(transfer.TokenHeader, pod.Annotations[exports.AnnotationStatusToken])
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the server: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers with the code %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, transfer.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the status of the server: %w", err)
	}
	return exportserver.ParseStatus(body) //nolint:wrapcheck // it says what is wrong
}
