package serving

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// listener bounds the connections of a server.
type listener struct {
	net.Listener
	name    string
	limits  Limits
	metrics *Metrics
	now     func() time.Time

	mu       sync.Mutex
	unproven *list.List // of *conn, the oldest first
	proven   map[*conn]struct{}
}

func newListener(inner net.Listener, name string, limits Limits, metrics *Metrics) *listener {
	return &listener{
		Listener: inner, name: name, limits: limits, metrics: metrics, now: time.Now,
		unproven: list.New(), proven: map[*conn]struct{}{},
	}
}

// conn is a connection and its state.
type conn struct {
	net.Conn
	owner *listener
	slow  *time.Timer

	// place is its element in the list of unproven connections; nil once it is proven or closed.
	place *list.Element
	// active counts its requests in progress; used is when the last one began or ended.
	active int
	used   time.Time
}

// Accept returns the next connection. It closes the oldest unproven one if there are too many.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, owner: l}
	l.mu.Lock()
	var oldest *conn
	if l.unproven.Len() >= l.limits.Unproven {
		oldest = l.forget(l.unproven.Front())
	}
	c.place = l.unproven.PushBack(c)
	c.slow = time.AfterFunc(l.limits.ProveWithin, c.tooSlow)
	l.count()
	l.mu.Unlock()
	if oldest != nil {
		l.reject(oldest, reasonEvicted)
	}
	return c, nil
}

// forget removes an unproven connection from the list.
func (l *listener) forget(place *list.Element) *conn {
	c, _ := l.unproven.Remove(place).(*conn)
	c.place = nil
	c.slow.Stop()
	return c
}

func (l *listener) reject(c *conn, reason string) {
	l.metrics.rejected.WithLabelValues(l.name, reason).Inc()
	_ = c.Conn.Close() // there is no use for the error
}

// count updates the gauge. The caller holds the lock.
func (l *listener) count() {
	l.metrics.open.WithLabelValues(l.name, "unproven").Set(float64(l.unproven.Len()))
	l.metrics.open.WithLabelValues(l.name, "proven").Set(float64(len(l.proven)))
}

func (c *conn) tooSlow() {
	l := c.owner
	l.mu.Lock()
	late := c.place != nil
	if late {
		l.forget(c.place)
		l.count()
	}
	l.mu.Unlock()
	if late {
		l.reject(c, reasonTooSlow)
	}
}

// begin counts a request for a valid path. If there are too many proven connections, it closes the one that has been
// idle for longest. If all have requests, it returns false, and the caller closes this connection.
func (c *conn) begin() bool {
	l := c.owner
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.place != nil {
		if len(l.proven) >= l.limits.Connections {
			idle := l.longestIdle()
			if idle == nil {
				l.metrics.rejected.WithLabelValues(l.name, reasonFull).Inc()
				return false
			}
			delete(l.proven, idle)
			_ = idle.Conn.Close() // it has no request
		}
		l.forget(c.place)
		l.proven[c] = struct{}{}
		l.count()
	}
	c.active++
	c.used = l.now()
	return true
}

// longestIdle returns the proven connection that has been idle for longest, or nil if all have requests.
func (l *listener) longestIdle() *conn {
	var found *conn
	for c := range l.proven {
		if c.active == 0 && (found == nil || c.used.Before(found.used)) {
			found = c
		}
	}
	return found
}

func (c *conn) end() {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.active--
	c.used = c.owner.now()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	l := c.owner
	l.mu.Lock()
	if c.place != nil {
		l.forget(c.place)
	}
	delete(l.proven, c)
	l.count()
	l.mu.Unlock()
	return c.Conn.Close()
}
