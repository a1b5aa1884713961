package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// secured returns a configuration of a server that calls a function while a handshake computes, and one of a client.
func secured(t *testing.T, during func()) (server, client *tls.Config) {
	t.Helper()
	ca := newAuthority(t)
	serving := ca.issue(t, "localhost", x509.ExtKeyUsageServerAuth)
	server = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		during()
		return &serving, nil
	}}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	return server, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "localhost"}
}

func TestFewHandshakesAtOnce(t *testing.T) {
	var now, most atomic.Int64
	server, client := secured(t, func() {
		n := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
	})
	limits := WebhookLimits()
	limits.ProveWithin = patience
	s, _ := serve(t, limits, server)
	places := int64(runtime.GOMAXPROCS(0))
	var done sync.WaitGroup
	var answered atomic.Int64
	clients := 16 * places
	for range clients {
		c := tls.Client(s.dial(t), client)
		done.Go(func() {
			if get(t, c, "/known") == http.StatusOK {
				answered.Add(1)
			}
		})
	}
	done.Wait()
	if answered.Load() != clients {
		t.Errorf("%d of %d connections were answered", answered.Load(), clients)
	}
	if most.Load() > places {
		t.Errorf("%d handshakes computed at once on %d cores", most.Load(), places)
	}
}

// deaf is the connection of a client that sends its greeting, and reads nothing.
type deaf struct {
	net.Conn
	until context.Context
}

func (d deaf) Read([]byte) (int, error) {
	<-d.until.Done()
	return 0, d.until.Err()
}

func TestSlowHandshakesKeepNoTurn(t *testing.T) {
	var computed atomic.Int64
	server, client := secured(t, func() { computed.Add(1) })
	limits := WebhookLimits()
	limits.ProveWithin = time.Hour
	s, _ := serve(t, limits, server)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow := 2 * int64(runtime.GOMAXPROCS(0))
	for range slow {
		c := tls.Client(deaf{s.dial(t), ctx}, client)
		go func() { _ = c.HandshakeContext(ctx) }()
	}
	eventually(t, func() bool { return computed.Load() == slow })
	if status := get(t, tls.Client(s.dial(t), client), "/known"); status != http.StatusOK {
		t.Errorf("beside slow handshakes the answer has the status %d", status)
	}
}

func TestFailedHandshakesKeepNoTurn(t *testing.T) {
	server, client := secured(t, func() {})
	s, _ := serve(t, WebhookLimits(), server)
	old := client.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS10
	for range 2 * runtime.GOMAXPROCS(0) {
		c := s.dial(t)
		if err := tls.Client(c, old).HandshakeContext(t.Context()); err == nil {
			t.Fatal("the server accepts TLS 1.0")
		}
		if c = s.dial(t); get(t, c, "/known") == http.StatusOK { // without TLS
			t.Fatal("the server answers without TLS")
		}
	}
	if status := get(t, tls.Client(s.dial(t), client), "/known"); status != http.StatusOK {
		t.Errorf("after failed handshakes the answer has the status %d", status)
	}
}
