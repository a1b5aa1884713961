// Package kills ends the connection of a controller at one of its writes, as if the controller were killed there. The connection is
// that to an API server, or to a fake one in tests of what no API server decides.
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

// Connection ends after a write, whose answer arrives or is lost. It then has no reads either. Reviews of permissions are no writes. A write that
// the server rejects has no effect, so the connection does not end at it: it can be rejected because another client, such as the
// API server itself, changed the object at the same time.
type Connection struct {
	// Left is the number of accepted writes until the end; a negative number is never. With 0, it ends before the first write.
	Left int
	// Lost makes the last write happen, and its answer get lost.
	Lost bool
	// Written is called after each accepted write, if it is not nil. It must use another connection.
	Written func()

	inner  http.RoundTripper
	mu     sync.Mutex
	writes []write
	dead   bool
}

// write is a method and a path, and whether the server accepted it.
type write struct {
	text     string
	accepted bool
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
	var response *http.Response
	var err error
	executed, answered := c.write(request.Method+" "+request.URL.Path, func() bool {
		response, err = inner.RoundTrip(request) //nolint:bodyclose // it is returned, or closed below
		return err == nil && response.StatusCode < http.StatusBadRequest
	})
	switch {
	case !executed:
		return nil, Err
	case !answered:
		return nil, errors.Join(Err, response.Body.Close())
	}
	return response, err
}

// write executes a write, unless the connection has ended. The function reports whether the server accepted the write.
func (c *Connection) write(text string, do func() (accepted bool)) (executed, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.Left == 0 {
		c.dead = true
		return false, false
	}
	accepted := do()
	c.writes = append(c.writes, write{text, accepted})
	if !accepted {
		return true, true
	}
	c.Left--
	if c.Written != nil {
		c.Written()
	}
	c.dead = c.Left == 0
	return true, !c.dead || !c.Lost
}

// Dead reports whether the connection has ended.
func (c *Connection) Dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// Writes are the methods and paths of all writes, in their order.
func (c *Connection) Writes() []string {
	return c.texts(func(write) bool { return true })
}

// Accepted are those of Writes that the server accepted. The connection can end at each of them.
func (c *Connection) Accepted() []string {
	return c.texts(func(w write) bool { return w.accepted })
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
