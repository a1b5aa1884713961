package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// listen serves a webhook over HTTPS until the input ends.
func listen(engine Engine, at *Listen, in io.Reader) error {
	pair, err := tls.X509KeyPair(at.Certificate, at.Key)
	if err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	server := &http.Server{
		Addr: at.Address, ReadHeaderTimeout: time.Minute, Handler: handler(engine.(Webhook)), //nolint:forcetypeassert // serve has asserted it
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- errors.Join(err, server.Shutdown(context.Background()))
	}()
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

func handler(webhook Webhook) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			body, err = webhook.Review(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // the API server reports a request that was cut off
	}
}
