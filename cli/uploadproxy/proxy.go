package uploadproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/virtward/virtward/texts"
)

// The paths of the proxy. With the first one, CDI answers once it has the file; with the second one, once it has converted it.
const (
	asynchronous = "/v1beta1/upload-async"
	synchronous  = "/v1beta1/upload"
)

// Bounds of an upload.
const (
	// maxRequests is the number of requests in a row that CDI was not ready for, maxSent that of requests that sent the file,
	// maxTokens that of tokens that were not accepted.
	maxRequests, maxSent, maxTokens = 30, 4, 2
	// maxAnswer bounds what is read of an answer, maxText a text in an error.
	maxAnswer, maxText = 4 << 10, 256
)

// Options configure an upload. Their zero values are those of New.
type Options struct {
	// URL is that of the proxy. Its scheme is https, or http with Insecure.
	URL string
	// Authorities are certificates in PEM that sign that of the proxy, besides those of the machine.
	Authorities []byte
	// Insecure accepts every certificate, and http.
	Insecure bool
	// Token requests a token for one upload.
	Token func(ctx context.Context) (string, error)
	// Sent is called with the number of bytes that were sent.
	Sent func(bytes int64)
	// Again is called before a request is repeated, with the reason. Its error ends the upload.
	Again func(ctx context.Context, reason error) error
	// Stall bounds the time in which the proxy takes nothing; 0 for 5 minutes. Pause is the time before a repetition; 0 for a
	// second. It doubles up to 15 times that while CDI is not ready.
	Stall, Pause time.Duration
}

// Client sends files to a proxy. Create it with New.
type Client struct {
	Options

	http *http.Client
	base *url.URL
}

// New returns a client. It makes no request.
func New(options Options) (*Client, error) {
	if !strings.Contains(options.URL, "://") {
		options.URL = "https://" + options.URL
	}
	base, err := url.Parse(options.URL)
	switch {
	case err != nil, base.Host == "", base.User != nil, base.Scheme != "https" && base.Scheme != "http":
		return nil, fmt.Errorf("the URL of the upload proxy must be such as https://cdi-uploadproxy.example.com, not %q", texts.Shorten(options.URL, maxText))
	case base.Scheme == "http" && !options.Insecure:
		return nil, errors.New("the URL of the upload proxy has no TLS, so the network can read the token and the file: use https, or --insecure")
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if len(options.Authorities) > 0 && !roots.AppendCertsFromPEM(options.Authorities) {
		return nil, errors.New("the certificates of the upload proxy's authorities are not PEM")
	}
	if options.Stall == 0 {
		options.Stall = 5 * time.Minute
	}
	if options.Pause == 0 {
		options.Pause = time.Second
	}
	// Connections are kept: Go's servers end one of which they read no more at once if it is not kept, and the answer is lost.
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 30 * time.Second, WriteBufferSize: 64 << 10, IdleConnTimeout: time.Minute,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: options.Insecure}, //nolint:gosec // the user asks for it with --insecure
	}
	return &Client{Options: options, base: base, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this server
	}}, nil
}

// Reach connects to the proxy, without a token. It returns an error if its name or its certificate is wrong, and none if it does
// not answer: Send tries that again.
func (c *Client) Reach(ctx context.Context) error {
	t := &try{Client: c}
	_, err := t.find(ctx)
	if f := (*failure)(nil); errors.As(err, &f) {
		return nil
	}
	return err
}

// Send uploads what files have, and returns its checksum. It repeats requests that CDI was not ready for, and those that broke off, from
// the start.
func (c *Client) Send(ctx context.Context, content *Content) (checksum string, err error) {
	defer c.http.CloseIdleConnections()
	t := &try{Client: c, content: content}
	for {
		checksum, err = t.once(ctx)
		if err == nil || !t.repeats(err) {
			return checksum, err
		}
		if ctx.Err() == nil {
			if ended := c.Again(ctx, err); ended != nil {
				return "", ended
			}
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(t.pause):
		}
	}
}

// try is one upload with its repetitions.
type try struct {
	*Client

	content *Content
	token   string
	path    string
	// pause is the time before the next repetition.
	pause time.Duration
	// unready, sent and rejected count requests that failed: before the file was sent, afterwards, and because of the token.
	unready, sent, rejected int
}

// failure is an answer that is not a success, or a request without an answer.
type failure struct {
	// status is 0 without an answer.
	status int
	// sent tells that bytes of the file were sent.
	sent bool
	text string
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// once finds the path that the proxy has, and sends the file.
func (t *try) once(ctx context.Context) (string, error) {
	if t.token == "" {
		token, err := t.Token(ctx)
		if err != nil {
			return "", err
		}
		t.token = token
	}
	if t.path == "" {
		path, err := t.find(ctx)
		if err != nil {
			return "", err
		}
		t.path = path
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := newBody(t.content, t.Stall, func() error { return context.Cause(ctx) }, func() { cancel(errStalled) }, t.Sent)
	defer from.stalled.Stop()
	response, err := t.request(ctx, http.MethodPost, t.path, from)
	switch {
	case from.failed() != nil:
		if err == nil {
			_ = response.Body.Close() // the error above is the reason
		}
		return "", from.failed()
	case err != nil:
		return "", t.broken(ctx, err, from.offset.Load() > 0)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusOK && from.complete():
		return from.checksum(), nil
	case response.StatusCode == http.StatusOK:
		return "", &failure{sent: true, text: "the proxy answered before it had the whole file"}
	}
	return "", answered(response, from.offset.Load() > 0)
}

// errStalled is the cause of a request that makes no progress.
var errStalled = errors.New("the proxy does not take the file")

// find returns the path of this version of CDI.
func (t *try) find(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the proxy does not answer"))
	defer cancel()
	response, err := t.request(ctx, http.MethodHead, asynchronous, nil)
	if err != nil {
		return "", t.broken(ctx, err, false)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return asynchronous, nil
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return synchronous, nil
	}
	return "", answered(response, false)
}

func (t *try) request(ctx context.Context, method, path string, from *body) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, t.base.JoinPath(path).String(), nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the URL
	}
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	if from != nil {
		request.Body, request.ContentLength = from, t.content.Size
		request.Header.Set("Content-Type", "application/octet-stream")
	}
	return t.http.Do(request) //nolint:wrapcheck // the caller names it
}

// broken is the error of a request without an answer. Only a failure can be repeated.
func (t *try) broken(ctx context.Context, err error, sent bool) error {
	var unverified *tls.CertificateVerificationError
	var unknown *net.DNSError
	switch cause := context.Cause(ctx); {
	case errors.Is(err, context.Canceled) && cause != nil && !errors.Is(cause, context.Canceled), errors.Is(err, context.DeadlineExceeded) && cause != nil:
		return &failure{sent: sent, text: cause.Error()}
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &unverified):
		return fmt.Errorf("the certificate of the upload proxy %s cannot be verified: give its authority with --uploadproxy-ca: %w", t.base.Host, unverified.Err)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return fmt.Errorf("the host of the upload proxy %s does not exist: give the right one with --uploadproxy-url", t.base.Host)
	}
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return &failure{sent: sent, text: texts.Shorten(texts.OneLine("the connection to the upload proxy failed: "+err.Error()), maxText)}
}

// answered is the error of an answer.
func answered(response *http.Response, sent bool) error {
	data, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // the status is enough
	text := fmt.Sprintf("the upload proxy answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	if said := strings.TrimSpace(texts.OneLine(string(data))); said != "" {
		text += ": " + said
	}
	return &failure{status: response.StatusCode, sent: sent, text: texts.Shorten(text, maxText)}
}

// repeats reports whether a request can be repeated, and prepares that.
func (t *try) repeats(err error) bool {
	var f *failure
	if !errors.As(err, &f) {
		return false
	}
	t.pause = t.Pause
	switch {
	case f.status == http.StatusUnauthorized:
		t.rejected++
		t.token = ""
		return t.rejected <= maxTokens
	case f.status == http.StatusServiceUnavailable, f.status == http.StatusTooManyRequests, f.status == 0 && !f.sent:
		t.unready++
		t.pause = min(t.Pause<<min(t.unready-1, 4), 15*t.Pause)
		return t.unready <= maxRequests
	case f.status == 0, f.status >= http.StatusInternalServerError:
		t.sent++
		t.token = "" // it ends a few minutes after its creation
		return t.sent < maxSent
	}
	return false
}

// Done reports whether CDI rejected an upload because it has the file already.
func Done(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.status == http.StatusConflict
}
