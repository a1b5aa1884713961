package kills_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/test/kills"
)

// A connection ends at the writes that the server accepts: never at a rejected one, and never at a read or a review.
func TestEnd(t *testing.T) {
	requests := []struct{ method, path string }{
		{http.MethodGet, "/read"},
		{http.MethodPost, "/subjectaccessreviews"},
		{http.MethodPut, "/conflict"},
		{http.MethodPut, "/first"},
		{http.MethodPost, "/conflict"},
		{http.MethodPatch, "/second"},
	}
	for name, c := range map[string]struct {
		connection        *kills.Connection
		arrived, accepted []string
		answered          int
	}{
		"never":                {&kills.Connection{Left: -1}, []string{"PUT /conflict", "PUT /first", "POST /conflict", "PATCH /second"}, []string{"PUT /first", "PATCH /second"}, 6},
		"before the first":     {&kills.Connection{Left: 0}, nil, nil, 2},
		"before the second":    {&kills.Connection{Left: 1}, []string{"PUT /conflict", "PUT /first"}, []string{"PUT /first"}, 4},
		"first answer lost":    {&kills.Connection{Left: 1, Lost: true}, []string{"PUT /conflict", "PUT /first"}, []string{"PUT /first"}, 3},
		"second answer lost":   {&kills.Connection{Left: 2, Lost: true}, []string{"PUT /conflict", "PUT /first", "POST /conflict", "PATCH /second"}, []string{"PUT /first", "PATCH /second"}, 5},
		"after the last write": {&kills.Connection{Left: 2}, []string{"PUT /conflict", "PUT /first", "POST /conflict", "PATCH /second"}, []string{"PUT /first", "PATCH /second"}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			var arrived []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet && r.URL.Path != "/subjectaccessreviews" {
					arrived = append(arrived, r.Method+" "+r.URL.Path)
				}
				if r.URL.Path == "/conflict" {
					w.WriteHeader(http.StatusConflict)
				}
			}))
			defer server.Close()
			connection, written, answered := c.connection, 0, 0
			connection.Written = func() { written++ }
			transport := connection.Wrap(http.DefaultTransport)
			for _, r := range requests {
				request, err := http.NewRequestWithContext(t.Context(), r.method, server.URL+r.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := transport.RoundTrip(request)
				switch {
				case err == nil:
					answered++
					_ = response.Body.Close()
				case !errors.Is(err, kills.Err):
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.arrived, arrived); diff != "" {
				t.Errorf("arrived (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.arrived, connection.Writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.accepted, connection.Accepted()); diff != "" {
				t.Errorf("accepted (-want +got):\n%s", diff)
			}
			if answered != c.answered || written != len(c.accepted) {
				t.Errorf("%d answers, %d reported", answered, written)
			}
		})
	}
}
