package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/virtward/virtward/sources"
)

// content is a file of 1 MiB that has no two equal parts.
var content = func() []byte {
	var b bytes.Buffer
	for sum := sha256.Sum256(nil); b.Len() < 1<<20; sum = sha256.Sum256(sum[:]) {
		b.Write(sum[:])
	}
	return b.Bytes()
}()

func checksumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

var loopback = &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}

// patience is more than any server of these tests needs, on a machine that is busy.
const patience = 30 * time.Second

func newClient(t *testing.T, change func(*Options)) *Client {
	t.Helper()
	options := Options{Sources: loopback, Timeout: patience, Stall: patience, Pause: 10 * time.Millisecond}
	if change != nil {
		change(&options)
	}
	c, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fetch probes and reads a file.
func fetch(c *Client, url, checksum string) ([]byte, error) {
	f, err := c.Probe(context.Background(), url, true)
	if err != nil {
		return nil, err
	}
	s, err := c.Stream(context.Background(), f, checksum)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return io.ReadAll(s)
}

func reasonOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

// file serves the content as Go's server does, with ranges.
func file(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"1"`)
	http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(content))
}

// breaking serves the content, and breaks the connection of a stream after some bytes.
type breaking struct {
	streams, breaks atomic.Int64
	after           int
	tag             func(stream int64) string
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Range"), "-") && !strings.HasSuffix(r.Header.Get("Range"), "-") { // a probe
		file(w, r)
		return
	}
	stream := b.streams.Add(1)
	tag := `"1"`
	if b.tag != nil {
		tag = b.tag(stream)
	}
	w.Header().Set("ETag", tag)
	if b.breaks.Add(-1) < 0 {
		http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(content))
		return
	}
	http.ServeContent(&cut{ResponseWriter: w, left: b.after}, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(content))
}

type cut struct {
	http.ResponseWriter

	left int
}

func (c *cut) Write(p []byte) (int, error) {
	if c.left <= 0 {
		panic(http.ErrAbortHandler)
	}
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left <= 0 {
		c.ResponseWriter.(http.Flusher).Flush()
	}
	return n, err //nolint:wrapcheck // it is a writer of a test
}

func TestStream(t *testing.T) {
	c := newClient(t, nil)
	got, err := fetch(c, serve(t, file), checksumOf(content))
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	f, err := c.Probe(t.Context(), serve(t, file), true)
	if err != nil || f.Size != int64(len(content)) || !f.Ranges || f.Validator != `"1"` || !bytes.Equal(f.Head, content[:sources.HeadBytes]) || !bytes.Equal(f.Tail, content[len(content)-sources.TailBytes:]) {
		t.Errorf("size %d, ranges %v, validator %s, head %d, tail %d, %v", f.Size, f.Ranges, f.Validator, len(f.Head), len(f.Tail), err)
	}
	if _, err = fetch(c, serve(t, file), checksumOf(nil)); reasonOf(err) != ReasonChecksumMismatch {
		t.Error(err)
	}
}

func TestResumption(t *testing.T) {
	b := &breaking{after: 400 << 10}
	b.breaks.Store(2)
	got, err := fetch(newClient(t, nil), serve(t, b.ServeHTTP), checksumOf(content))
	if err != nil || !bytes.Equal(got, content) || b.streams.Load() != 3 {
		t.Errorf("%d bytes in %d connections, %v", len(got), b.streams.Load(), err)
	}
	b = &breaking{after: 400 << 10, tag: func(stream int64) string { return []string{`"0"`, `"1"`, `"2"`}[min(stream, 2)] }}
	b.breaks.Store(1)
	if _, err = fetch(newClient(t, nil), serve(t, b.ServeHTTP), ""); reasonOf(err) != ReasonChanged {
		t.Errorf("a file that changed midway: %v", err)
	}
	b = &breaking{tag: func(int64) string { return `"2"` }}
	if _, err = fetch(newClient(t, nil), serve(t, b.ServeHTTP), ""); reasonOf(err) != ReasonChanged {
		t.Errorf("a file that changed after the probe: %v", err)
	}
}

func TestServers(t *testing.T) {
	to := func(url string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusFound) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		reason  string
	}{
		"not found":            {status(404), ReasonNotFound},
		"unauthorized":         {status(401), ReasonUnauthorized},
		"error":                {status(500), ReasonServerError},
		"redirect to metadata": {to("http://169.254.169.254/latest/meta-data/"), ReasonNotPermitted},
		"redirect to loopback": {to("http://127.0.0.2:6443/"), ReasonNotPermitted},
		"redirect to a name":   {to("http://localhost.:1/"), ReasonUnreachable},
		"redirect to a file":   {to("file:///etc/passwd"), ReasonNotPermitted},
		"redirects forever":    {to("/again"), ReasonRedirects},
		"truncated": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000000")
			if r.Header.Get("Range") == "" {
				_, _ = w.Write(content[:5000])
				return
			}
			_, _ = w.Write(content)
		}, ReasonTruncated},
		"stalled": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				_, _ = w.Write(content[:sources.HeadBytes])
				return
			}
			_, _ = w.Write(content[:10])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, ReasonStalled},
		"encoded": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(content)
		}, ReasonServerError},
		"another part": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 7-9/10")
			w.WriteHeader(http.StatusPartialContent)
		}, ReasonServerError},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetch(newClient(t, func(o *Options) {
				if test.reason == ReasonStalled {
					o.Stall = 500 * time.Millisecond
				}
			}), serve(t, test.handler), "")
			if reasonOf(err) != test.reason || strings.Contains(err.Error(), "127.0.0") || strings.Contains(err.Error(), "169.254") {
				t.Errorf("%s: %v, want %s", reasonOf(err), err, test.reason)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	none := newClient(t, func(o *Options) { o.Sources = &sources.Sources{} })
	for _, url := range []string{serve(t, file), strings.Replace(serve(t, file), "127.0.0.1", "localhost", 1), "http://[::1]:1/", "http://0x7f000001/", "http://2130706433/", "http://0/"} {
		_, err := fetch(none, url, "")
		if got := reasonOf(err); got != ReasonNotPermitted && got != ReasonUnreachable {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestProxy: a proxy resolves the names of its requests, and its own address is not checked. The addresses of other requests are.
func TestProxy(t *testing.T) {
	for _, secure := range []bool{false, true} {
		scheme, source := "http", httptest.NewServer(http.HandlerFunc(file))
		if secure {
			source.Close()
			scheme, source = "https", httptest.NewTLSServer(http.HandlerFunc(file))
		}
		t.Cleanup(source.Close)
		var asked atomic.Int64
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.Method != http.MethodConnect {
				file(w, r)
				return
			}
			server, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", source.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			client, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			_, _ = io.Copy(client, server)
			_ = client.Close()
		}))
		t.Cleanup(proxy.Close)
		address, err := url.Parse(proxy.URL)
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(t, func(o *Options) {
			o.Sources, o.Insecure = &sources.Sources{}, true // no private address is permitted
			o.Proxy = func(r *http.Request) (*url.URL, error) {
				if r.URL.Hostname() == "localhost" {
					return nil, nil
				}
				return address, nil
			}
		})
		if data, err := fetch(c, scheme+"://images.example.com/disk", checksumOf(content)); err != nil || !bytes.Equal(data, content) || asked.Load() == 0 {
			t.Errorf("%s through the proxy: %d bytes, %d requests, %v", scheme, len(data), asked.Load(), err)
		}
		if _, err := fetch(c, strings.Replace(source.URL, "127.0.0.1", "localhost", 1), ""); err == nil || !strings.Contains(err.Error(), "its address is not public") {
			t.Errorf("%s without the proxy: %v", scheme, err)
		}
	}
}

// TestRebinding: a name whose address changes after the first request leads to no connection.
func TestRebinding(t *testing.T) {
	var asked atomic.Int64
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go answerDNS(server, func() [4]byte {
			if asked.Add(1) == 1 {
				return [4]byte{127, 0, 0, 1}
			}
			return [4]byte{127, 0, 0, 2}
		})
		return client, nil
	}}
	c := newClient(t, func(o *Options) { o.Resolver = resolver })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(serve(t, file), "http://"))
	url := "http://images.example.com:" + port
	f, err := c.Probe(t.Context(), url, false)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err = c.Stream(t.Context(), f, ""); reasonOf(err) != ReasonUnreachable || asked.Load() < 2 {
		t.Errorf("after %d questions: %v", asked.Load(), err)
	}
}

// TestInternalNames: a user cannot tell a name with an internal address from one that does not exist.
func TestInternalNames(t *testing.T) {
	internal := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go answerDNS(server, func() [4]byte { return [4]byte{10, 96, 0, 10} })
		return client, nil
	}}
	missing := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no such name")
	}}
	var all []*Error
	for _, resolver := range []*net.Resolver{internal, missing} {
		c := newClient(t, func(o *Options) { o.Resolver = resolver })
		_, err := c.Probe(t.Context(), "http://vault.secrets.example/", false)
		var known *Error
		if !errors.As(err, &known) {
			t.Fatal(err)
		}
		all = append(all, known)
	}
	if *all[0] != *all[1] || all[0].Reason != ReasonUnreachable || strings.Contains(all[0].Message, "10.96") {
		t.Errorf("%+v and %+v", all[0], all[1])
	}
}

// answerDNS answers the question of a connection: addresses of IPv4 only.
func answerDNS(c net.Conn, address func() [4]byte) {
	defer c.Close()
	length := make([]byte, 2)
	if _, err := io.ReadFull(c, length); err != nil {
		return
	}
	question := make([]byte, int(length[0])<<8|int(length[1]))
	var m dnsmessage.Message
	if _, err := io.ReadFull(c, question); err != nil || m.Unpack(question) != nil {
		return
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: address()}}}
	}
	packed, _ := m.Pack()
	_ = binary.Write(c, binary.BigEndian, uint16(len(packed))) //nolint:gosec // an answer has less than 512 bytes
	_, _ = c.Write(packed)
}

func TestCertificates(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(file))
	t.Cleanup(s.Close)
	if _, err := fetch(newClient(t, nil), s.URL, ""); reasonOf(err) != ReasonCertificate {
		t.Errorf("an unknown authority: %v", err)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if _, err := fetch(newClient(t, func(o *Options) { o.Authorities = authority }), s.URL, checksumOf(content)); err != nil {
		t.Error(err)
	}
	if _, err := New(Options{Authorities: []byte("none")}); reasonOf(err) != ReasonInvalidAuthority {
		t.Error(err)
	}
}

// TestCredentials: they reach the server of the URL, and no other.
func TestCredentials(t *testing.T) {
	var leaked atomic.Bool
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(r.Header.Get("Authorization") != "" || r.Header.Get("X-Token") != "")
		file(w, r)
	})
	var user, token string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, _, _ = r.BasicAuth()
		token = r.Header.Get("X-Token")
		http.Redirect(w, r, other, http.StatusFound)
	})
	_, err := fetch(newClient(t, func(o *Options) {
		o.User, o.Password, o.Headers = "me", "secret", map[string]string{"x-token": "secret"}
	}), url, "")
	if err != nil || user != "me" || token != "secret" || leaked.Load() {
		t.Errorf("user %q, leaked %v, %v", user, leaked.Load(), err)
	}
}

func FuzzContentRange(f *testing.F) {
	f.Add("bytes 0-9/10")
	f.Add("bytes 5-/*")
	f.Fuzz(func(t *testing.T, text string) {
		start, size, err := contentRange(&http.Response{StatusCode: http.StatusPartialContent, Header: http.Header{"Content-Range": {text}}})
		if err == nil && (start < 0 || size < -1 || size >= 0 && size < start) {
			t.Errorf("%q is %d of %d", text, start, size)
		}
	})
}
