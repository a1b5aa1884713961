package serving

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/virtward/virtward/test/await"
)

// small has limits that a test can reach.
var small = Limits{Connections: 2, Unproven: 2, ProveWithin: time.Second, HeaderBytes: 4 << 10, WriteWithin: time.Minute}

// server is a running server.
type server struct {
	address string
	metrics *Metrics
	// held counts the requests that wait for their release.
	held *atomic.Int64
}

// serve runs a server until the test ends. The handler of /known answers "known"; that of /held waits for release.
func serve(t *testing.T, limits Limits, secure *tls.Config) (server, chan struct{}) {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	release, held := make(chan struct{}), &atomic.Int64{}
	handlers := map[string]http.Handler{
		"/known": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "known") }),
		"/read":  http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }),
		"/held": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			Received(r.Context())
			held.Add(1)
			<-release
		}),
	}
	made, err := Listen(Options{
		Name: "test", Address: "127.0.0.1:0", TLS: secure, Route: ByPath(handlers), Limits: limits, Metrics: metrics, Log: logr.Discard(), ShutdownTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	await.Run(t, made.Start)
	return server{address: made.Listener.Addr().String(), metrics: metrics, held: held}, release
}

func (s server) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// patience is more than any answer of these tests takes, on a machine that is busy.
const patience = 30 * time.Second

// get sends a request over a connection, and returns the status; 0 if the connection is closed.
func get(t *testing.T, c net.Conn, path string) int {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: test\r\n\r\n", path); err != nil {
		return 0
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// closed waits until the server has closed a connection.
func closed(t *testing.T, c net.Conn) bool {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func (s server) rejected(reason string) float64 {
	return testutil.ToFloat64(s.metrics.rejected.WithLabelValues("test", reason))
}

func TestOldestUnprovenConnectionIsClosed(t *testing.T) {
	limits := small
	limits.ProveWithin = time.Hour
	s, _ := serve(t, limits, nil)
	first, second := s.dial(t), s.dial(t)
	eventually(t, func() bool { return testutil.ToFloat64(s.metrics.open.WithLabelValues("test", "unproven")) == 2 })
	third := s.dial(t)
	if !closed(t, first) {
		t.Error("the oldest connection is still there")
	}
	for _, c := range []net.Conn{second, third} {
		if got := get(t, c, "/known"); got != http.StatusOK {
			t.Errorf("a connection that was kept answers %d", got)
		}
	}
	if got := s.rejected(reasonEvicted); got != 1 {
		t.Errorf("%v were closed for new ones", got)
	}
}

func TestUnprovenConnectionTimesOut(t *testing.T) {
	s, _ := serve(t, small, nil)
	silent, stalled, wrong := s.dial(t), s.dial(t), s.dial(t)
	_, _ = io.WriteString(stalled, "GET /known HTTP/1.1\r\nHost: te")
	if got := get(t, wrong, "/unknown"); got != http.StatusNotFound && got != 0 {
		t.Errorf("a wrong path answers %d", got)
	}
	proven := s.dial(t)
	if got := get(t, proven, "/known"); got != http.StatusOK {
		t.Errorf("a valid path answers %d", got)
	}
	for name, c := range map[string]net.Conn{"silent": silent, "stalled": stalled, "wrong": wrong} {
		if !closed(t, c) {
			t.Errorf("the %s connection is still there", name)
		}
	}
	if got := get(t, proven, "/known"); got != http.StatusOK {
		t.Errorf("a proven connection answers %d later", got)
	}
	if s.rejected(reasonTooSlow)+s.rejected(reasonEvicted) == 0 {
		t.Error("no connection is counted as rejected")
	}
}

func TestIdleProvenConnectionIsClosed(t *testing.T) {
	s, release := serve(t, small, nil)
	defer close(release)
	idle, busy := s.dial(t), s.dial(t)
	if get(t, idle, "/known") != http.StatusOK {
		t.Fatal("no answer")
	}
	if _, err := io.WriteString(busy, "GET /held HTTP/1.1\r\nHost: test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return testutil.ToFloat64(s.metrics.open.WithLabelValues("test", "proven")) == 2 })
	next := s.dial(t)
	if got := get(t, next, "/known"); got != http.StatusOK {
		t.Errorf("the next connection is answered %d", got)
	}
	if !closed(t, idle) {
		t.Error("the idle connection is still there")
	}
	if _, err := io.WriteString(next, "GET /held HTTP/1.1\r\nHost: test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return s.held.Load() == 2 })
	eventually(t, func() bool { // both are in use: there are too many
		return get(t, s.dial(t), "/known") == http.StatusServiceUnavailable && s.rejected(reasonFull) > 0
	})
}

// TestSlowBodiesGiveWay verifies that a connection whose body does not arrive is closed for another request, and that one
// with a request in progress is not.
func TestSlowBodiesGiveWay(t *testing.T) {
	s, release := serve(t, small, nil)
	defer close(release)
	slow, busy := s.dial(t), s.dial(t)
	if _, err := io.WriteString(slow, "GET /read HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\nx"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(busy, "GET /held HTTP/1.1\r\nHost: test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		return testutil.ToFloat64(s.metrics.open.WithLabelValues("test", "proven")) == 2 && s.held.Load() == 1
	})
	if got := get(t, s.dial(t), "/known"); got != http.StatusOK {
		t.Errorf("the next connection is answered %d", got)
	}
	if !closed(t, slow) {
		t.Error("the slow connection is still there")
	}
}

// TestRequestsWaitForAPlace verifies that a request is served when another one ends, although all connections have requests.
func TestRequestsWaitForAPlace(t *testing.T) {
	s, release := serve(t, small, nil)
	for range 2 {
		if _, err := io.WriteString(s.dial(t), "GET /held HTTP/1.1\r\nHost: test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { return s.held.Load() == 2 })
	answered := make(chan int)
	next := s.dial(t)
	go func() { answered <- get(t, next, "/known") }()
	eventually(t, func() bool { return testutil.ToFloat64(s.metrics.open.WithLabelValues("test", "unproven")) == 1 })
	close(release)
	if got := <-answered; got != http.StatusOK {
		t.Errorf("it is answered %d", got)
	}
}

// TestSingleRequests sends many requests at once over one connection, and reads no answer: the server of probes answers one
// of them, and closes the connection.
func TestSingleRequests(t *testing.T) {
	limits := small
	limits.Single = true
	s, _ := serve(t, limits, nil)
	c := s.dial(t)
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, strings.Repeat("GET /known HTTP/1.1\r\nHost: test\r\n\r\n", 100))
	answer, _ := io.ReadAll(c)
	if n := strings.Count(string(answer), "HTTP/1.1 200 OK"); n > 1 || n == 1 && !strings.Contains(string(answer), "Connection: close") {
		t.Errorf("%d requests are answered: %q", n, answer)
	}
	if got := get(t, s.dial(t), "/known"); got != http.StatusOK {
		t.Errorf("the next connection is answered %d", got)
	}
	if config := SideLimits(); !config.Single || config.WriteWithin > 2*time.Second {
		t.Errorf("probes and metrics have the limits %+v", config)
	}
}

// TestProtocols verifies that the webhooks speak HTTP/1.1 only: each request counts as a connection.
func TestProtocols(t *testing.T) {
	for name, limits := range map[string]Limits{"webhook": WebhookLimits(), "deletions": DeletionLimits(), "side": SideLimits()} {
		server := newServer(Options{Limits: limits, Log: logr.Discard()})
		if server.Protocols.HTTP2() || !server.Protocols.HTTP1() || len(limits.protocols()) != 1 || server.WriteTimeout == 0 {
			t.Errorf("%s: %s, %v", name, server.Protocols, limits.protocols())
		}
	}
	if !newServer(Options{Limits: CopyLimits(), Log: logr.Discard()}).Protocols.HTTP2() {
		t.Error("the server of copies speaks no HTTP/2")
	}
}

func TestLargeHeadersAreRejected(t *testing.T) {
	s, _ := serve(t, small, nil)
	c := s.dial(t)
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "GET /known HTTP/1.1\r\nHost: test\r\nX: %s\r\n\r\n", strings.Repeat("x", 16<<10))
	answer, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") {
		t.Errorf("answer %q", answer)
	}
}

// A wrong path is answered before the body, which never ends, is read.
func TestWrongPathIsAnsweredBeforeTheBody(t *testing.T) {
	s, _ := serve(t, small, nil)
	c := s.dial(t)
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "POST /mutate/wrong HTTP/1.1\r\nHost: test\r\nContent-Length: 7000000\r\n\r\n")
	answer, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 404 ") || !strings.Contains(string(answer), "Connection: close") {
		t.Errorf("answer %q", answer)
	}
	if got := testutil.ToFloat64(s.metrics.wrong.WithLabelValues("test")); got != 1 {
		t.Errorf("%v wrong paths are counted", got)
	}
}

func TestByToken(t *testing.T) {
	tokens := &Tokens{}
	handler := http.NotFoundHandler()
	route := ByToken(tokens, map[string]http.Handler{"/mutate": handler})
	valid := func(method, path string) bool {
		request, err := http.NewRequestWithContext(t.Context(), method, "https://test"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return route(request) != nil
	}
	if valid(http.MethodPost, "/mutate") || valid(http.MethodPost, "/mutate/") {
		t.Error("a path is valid before there is a token")
	}
	got := map[string]bool{}
	tokens.Set("new", "old")
	for _, path := range []string{
		"/mutate/new", "/mutate/old", "/mutate", "/mutate/", "/mutate/ne", "/mutate/neww", "/mutate/new/", "/validate/new", "/", "/new", "//mutate/new", "/mutate/new/new", "/mutate//new", "/mutate/../mutate/new",
	} {
		if valid(http.MethodPost, path) {
			got[path] = true
		}
	}
	if diff := cmp.Diff(map[string]bool{"/mutate/new": true, "/mutate/old": true}, got); diff != "" {
		t.Errorf("valid paths (-want +got):\n%s", diff)
	}
	if valid(http.MethodGet, "/mutate/new") {
		t.Error("GET is served")
	}
	tokens.Set("new", "")
	if !valid(http.MethodPost, "/mutate") || valid(http.MethodPost, "/mutate/") || valid(http.MethodPost, "/mutate/old") {
		t.Error("the empty token is valid for a path with a slash")
	}
}

// TestClients verifies that only clients with a certificate of the CA and an accepted name get a response.
func TestClients(t *testing.T) {
	trusted, others := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, trusted.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := NewClients(file, []string{"api-server"}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	serving := trusted.issue(t, "localhost", x509.ExtKeyUsageServerAuth)
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{serving}}
	clients.Configure(config)
	s, _ := serve(t, small, config)
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		want         bool
	}{
		"no certificate":           {nil, false},
		"another CA":               {[]tls.Certificate{others.issue(t, "api-server", x509.ExtKeyUsageClientAuth)}, false},
		"another name":             {[]tls.Certificate{trusted.issue(t, "mallory", x509.ExtKeyUsageClientAuth)}, false},
		"a certificate of servers": {[]tls.Certificate{trusted.issue(t, "api-server", x509.ExtKeyUsageServerAuth)}, false},
		"the API server":           {[]tls.Certificate{trusted.issue(t, "api-server", x509.ExtKeyUsageClientAuth)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			roots := x509.NewCertPool()
			roots.AddCert(trusted.certificate)
			transport := &http.Transport{ForceAttemptHTTP2: true, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: c.certificates, MinVersion: tls.VersionTLS12}}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.address+"/known", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := (&http.Client{Transport: transport, Timeout: patience}).Do(request)
			if err == nil {
				_ = response.Body.Close()
			}
			if (err == nil) != c.want {
				t.Errorf("error %v", err)
			}
			if err == nil && response.ProtoMajor != 1 {
				t.Errorf("it speaks %s", response.Proto)
			}
		})
	}
	if _, err := NewClients(filepath.Join(t.TempDir(), "none"), nil, logr.Discard()); err == nil {
		t.Error("a file that does not exist is no error")
	}
}

// A new CA of clients is used.
func TestClientsReadTheirFileAgain(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first.pem)
	clients, err := NewClients(file, nil, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	before := clients.pool.Load()
	write([]byte("garbage"))
	if err := clients.load(); err == nil || clients.pool.Load() != before {
		t.Errorf("garbage is in use, or no error: %v", err)
	}
	write(second.pem)
	if err := clients.load(); err != nil || clients.pool.Load() == before {
		t.Errorf("the new CA is not in use: %v", err)
	}
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatal("the condition does not hold")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a authority) issue(t *testing.T, name string, usage x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{usage}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestDrain verifies that a client loses no request of a server that ends: an answer closes the connection before.
func TestDrain(t *testing.T) {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	drain := &Drain{}
	made, err := Listen(Options{
		Name: "test", Address: "127.0.0.1:0", Limits: small, Metrics: metrics, Log: logr.Discard(), Drain: drain, ShutdownTimeout: time.Second,
		Route: ByPath(map[string]http.Handler{"/known": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}),
	})
	if err != nil {
		t.Fatal(err)
	}
	await.Run(t, made.Start)
	s := server{address: made.Listener.Addr().String()}
	c := s.dial(t)
	for range 2 {
		if got := get(t, c, "/known"); got != http.StatusOK {
			t.Fatalf("a request is answered %d", got)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- drain.Run(ctx) }()
	end()
	for !drain.begun.Load() {
		time.Sleep(time.Millisecond)
	}
	if got := get(t, c, "/known"); got != http.StatusOK || !closed(t, c) {
		t.Errorf("a request of a server that ends is answered %d, and the connection is kept", got)
	}
	if got := get(t, s.dial(t), "/known"); got != http.StatusOK {
		t.Errorf("a new connection is answered %d", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The API server's transport closes an idle connection before the server does.
func TestIdleTimeout(t *testing.T) {
	client := utilnet.SetTransportDefaults(&http.Transport{}).IdleConnTimeout
	if server := newServer(Options{}).IdleTimeout; server < client+5*time.Second {
		t.Errorf("the server closes idle connections after %s, and the API server after %s", server, client)
	}
}
