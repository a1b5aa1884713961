package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/virtward/virtward/sources"
)

// Limits of a source.
const (
	// MaxRedirects bounds the redirects of a request.
	MaxRedirects = 5
	// BufferSize is the size of the buffer of a stream.
	BufferSize = 256 << 10
	// maxHeader bounds the headers of an answer.
	maxHeader = 64 << 10

	defaultConnections = 2
)

// Options are those of a source.
type Options struct {
	// Sources are the places that may be connected to.
	Sources *sources.Sources
	// Authorities are certificates in PEM; empty for those of the system.
	Authorities []byte
	// User and Password are for the server of the URL. They are not sent to another one.
	User, Password string
	// Headers are sent to the server of the URL, and to no other one: a token for example.
	Headers map[string]string
	// Insecure tells that certificates are not verified.
	Insecure bool
	// Address is connected to in place of that of the host of a URL, whose certificate is expected as ever; empty for the one of DNS. It
	// needs permission too.
	Address string
	// Timeout bounds each connection and the wait for each answer, Stall the time without a byte.
	Timeout, Stall time.Duration
	// Connections bounds the connections to each host; 2 if it is 0.
	Connections int
	// Pause is the first one before a request is sent again; a second if it is 0.
	Pause time.Duration
	// HTTP1 does without HTTP/2, which keeps megabytes for each stream whose reader is slow.
	HTTP1 bool
	// Resolver resolves names; nil for that of the system.
	Resolver *net.Resolver
	// Proxy returns the proxy of a request, or nil for none, such as http.ProxyFromEnvironment. A proxy resolves the names, so it decides
	// which addresses are connected to. The addresses of other requests are checked as ever. Without a function, there is no proxy.
	Proxy func(*http.Request) (*url.URL, error)
}

// Client reads files from web servers. Create it with New, and close it.
type Client struct {
	Options

	http *http.Client
}

// New returns a client.
func New(options Options) (*Client, error) {
	transport, err := Transport(&options)
	if err != nil {
		return nil, err
	}
	c := &Client{Options: options}
	c.Pause = cmp.Or(c.Pause, firstPause)
	c.http = &http.Client{Transport: transport, CheckRedirect: c.follow}
	return c, nil
}

// Transport returns a transport that connects to permitted addresses only. Close its idle connections in the end.
func Transport(o *Options) (*http.Transport, error) {
	proxy := &proxy{choose: o.Proxy, through: &net.Dialer{Timeout: o.Timeout}, direct: &net.Dialer{Timeout: o.Timeout, ControlContext: o.permit, Resolver: o.Resolver}}
	if o.Address != "" {
		proxy.choose, proxy.address = nil, o.Address
	}
	transport := &http.Transport{
		Proxy: proxy.of, DialContext: proxy.dial, DisableCompression: true, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: o.Timeout, ResponseHeaderTimeout: o.Timeout, IdleConnTimeout: o.Timeout, MaxConnsPerHost: cmp.Or(o.Connections, defaultConnections),
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure}, //nolint:gosec // an admin names such servers
	}
	if o.HTTP1 {
		transport.ForceAttemptHTTP2, transport.Protocols = false, &http.Protocols{}
		transport.Protocols.SetHTTP1(true)
	}
	if len(o.Authorities) > 0 {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(o.Authorities) {
			return nil, &Error{Reason: ReasonInvalidAuthority, Message: "the ConfigMap has no certificate in PEM"}
		}
	}
	return transport, nil
}

// proxy sends requests to proxies, whose addresses are not checked.
type proxy struct {
	choose          func(*http.Request) (*url.URL, error)
	through, direct *net.Dialer
	// known has the addresses of the proxies that choose has returned.
	known sync.Map
	// address replaces all others, unless it is empty.
	address string
}

// of returns the proxy of a request.
func (p *proxy) of(request *http.Request) (*url.URL, error) {
	if p.choose == nil {
		return nil, nil //nolint:nilnil // as net/http documents
	}
	chosen, err := p.choose(request)
	if err == nil && chosen != nil {
		port := chosen.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[chosen.Scheme]
		}
		p.known.Store(net.JoinHostPort(chosen.Hostname(), port), true)
	}
	return chosen, err
}

func (p *proxy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if _, known := p.known.Load(address); known {
		return p.through.DialContext(ctx, network, address) //nolint:wrapcheck // callers look for the errors of net
	}
	return p.direct.DialContext(ctx, network, cmp.Or(p.address, address)) //nolint:wrapcheck // callers look for the errors of net
}

// Close closes the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// permit checks an address after DNS and before the connection.
func (o *Options) permit(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return sources.ErrAddress
	}
	return o.Sources.CheckAddress(to.Addr())
}

// follow checks a redirect.
func (c *Client) follow(request *http.Request, via []*http.Request) error {
	if len(via) > MaxRedirects {
		return &Error{Reason: ReasonRedirects, Message: fmt.Sprintf("the server redirects more than %d times", MaxRedirects)}
	}
	last := via[len(via)-1]
	if last.URL.Scheme == "https" && request.URL.Scheme != "https" {
		return &Error{Reason: ReasonRedirects, Message: "the server redirects from https to http"}
	}
	if request.URL.Host != via[0].URL.Host || request.URL.Scheme != via[0].URL.Scheme {
		request.Header.Del("Authorization")
		for name := range c.Headers {
			request.Header.Del(name)
		}
	}
	request.Header.Del("Referer")
	return c.checkURL(request.URL.String())
}

func (c *Client) checkURL(text string) error {
	if err := c.Sources.CheckURL(text); err != nil {
		return &Error{Reason: ReasonNotPermitted, Message: err.Error(), Permanent: true}
	}
	return nil
}

// get requests a part of a file: all bytes from an offset, or length of them. The validator is that of an earlier answer.
func (c *Client) get(ctx context.Context, url string, offset, length int64, validator string) (*http.Response, error) {
	if err := c.checkURL(url); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, &Error{Reason: ReasonNotPermitted, Message: "the URL cannot be parsed", Permanent: true}
	}
	request.Header.Set("User-Agent", "virtward")
	request.Header.Set("Accept-Encoding", "identity")
	if c.User != "" || c.Password != "" {
		request.SetBasicAuth(c.User, c.Password)
	}
	for name, value := range c.Headers {
		request.Header.Set(name, value)
	}
	if part := rangeOf(offset, length); part != "" {
		request.Header.Set("Range", part)
	}
	if validator != "" {
		request.Header.Set("If-Range", validator)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, Described(ctx, err, c.Sources)
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
		_ = response.Body.Close()
		return nil, Answered(response.StatusCode)
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		_ = response.Body.Close()
		return nil, &Error{Reason: ReasonServerError, Message: "the server encodes the file although the request does not permit it"}
	}
	return response, nil
}

func rangeOf(offset, length int64) string {
	switch {
	case length > 0:
		return fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)
	case offset > 0:
		return fmt.Sprintf("bytes=%d-", offset)
	}
	return ""
}

// File is what a server says about a file.
type File struct {
	URL string
	// Size in bytes; -1 if the server does not state it.
	Size int64
	// Validator identifies this version of the file: a strong ETag, or the time of its last change; empty without any.
	Validator string
	// Ranges tells that the server sends parts of the file.
	Ranges bool
	// Head and Tail are the first and the last bytes. Without ranges there is no tail.
	Head, Tail []byte
}

// Probe reads the size and the first bytes of a file. Tail also reads the last ones.
func (c *Client) Probe(ctx context.Context, url string, tail bool) (*File, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*c.Timeout)
	defer cancel()
	response, err := c.get(ctx, url, 0, sources.HeadBytes, "")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	f := &File{URL: url, Validator: validatorOf(response)}
	f.Ranges, f.Size = response.StatusCode == http.StatusPartialContent, response.ContentLength
	if f.Ranges {
		start, size, err := contentRange(response)
		if err != nil || start != 0 {
			return nil, &Error{Reason: ReasonServerError, Message: "the server sends another part of the file than the first"}
		}
		f.Size = size
	}
	if f.Head, err = readAll(response.Body, sources.HeadBytes); err != nil {
		return nil, Described(ctx, err, c.Sources)
	}
	if tail && f.Ranges && f.Size > sources.TailBytes {
		f.Tail, err = c.part(ctx, f, f.Size-sources.TailBytes, sources.TailBytes)
	}
	return f, err
}

// part reads a part of a file.
func (c *Client) part(ctx context.Context, f *File, offset, length int64) ([]byte, error) {
	response, err := c.get(ctx, f.URL, offset, length, f.Validator)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if start, _, err := contentRange(response); err != nil || start != offset || !sameVersion(response, f.Validator) {
		return nil, errChanged
	}
	data, err := readAll(response.Body, length)
	if err != nil {
		return nil, Described(ctx, err, c.Sources)
	}
	return data, nil
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, limit))
}

// validatorOf is what an If-Range can have: a weak ETag cannot.
func validatorOf(response *http.Response) string {
	if tag := response.Header.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return response.Header.Get("Last-Modified")
}

var errRange = errors.New("no Content-Range")

// contentRange reads the first byte of a part, and the size of the file; -1 if the server does not know it.
func contentRange(response *http.Response) (start, size int64, err error) {
	if response.StatusCode != http.StatusPartialContent {
		return 0, 0, errRange
	}
	text, ok := strings.CutPrefix(response.Header.Get("Content-Range"), "bytes ")
	part, total, slash := strings.Cut(text, "/")
	first, _, dash := strings.Cut(part, "-")
	if !ok || !slash || !dash {
		return 0, 0, errRange
	}
	if start, err = strconv.ParseInt(first, 10, 64); err != nil || start < 0 {
		return 0, 0, errRange
	}
	if total == "*" {
		return start, -1, nil
	}
	if size, err = strconv.ParseInt(total, 10, 64); err != nil || size < start {
		return 0, 0, errRange
	}
	return start, size, nil
}
