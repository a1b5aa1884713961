package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// clientInterval is the interval at which the file of the clients' CA is read.
const clientInterval = 10 * time.Second

// Clients verifies the certificates of clients, which proves that a call comes from an API server.
type Clients struct {
	file  string
	names []string
	pool  atomic.Pointer[x509.CertPool]
	last  []byte
	log   logr.Logger
}

// NewClients reads the clients' CA from a PEM file. names are the accepted common names; none accepts all certificates of
// the CA.
func NewClients(file string, names []string, log logr.Logger) (*Clients, error) {
	c := &Clients{file: file, names: names, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Clients) load() error {
	content, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("reading the CA of clients: %w", err)
	}
	if slices.Equal(content, c.last) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return fmt.Errorf("reading the CA of clients: %s has no certificate", c.file)
	}
	c.pool.Store(pool)
	c.last = content
	return nil
}

// Run reads the file regularly until the context ends.
func (c *Clients) Run(ctx context.Context) error {
	ticker := time.NewTicker(clientInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := c.load(); err != nil {
				c.log.Error(err, "the CA of clients cannot be read; the previous one stays in use")
			}
		}
	}
}

// Configure requires a certificate from every client, signed by the CA that is current when the handshake begins.
func (c *Clients) Configure(config *tls.Config) {
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = c.pool.Load()
	config.VerifyConnection = c.verify
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := base.Clone()
		current.ClientCAs = c.pool.Load()
		return current, nil
	}
}

func (c *Clients) verify(state tls.ConnectionState) error {
	if len(c.names) == 0 || len(state.PeerCertificates) > 0 && slices.Contains(c.names, state.PeerCertificates[0].Subject.CommonName) {
		return nil
	}
	return fmt.Errorf("the client's certificate has none of the accepted common names")
}
