package glance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/web"
)

// errNotActive is the error of an image that Glance does not serve.
var errNotActive = errors.New("Glance does not serve the image") //nolint:staticcheck // a name

// Size is the number of bytes of an image that is ready.
func (b *Backend) Size(ctx context.Context, image *backend.Image) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	found, err := b.Client.get(ctx, image.ID)
	if err != nil {
		return 0, fmt.Errorf("reading the image: %w", err)
	}
	if !found.belongs(image) || found.Status != active || found.Size == nil {
		return 0, errNotActive
	}
	return *found.Size, nil
}

// Open reads an image, or a part of it such as bytes=0-99. The status of the answer is 200 or 206. The caller closes the body.
func (b *Backend) Open(ctx context.Context, image *backend.Image, part string) (*http.Response, error) {
	response, err := b.Client.open(ctx, image.ID, part)
	if statusOf(err) == http.StatusUnauthorized { // the token has expired; nothing was sent that cannot be sent again
		if err := b.Client.renew(ctx); err != nil {
			return nil, fmt.Errorf("renewing the token: %w", err)
		}
		response, err = b.Client.open(ctx, image.ID, part)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the data of the image: %w", err)
	}
	return response, nil
}

// File reads the size and the first bytes of an image, and with tail the last ones.
func (b *Backend) File(ctx context.Context, image *backend.Image, tail bool) (*web.File, error) {
	size, err := b.Size(ctx, image)
	if err != nil {
		return nil, err
	}
	f := &web.File{Size: size, Ranges: true}
	if f.Head, err = b.part(ctx, image, 0, min(size, sources.HeadBytes)); err != nil {
		return nil, err
	}
	if tail && size > sources.TailBytes {
		f.Tail, err = b.part(ctx, image, size-sources.TailBytes, sources.TailBytes)
	}
	return f, err
}

func (b *Backend) part(ctx context.Context, image *backend.Image, offset, length int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	response, err := b.Open(ctx, image, fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if offset > 0 && response.StatusCode != http.StatusPartialContent {
		return nil, errNotActive
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, length))
	if err != nil {
		return nil, fmt.Errorf("reading the data of the image: %w", err)
	}
	return data, nil
}

// open requests the data of an image.
func (c *Client) open(ctx context.Context, id, part string) (*http.Response, error) {
	service, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	request, err := authenticated(context.WithValue(ctx, unbounded{}, true), service.ServiceClient, http.MethodGet, service.ServiceURL("images", id, "file"), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity")
	if part != "" {
		request.Header.Set("Range", part)
	}
	response, err := service.HTTPClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
		return nil, errors.Join(&statusError{status: response.StatusCode}, response.Body.Close())
	}
	return response, nil
}
