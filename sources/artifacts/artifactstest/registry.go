package artifactstest

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Registry is a registry in this process.
type Registry struct {
	// Host is its address.
	Host string
	// Plain is its address without TLS.
	Plain string
	// Authority is the certificate in PEM of a registry with TLS.
	Authority []byte
	// BreakAfter ends each connection with a blob after so many bytes; zero for never.
	BreakAfter atomic.Int64
	// NoRanges makes it ignore ranges of blobs, DenyRanges deny them.
	NoRanges, DenyRanges atomic.Bool
	// User and Password, if they are set, are required.
	User, Password string

	client *http.Client

	mu sync.Mutex
	// answers replace those of the registry: by a part of the path.
	answers map[string]http.HandlerFunc
	// requests are METHOD PATH [RANGE].
	requests []string
}

// New starts a registry.
func New(t testing.TB) *Registry {
	t.Helper()
	return start(t, httptest.NewServer)
}

// NewTLS starts a registry with TLS.
func NewTLS(t testing.TB) *Registry {
	t.Helper()
	return start(t, httptest.NewTLSServer)
}

func start(t testing.TB, serve func(http.Handler) *httptest.Server) *Registry {
	t.Helper()
	r := &Registry{answers: map[string]http.HandlerFunc{}}
	stored := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	handler := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.note(request)
		if user, password, _ := request.BasicAuth(); r.User != "" && (user != r.User || password != r.Password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you"}]}`, http.StatusUnauthorized)
			return
		}
		if answer := r.answer(request.URL.Path); answer != nil {
			answer(w, request)
			return
		}
		if request.Method == http.MethodGet && blob.MatchString(request.URL.Path) {
			if r.NoRanges.Load() {
				request.Header.Del("Range")
			}
			if r.DenyRanges.Load() && request.Header.Get("Range") != "" {
				http.Error(w, "denied", http.StatusForbidden)
				return
			}
			if left := r.BreakAfter.Load(); left > 0 {
				w = &breaking{w, left}
			}
		}
		stored.ServeHTTP(w, request)
	})
	server, plain := serve(handler), httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(plain.Close)
	r.Host, r.Plain = server.Listener.Addr().String(), plain.Listener.Addr().String()
	r.client = server.Client()
	if c := server.Certificate(); c != nil {
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		r.Authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	return r
}

var blob = regexp.MustCompile(`/blobs/sha256:[0-9a-f]+$`)

// Answer replaces the answers to requests whose path contains a text; nil for those of the registry.
func (r *Registry) Answer(part string, answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[part] = answer
}

func (r *Registry) answer(path string) http.HandlerFunc {
	r.mu.Lock()
	defer r.mu.Unlock()
	for part, answer := range r.answers {
		if strings.Contains(path, part) {
			return answer
		}
	}
	return nil
}

func (r *Registry) note(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, strings.TrimSpace(request.Method+" "+request.URL.Path+" "+request.Header.Get("Range")))
}

// Requests returns the requests since the last call, and forgets them.
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.requests
	r.requests = nil
	return all
}

// breaking ends a connection after some bytes.
type breaking struct {
	http.ResponseWriter

	left int64
}

// Write implements io.Writer.
func (b *breaking) Write(p []byte) (int, error) {
	n, err := b.ResponseWriter.Write(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left <= 0 {
		if flusher, ok := b.ResponseWriter.(http.Flusher); ok {
			flusher.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	return n, err //nolint:wrapcheck // of the connection
}
