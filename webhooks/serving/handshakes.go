package serving

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
)

// turns bounds the handshakes that compute at once. Without it, many connections that begin at the same time occupy all cores, and
// the scheduler of Go lets probes and requests wait behind all of them. A turn begins when the client's greeting has arrived,
// and ends when the server has computed its answer, so that no client keeps a turn by being slow.
type turns chan struct{}

// newTurns returns as many turns as there are cores.
func newTurns() turns { return make(turns, runtime.GOMAXPROCS(0)) }

// secure returns a listener that serves TLS with a configuration.
func (l *listener) secure(config *tls.Config) net.Listener {
	config = config.Clone()
	config.NextProtos = l.limits.protocols()
	choose := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if c, ok := hello.Conn.(*conn); ok {
			if err := c.takeTurn(hello.Context()); err != nil {
				return nil, err
			}
		}
		if choose == nil {
			return nil, nil //nolint:nilnil // the configuration of the listener
		}
		return choose(hello)
	}
	return tls.NewListener(l, config)
}

// takeTurn waits for a turn of the connection's handshake.
func (c *conn) takeTurn(ctx context.Context) error {
	select {
	case c.owner.turns <- struct{}{}:
		c.turn.Store(true)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endTurn ends the turn, if the connection has one.
func (c *conn) endTurn() {
	if c.turn.Load() && c.turn.Swap(false) {
		<-c.owner.turns
	}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	c.endTurn()
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	c.endTurn()
	return c.Conn.Write(b)
}
