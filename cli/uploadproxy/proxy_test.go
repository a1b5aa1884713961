package uploadproxy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/virtward/virtward/cli/uploadproxy"
	"github.com/virtward/virtward/test/simulators/uploads"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	volume = "team/fedora-0b6c7c0e"
	post   = "POST /v1beta1/upload-async"
)

// opened is a file of four MiB.
func opened(t *testing.T) (*uploadproxy.File, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk.raw")
	must(t, os.WriteFile(name, bytes.Repeat([]byte("\x00disk"), 4<<20/5), 0o600))
	file, err := uploadproxy.Open(name)
	must(t, err)
	t.Cleanup(func() { must(t, file.Close()) })
	sum, err := file.Whole().Sum(sha256.New(), nil)
	must(t, err)
	return file, "sha256:" + sum
}

// proxied is a proxy with a volume, and options for it.
func proxied(t *testing.T) (*uploads.Proxy, *uploadproxy.Options) {
	t.Helper()
	proxy := uploads.New()
	t.Cleanup(proxy.Close)
	proxy.Ready(volume, 1<<30)
	return proxy, &uploadproxy.Options{
		URL: proxy.URL, Authorities: proxy.Authority(), Token: func(context.Context) (string, error) { return proxy.Token(volume), nil },
		Sent: func(int64) {}, Again: func(context.Context, error) error { return nil }, Pause: time.Millisecond,
	}
}

// TestSend: what CDI was not ready for is repeated, and what broke off begins at the start of the file.
func TestSend(t *testing.T) {
	t.Parallel()
	// posts returns a fault for the first requests that send the file.
	posts := func(first int, f uploads.Fault) func(int, *http.Request) uploads.Fault {
		var sent atomic.Int64
		return func(_ int, r *http.Request) uploads.Fault {
			if r.Method == http.MethodPost && sent.Add(1) <= int64(first) {
				return f
			}
			return uploads.Fault{}
		}
	}
	unready := func(first int) func(int, *http.Request) uploads.Fault {
		return func(number int, _ *http.Request) uploads.Fault {
			if number <= first {
				return uploads.Fault{Status: 503, Body: "timed out"}
			}
			return uploads.Fault{}
		}
	}
	for name, test := range map[string]struct {
		script func(int, *http.Request) uploads.Fault
		before func(*uploads.Proxy, *uploadproxy.Options)
		posts  int
		err    string
	}{
		"at once":                   {posts: 1},
		"not ready":                 {script: unready(3), posts: 1},
		"never ready":               {script: unready(1000), err: "the upload proxy answers 503 Service Unavailable"},
		"a connection that drops":   {script: posts(1, uploads.Fault{Drop: 1 << 20}), posts: 2},
		"connections that all drop": {script: posts(1000, uploads.Fault{Drop: 1 << 20}), posts: 4, err: "the connection to the upload proxy failed"},
		"a server that fails":       {script: posts(2, uploads.Fault{Status: 500, Body: "Saving stream failed: no space"}), posts: 3},
		"a server that fails again": {script: posts(1000, uploads.Fault{Status: 500, Body: "Saving stream failed: no space"}), posts: 4, err: "500 Internal Server Error: Saving stream failed: no space"},
		"a file that is rejected":   {script: posts(1, uploads.Fault{Status: 400, Body: "too large\x1b[2J"}), posts: 1, err: "400 Bad Request: too large"},
		"a redirect":                {script: unready(0), before: redirected(t), err: "302 Found"},
		"a version without async":   {before: func(p *uploads.Proxy, _ *uploadproxy.Options) { p.SetOld(true) }},
		"tokens that ended":         {before: func(p *uploads.Proxy, _ *uploadproxy.Options) { p.SetLifetime(-time.Minute) }, err: "401 Unauthorized"},
		"one token that ended": {before: func(p *uploads.Proxy, o *uploadproxy.Options) {
			fresh, first := o.Token, true
			o.Token = func(ctx context.Context) (string, error) {
				if first {
					first = false
					return "ended", nil
				}
				return fresh(ctx)
			}
		}, posts: 1},
		"a token that is denied": {before: func(_ *uploads.Proxy, o *uploadproxy.Options) {
			o.Token = func(context.Context) (string, error) { return "", errors.New("you may not") }
		}, err: "you may not"},
		"a proxy that takes nothing": {script: posts(1, uploads.Fault{Stall: 2 * time.Second}), before: func(_ *uploads.Proxy, o *uploadproxy.Options) {
			o.Stall = 300 * time.Millisecond
		}, posts: 2},
		"an image that is complete": {script: unready(1000), before: func(_ *uploads.Proxy, o *uploadproxy.Options) {
			o.Again = func(context.Context, error) error { return errors.New("it is complete") }
		}, err: "it is complete"},
		"a URL without a scheme": {before: func(_ *uploads.Proxy, o *uploadproxy.Options) {
			o.URL = strings.TrimPrefix(o.URL, "https://") + "/" // the scheme is known
		}, posts: 1},
		"a certificate of others": {before: func(_ *uploads.Proxy, o *uploadproxy.Options) { o.Authorities = nil }, err: "cannot be verified: give its authority with --uploadproxy-ca"},
		"any certificate":         {before: func(_ *uploads.Proxy, o *uploadproxy.Options) { o.Authorities, o.Insecure = nil, true }, posts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, options := proxied(t)
			proxy.Follow(test.script)
			if test.before != nil {
				test.before(proxy, options)
			}
			file, want := opened(t)
			client, err := uploadproxy.New(*options)
			must(t, err)
			got, err := client.Send(t.Context(), file.Whole())
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.ContainsRune(err.Error(), '\x1b') || proxy.Received(volume) != nil {
					t.Errorf("%v, want %s", err, test.err)
				}
			} else if received := proxy.Received(volume); err != nil || got != want || received == nil || received.Checksum != want || received.Bytes != file.Size {
				t.Errorf("%s, %v, %+v, want %s", got, err, received, want)
			}
			sent := 0
			for _, request := range proxy.Requests() {
				if request == post {
					sent++
				}
			}
			if sent != test.posts {
				t.Errorf("the file was sent %d times, want %d", sent, test.posts)
			}
		})
	}
}

// redirected makes a proxy that redirects to another server, which must not get the token.
func redirected(t *testing.T) func(*uploads.Proxy, *uploadproxy.Options) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server gets %s", r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	server := httptest.NewTLSServer(http.RedirectHandler(other.URL, http.StatusFound))
	t.Cleanup(server.Close)
	return func(_ *uploads.Proxy, o *uploadproxy.Options) { o.URL, o.Insecure = server.URL, true }
}

// TestProgress: each attempt begins at zero, and ends with the size.
func TestProgress(t *testing.T) {
	_, options := proxied(t)
	file, _ := opened(t)
	last := int64(0)
	options.Sent = func(bytes int64) {
		if bytes <= last {
			t.Errorf("%d after %d", bytes, last)
		}
		last = bytes
	}
	client, err := uploadproxy.New(*options)
	must(t, err)
	_, err = client.Send(t.Context(), file.Whole())
	must(t, err)
	if last != file.Size {
		t.Errorf("%d of %d", last, file.Size)
	}
}

// TestChanges: CDI never completes a file that another program writes meanwhile.
func TestChanges(t *testing.T) {
	for name, change := range map[string]func(*testing.T, string){
		"longer":  func(t *testing.T, name string) { must(t, os.Truncate(name, 5<<20)) },
		"shorter": func(t *testing.T, name string) { must(t, os.Truncate(name, 3<<20)) },
		"written": func(t *testing.T, name string) { must(t, os.Chtimes(name, time.Time{}, time.Unix(1, 0))) },
	} {
		t.Run(name, func(t *testing.T) {
			proxy, options := proxied(t)
			file, _ := opened(t)
			changed := false
			options.Sent = func(int64) {
				if !changed {
					changed = true
					change(t, file.Name())
				}
			}
			client, err := uploadproxy.New(*options)
			must(t, err)
			if _, err = client.Send(t.Context(), file.Whole()); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
				t.Error(err)
			}
			if received := proxy.Received(volume); received != nil {
				t.Errorf("%+v", received)
			}
		})
	}
}

// TestInterrupted: the user ends an upload, and the next one sends the whole file.
func TestInterrupted(t *testing.T) {
	proxy, options := proxied(t)
	file, want := opened(t)
	ctx, interrupt := context.WithCancel(t.Context())
	options.Sent = func(bytes int64) {
		if bytes > 1<<20 {
			interrupt()
		}
	}
	client, err := uploadproxy.New(*options)
	must(t, err)
	if _, err := client.Send(ctx, file.Whole()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if proxy.Received(volume) != nil {
		t.Error("a part is complete")
	}
	if got, err := client.Send(t.Context(), file.Whole()); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := client.Send(t.Context(), file.Whole()); !uploadproxy.Done(err) {
		t.Errorf("once more: %v", err)
	}
}

func TestNew(t *testing.T) {
	for url, want := range map[string]string{
		"http://cdi.example.com":             "has no TLS",
		"ftp://cdi.example.com":              "must be such as https://cdi-uploadproxy.example.com",
		"https://":                           "must be such as https://cdi-uploadproxy.example.com",
		"https://me:secret@cdi.example.com/": "must be such as",
	} {
		if _, err := uploadproxy.New(uploadproxy.Options{URL: url}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
	if _, err := uploadproxy.New(uploadproxy.Options{URL: "cdi.example.com", Authorities: []byte("x")}); err == nil || !strings.Contains(err.Error(), "not PEM") {
		t.Error(err)
	}
	if _, err := uploadproxy.New(uploadproxy.Options{URL: "http://cdi.example.com", Insecure: true}); err != nil {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	if _, err := uploadproxy.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Error(err)
	}
	if _, err := uploadproxy.Open(filepath.Join(t.TempDir(), "absent")); !os.IsNotExist(err) {
		t.Error(err)
	}
	file, _ := opened(t)
	head, tail, err := file.Ends(10, 5<<20)
	must(t, err)
	if !bytes.Equal(head, []byte("\x00disk\x00disk")) || int64(len(tail)) != file.Size || hex.EncodeToString(tail[:1]) != "00" {
		t.Errorf("%q, %d", head, len(tail))
	}
}

// TestPart: sections of a file are sent one behind the other, again after a break, and not at all once the file has changed.
func TestPart(t *testing.T) {
	t.Parallel()
	whole, _ := opened(t)
	content, err := os.ReadFile(whole.Name())
	must(t, err)
	part := uploadproxy.Join(uploadproxy.Section{File: whole, Offset: 1 << 20, Size: 1<<20 + 7}, uploadproxy.Section{File: whole, Offset: 512, Size: 300_000})
	sum := sha256.Sum256(append(bytes.Clone(content[1<<20:2<<20+7]), content[512:512+300_000]...))
	want := "sha256:" + hex.EncodeToString(sum[:])
	proxy, options := proxied(t)
	posts := breaksOnce(proxy)
	c, err := uploadproxy.New(*options)
	must(t, err)
	got, err := c.Send(t.Context(), part)
	if received := proxy.Received(volume); err != nil || got != want || received == nil || received.Checksum != want || received.Bytes != part.Size || posts.Load() != 2 {
		t.Errorf("%s, %v; received %+v in %d requests, want %s", got, err, received, posts.Load(), want)
	}
	must(t, os.Truncate(whole.Name(), 3<<20))
	proxy, options = proxied(t)
	c, err = uploadproxy.New(*options)
	must(t, err)
	if _, err := c.Send(t.Context(), part); err == nil || !strings.Contains(err.Error(), "changed while it was read") || proxy.Received(volume) != nil {
		t.Errorf("a file that changed: %v, %+v", err, proxy.Received(volume))
	}
}

// breaksOnce makes a proxy break the first request with a file after 1 MiB. It returns the number of these requests.
func breaksOnce(proxy *uploads.Proxy) *atomic.Int64 {
	var posts atomic.Int64
	proxy.Follow(func(_ int, r *http.Request) uploads.Fault {
		if r.Method == http.MethodPost && posts.Add(1) == 1 {
			return uploads.Fault{Drop: 1 << 20}
		}
		return uploads.Fault{}
	})
	return &posts
}

// TestDecoded: what is decoded is sent from its begin after a break, and its end only if it was decoded without an error.
func TestDecoded(t *testing.T) {
	t.Parallel()
	whole, _ := opened(t)
	var reads atomic.Int64
	decode := func(end error) func(io.Reader) io.Reader {
		return func(from io.Reader) io.Reader {
			reads.Add(1)
			return io.MultiReader(strings.NewReader("head"), from, iotest.ErrReader(end))
		}
	}
	content, err := os.ReadFile(whole.Name())
	must(t, err)
	want := fmt.Sprintf("sha256:%x", sha256.Sum256(append([]byte("head"), content...)))
	proxy, options := proxied(t)
	breaksOnce(proxy)
	c, err := uploadproxy.New(*options)
	must(t, err)
	got, err := c.Send(t.Context(), whole.Whole().Decoded(whole.Size+4, decode(io.EOF)))
	if received := proxy.Received(volume); err != nil || got != want || received == nil || received.Checksum != want || reads.Load() != 2 {
		t.Errorf("%s, %v; received %+v in %d requests, want %s", got, err, received, reads.Load(), want)
	}
	for says, wrong := range map[string]*uploadproxy.Content{
		"the digest differs": whole.Whole().Decoded(whole.Size+4, decode(errors.New("the digest differs"))),
		"has more bytes":     whole.Whole().Decoded(whole.Size+3, decode(io.EOF)),
		"unexpected EOF":     whole.Whole().Decoded(whole.Size+5, decode(io.EOF)),
	} {
		proxy, options = proxied(t)
		c, err = uploadproxy.New(*options)
		must(t, err)
		if _, err := c.Send(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), says) || proxy.Received(volume) != nil {
			t.Errorf("%s: %v, %+v", says, err, proxy.Received(volume))
		}
	}
}
