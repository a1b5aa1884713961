package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Options describe a server.
type Options struct {
	// Name of the server in metrics and the log: webhook, health, metrics or policy-counts.
	Name string
	// Address to listen on, such as :9443.
	Address string
	// TLS is nil for a server without encryption.
	TLS *tls.Config
	// Route returns the handler of a request by its path, or nil if there is none. It must not read the body.
	Route   func(*http.Request) http.Handler
	Limits  Limits
	Metrics *Metrics
	Log     logr.Logger
	// Drain is nil for a server that closes its idle connections at once when it shuts down.
	Drain *Drain
	// ShutdownTimeout bounds the time of requests in progress when the server shuts down.
	ShutdownTimeout time.Duration
}

// Drain moves clients to other servers before a server shuts down. A client can send a request into a connection that the
// server closes in the same moment. net/http sends GET again, but not POST: a call of a webhook fails.
type Drain struct{ begun atomic.Bool }

// drainTime is how long connections are closed with an answer. A connection without a request in this time is rarely used.
const drainTime = time.Second

// Run closes each connection with its next answer once the context ends, and returns when the servers can shut down.
func (d *Drain) Run(ctx context.Context) error {
	<-ctx.Done()
	d.begun.Store(true)
	<-time.After(drainTime)
	return nil
}

// Listen opens the port, and returns the server, which a manager runs.
func Listen(o Options) (*manager.Server, error) {
	inner, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listening on the port of %s: %w", o.Name, err)
	}
	bounded := newListener(inner, o.Name, o.Limits, o.Metrics)
	served := &manager.Server{Name: o.Name, Server: newServer(o), Listener: bounded, ShutdownTimeout: &o.ShutdownTimeout}
	if o.TLS != nil {
		served.Listener = bounded.secure(o.TLS)
	}
	return served, nil
}

// protocols are the names of the protocols for the TLS handshake.
func (l Limits) protocols() []string {
	if l.Streams == 0 {
		return []string{"http/1.1"}
	}
	return []string{"h2", "http/1.1"}
}

func newServer(o Options) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(o.Limits.Streams > 0)
	server := &http.Server{
		Protocols:                    protocols,
		Handler:                      &router{name: o.Name, route: o.Route, metrics: o.Metrics, drain: o.Drain},
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  requestTimeout,
		WriteTimeout:                 o.Limits.WriteWithin,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               o.Limits.HeaderBytes,
		// Any client can cause failing handshakes, so these lines are only for debugging.
		ErrorLog: log.New(lines{o.Log.V(1)}, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, underlying(c))
		},
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          o.Limits.Streams,
			MaxDecoderHeaderTableSize:     tableBytes,
			MaxEncoderHeaderTableSize:     tableBytes,
			MaxReadFrameSize:              frameBytes,
			MaxReceiveBufferPerConnection: receiveBytes,
			MaxReceiveBufferPerStream:     receiveBytes,
			SendPingTimeout:               pingTimeout,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              requestTimeout,
		},
	}
	server.SetKeepAlivesEnabled(!o.Limits.Single)
	return server
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// underlying returns the connection of the listener, with or without TLS.
func underlying(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// router passes requests to their handlers.
type router struct {
	name    string
	route   func(*http.Request) http.Handler
	metrics *Metrics
	drain   *Drain
}

// ServeHTTP answers a wrong path with 404, before the body is read.
func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if r.drain != nil && r.drain.begun.Load() {
		w.Header().Set("Connection", "close")
	}
	handler := r.route(request)
	if handler == nil {
		r.metrics.wrong.WithLabelValues(r.name).Inc()
		reject(w, http.StatusNotFound)
		return
	}
	if c, ok := request.Context().Value(connKey{}).(*conn); ok && c != nil {
		if !c.begin(request.Context()) {
			reject(w, http.StatusServiceUnavailable)
			return
		}
		defer c.end()
	}
	handler.ServeHTTP(w, request)
}

// Received tells that the body of a request was received. Before that, the connection is closed if others need its place.
func Received(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok && c != nil {
		c.received()
	}
}

// reject answers with only a status, and closes the connection: net/http would read the body otherwise.
func reject(w http.ResponseWriter, code int) {
	w.Header().Set("Connection", "close")
	http.Error(w, http.StatusText(code), code)
}

// lines writes the messages of net/http to a log.
type lines struct{ log logr.Logger }

// Write implements io.Writer.
func (l lines) Write(line []byte) (int, error) {
	l.log.Info("connection failed", "reason", string(line))
	return len(line), nil
}
