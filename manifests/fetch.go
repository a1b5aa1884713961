package manifests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bounds of reading a URL.
const (
	// fetchTimeout is the time for a whole file, with redirects.
	fetchTimeout = 30 * time.Second
	maxRedirects = 5
)

// IsURL reports whether the name of a file is a URL.
func IsURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// shown returns a URL without the parts that may hold credentials.
func shown(name string) string {
	parsed, err := url.Parse(name)
	if err != nil {
		return "the URL"
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String()
}

// redirects rejects redirects to other schemes than http and https, and from https to http.
func redirects(next *http.Request, before []*http.Request) error {
	switch last := before[len(before)-1].URL.Scheme; {
	case next.URL.Scheme != "https" && (next.URL.Scheme != "http" || last == "https"):
		return fmt.Errorf("is redirected from %s to %s", last, next.URL.Scheme)
	case len(before) > maxRedirects:
		return fmt.Errorf("is redirected more than %d times", maxRedirects)
	}
	return nil
}

// fetch opens a file on a web server.
func fetch(ctx context.Context, name string) (io.ReadCloser, error) {
	client := &http.Client{Timeout: fetchTimeout, CheckRedirect: redirects}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
	if err != nil {
		return nil, withoutURL(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the server answers %s", response.Status), response.Body.Close())
	}
	return response.Body, nil
}

// withoutURL returns the cause of an error, whose text has the whole URL.
func withoutURL(err error) error {
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// Fetch reads a file on a web server, up to MaxFile bytes.
func Fetch(ctx context.Context, name string) ([]byte, error) {
	body, err := fetch(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown(name), err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, MaxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", shown(name), withoutURL(err))
	case len(data) > MaxFile:
		return nil, fmt.Errorf("%s: must be no larger than %d MiB", shown(name), MaxFile>>20)
	}
	return data, nil
}
