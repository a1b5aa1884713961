package clitest

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Forwarding is an API server that serves objects by their paths, and forwards the ports of all pods to an address.
type Forwarding struct {
	*httptest.Server

	// Answer answers a request before the objects do, if it returns true.
	Answer func(http.ResponseWriter, *http.Request) bool
	// Objects are by their paths. Change them while no request is in progress.
	Objects map[string]any

	mu          sync.Mutex
	forwards    int
	forwarded   string
	connections []net.Conn
}

// NewForwarding starts a server.
func NewForwarding(t testing.TB, address string) *Forwarding {
	t.Helper()
	f := &Forwarding{Objects: map[string]any{}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/portforward") {
			f.forward(w, r, address)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if f.Answer != nil && f.Answer(w, r) {
			return
		}
		object, found := f.Objects[r.URL.Path]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			object = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound, "message": "not found"}
		}
		_ = json.NewEncoder(w).Encode(object) // the client is gone if this fails
	}))
	t.Cleanup(func() {
		f.Break()
		f.Close()
	})
	return f
}

// forward serves the subresource with SPDY, as a kubelet does.
func (f *Forwarding) forward(w http.ResponseWriter, r *http.Request, address string) {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "this server has SPDY only", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardV1Name}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	connection := spdy.NewResponseUpgrader().UpgradeResponse(&hijacked{w, f}, r, func(stream httpstream.Stream, replied <-chan struct{}) error {
		f.mu.Lock()
		f.forwarded = r.URL.Path + " " + stream.Headers().Get(corev1.PortHeader)
		f.mu.Unlock()
		go func() {
			<-replied
			if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
				carry(stream, address)
			}
			_ = stream.Close() // it has ended
		}()
		return nil
	})
	if connection == nil {
		return
	}
	f.mu.Lock()
	f.forwards++
	f.mu.Unlock()
	<-connection.CloseChan()
}

// hijacked notes the connection that is upgraded.
type hijacked struct {
	http.ResponseWriter

	server *Forwarding
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.server.connections = append(h.server.connections, conn)
	return conn, buffered, err //nolint:wrapcheck // of the server
}

// carry carries bytes between a stream and an address, until the address ends it.
func carry(stream httpstream.Stream, address string) {
	conn, err := net.Dial("tcp", address) //nolint:noctx // it is on this machine
	if err != nil {
		return
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream)         // the other direction ends
		_ = conn.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // of TCP
	}()
	_, _ = io.Copy(stream, conn) // as above
}

// Break ends all forwarded connections.
func (f *Forwarding) Break() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.connections {
		_ = c.Close() // it may have ended
	}
	f.connections = nil
}

// Forwards is the number of connections.
func (f *Forwarding) Forwards() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forwards
}

// Forwarded is the path and the port of the last stream.
func (f *Forwarding) Forwarded() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forwarded
}
