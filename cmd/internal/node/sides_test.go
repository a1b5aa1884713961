package node

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/webhooks/serving"
)

// TestSides holds that the probes and the metrics are served until a function ends.
func TestSides(t *testing.T) {
	connections, err := serving.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	s := &Sides{health: address(t), metrics: address(t)}
	var unready atomic.Bool
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		done <- s.Run(t.Context(), logr.Discard(), connections, func() error {
			if unready.Load() {
				return errors.New("the node is gone")
			}
			return nil
		}, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
			case <-stop:
			}
			return nil
		})
	}()
	for path, want := range map[string]string{s.health + "/healthz": "200 ok", s.health + "/readyz": "200 ok", s.metrics + "/metrics": "200 # HELP"} {
		if got := get(t, path); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	unready.Store(true)
	if got := get(t, s.health+"/readyz"); got != "500 the node is gone\n" {
		t.Errorf("%q", got)
	}
	if got := get(t, s.health+"/healthz"); got != "200 ok" {
		t.Errorf("%q", got)
	}
	close(stop)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the servers still run")
	}
}

// address is a free address.
func address(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// get waits for the server, and returns the code and the body.
func get(t *testing.T, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return response.Status[:3] + " " + string(body)
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
