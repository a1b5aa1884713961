package apiserver

import (
	"net"
	"sync"
	"time"
)

const (
	// maxConnections bounds the open connections. Kube-apiserver needs a few, which carry all requests.
	maxConnections = 256
	// maxStreams bounds the requests in progress on one connection.
	maxStreams = 250
	// connectionMemory is the memory of a connection: TLS, the buffers of net/http, the tables of HPACK, stacks and unread
	// bodies. requestMemory is the memory of a request in progress without its body: stacks, headers and a chunk.
	connectionMemory = 176 << 10
	requestMemory    = 36 << 10
	// MaxConnections bounds the memory of connections and of requests in progress without their bodies, in bytes.
	MaxConnections = maxConnections*connectionMemory + 2*mostInFlight*requestMemory
)

// listener bounds the open connections. A new one closes the one that has been silent for longest.
type listener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[*connection]time.Time // when it last read something
}

// bound bounds the connections of a listener.
func bound(inner net.Listener, most int) net.Listener {
	return &listener{Listener: inner, most: most, open: map[*connection]time.Time{}}
}

// connection notes when its client last sent something.
type connection struct {
	net.Conn
	owner *listener
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: inner, owner: l}
	l.mu.Lock()
	var silent *connection
	if len(l.open) >= l.most {
		for other, read := range l.open {
			if silent == nil || read.Before(l.open[silent]) {
				silent = other
			}
		}
		delete(l.open, silent)
	}
	l.open[c] = time.Now()
	l.mu.Unlock()
	if silent != nil {
		_ = silent.Conn.Close() // there is no use for the error
	}
	return c, nil
}

// Read implements net.Conn.
func (c *connection) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if n > 0 {
		c.owner.mu.Lock()
		if _, found := c.owner.open[c]; found {
			c.owner.open[c] = time.Now()
		}
		c.owner.mu.Unlock()
	}
	return n, err
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
