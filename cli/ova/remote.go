package ova

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/web"
)

// The limits of a web server.
const (
	timeout = 30 * time.Second
	stall   = time.Minute
)

// isURL reports whether an argument is a URL.
func isURL(text string) bool { return strings.Contains(text, "://") }

// checkURL rejects what is not read over HTTPS, or over HTTP where that is permitted.
func (c *choices) checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return options.Usagef("the URL cannot be parsed")
	case u.Scheme != "http" && u.Scheme != "https":
		return options.Usagef("%s: the scheme is not https or http", sources.Redact(text))
	case u.User != nil:
		return options.Usagef("%s: the URL contains credentials, which are not supported", sources.Redact(text))
	case u.Scheme == "http" && !c.http:
		return options.Usagef("%s: the connection has no TLS, so the file can be changed on its way: use https, or --allow-http", sources.Redact(text))
	}
	return nil
}

// remote is a package on a web server.
type remote struct {
	ctx    context.Context //nolint:containedctx // the files of a descriptor are opened by a function without one
	client *web.Client
	base   *url.URL
	// opened are the files beside a descriptor by their names; nil for one that does not exist.
	opened map[string]*web.Ranged
}

// readURL inspects a package on a web server: only what an inspection needs is requested.
func (c *choices) readURL(ctx context.Context, text string) (*appliance.Appliance, error) {
	if err := c.checkURL(text); err != nil {
		return nil, err
	}
	base, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	// The user names the server, with the user's own rights: no address is forbidden.
	all := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	client, err := web.New(web.Options{Sources: &sources.Sources{Networks: all}, Timeout: timeout, Stall: stall, Proxy: http.ProxyFromEnvironment})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	r := &remote{ctx: ctx, client: client, base: base, opened: map[string]*web.Ranged{}}
	data, err := client.Open(ctx, text)
	if err != nil {
		return nil, explained(sources.Redact(text), err)
	}
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	o.HeadersOnly = !c.verifies
	o.Remote = true
	o.Sibling = r.sibling
	found, err := appliance.Inspect(path.Base(base.Path), data, o)
	return found, explained(sources.Redact(text), err)
}

// readArtifact inspects an OVA that is a layer of an artifact of a registry: only what an inspection needs is requested.
func (c *choices) readArtifact(ctx context.Context, text string) (*appliance.Appliance, error) {
	name, data, err := c.registry.OVA(ctx, text)
	if err != nil {
		return nil, err
	}
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	o.HeadersOnly, o.Remote = !c.verifies, true
	return appliance.Inspect(name, data, o)
}

// sibling opens a file beside the descriptor.
func (r *remote) sibling(name string) (appliance.Data, error) {
	data, known := r.opened[name]
	if !known {
		u := *r.base
		u.Path, u.RawPath, u.RawQuery, u.Fragment = path.Join(path.Dir(r.base.Path), name), "", "", ""
		var err error
		data, err = r.client.Open(r.ctx, u.String())
		if err != nil && !web.HasReason(err, web.ReasonNotFound) {
			return nil, explained(sources.Redact(u.String()), err)
		}
		r.opened[name] = data
	}
	if data == nil {
		return nil, nil
	}
	return data, nil
}

// explained is an error of a server with what to do.
func explained(url string, err error) error {
	var known *web.Error
	if !errors.As(err, &known) {
		return err
	}
	message := known.Message
	switch known.Reason {
	case web.ReasonNoRanges:
		message += ": download the file first"
	case web.ReasonUnauthorized:
		message, _, _ = strings.Cut(message, ":")
	case web.ReasonCertificate:
		message = "the certificate of the server is not valid"
	case web.ReasonUnreachable:
		message = "the server cannot be reached"
	}
	return fmt.Errorf("%s: %s", url, message)
}
