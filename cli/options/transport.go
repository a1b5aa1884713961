package options

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

// Bounds of what a command takes from an API server. An API server that keeps to its own limits stays below them.
const (
	// maxAnswer bounds one answer, in bytes.
	maxAnswer = 128 << 20
	// maxPages bounds the pages of a list.
	maxPages = 10_000
	// answerTimeout bounds the time of an answer to a request that is no watch. The API server ends its requests after 60 seconds.
	answerTimeout = 2 * time.Minute
)

// RESTConfig returns the configuration of clients of the cluster that the flags select. The answers are bounded, and no redirect is
// followed: it would send the credentials to another server.
func RESTConfig(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config = rest.CopyConfig(config)
	limits := &answerLimits{bytes: maxAnswer, pages: maxPages, timeout: answerTimeout, listed: map[string]int{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &boundedTransport{next, limits} })
	return config, nil
}

// answerLimits are shared by the clients of a command.
type answerLimits struct {
	bytes   int64
	pages   int
	timeout time.Duration

	mu sync.Mutex
	// listed counts the pages of each list that were continued, by its path.
	listed map[string]int
}

// next counts a page of a list.
func (l *answerLimits) next(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listed[path]++; l.listed[path] > l.pages {
		return fmt.Errorf("the list has more than %d pages: the API server does not end it", l.pages)
	}
	return nil
}

// boundedTransport sends requests to an API server that may be hostile.
type boundedTransport struct {
	next   http.RoundTripper
	limits *answerLimits
}

// errRedirect is the error of an answer that names another address.
var errRedirect = errors.New("the API server redirects to another address, which is not followed: it would get your credentials")

// RoundTrip implements http.RoundTripper.
func (b *boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	query, cancel := request.URL.Query(), context.CancelFunc(func() {})
	watches := query.Get("watch") == "true" || query.Get("watch") == "1"
	if query.Get("continue") != "" {
		if err := b.limits.next(request.URL.Path); err != nil {
			return nil, err
		}
	}
	if !watches {
		var limited context.Context
		limited, cancel = context.WithTimeout(request.Context(), b.limits.timeout)
		request = request.WithContext(limited)
	}
	response, err := b.next.RoundTrip(request)
	if err != nil {
		cancel()
		return nil, err
	}
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		cancel()
		_ = response.Body.Close() // nothing of it is read
		return nil, errRedirect
	}
	left := b.limits.bytes
	if watches { // its decoder bounds each event
		left = -1
	}
	response.Body = &boundedBody{ReadCloser: response.Body, limit: left, left: left, cancel: cancel}
	return response, nil
}

// boundedBody is an answer with at most some bytes; any number if the limit is negative.
type boundedBody struct {
	io.ReadCloser

	limit, left int64
	cancel      context.CancelFunc
}

// Read implements io.Reader.
func (b *boundedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.limit < 0 {
		return n, err
	}
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer of the API server has more than %d bytes", b.limit)
	}
	return n, err
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
