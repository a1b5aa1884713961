package options

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestHostileAnswers holds that an API server can neither keep a command busy or fill its memory, nor send it to another server.
func TestHostileAnswers(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	slow := func(w http.ResponseWriter, r *http.Request) {
		for range 10 {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	redirect := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/collect", code) }
	}
	const timeout = 300 * time.Millisecond
	for name, c := range map[string]struct {
		path string
		// times is the number of requests, the last of which has the result; 0 for one.
		times   int
		answers http.HandlerFunc
		want    string
	}{
		"an answer":              {answers: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }},
		"an answer at the limit": {answers: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1000)) }},
		"one byte more":          {answers: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1001)) }, want: "the answer of the API server has more than 1000 bytes"},
		"a huge error": {answers: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, strings.Repeat("x", 5000))
		}, want: "the answer of the API server has more than 1000 bytes"},
		"an answer that is too slow":     {answers: slow, want: "context deadline exceeded"},
		"a watch may be slow":            {path: "/vms?watch=true", answers: slow},
		"a watch may be long":            {path: "/vms?watch=1", answers: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 5000)) }},
		"a redirect":                     {answers: redirect(http.StatusFound), want: errRedirect.Error()},
		"a permanent redirect":           {answers: redirect(http.StatusPermanentRedirect), want: errRedirect.Error()},
		"a redirect that keeps the verb": {answers: redirect(http.StatusTemporaryRedirect), want: errRedirect.Error()},
		"a redirect of a watch":          {path: "/vms?watch=true", answers: redirect(http.StatusMovedPermanently), want: errRedirect.Error()},
		"a list of three more pages":     {path: "/vms?continue=token", times: 3, answers: func(http.ResponseWriter, *http.Request) {}},
		"a list without end":             {path: "/vms?continue=token", times: 4, answers: func(http.ResponseWriter, *http.Request) {}, want: "the list has more than 3 pages: the API server does not end it"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answers)
			defer server.Close()
			limits := &answerLimits{bytes: 1000, pages: 3, timeout: timeout, listed: map[string]int{}}
			client := &http.Client{Transport: &boundedTransport{http.DefaultTransport, limits}}
			var err error
			for range max(1, c.times) {
				if err != nil {
					t.Fatal(err)
				}
				err = readAll(t, client, server.URL+c.path)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if elsewhere.Load() > 0 {
				t.Error("the other server got a request")
			}
		})
	}
}

func readAll(t *testing.T, client *http.Client, url string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	return nil
}
