package glance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imageimport"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/texts"
)

// The import methods of Glance that are used.
const (
	glanceDirect = "glance-direct"
	webDownload  = "web-download"
)

// Bounds of an answer of Glance, and of a text in it.
const (
	maxAnswer = 1 << 20
	maxText   = 256
)

// Client calls Glance. Create it with NewClient or Open.
type Client struct {
	// connect returns the service, rejected ends it.
	connect  func(context.Context) (*connection, error)
	rejected func(ctx context.Context, connected *connection, fault error)
}

// NewClient returns a client that makes its calls with a service of the type image. It bounds the answers of the service.
func NewClient(service *gophercloud.ServiceClient) *Client {
	provider := service.ProviderClient
	inner := provider.HTTPClient.Transport
	if inner == nil {
		inner = http.DefaultTransport
	}
	provider.HTTPClient.Transport = bounded{inner}
	provider.HTTPClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	unknown := place{missing: "no endpoint is known"}
	connected := &connection{ServiceClient: service, compute: unknown, volumes: unknown}
	return &Client{
		connect:  func(context.Context) (*connection, error) { return connected, nil },
		rejected: func(context.Context, *connection, error) {},
	}
}

// Open returns a client that logs in with its first call. A login that fails is an error of the call, and is not repeated
// before a pause. Tokens are renewed.
func Open(login Login) *Client {
	if login.Now == nil {
		login.Now = time.Now
	}
	s := &session{Login: login, gate: make(chan struct{}, 1), state: &breaker{now: login.Now}}
	return &Client{connect: s.get, rejected: s.rejected}
}

// with makes a call.
func (c *Client) with(ctx context.Context, call func(*gophercloud.ServiceClient) error) error {
	connected, err := c.connect(ctx)
	if err != nil {
		return err
	}
	err = call(connected.ServiceClient)
	if fault := tokenError(err); fault != nil {
		c.rejected(ctx, connected, fault)
		return fault
	}
	if errors.Is(err, errPaused) {
		return unreachable(errPaused.Error())
	}
	return err
}

// unbounded is a key of the context of a request whose answer has no bound, and is not kept in memory.
type unbounded struct{}

// limit is a key of the context of a request whose answer has another bound than maxAnswer, in bytes.
type limit struct{}

// bounded ends answers that are too long.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if request.Context().Value(unbounded{}) != nil {
		return response, nil
	}
	bytes, ok := request.Context().Value(limit{}).(int64)
	if !ok {
		bytes = maxAnswer
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, bytes), response.Body}
	return response, nil
}

// statusOf is the status that Glance answered instead of the expected one; 0 for every other error, and without one.
func statusOf(err error) int {
	var unexpected gophercloud.ErrUnexpectedResponseCode
	var answered *statusError
	switch {
	case errors.As(err, &unexpected):
		return unexpected.Actual
	case errors.As(err, &answered):
		return answered.status
	}
	return 0
}

// message is what Glance says about an error, in one bounded line.
func message(err error) string {
	var unexpected gophercloud.ErrUnexpectedResponseCode
	var text string
	switch status := statusOf(err); {
	case errors.As(err, &unexpected):
		text = plain(unexpected.Body)
		if text == "" {
			text = (&statusError{status: status}).Error()
		}
	case status != 0:
		text = (&statusError{status: status}).Error()
	case errors.Is(err, context.DeadlineExceeded):
		text = "it does not answer in time"
	default:
		text = "the connection failed"
	}
	return texts.Shorten(texts.OneLine(text), maxText)
}

// plain is the explanation in the answer of Glance: JSON with HTML in it, or HTML.
func plain(body []byte) string {
	body = body[:min(len(body), 4<<10)]
	var object struct {
		Message string `json:"message"`
	}
	text := ""
	if json.Unmarshal(body, &object) == nil {
		text = object.Message
	} else if _, after, found := strings.Cut(string(body), "</h1>"); found {
		text = after
	}
	for _, mark := range []string{"<br />", "<br/>", "</body>", "</html>"} {
		text = strings.ReplaceAll(text, mark, " ")
	}
	return strings.Join(strings.Fields(text), " ")
}

func (c *Client) get(ctx context.Context, id string) (*remote, error) {
	found := &remote{}
	return found, c.with(ctx, func(service *gophercloud.ServiceClient) error {
		return images.Get(ctx, service, id).ExtractInto(found)
	})
}

func (c *Client) create(ctx context.Context, image *backend.Image, visibility Visibility, protected bool) error {
	level := images.ImageVisibility(visibility)
	opts := images.CreateOpts{
		Name: image.Name, ID: image.ID, Visibility: &level, Protected: &protected,
		ContainerFormat: string(image.Spec.ContainerFormat), DiskFormat: string(image.Spec.Format),
		Properties: map[string]string{PropertyOwner: image.Stamp(), "virtward_namespace": image.Namespace},
	}
	if opts.ContainerFormat == "" {
		opts.ContainerFormat = "bare"
	}
	if image.Spec.MinDisk != nil {
		opts.MinDisk = int(*image.Spec.MinDisk)
	}
	if image.Spec.MinRAM != nil {
		opts.MinRAM = int(*image.Spec.MinRAM)
	}
	return c.with(ctx, func(service *gophercloud.ServiceClient) error { return images.Create(ctx, service, opts).Err })
}

func (c *Client) unprotect(ctx context.Context, id string) error {
	return c.with(ctx, func(service *gophercloud.ServiceClient) error {
		return images.Update(ctx, service, id, images.UpdateOpts{images.ReplaceImageProtected{NewProtected: false}}).Err
	})
}

func (c *Client) delete(ctx context.Context, id string) error {
	return c.with(ctx, func(service *gophercloud.ServiceClient) error { return images.Delete(ctx, service, id).Err })
}

// methods are the import methods that Glance has.
func (c *Client) methods(ctx context.Context) (map[string]bool, error) {
	methods := map[string]bool{}
	err := c.with(ctx, func(service *gophercloud.ServiceClient) error {
		info, err := imageimport.Get(ctx, service).Extract()
		if err != nil {
			return err
		}
		for _, name := range info.ImportMethods.Value {
			methods[name] = true
		}
		return nil
	})
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	return methods, err
}

func (c *Client) importInto(ctx context.Context, id, method, url string) error {
	return c.with(ctx, func(service *gophercloud.ServiceClient) error {
		return imageimport.Create(ctx, service, id, importRequest{method: method, url: url}).Err
	})
}

// importRequest has a URL only for web-download. gophercloud's own has an empty one for the others, which Glance rejects.
type importRequest struct{ method, url string }

// ToImportCreateMap implements imageimport.CreateOptsBuilder.
func (r importRequest) ToImportCreateMap() (map[string]any, error) {
	method := map[string]any{"name": r.method}
	if r.url != "" {
		method["uri"] = r.url
	}
	return map[string]any{"method": method}, nil
}

// lastJob is the last task of an image; nil if there is none, or if this version of Glance does not list them.
func (c *Client) lastJob(ctx context.Context, id string) (*job, error) {
	var list struct {
		Tasks []job `json:"tasks"`
	}
	err := c.with(ctx, func(service *gophercloud.ServiceClient) error {
		_, err := service.Get(ctx, service.ServiceURL("images", id, "tasks"), &list, nil) //nolint:bodyclose // gophercloud closes it after it has decoded it
		return err
	})
	switch status := statusOf(err); {
	case status == http.StatusNotFound, status == http.StatusForbidden:
		return nil, nil
	case err != nil:
		return nil, err
	case len(list.Tasks) == 0:
		return nil, nil
	}
	last := slices.MaxFunc(list.Tasks, func(a, b job) int { return strings.Compare(a.Created, b.Created) })
	return &last, nil
}

// renew gets a token for a call that cannot be repeated.
func (c *Client) renew(ctx context.Context) error {
	return c.with(ctx, func(service *gophercloud.ServiceClient) error {
		provider := service.ProviderClient
		if provider.ReauthFunc == nil {
			return nil
		}
		if err := provider.Reauthenticate(ctx, provider.Token()); err != nil {
			return &gophercloud.ErrUnableToReauthenticate{ErrReauth: err}
		}
		return nil
	})
}

// stage sends a file. The request is made without gophercloud, which would send the rest of a body again after it has renewed
// the token. It has no length: an incomplete file has an incomplete body, which Glance rejects.
func (c *Client) stage(ctx context.Context, id string, body io.ReadCloser) error {
	service, err := c.connect(ctx)
	if err != nil {
		return errors.Join(err, body.Close())
	}
	request, err := authenticated(ctx, service.ServiceClient, http.MethodPut, service.ServiceURL("images", id, "stage"), body)
	if err != nil {
		return errors.Join(err, body.Close())
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	request.ContentLength = -1
	response, err := service.HTTPClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return &statusError{status: response.StatusCode}
	}
	return nil
}

// authenticated is a request with the token of a service.
func authenticated(ctx context.Context, service *gophercloud.ServiceClient, method, url string, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	for name, value := range service.AuthenticatedHeaders() {
		request.Header.Set(name, value)
	}
	for name, value := range service.MoreHeaders {
		request.Header.Set(name, value)
	}
	return request, nil
}

// statusError is an answer to a call that is made without gophercloud.
type statusError struct{ status int }

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("it answers %d %s", e.status, http.StatusText(e.status))
}
