// Package kills ends the connection of a controller at one of its writes, as if the controller were killed there.
package kills

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Err is the answer to every request of a controller that was killed.
var Err = errors.New("killed")

// Connection ends at a write: before it, or after it with its answer lost. Reviews of permissions are no writes.
type Connection struct {
	// Left is the number of writes until the end; a negative number is never.
	Left int
	// Lost makes the last write happen, and its answer get lost.
	Lost bool

	inner  http.RoundTripper
	mu     sync.Mutex
	writes []write
	dead   bool
}

// write is a method and a path, and whether the server rejected it.
type write struct {
	text     string
	rejected bool
}

// Wrap makes the connection use a transport. It is for rest.Config.Wrap.
func (c *Connection) Wrap(inner http.RoundTripper) http.RoundTripper {
	c.inner = inner
	return c
}

// Connect returns a client of an API server with this connection, and the configuration of others. It does not throttle.
func (c *Connection) Connect(t testing.TB, config *rest.Config, scheme *runtime.Scheme) (client.Client, *rest.Config) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(c.Wrap)
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return direct, config
}

// Also makes another connection of the same controller, such as that to a cloud, count its writes and end with this one.
func (c *Connection) Also(inner http.RoundTripper) http.RoundTripper { return also{c, inner} }

type also struct {
	*Connection

	other http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a also) RoundTrip(request *http.Request) (*http.Response, error) {
	return a.pass(request, a.other)
}

// RoundTrip implements http.RoundTripper.
func (c *Connection) RoundTrip(request *http.Request) (*http.Response, error) {
	return c.pass(request, c.inner)
}

func (c *Connection) pass(request *http.Request, inner http.RoundTripper) (*http.Response, error) {
	if request.Method == http.MethodGet || strings.HasSuffix(request.URL.Path, "subjectaccessreviews") {
		if c.Dead() {
			return nil, Err
		}
		return inner.RoundTrip(request)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.Left == 0 {
		c.dead = true
		return nil, Err
	}
	response, err := inner.RoundTrip(request)
	c.Left--
	c.writes = append(c.writes, write{request.Method + " " + request.URL.Path, err == nil && response.StatusCode >= http.StatusBadRequest})
	if c.Left == 0 && c.Lost && err == nil {
		c.dead = true
		return nil, errors.Join(Err, response.Body.Close())
	}
	return response, err
}

// Dead reports whether the connection has ended.
func (c *Connection) Dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// Writes are the methods and paths of the writes, in their order.
func (c *Connection) Writes() []string {
	return c.texts(func(write) bool { return true })
}

// Accepted are those of Writes that the server did not reject, such as for a conflict.
func (c *Connection) Accepted() []string {
	return c.texts(func(w write) bool { return !w.rejected })
}

func (c *Connection) texts(wanted func(write) bool) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var texts []string
	for _, w := range c.writes {
		if wanted(w) {
			texts = append(texts, w.text)
		}
	}
	return texts
}
