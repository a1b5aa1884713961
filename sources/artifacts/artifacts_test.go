package artifacts_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/artifacts/artifactstest"
	"github.com/virtward/virtward/sources/web"
)

func options() artifacts.Options {
	return artifacts.Options{Transport: http.DefaultTransport, Pause: time.Millisecond, Stall: 30 * time.Second}
}

func reference(t testing.TB, text string) artifacts.Reference {
	t.Helper()
	r, err := artifacts.ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func open(t testing.TB, text string) *artifacts.Repository {
	t.Helper()
	r, err := artifacts.Open(t.Context(), reference(t, text), options())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// noise is bytes that do not compress, with zeros between them.
func noise(seed byte, size int) []byte {
	raw := make([]byte, size)
	random := rand.NewChaCha8([32]byte{seed})
	for i := 0; i < size; i += 64 << 10 {
		_, _ = random.Read(raw[i:min(size, i+32<<10)])
	}
	return raw
}

func template(name, architecture string) []byte {
	return []byte(`{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplate","metadata":{"name":"` + name + `","namespace":"n"},"spec":{"virtualMachine":{"spec":{"template":{"spec":{"architecture":"` + architecture +
		`","volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"a"}},{"name":"logs","persistentVolumeClaim":{"claimName":"b"}}]}}}}}}`)
}

// push writes templates with disks.
func push(t testing.TB, text string, all map[string]map[string][]byte) oci.Blob {
	t.Helper()
	w, err := artifacts.NewWriter(t.Context(), reference(t, text), options())
	if err != nil {
		t.Fatal(err)
	}
	var packed []*oci.Packed
	for _, architecture := range []string{"amd64", "arm64"} {
		disks, ok := all[architecture]
		if !ok {
			continue
		}
		object, err := oci.NewObject(template("web", architecture))
		if err != nil {
			t.Fatal(err)
		}
		var layers []oci.Descriptor
		for _, name := range []string{"root", "logs"} {
			raw, ok := disks[name]
			if !ok {
				continue
			}
			d, err := oci.Measure(name, bytes.NewReader(raw))
			if err == nil {
				err = w.Upload(t.Context(), &d, func() (io.ReadCloser, error) { return compress(raw), nil }, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			layers = append(layers, d)
		}
		p, err := oci.Pack(object, layers)
		if err == nil {
			err = errors.Join(w.Write(t.Context(), p.Config), w.Put(t.Context(), p.Manifest))
		}
		if err != nil {
			t.Fatal(err)
		}
		packed = append(packed, p)
	}
	index, err := oci.NewIndex(packed, "2026-11-01T12:00:00Z")
	if err == nil {
		err = w.Tag(t.Context(), index)
	}
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func compress(raw []byte) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		c, err := oci.NewCompressor(w)
		if err == nil {
			_, err = c.Write(raw)
			err = errors.Join(err, c.Close())
		}
		w.CloseWithError(err)
	}()
	return r
}

// disksOf reads all disks of a variant.
func disksOf(t testing.TB, r *artifacts.Repository, platform string) map[string][]byte {
	t.Helper()
	top, _, err := r.Top(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	variant, err := top.Select(platform)
	if err != nil {
		t.Fatal(err)
	}
	manifest, _, err := r.Manifest(t.Context(), variant)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Object(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for i := range manifest.Disks {
		raw, err := r.Disk(t.Context(), &manifest.Disks[i])
		if err == nil {
			all[manifest.Disks[i].Names[0]], err = io.ReadAll(raw)
			err = errors.Join(err, raw.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestRoundTrip: two architectures with two disks each are equal afterwards, also if connections break, and without ranges.
func TestRoundTrip(t *testing.T) {
	server := artifactstest.New(t)
	text := "oci://" + server.Host + "/templates/web:v1"
	want := map[string]map[string][]byte{
		"amd64": {"root": noise(1, 3<<20), "logs": make([]byte, 1<<20)},
		"arm64": {"root": noise(2, 2<<20+1), "logs": make([]byte, 1<<20)},
	}
	index := push(t, text, want)
	for name, breakAfter := range map[string]int64{"as it is": 0, "connections break": 300_000} {
		server.BreakAfter.Store(breakAfter)
		for architecture, disks := range want {
			for disk, got := range disksOf(t, open(t, text), architecture) {
				if !bytes.Equal(got, disks[disk]) {
					t.Errorf("%s: %s/%s: got %d bytes", name, architecture, disk, len(got))
				}
			}
		}
	}
	byDigest := open(t, "oci://"+server.Host+"/templates/web@"+index.Digest.String())
	if _, b, err := byDigest.Top(t.Context()); err != nil || b.Digest != index.Digest {
		t.Error(b.Digest, err)
	}
	if _, _, err := open(t, text[:len(text)-1]+"2").Top(t.Context()); !artifacts.NotFound(err) {
		t.Error(err)
	}
}

// TestResume: what was read is not requested again.
func TestResume(t *testing.T) {
	server := artifactstest.New(t)
	text := "oci://" + server.Host + "/templates/web:v1"
	push(t, text, map[string]map[string][]byte{"amd64": {"root": noise(1, 3<<20)}})
	server.BreakAfter.Store(500_000)
	server.Requests()
	disksOf(t, open(t, text), "amd64")
	var ranges []string
	for _, request := range server.Requests() {
		if _, part, ok := strings.Cut(request, " bytes="); ok {
			ranges = append(ranges, part)
		}
	}
	if got := fmt.Sprint(ranges); !regexp.MustCompile(`^\[500000-(\d+) 1000000-\d+ 1500000-\d+\]$`).MatchString(got) {
		t.Errorf("got %v", ranges)
	}
}

// TestNoRanges: without ranges, the first bytes are read again.
func TestNoRanges(t *testing.T) {
	server := artifactstest.New(t)
	text := "oci://" + server.Host + "/templates/web:v1"
	want := noise(1, 3<<20)
	push(t, text, map[string]map[string][]byte{"amd64": {"root": want}})
	server.NoRanges.Store(true)
	server.BreakAfter.Store(1_200_000)
	r := open(t, text)
	top, _, err := r.Top(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := r.Manifest(t.Context(), &top.Variants[0])
	if err != nil {
		t.Fatal(err)
	}
	raw, err := r.Disk(t.Context(), &m.Disks[0])
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if n, err := io.CopyN(io.Discard, raw, 1<<20); err != nil {
		t.Fatal(n, err)
	}
	server.BreakAfter.Store(0) // the second connection reads all
	if n, err := io.Copy(io.Discard, raw); err != nil || n != 2<<20 {
		t.Error(n, err)
	}
}

// TestGivesUp: a registry that sends nothing ends the stream.
func TestGivesUp(t *testing.T) {
	server := artifactstest.New(t)
	text := "oci://" + server.Host + "/templates/web:v1"
	push(t, text, map[string]map[string][]byte{"amd64": {"root": noise(1, 1<<20)}})
	o := options()
	o.Stall = 50 * time.Millisecond
	r, err := artifacts.Open(t.Context(), reference(t, text), o)
	if err != nil {
		t.Fatal(err)
	}
	top, _, err := r.Top(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := r.Manifest(t.Context(), &top.Variants[0])
	if err != nil {
		t.Fatal(err)
	}
	server.Answer("/blobs/", func(w http.ResponseWriter, request *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-request.Context().Done()
	})
	raw, err := r.Disk(t.Context(), &m.Disks[0])
	if err == nil {
		_, err = io.Copy(io.Discard, raw)
	}
	if err == nil || !strings.Contains(err.Error(), "the registry sends no bytes") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user stops"))
	if _, err := io.Copy(io.Discard, r.Stream(ctx, &m.Disks[0].Descriptor, 0)); err == nil || !strings.Contains(err.Error(), "the user stops") {
		t.Error(err)
	}
}

// hostile is an answer of a hostile registry.
func hostile(status int, header http.Header, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name := range header {
			w.Header().Set(name, header.Get(name))
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

// TestHostileRegistry: no wrong answer of a registry is read as an artifact.
func TestHostileRegistry(t *testing.T) {
	want := noise(1, 1<<20)
	other, err := oci.Measure("root", bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for range 4096 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		path   string
		answer http.HandlerFunc
		says   string
	}{
		"an endless manifest":          {"/manifests/", endless, "more than 1048576 bytes"},
		"another manifest":             {"/manifests/sha256:", hostile(200, nil, []byte("{}")), "before its size"},
		"a manifest of the same size":  {"/manifests/sha256:", nil, "has the digest"},
		"no manifest":                  {"/manifests/", hostile(200, nil, []byte("<html>")), "not valid JSON"},
		"an endless layer":             {"/blobs/", endless, "not valid zstd"},
		"another layer":                {"/blobs/", hostile(200, nil, make([]byte, other.Size)), "not valid zstd"},
		"a shorter layer":              {"/blobs/", hostile(200, http.Header{"Content-Length": {"10"}}, make([]byte, 10)), "a blob of 10 bytes"},
		"another part":                 {"/blobs/", hostile(206, http.Header{"Content-Range": {"bytes 5-10/100"}}, make([]byte, 6)), "another part"},
		"an encoding":                  {"/blobs/", hostile(200, http.Header{"Content-Encoding": {"gzip"}}, make([]byte, 6)), "encodes the blob"},
		"no layer":                     {"/blobs/", hostile(404, nil, nil), "404"},
		"a redirect loop":              {"/blobs/", hostile(http.StatusFound, http.Header{"Location": {"?again"}}, nil), "redirects more than 5 times"},
		"a long error":                 {"/manifests/", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden); endless(w, r) }, "403"},
		"a registry that asks to wait": {"/blobs/", hostile(429, nil, nil), "429"},
	} {
		t.Run(name, func(t *testing.T) {
			server := artifactstest.New(t)
			text := "oci://" + server.Host + "/templates/web:v1"
			index := push(t, text, map[string]map[string][]byte{"amd64": {"root": want}})
			r := open(t, text)
			if c.answer == nil {
				var size struct{ Manifests []oci.Descriptor }
				if err := json.Unmarshal(index.Content, &size); err != nil {
					t.Fatal(err)
				}
				c.answer = hostile(200, nil, make([]byte, size.Manifests[0].Size))
			}
			server.Answer(c.path, c.answer)
			top, _, err := r.Top(t.Context())
			var m *oci.Manifest
			if err == nil {
				m, _, err = r.Manifest(t.Context(), &top.Variants[0])
			}
			if err == nil {
				var raw io.ReadCloser
				if raw, err = r.Disk(t.Context(), &m.Disks[0]); err == nil {
					_, err = io.Copy(io.Discard, raw)
					raw.Close()
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 10<<10 {
				t.Errorf("got %.500v, want %q", err, c.says)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	server := artifactstest.New(t)
	server.User, server.Password = "u", "p"
	text := "oci://" + server.Host + "/templates/web:v1"
	o := options()
	if _, err := artifacts.Open(t.Context(), reference(t, text), o); err == nil {
		r, _ := artifacts.Open(t.Context(), reference(t, text), o)
		if _, _, err := r.Top(t.Context()); err == nil || !strings.Contains(err.Error(), "UNAUTHORIZED") {
			t.Error(err)
		}
	}
	o.Keychain = artifacts.Credentials("u", "p")
	r, err := artifacts.Open(t.Context(), reference(t, text), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Top(t.Context()); !artifacts.NotFound(err) {
		t.Error(err)
	}
}

// TestGuarded: a process that reads for users connects to permitted servers only, and its errors name no address.
func TestGuarded(t *testing.T) {
	server := artifactstest.New(t)
	text := "oci://" + server.Host + "/templates/web:v1"
	push(t, text, map[string]map[string][]byte{"amd64": {"root": noise(1, 1<<20)}})
	networks, err := sources.ParseNetworks([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	read := func(permitted *sources.Sources) error {
		o, stop, err := artifacts.Guarded(&web.Options{Sources: permitted, Insecure: true, Timeout: 10 * time.Second, Stall: time.Second}, "imports.registries")
		if err != nil {
			return err
		}
		defer stop()
		o.Pause = time.Millisecond
		r, err := artifacts.Open(t.Context(), reference(t, text), o)
		if err != nil {
			return err
		}
		top, _, err := r.Top(t.Context())
		if err != nil {
			return err
		}
		m, _, err := r.Manifest(t.Context(), &top.Variants[0])
		if err != nil {
			return err
		}
		raw, err := r.Disk(t.Context(), &m.Disks[0])
		if err != nil {
			return err
		}
		defer raw.Close()
		_, err = io.Copy(io.Discard, raw)
		return err
	}
	if err := read(&sources.Sources{Networks: networks}); err != nil {
		t.Error(err)
	}
	if err := read(&sources.Sources{}); err == nil || !strings.Contains(err.Error(), "not public") {
		t.Error(err)
	}
	server.Answer("/blobs/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/secret", http.StatusFound)
	})
	if err := read(&sources.Sources{Networks: networks}); err == nil || !strings.Contains(err.Error(), "not public") || strings.Contains(err.Error(), "169.254") {
		t.Error(err)
	}
}

// TestCopy: a copy has the same bytes and referrers, and reads no layer that the other registry has.
func TestCopy(t *testing.T) {
	from, to := artifactstest.New(t), artifactstest.New(t)
	source, target := "oci://"+from.Host+"/templates/web:v1", "oci://"+to.Host+"/mirror/web:copy"
	want := map[string]map[string][]byte{"amd64": {"root": noise(1, 1<<20)}, "arm64": {"root": noise(2, 1<<20), "logs": make([]byte, 1<<20)}}
	index := push(t, source, want)
	refer(t, from.Host+"/templates/web", index, "application/vnd.example.signature", []byte("signed"))
	from.BreakAfter.Store(400_000)
	r := open(t, source)
	w, err := artifacts.NewWriter(t.Context(), reference(t, target), options())
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		plan, err := r.PlanCopy(t.Context(), true)
		if err != nil || plan.Referrers != 1 || len(plan.Manifests) != 3 {
			t.Fatal(plan, err)
		}
		from.Requests()
		done := int64(0)
		if err := r.Copy(t.Context(), plan, w, func(n int64) { done += n }); err != nil {
			t.Fatal(err)
		}
		if done != plan.Bytes() {
			t.Errorf("%d of %d bytes", done, plan.Bytes())
		}
		if requests := from.Requests(); round == 1 && len(requests) > 0 {
			t.Errorf("the second copy reads %v", requests)
		}
	}
	copied := open(t, target)
	if _, b, err := copied.Top(t.Context()); err != nil || !bytes.Equal(b.Content, index.Content) {
		t.Error(err)
	}
	for architecture, disks := range want {
		for disk, got := range disksOf(t, copied, architecture) {
			if !bytes.Equal(got, disks[disk]) {
				t.Errorf("%s/%s differs", architecture, disk)
			}
		}
	}
	found, err := copied.Referrers(t.Context(), index.Digest, "application/vnd.example.signature")
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if _, layers, err := copied.Referrer(t.Context(), &found[0], 100); err != nil || string(layers[0]) != "signed" {
		t.Error(layers, err)
	}
	if found, err := copied.Referrers(t.Context(), digest.FromString("other"), ""); err != nil || len(found) != 0 {
		t.Error(found, err)
	}
	tags, more, err := copied.Tags(t.Context())
	if err != nil || more || len(tags) == 0 || tags[0] != "copy" {
		t.Error(tags, more, err)
	}
}

// refer writes a manifest that refers to another one.
func refer(t testing.TB, repository string, subject oci.Blob, artifactType string, layer []byte) {
	t.Helper()
	w, err := artifacts.NewWriter(t.Context(), reference(t, "oci://"+repository+":x"), options())
	if err != nil {
		t.Fatal(err)
	}
	blob := func(mediaType string, content []byte) oci.Blob {
		return oci.Blob{Descriptor: oci.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}, Content: content}
	}
	config, content := blob(v1.MediaTypeEmptyJSON, []byte("{}")), blob(artifactType, layer)
	m := v1.Manifest{MediaType: v1.MediaTypeImageManifest, ArtifactType: artifactType, Config: config.Descriptor, Layers: []v1.Descriptor{content.Descriptor}, Subject: &v1.Descriptor{MediaType: v1.MediaTypeImageIndex, Digest: subject.Digest, Size: subject.Size}}
	m.SchemaVersion = 2
	written, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(t.Context(), config), w.Write(t.Context(), content), w.Put(t.Context(), blob(v1.MediaTypeImageManifest, written))); err != nil {
		t.Fatal(err)
	}
}

// TestPages: tags on several pages are read, and their number is bounded.
func TestPages(t *testing.T) {
	server := artifactstest.New(t)
	pages := 0
	server.Answer("/tags/list", func(w http.ResponseWriter, r *http.Request) {
		pages++
		w.Header().Set("Link", `</v2/x/tags/list?last=z>; rel="next"`)
		tags := make([]string, 300)
		for i := range tags {
			tags[i] = fmt.Sprintf("%03d-%d", pages, i)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"tags": tags})
	})
	tags, more, err := open(t, "oci://"+server.Host+"/x").Tags(t.Context())
	if err != nil || !more || len(tags) != artifacts.MaxTags || pages != 4 {
		t.Error(len(tags), more, pages, err)
	}
}

func TestParseReference(t *testing.T) {
	for text, want := range map[string]string{ //nolint:gosec // credentials in references are not accepted
		"oci://quay.io/a/b:v1":                                "oci://quay.io/a/b:v1",
		"oci://quay.io/a/b":                                   "oci://quay.io/a/b",
		"oci://127.0.0.1:5000/a":                              "oci://127.0.0.1:5000/a",
		"oci://quay.io/a/b:v1@sha256:" + strings64("a"):       "oci://quay.io/a/b@sha256:" + strings64("a"),
		"oci://a/b":                                           "names no registry",
		"docker://quay.io/a":                                  "does not begin with oci://",
		"oci://docker://quay.io/a":                            "names the transport",
		"oci://quay.io/A":                                     "lowercase",
		"oci://quay.io/a:v1?x=y":                              "invalid reference",
		"oci://user:password@quay.io/a":                       "invalid reference",
		"oci://quay.io/../a":                                  "invalid reference",
		"oci://" + strings.Repeat("a", 2000) + ".example/b:1": "at most 1024",
	} {
		r, err := artifacts.ParseReference(text)
		got := r.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func strings64(of string) string { return strings.Repeat(of, 64) }

func FuzzParseReference(f *testing.F) {
	f.Add("oci://quay.io/a/b:v1")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := artifacts.ParseReference(text)
		if err != nil {
			return
		}
		again, err := artifacts.ParseReference(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q: %s, then %s %v", text, r.String(), again.String(), err)
		}
	})
}

// TestMemory: a large disk needs no more memory than a small one.
func TestMemory(t *testing.T) {
	server := artifactstest.New(t)
	server.Answer("/blobs/", serveZeros(t))
	r := open(t, "oci://"+server.Host+"/x:1")
	d, size := zeros(t)
	disk := oci.Disk{Descriptor: d, Size: size, Names: []string{"root"}}
	raw, err := r.Disk(t.Context(), &disk)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before) //nolint:forbidigo // it counts all that is allocated, also by the registry, and compares with a large bound
	n, err := io.Copy(io.Discard, raw)
	if err != nil || n != size {
		t.Fatal(n, err)
	}
	runtime.ReadMemStats(&after) //nolint:forbidigo // as above
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<20 {
		t.Errorf("%d bytes of memory for a disk of %d", allocated, size)
	}
}

// zeros is a disk of 1 GiB of zeros.
func zeros(t testing.TB) (oci.Descriptor, int64) {
	t.Helper()
	const size = 1 << 30
	d, err := oci.Measure("root", io.LimitReader(nothing{}, size))
	if err != nil {
		t.Fatal(err)
	}
	return d, size
}

type nothing struct{}

func (nothing) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func serveZeros(t testing.TB) http.HandlerFunc {
	t.Helper()
	var layer bytes.Buffer
	c, err := oci.NewCompressor(&layer)
	if err == nil {
		_, err = io.Copy(c, io.LimitReader(nothing{}, 1<<30))
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(layer.Bytes()) }
}

// BenchmarkDisk reads a disk of 64 MiB, half of whose bytes are random, from a registry on loopback.
func BenchmarkDisk(b *testing.B) {
	server := artifactstest.New(b)
	text := "oci://" + server.Host + "/templates/web:v1"
	want := noise(1, 64<<20)
	push(b, text, map[string]map[string][]byte{"amd64": {"root": want}})
	r, err := artifacts.Open(b.Context(), reference(b, text), options())
	if err != nil {
		b.Fatal(err)
	}
	top, _, err := r.Top(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	m, _, err := r.Manifest(b.Context(), &top.Variants[0])
	if err != nil {
		b.Fatal(err)
	}
	for name, breakAfter := range map[string]int64{"whole": 0, "broken every 8 MiB": 8 << 20} {
		b.Run(name, func(b *testing.B) {
			server.BreakAfter.Store(breakAfter)
			b.SetBytes(int64(len(want)))
			b.ReportAllocs()
			for b.Loop() {
				raw, err := r.Disk(b.Context(), &m.Disks[0])
				if err != nil {
					b.Fatal(err)
				}
				sum := sha256.New()
				if _, err := io.Copy(sum, raw); err != nil {
					b.Fatal(err)
				}
				raw.Close()
			}
		})
	}
}

// TestOtherImages: an image of a container is not read.
func TestOtherImages(t *testing.T) {
	server := artifactstest.New(t)
	named, err := name.ParseReference(server.Host + "/x:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Put(named, content(`{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":{},"layers":[]}`)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, "oci://"+server.Host+"/x:1").Top(t.Context()); err == nil || !strings.Contains(err.Error(), "neither that of an OCI index") {
		t.Error(err)
	}
}

type content string

func (c content) RawManifest() ([]byte, error) { return []byte(c), nil }

// TestRandom: a blob is read at random, also while connections break, and only by ranges.
func TestRandom(t *testing.T) {
	server := artifactstest.New(t)
	want := noise(1, 3<<20+5)
	text, _ := server.PushOVA(t, "appliances/web:v1", "web.ova", want)
	r := open(t, text)
	top, _, err := r.Top(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func(){"as it is": func() {}, "connections break": func() { server.BreakAfter.Store(100_000) }} {
		prepare()
		server.Requests()
		got := make([]byte, 300_000)
		if _, err := r.Random(t.Context(), &top.Manifest.OVA.Descriptor).ReadAt(got, 2<<20); err != nil || !bytes.Equal(got, want[2<<20:2<<20+300_000]) {
			t.Errorf("%s: %v", name, err)
		}
		for _, request := range server.Requests() {
			if !strings.Contains(request, " bytes=") {
				t.Errorf("%s: the whole blob is requested: %s", name, request)
			}
		}
	}
	server.NoRanges.Store(true)
	for offset, length := range map[int64]int{0: 1, 2 << 20: 10, 1 << 20: 1} {
		_, err := r.Random(t.Context(), &top.Manifest.OVA.Descriptor).ReadAt(make([]byte, length), offset)
		if !web.HasReason(err, web.ReasonNoRanges) || !strings.Contains(err.Error(), "does not send ranges") {
			t.Errorf("without ranges: %v", err)
		}
	}
}
