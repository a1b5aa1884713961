package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/web"
)

// guard checks and bounds the requests of a read.
type guard struct {
	http.RoundTripper

	requests atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if g.requests.Add(1) > maxRequests {
		return nil, &web.Error{Reason: web.ReasonRedirects, Message: fmt.Sprintf("the registry needs more than %d requests", maxRequests)}
	}
	response, err := g.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // a RoundTripper returns the error of the one it wraps
	}
	response.Body = &bounded{ReadCloser: response.Body, left: MaxBody}
	return response, nil
}

// Permitted returns a transport that reads from permitted servers only. It checks each request: also those of redirects, and those to
// token servers, which a registry names. The values are those of the chart with the hosts, which messages name.
func Permitted(direct http.RoundTripper, options *web.Options, values string) http.RoundTripper {
	return &permitted{RoundTripper: direct, options: options, values: values}
}

type permitted struct {
	http.RoundTripper

	options *web.Options
	values  string
	// pinged is the registry that did not answer last with TLS. The library tries private addresses without it then.
	pinged atomic.Pointer[failed]
}

// failed is a host, and why it did not answer.
type failed struct {
	host string
	err  error
}

// ping is the path of the first request to a registry.
const ping = "/v2/"

// RoundTrip implements http.RoundTripper.
func (p *permitted) RoundTrip(request *http.Request) (*http.Response, error) {
	secure := request.URL.Scheme == "https"
	if last := p.pinged.Load(); last != nil && last.host == request.URL.Host && !secure && !p.options.Insecure && request.URL.Path == ping {
		return nil, last.err
	}
	if err := p.permit(request); err != nil {
		return nil, err
	}
	request.Header.Del("Referer")
	response, err := p.RoundTripper.RoundTrip(request)
	if secure && request.URL.Path == ping {
		switch {
		case err != nil:
			p.pinged.Store(&failed{request.URL.Host, err})
		case response.StatusCode != http.StatusOK && response.StatusCode != http.StatusUnauthorized:
			p.pinged.Store(&failed{request.URL.Host, web.Answered(response.StatusCode)})
		}
	}
	return response, err //nolint:wrapcheck // a RoundTripper returns the error of the one it wraps
}

func (p *permitted) permit(request *http.Request) error {
	not := func(why string) error {
		return &web.Error{Reason: web.ReasonNotPermitted, Message: why, Permanent: true}
	}
	switch err := p.options.Sources.CheckURL(request.URL.String()); {
	case errors.Is(err, sources.ErrHost):
		return not("the registry, or a server that it names, is not one of " + p.values + ".hosts, which an admin sets")
	case err != nil:
		return not(err.Error())
	case request.URL.Scheme != "https" && !p.options.Insecure:
		return not("a server without TLS must be one of the insecureRegistries of CDI")
	case request.Method != http.MethodGet && request.Method != http.MethodHead:
		return not("only GET and HEAD are permitted")
	}
	return nil
}

// bounded is a body of which at most left bytes are read.
type bounded struct {
	io.ReadCloser

	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// One more byte shows that the body does not end here.
		if n, err := b.ReadCloser.Read(p[:min(len(p), 1)]); n == 0 {
			return 0, err //nolint:wrapcheck // io.EOF is compared
		}
		return 0, &web.Error{Reason: ReasonTooLarge, Message: fmt.Sprintf("the answer of the registry has more than %d KiB", MaxBody>>10)}
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err //nolint:wrapcheck // io.EOF is compared
}
