package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/virtward/virtward/virtualimages"
	"github.com/virtward/virtward/virtualimages/source"
)

// guard checks the requests of a read: also those of redirects, and those to token servers, which a registry names.
type guard struct {
	http.RoundTripper

	options  *source.Options
	requests atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if g.requests.Add(1) > maxRequests {
		return nil, &source.Error{Reason: source.ReasonRedirects, Message: fmt.Sprintf("the registry needs more than %d requests", maxRequests)}
	}
	if err := g.permit(request); err != nil {
		return nil, err
	}
	request.Header.Del("Referer")
	response, err := g.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // a RoundTripper returns the error of the one it wraps
	}
	response.Body = &bounded{ReadCloser: response.Body, left: MaxBody}
	return response, nil
}

func (g *guard) permit(request *http.Request) error {
	not := func(why string) error {
		return &source.Error{Reason: source.ReasonNotPermitted, Message: why, Permanent: true}
	}
	switch err := g.options.Sources.CheckURL(request.URL.String()); {
	case errors.Is(err, virtualimages.ErrHost):
		return not("the registry, or a server that it names, is not one of " + Values + ".hosts, which an admin sets")
	case err != nil:
		return not(err.Error())
	case request.URL.Scheme != "https" && !g.options.Insecure:
		return not("a server without TLS must be one of the insecureRegistries of CDI")
	case request.Method != http.MethodGet:
		return not("only GET is permitted")
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
		return 0, &source.Error{Reason: ReasonTooLarge, Message: fmt.Sprintf("the answer of the registry has more than %d KiB", MaxBody>>10)}
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err //nolint:wrapcheck // io.EOF is compared
}
