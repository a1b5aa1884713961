package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	inmemory "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/web"
)

var loopback = &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Values: Values}

// server is the registry of go-containerregistry behind a handler that can answer instead.
type server struct {
	*httptest.Server

	host    string
	instead atomic.Pointer[http.HandlerFunc]
}

// start starts a registry. With certificates it has one that no client knows.
func start(t *testing.T, certificates bool) *server {
	t.Helper()
	s, images := &server{}, inmemory.New(inmemory.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if instead := s.instead.Load(); instead != nil {
			(*instead)(w, r)
			return
		}
		images.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if certificates {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	_, s.host, _ = strings.Cut(s.URL, "://")
	return s
}

func (s *server) url(image string) string { return "docker://" + s.host + "/" + image }

func (s *server) reference(t *testing.T, image string) name.Reference {
	t.Helper()
	reference, err := name.ParseReference(s.host+"/"+image, name.Insecure)
	must(t, err)
	return reference
}

func (s *server) answer(handler http.HandlerFunc) { s.instead.Store(&handler) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// image is one of an architecture, without layers.
func image(t *testing.T, architecture string) v1.Image {
	t.Helper()
	i, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: architecture, OS: "linux"})
	must(t, err)
	return i
}

// pushIndex stores an index with an image for each platform, such as linux/arm64/v8, and returns its digest.
func (s *server) pushIndex(t *testing.T, to string, platforms ...string) v1.Hash {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	for _, platform := range platforms {
		i, err := random.Image(16, 1)
		must(t, err)
		p, err := v1.ParsePlatform(platform)
		must(t, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: i, Descriptor: v1.Descriptor{Platform: p}})
	}
	must(t, remote.WriteIndex(s.reference(t, to), index, remote.WithTransport(s.Client().Transport)))
	digest, err := index.Digest()
	must(t, err)
	return digest
}

func options() *web.Options {
	return &web.Options{Sources: loopback, Insecure: true, Timeout: 30 * time.Second}
}

// get reads with options of the test and its patience.
func get(t *testing.T, url string, change func(*web.Options)) ([]string, error) {
	t.Helper()
	o := options()
	if change != nil {
		change(o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	found, err := Read(ctx, url, o)
	return found.Architectures, err
}

func reasonOf(err error) string {
	var e *web.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return fmt.Sprintf("%T", err)
}

func TestArchitectures(t *testing.T) {
	s := start(t, false)
	digest := s.pushIndex(t, "disks/fedora:42", "linux/arm64/v8", "linux/amd64", "unknown/unknown", "linux/amd64", "linux/s390x")
	s.pushIndex(t, "others:latest", "windows/amd64", "linux/amd64/v3", "linux/arm64", "linux/arm/v7")
	s.pushIndex(t, "none:latest", "unknown/unknown", "windows/amd64")
	must(t, remote.Write(s.reference(t, "single:latest"), image(t, "s390x")))
	must(t, remote.Write(s.reference(t, "blank:latest"), image(t, "")))
	for of, want := range map[string][]string{
		"disks/fedora:42":                      {"amd64", "arm64", "s390x"},
		"disks/fedora@" + digest.String():      {"amd64", "arm64", "s390x"},
		"disks/fedora:gone@" + digest.String(): {"amd64", "arm64", "s390x"},
		"others":                               {"arm64"},
		"single":                               {"s390x"},
		"none":                                 nil,
		"blank":                                nil,
		"disks/fedora:gone":                    nil,
		"disks/fedora@sha256:" + strings.Repeat("0", 64): nil,
	} {
		got, err := get(t, s.url(of), nil)
		if diff := cmp.Diff(want, got); diff != "" || (want == nil) != (err != nil) {
			t.Errorf("%s: %v\n(-want +got):\n%s", of, err, diff)
		}
		if err != nil && reasonOf(err) != ReasonNoArchitecture && reasonOf(err) != web.ReasonNotFound {
			t.Errorf("%s: %s: %v", of, reasonOf(err), err)
		}
	}
}

// TestVariants: the answer has all platforms with a variant. CDI imports arm64/v8 as arm64.
func TestVariants(t *testing.T) {
	s := start(t, false)
	s.pushIndex(t, "disks:all", "linux/arm64/v8", "linux/amd64", "linux/amd64/v3", "linux/amd64/v3", "linux/arm/v7", "windows/amd64/v2", "unknown/unknown/v1", "linux/s390x")
	s.pushIndex(t, "disks:none", "linux/amd64/v2")
	variant, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: "ARM64", Variant: "V9", OS: "linux"})
	must(t, err)
	must(t, remote.Write(s.reference(t, "disks:single"), variant))
	many := []string{"linux/amd64"}
	for i := range MaxArchitectures + 1 {
		many = append(many, fmt.Sprintf("linux/arm/v%d", i))
	}
	s.pushIndex(t, "disks:many", many...)
	for of, want := range map[string]struct {
		contents Contents
		reason   string
	}{
		"disks:all":    {contents: Contents{Architectures: []string{"amd64", "arm64", "s390x"}, Variants: []string{"amd64/v3", "arm/v7", "arm64/v8"}}},
		"disks:single": {contents: Contents{Architectures: []string{"arm64"}, Variants: []string{"arm64/v9"}}},
		"disks:none":   {reason: ReasonNoArchitecture},
		"disks:many":   {reason: ReasonTooLarge},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		got, err := Read(ctx, s.url(of), options())
		cancel()
		if diff := cmp.Diff(want.contents, got); diff != "" || want.reason != "" && reasonOf(err) != want.reason || want.reason == "" && err != nil {
			t.Errorf("%s: %v\n(-want +got):\n%s", of, err, diff)
		}
	}
}

func TestURLs(t *testing.T) {
	for _, url := range []string{"", "oci-archive://quay.io/a", "http://quay.io/a", "quay.io/a", "docker://user@quay.io/a", "docker://quay.io/A"} {
		if _, err := get(t, url, nil); reasonOf(err) != ReasonInvalid {
			t.Errorf("%q: %s: %v", url, reasonOf(err), err)
		}
	}
	for _, url := range []string{"docker://169.254.169.254/a", "docker://10.0.0.1:5000/a", "docker://[::1]:1/a", "docker://127.0.0.2:1/a"} {
		if _, err := get(t, url, nil); reasonOf(err) != web.ReasonNotPermitted || !strings.Contains(err.Error(), "goldenImages.registries.networks") {
			t.Errorf("%q: %s: %v", url, reasonOf(err), err)
		}
	}
	// A name with an internal address and a name that does not exist have the same answer, which names the value of golden images.
	for _, url := range []string{"docker://localhost:1/a", "docker://does-not-exist.invalid/a"} {
		closed := func(o *web.Options) { o.Sources = &sources.Sources{Values: Values} }
		if _, err := get(t, url, closed); reasonOf(err) != web.ReasonUnreachable || !strings.HasSuffix(err.Error(), "with goldenImages.registries.networks") {
			t.Errorf("%q: %s: %v", url, reasonOf(err), err)
		}
	}
	elsewhere := func(o *web.Options) { o.Sources = &sources.Sources{Hosts: []string{"*.example"}} }
	if _, err := get(t, "docker://quay.io/a", elsewhere); reasonOf(err) != web.ReasonNotPermitted || !strings.Contains(err.Error(), "goldenImages.registries.hosts") {
		t.Errorf("another host: %v", err)
	}
}

func TestInsecure(t *testing.T) {
	for _, test := range []struct {
		url, registry string
		want          bool
	}{
		{"docker://registry.example:5000/a", "registry.example:5000", true},
		{"docker://Registry.example:443/a", "registry.example", true},
		{"docker://Registry.example:443/a", "Registry.example:443", true},
		{"docker://registry.example/a", "registry.example:5000", false},
		{"docker://registry.example.evil/a", "registry.example", false},
		{"nonsense//", "registry.example", false},
	} {
		if Insecure(test.url, []string{"other", test.registry}) != test.want {
			t.Errorf("%s in %s: want %v", test.url, test.registry, test.want)
		}
	}
}

// manifest answers the ping, and then each request with a body.
func manifest(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		_, _ = w.Write(body)
	}
}

func indexOf(t *testing.T, entries int, architecture func(int) string) []byte {
	t.Helper()
	index := v1.IndexManifest{SchemaVersion: 2}
	for i := range entries {
		index.Manifests = append(index.Manifests, v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("1", 64)}, Platform: &v1.Platform{OS: "linux", Architecture: architecture(i)}})
	}
	data, err := json.Marshal(index)
	must(t, err)
	return data
}

func challenge(realm string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="x",scope="y"`, realm))
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func TestFaults(t *testing.T) {
	to := func(url string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusFound) }
	}
	after := func(handler http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				handler(w, r)
			}
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for block := bytes.Repeat([]byte(" "), 64<<10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	single := func(config []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				_, _ = w.Write(config)
				return
			}
			_, _ = fmt.Fprintf(w, `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%064d","size":%d}}`, 1, len(config))
		}
	}
	many := indexOf(t, 10_000, func(int) string { return "amd64" })
	tight := []byte(`{"manifests":[` + strings.TrimSuffix(strings.Repeat(`{"platform":{"os":"linux","architecture":"amd64"}},`, MaxEntries+1), ",") + `]}`)
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		reason  string
	}{
		"unauthorized":               {status(401), web.ReasonUnauthorized},
		"forbidden":                  {after(status(403)), web.ReasonUnauthorized},
		"error":                      {after(status(503)), web.ReasonServerError},
		"realm of metadata":          {challenge("https://169.254.169.254/latest"), web.ReasonNotPermitted},
		"realm of metadata, http":    {challenge("http://169.254.169.254/latest"), web.ReasonNotPermitted},
		"realm of loopback":          {challenge("http://127.0.0.2:6443/"), web.ReasonNotPermitted},
		"realm of a file":            {challenge("file:///etc/passwd"), web.ReasonNotPermitted},
		"redirect to metadata":       {after(to("http://169.254.169.254/latest/meta-data/")), web.ReasonNotPermitted},
		"redirect of the ping":       {to("http://169.254.169.254/latest/meta-data/"), web.ReasonNotPermitted},
		"redirect to loopback":       {after(to("http://127.0.0.2:6443/")), web.ReasonNotPermitted},
		"redirect with credentials":  {after(to("http://user:pass@127.0.0.1:1/")), web.ReasonNotPermitted},
		"redirects forever":          {after(to("/again")), web.ReasonRedirects},
		"endless body":               {after(endless), ReasonTooLarge},
		"endless answer to the ping": {endless, ReasonTooLarge},
		"endless error": {after(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endless(w, r)
		}), ReasonInvalid},
		"10,000 entries":         {manifest(many), ReasonTooLarge},
		"small entries":          {manifest(tight), ReasonTooLarge},
		"too many architectures": {manifest(indexOf(t, 20, func(i int) string { return fmt.Sprintf("a%d", i) })), ReasonTooLarge},
		"strange architectures":  {manifest(indexOf(t, 1, func(int) string { return "\x1b[2J<script>" })), ReasonNoArchitecture},
		"broken JSON":            {manifest([]byte(`{"manifests":[{`)), ReasonInvalid},
		"an empty index":         {manifest([]byte(`{"manifests":[]}`)), ReasonInvalid},
		"a page":                 {manifest([]byte("<html>")), ReasonInvalid},
		"deep JSON":              {manifest([]byte(strings.Repeat(`{"manifests":[`, 10_000))), ReasonInvalid},
		"truncated": {after(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("{"))
		}), web.ReasonTruncated},
		"digest mismatch":        {after(single([]byte(`{"architecture":"amd64","os":"linux"}`))), ReasonInvalid},
		"endless token":          {func(w http.ResponseWriter, r *http.Request) { tokens(w, r, endless) }, ReasonInvalid},
		"a token that is none":   {func(w http.ResponseWriter, r *http.Request) { tokens(w, r, status(200)) }, ReasonInvalid},
		"a token that is not it": {func(w http.ResponseWriter, r *http.Request) { tokens(w, r, token) }, web.ReasonUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, false)
			s.answer(test.handler)
			got, err := get(t, s.url("a"), nil)
			if reasonOf(err) != test.reason || got != nil {
				t.Fatalf("%v, %s: %v, want %s", got, reasonOf(err), err, test.reason)
			}
			if text := err.Error(); strings.Contains(text, "127.0.0") || strings.Contains(text, "169.254") || len(text) > 200 {
				t.Errorf("the message has an address, or is long: %s", text)
			}
		})
	}
}

func token(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"token":"x"}`)) }

// tokens is a registry with a token server at /token.
func tokens(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) {
	if r.URL.Path == "/token" {
		answer(w, r)
		return
	}
	challenge("http://"+r.Host+"/token")(w, r)
}

func TestSlow(t *testing.T) {
	s := start(t, false)
	s.answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Read(ctx, s.url("a"), options()); reasonOf(err) != web.ReasonUnreachable {
		t.Errorf("without an answer: %v", err)
	}
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte(" "))
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Read(ctx, s.url("a"), options()); reasonOf(err) != web.ReasonUnreachable {
		t.Errorf("with a byte at a time: %v", err)
	}
	s.Close()
	if _, err := get(t, s.url("a"), nil); reasonOf(err) != web.ReasonUnreachable {
		t.Errorf("without a server: %v", err)
	}
}

// TestCertificates: without an authority, a registry must be insecure.
func TestCertificates(t *testing.T) {
	s := start(t, true)
	must(t, remote.Write(s.reference(t, "a:latest"), image(t, "arm64"), remote.WithTransport(s.Client().Transport)))
	secure := func(o *web.Options) { o.Insecure = false }
	if _, err := get(t, s.url("a"), secure); reasonOf(err) != web.ReasonCertificate {
		t.Errorf("an unknown authority: %s: %v", reasonOf(err), err)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for name, change := range map[string]func(*web.Options){
		"insecure": nil, "authority": func(o *web.Options) { o.Insecure, o.Authorities = false, authority },
	} {
		if got, err := get(t, s.url("a"), change); err != nil || len(got) != 1 || got[0] != "arm64" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := get(t, s.url("a"), func(o *web.Options) { o.Authorities = []byte("none") }); reasonOf(err) != web.ReasonInvalidAuthority {
		t.Error(err)
	}
	plain := start(t, false)
	if _, err := get(t, plain.url("a"), secure); err == nil {
		t.Error("a registry without TLS was read")
	}
	s.answer(challenge("http://127.0.0.1:1/token"))
	if _, err := get(t, s.url("a"), func(o *web.Options) { o.Insecure, o.Authorities = false, authority }); reasonOf(err) != web.ReasonNotPermitted {
		t.Errorf("a realm without TLS: %v", err)
	}
}

// TestCredentials: they reach the token server of the registry, and the registry gets the token. A redirect gets nothing.
func TestCredentials(t *testing.T) {
	other := start(t, false)
	var leaked atomic.Bool
	other.answer(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(r.Header.Get("Authorization") != "")
		_, _ = w.Write(indexOf(t, 1, func(int) string { return "amd64" }))
	})
	s := start(t, false)
	var sent atomic.Value
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			sent.Store(r.Header.Get("Authorization"))
			token(w, r)
		case r.Header.Get("Authorization") != "Bearer x":
			challenge("http://"+r.Host+"/token")(w, r)
		default:
			http.Redirect(w, r, other.URL+"/elsewhere", http.StatusTemporaryRedirect)
		}
	})
	got, err := get(t, s.url("a"), func(o *web.Options) { o.User, o.Password = "me", "secret" })
	if want := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:secret")); err != nil || len(got) != 1 || sent.Load() != want || leaked.Load() {
		t.Errorf("%v, %v; the token server got %v; leaked %v", got, err, sent.Load(), leaked.Load())
	}
}
