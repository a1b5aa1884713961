package glance_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/backendtest"
	"github.com/virtward/virtward/controllers/virtualimages/glance"
	"github.com/virtward/virtward/sources/transfers"
)

// counting counts the requests that can change something.
type counting struct {
	http.RoundTripper

	writes atomic.Int64
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		c.writes.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// behaviors are those of every backend.
func (c *cloud) behaviors(t *testing.T) {
	sources := backendtest.NewSources(t)
	counts := &counting{RoundTripper: http.DefaultTransport.(*http.Transport).Clone()}
	backendtest.Run(t, sources, &backendtest.System{
		Start: func(*testing.T) (backend.Backend, func()) {
			ctx, kill := context.WithCancel(context.Background())
			provider := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: counts}}
			return glance.New(glance.Options{
				Client:  glance.NewClient(&gophercloud.ServiceClient{ProviderClient: provider, Endpoint: c.endpoint, ResourceBase: c.endpoint + "v2/", MoreHeaders: c.headers}),
				Streams: transfers.New[struct{}](ctx, transfers.Limits{Running: 2, Namespace: 2}), Source: sources.Open, Stall: time.Minute,
			}), kill
		},
		Occupy: func(t *testing.T, image *backend.Image) func(*testing.T) {
			status, _ := c.call(t, http.MethodPost, "images", "application/json", fmt.Sprintf(`{"id": %q, "name": "theirs", "disk_format": "raw", "container_format": "bare", "virtward_owner": "other"}`, image.ID))
			if status != http.StatusCreated {
				t.Fatal(status)
			}
			return func(t *testing.T) {
				if status, found := c.call(t, http.MethodGet, "images/"+image.ID, "", ""); status != http.StatusOK || found["status"] != "queued" || found["name"] != "theirs" {
					t.Errorf("%d, %v", status, found)
				}
				c.call(t, http.MethodDelete, "images/"+image.ID, "", "")
			}
		},
		Remove: func(t *testing.T, image *backend.Image) { c.call(t, http.MethodDelete, "images/"+image.ID, "", "") },
		Stored: func(t *testing.T) (n int) {
			_, list := c.call(t, http.MethodGet, "images", "", "")
			images, _ := list["images"].([]any)
			for _, image := range images {
				if owner, _ := image.(map[string]any)["virtward_owner"].(string); strings.HasPrefix(owner, "cluster/") {
					n++
				}
			}
			return n
		},
		Writes: func() int { return int(counts.writes.Load()) },
	})
}
