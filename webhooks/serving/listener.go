package serving

import (
	"container/list"
	"context"
	"net"
	"sync"
	"sync/atomic"
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
	// ended receives a value when a request has ended, for one that waits for a place.
	ended chan struct{}
	turns turns
}

func newListener(inner net.Listener, name string, limits Limits, metrics *Metrics) *listener {
	return &listener{
		Listener: inner, name: name, limits: limits, metrics: metrics, now: time.Now,
		unproven: list.New(), proven: map[*conn]struct{}{}, ended: make(chan struct{}, 1), turns: newTurns(),
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
	// receiving tells that the body of its request has not been received completely.
	receiving bool
	// turn tells that its handshake has one of the turns.
	turn atomic.Bool
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
// idle for longest. If all have requests, it waits a moment for one to end, and then closes the one that has been sending its
// body for longest. It returns false if there is none, and the caller closes this connection.
func (c *conn) begin(ctx context.Context) bool {
	l := c.owner
	if c.enter(false) {
		return true
	}
	c.slow.Stop() // its path is valid
	patience := time.NewTimer(placeTimeout)
	defer patience.Stop()
	for {
		select {
		case <-l.ended:
			if c.enter(false) {
				return true
			}
		case <-time.After(settleTime):
			if c.enter(false) {
				return true
			}
		case <-patience.C:
			if c.enter(true) {
				return true
			}
			l.metrics.rejected.WithLabelValues(l.name, reasonFull).Inc()
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// enter gives a connection a place among the proven ones, if there is one or if one can be closed. force also closes one that
// is sending a body.
func (c *conn) enter(force bool) bool {
	l := c.owner
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.place != nil {
		if len(l.proven) >= l.limits.Connections {
			settled := l.now().Add(-settleTime)
			victim := l.longest(func(other *conn) bool { return other.active == 0 && other.used.Before(settled) })
			if victim == nil && force {
				victim = l.longest(func(other *conn) bool { return other.receiving })
			}
			if victim == nil {
				return false
			}
			delete(l.proven, victim)
			_ = victim.Conn.Close() // it has no request, or a slow one
		}
		l.forget(c.place)
		l.proven[c] = struct{}{}
		l.count()
	}
	c.active++
	c.used, c.receiving = l.now(), true
	return true
}

// longest returns the proven connection of a kind whose request began or ended first; nil if there is none.
func (l *listener) longest(kind func(*conn) bool) *conn {
	var found *conn
	for c := range l.proven {
		if kind(c) && (found == nil || c.used.Before(found.used)) {
			found = c
		}
	}
	return found
}

func (c *conn) received() {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.receiving = false
}

func (c *conn) end() {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.active--
	c.used, c.receiving = c.owner.now(), false
	select {
	case c.owner.ended <- struct{}{}:
	default:
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.endTurn()
	l := c.owner
	l.mu.Lock()
	if c.place != nil {
		l.forget(c.place)
	}
	delete(l.proven, c)
	l.count()
	l.mu.Unlock()
	select {
	case l.ended <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}
