package importserver

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // manifests of old producers have it
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/vmdk"
)

const token = "a token of the import"

// patience is more than any server of these tests needs, on a machine that is busy.
const patience = 30 * time.Second

// guest is what a guest sees: parts that do not compress, and zeros between them.
func guest(size int) []byte {
	content := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	for at := 0; at < size; at += 1 << 20 {
		_, _ = random.Read(content[at:min(at+300_000, size)]) // it returns no error
	}
	return content
}

// image is a streamOptimized VMDK.
func image(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := vmdk.Write(&out, bytes.NewReader(content), int64(len(content)), "a.vmdk"); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// upstream is a web server with one file.
type upstream struct {
	data     []byte
	requests atomic.Int64
	// before is called with the number of the request, and reports whether it answered.
	before func(w http.ResponseWriter, r *http.Request, n int64) bool
	// cut breaks each connection after some bytes.
	cut int
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := u.requests.Add(1)
	w.Header().Set("ETag", `"1"`)
	if u.before != nil && u.before(w, r, n) {
		return
	}
	if u.cut > 0 {
		w = &cutting{ResponseWriter: w, left: u.cut}
	}
	http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(u.data))
}

// cutting breaks a connection.
type cutting struct {
	http.ResponseWriter

	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if c.left <= 0 {
		panic(http.ErrAbortHandler)
	}
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left <= 0 {
		c.ResponseWriter.(http.Flusher).Flush()
	}
	return n, err //nolint:wrapcheck // it is a writer of a test
}

// served is a server of a test.
type served struct {
	*Server

	url string
}

// serve starts a server of disks that are all of a file at a web server.
func (u *upstream) serve(t testing.TB, disks ...transfer.Disk) *served {
	t.Helper()
	source := httptest.NewServer(u)
	t.Cleanup(source.Close)
	return start(t, []transfer.File{{URL: source.URL + "/a.ova?signature=secret", Size: int64(len(u.data)), Validator: `"1"`}}, disks...)
}

func start(t testing.TB, files []transfer.File, disks ...transfer.Disk) *served {
	t.Helper()
	return startTrusting(t, nil, files, disks...)
}

// startTrusting starts a server that trusts authorities.
func startTrusting(t testing.TB, authorities []byte, files []transfer.File, disks ...transfer.Disk) *served {
	t.Helper()
	return startPlan(t, authorities, &transfer.Plan{Files: files, Disks: disks})
}

// startPlan starts a server of what a plan has.
func startPlan(t testing.TB, authorities []byte, of *transfer.Plan) *served {
	t.Helper()
	plan := &transfer.Plan{
		Files: of.Files, Disks: of.Disks, Volume: of.Volume, Sources: transfer.Sources{Networks: []string{"127.0.0.1/32"}},
		Serving: transfer.Serving{CertificateFile: "/c", KeyFile: "/k", TokenFile: "/t"},
	}
	if found := plan.Validate(); len(found) > 0 {
		t.Fatal(found.ToAggregate())
	}
	from := web.Options{
		Sources: &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, Timeout: patience, Stall: patience, Connections: MaxAnswers + 1, HTTP1: true, Pause: 10 * time.Millisecond,
		Authorities: authorities,
	}
	client, err := web.New(from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	registry, stop, err := artifacts.Guarded(&from, "imports")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	s, err := New(Options{Plan: plan, Token: token, Client: client, Registry: &registry, Log: logr.Discard(), Metrics: prometheus.NewRegistry(), Scrapes: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := s.Route(r); h != nil {
			h.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return &served{s, server.URL}
}

// of is a disk that is all of the only file.
func of(data []byte) transfer.Disk {
	return transfer.Disk{Name: "a.vmdk", Parts: []transfer.Part{{Size: int64(len(data))}}}
}

// reply is an answer without its body.
type reply struct {
	code   int
	header http.Header
	length int64
}

// get requests a path with headers, which are pairs of a name and a value, and reads the answer.
func (s *served) get(t testing.TB, method, path string, headers ...string) (reply, []byte, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(transfer.TokenHeader, token)
	for pair := range slices.Chunk(headers, 2) {
		if name, value := pair[0], pair[len(pair)-1]; name != "" {
			request.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, response.ContentLength}, data, err
}

// status is that of the first disk, as a controller reads it.
func (s *served) status(t testing.TB) transfer.DiskStatus {
	t.Helper()
	_, data, err := s.get(t, http.MethodGet, "/status")
	if err != nil {
		t.Fatal(err)
	}
	all, err := transfer.ParseStatus(data, len(s.disks))
	if err != nil {
		t.Fatal(err)
	}
	return all.Disks[0]
}

func (s *served) problem(t testing.TB) transfer.Problem {
	t.Helper()
	if p := s.status(t).Problem; p != nil {
		return *p
	}
	return transfer.Problem{}
}

// TestDisk holds what CDI needs of a server: the size, all bytes with 200, and ranges that are never an error.
func TestDisk(t *testing.T) {
	data := image(t, guest(3<<20))
	u := &upstream{data: data}
	s := u.serve(t, transfer.Disk{Name: "a.vmdk", Format: "vmdk", Parts: []transfer.Part{{Size: int64(len(data)), Digest: digest(data)}}})
	response, body, err := s.get(t, http.MethodHead, "/disks/0")
	if err != nil || response.code != http.StatusOK || response.length != int64(len(data)) || response.header.Get("Accept-Ranges") != "bytes" || len(body) > 0 {
		t.Errorf("HEAD: %d, %d bytes, %v", response.code, response.length, err)
	}
	tag := response.header.Get("ETag")
	size := len(data)
	for _, c := range []struct {
		name, value, condition string
		code, from, to         int
	}{
		{"all", "", "", 200, 0, size},
		{"the first byte", "bytes=0-0", "", 206, 0, 1},
		{"the middle", "bytes=1000-200000", "", 206, 1000, 200_001},
		{"the rest", "bytes=1000-", "", 206, 1000, size},
		{"across the end", fmt.Sprintf("bytes=%d-%d", size-10, size), "", 206, size - 10, size},
		{"far across the end", fmt.Sprintf("bytes=%d-99999999999999999999", size-10), "", 206, size - 10, size},
		{"the end", "bytes=-512", "", 206, size - 512, size},
		{"more than all", "bytes=-99999999", "", 206, 0, size},
		{"behind the end", fmt.Sprintf("bytes=%d-%d", size, size), "", 206, size - 1, size},
		{"far behind the end", "bytes=99999999999999999999-", "", 206, size - 1, size},
		{"two ranges", "bytes=0-1,5-6", "", 200, 0, size},
		{"no range", "lines=0-1", "", 200, 0, size},
		{"backwards", "bytes=5-1", "", 200, 0, size},
		{"a sign", "bytes=+5-7", "", 200, 0, size},
		{"of this version", "bytes=0-9", tag, 206, 0, 10},
		{"of another version", "bytes=0-9", `"other"`, 200, 0, size},
	} {
		response, body, err := s.get(t, http.MethodGet, "/disks/0", "Range", c.value, "If-Range", c.condition)
		if err != nil || response.code != c.code || !bytes.Equal(body, data[c.from:c.to]) || response.length != int64(len(body)) {
			t.Errorf("%s: %d, %d bytes, %v", c.name, response.code, len(body), err)
		}
		if want := fmt.Sprintf("bytes %d-%d/%d", c.from, c.to-1, size); c.code == 206 && response.header.Get("Content-Range") != want {
			t.Errorf("%s: %s, want %s", c.name, response.header.Get("Content-Range"), want)
		}
	}
	got := s.status(t)
	if got.Digest != transfer.DigestVerified || got.Format != "vmdk" || got.VirtualSize != 3<<20 || got.Size != int64(size) || got.Furthest != int64(size) || got.Completed < 5 || got.Restarts < 4 || got.Problem != nil || got.Sent < got.Furthest || got.Received < got.Sent {
		t.Errorf("got %+v", got)
	}
}

// TestRoute holds that there is no answer without the token, and no listing.
func TestRoute(t *testing.T) {
	data := image(t, guest(1<<20))
	u := &upstream{data: data}
	s := u.serve(t, of(data))
	for _, c := range []struct {
		method, path, header, value string
		code                        int
	}{
		{"GET", "/disks/0", "", "", 404},
		{"GET", "/disks/0", transfer.TokenHeader, "wrong", 404},
		{"GET", "/disks/0", transfer.TokenHeader, token + "x", 404},
		{"GET", "/disks/0", "Authorization", "Bearer wrong", 404},
		{"GET", "/disks/0", "Authorization", token, 404},
		{"GET", "/status", "", "", 404},
		{"GET", "/metrics", "", "", 404},
		{"GET", "/healthz", "", "", 200},
		{"GET", "/disks/0", "Authorization", "Bearer " + token, 200},
		{"POST", "/disks/0", transfer.TokenHeader, token, 404},
		{"DELETE", "/status", transfer.TokenHeader, token, 404},
		{"GET", "/", transfer.TokenHeader, token, 404},
		{"GET", "/disks/", transfer.TokenHeader, token, 404},
		{"GET", "/disks/1", transfer.TokenHeader, token, 404},
		{"GET", "/disks/00", transfer.TokenHeader, token, 404},
		{"GET", "/disks/-1", transfer.TokenHeader, token, 404},
		{"GET", "/disks/0/", transfer.TokenHeader, token, 404},
		{"GET", "/disks/../disks/0", transfer.TokenHeader, token, 404},
		{"HEAD", "/disks/0", transfer.TokenHeader, token, 200},
	} {
		response, _, _ := s.get(t, c.method, c.path, transfer.TokenHeader, "", c.header, c.value)
		if response.code != c.code {
			t.Errorf("%s %s with %s %q: %d, want %d", c.method, c.path, c.header, c.value, response.code, c.code)
		}
	}
	if _, err := New(Options{Plan: &transfer.Plan{}, Token: "short", Metrics: prometheus.NewRegistry()}); err == nil || !strings.Contains(err.Error(), "less than 16 bytes") {
		t.Errorf("a short token: %v", err)
	}
}

// TestParts holds that a disk is put together of chunks, of a web server and of a volume, each with its own digest.
func TestParts(t *testing.T) {
	data := image(t, guest(2<<20))
	half := len(data) / 2
	u := &upstream{data: append(bytes.Repeat([]byte("other "), 100), data[:half]...)}
	source := httptest.NewServer(u)
	t.Cleanup(source.Close)
	file := filepath.Join(t.TempDir(), "a.vmdk.000000001")
	if err := os.WriteFile(file, data[half:], 0o600); err != nil {
		t.Fatal(err)
	}
	old := sha1.Sum(data[half:]) //nolint:gosec // as above
	s := startPlan(t, nil, &transfer.Plan{
		Files: []transfer.File{{URL: source.URL, Size: int64(len(u.data)), Validator: `"1"`}, {Volume: true, Size: int64(len(data) - half)}},
		Disks: []transfer.Disk{{Name: "a.vmdk", Parts: []transfer.Part{
			{File: 0, Offset: 600, Size: int64(half), Digest: digest(data[:half])},
			{File: 1, Size: int64(len(data) - half), Digest: "sha1:" + hex.EncodeToString(old[:])},
		}}},
		Volume: &transfer.Volume{Folder: filepath.Dir(file), File: filepath.Base(file)},
	})
	for _, part := range [][2]int{{0, len(data)}, {half - 5, half + 5}, {half, half + 100}, {half + 1, len(data)}} {
		_, body, err := s.get(t, http.MethodGet, "/disks/0", "Range", fmt.Sprintf("bytes=%d-%d", part[0], part[1]-1))
		if err != nil || !bytes.Equal(body, data[part[0]:part[1]]) {
			t.Errorf("bytes %v: %d, %v", part, len(body), err)
		}
	}
	if got := s.status(t); got.Digest != transfer.DigestVerified {
		t.Errorf("got %+v", got)
	}
	if err := os.WriteFile(file, data[half+1:], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.get(t, http.MethodGet, "/disks/0"); err == nil || s.problem(t).Reason != web.ReasonChanged {
		t.Errorf("a file that changed: %v, %+v", err, s.problem(t))
	}
}

// TestDigest holds that the end of a disk with another digest is withheld, and that it is not served again.
func TestDigest(t *testing.T) {
	data := image(t, guest(4<<20))
	for name, size := range map[string]int{"large": len(data), "of one block": BlockBytes} {
		t.Run(name, func(t *testing.T) {
			data := data[:size]
			u := &upstream{data: data}
			disk := transfer.Disk{Name: "a", Parts: []transfer.Part{{Size: int64(size), Digest: digest([]byte("other"))}}}
			if size == BlockBytes {
				data = guest(size)
				u.data, disk.Format = data, "raw"
			}
			s := u.serve(t, disk)
			response, body, err := s.get(t, http.MethodGet, "/disks/0")
			if size > BlockBytes && (err == nil || len(body) > size-BlockBytes/2 || len(body) < size/2) || size == BlockBytes && response.code != http.StatusBadGateway {
				t.Errorf("%d, %d of %d bytes, %v", response.code, len(body), size, err)
			}
			got := s.status(t)
			if got.Digest != transfer.DigestMismatch || got.Problem == nil || got.Problem.Reason != web.ReasonChecksumMismatch || !got.Problem.Permanent || got.Completed != 0 {
				t.Errorf("got %+v", got)
			}
			before := u.requests.Load()
			if response, _, _ := s.get(t, http.MethodGet, "/disks/0"); response.code != http.StatusBadGateway || u.requests.Load() != before {
				t.Errorf("again: %d", response.code)
			}
		})
	}
}

// TestBrokenConnections holds that the client sees one answer while the connections to the source break.
func TestBrokenConnections(t *testing.T) {
	data := image(t, guest(12<<20))
	u := &upstream{data: data, cut: 1_500_000}
	s := u.serve(t, transfer.Disk{Name: "a.vmdk", Parts: []transfer.Part{{Size: int64(len(data)), Digest: digest(data)}}})
	_, body, err := s.get(t, http.MethodGet, "/disks/0")
	if err != nil || !bytes.Equal(body, data) {
		t.Fatalf("%d of %d bytes, %v", len(body), len(data), err)
	}
	if got := s.status(t); got.Digest != transfer.DigestVerified || got.Resumptions < int64(len(data)/u.cut) || got.Problem != nil {
		t.Errorf("got %+v", got)
	}
}

// TestSources holds what becomes of sources that are not what the plan says. No message has the query of the URL.
func TestSources(t *testing.T) {
	t.Parallel()
	data := image(t, guest(8<<20))
	// late answers so after the inspection, when a connection broke.
	late := func(do func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request, int64) bool {
		return func(w http.ResponseWriter, r *http.Request, _ int64) bool {
			text := r.Header.Get("Range")
			if strings.HasPrefix(text, "bytes=0-") && strings.HasSuffix(text, fmt.Sprint("-", len(data)-1)) {
				http.ServeContent(&cutting{ResponseWriter: w, left: 2 << 20}, r, "", time.Time{}, bytes.NewReader(data))
				return true
			}
			var from int
			if _, err := fmt.Sscanf(text, "bytes=%d-", &from); err == nil && from == 2<<20 {
				do(w, r)
				return true
			}
			return false
		}
	}
	tagged := func(tag string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", tag)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		}
	}
	for name, c := range map[string]struct {
		before func(http.ResponseWriter, *http.Request, int64) bool
		reason string
		begun  bool
	}{
		"no ranges": {func(w http.ResponseWriter, _ *http.Request, _ int64) bool { _, _ = w.Write(data); return true }, web.ReasonChanged, false},
		"another version": {func(w http.ResponseWriter, r *http.Request, _ int64) bool {
			tagged(`"2"`)(w, r)
			return true
		}, web.ReasonChanged, false},
		"another size": {func(w http.ResponseWriter, r *http.Request, _ int64) bool {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data[:len(data)-1]))
			return true
		}, web.ReasonChanged, false},
		"a size that is not true": {func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-65535/%d", len(data)))
			w.WriteHeader(http.StatusPartialContent)
			return true
		}, web.ReasonTruncated, false},
		"the metadata of a cloud": {func(w http.ResponseWriter, r *http.Request, _ int64) bool {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/?secret", http.StatusFound)
			return true
		}, web.ReasonNotPermitted, false},
		"loopback of another family": {func(w http.ResponseWriter, r *http.Request, _ int64) bool {
			http.Redirect(w, r, "http://[::1]/", http.StatusFound)
			return true
		}, web.ReasonNotPermitted, false},
		"gone":              {func(w http.ResponseWriter, r *http.Request, _ int64) bool { http.NotFound(w, r); return true }, web.ReasonNotFound, false},
		"changed meanwhile": {late(tagged(`"2"`)), web.ReasonChanged, true},
		"shorter meanwhile": {late(func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data[:len(data)-10]))
		}), web.ReasonChanged, true},
		"redirected meanwhile": {late(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}), web.ReasonNotPermitted, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &upstream{data: data, before: c.before}
			s := u.serve(t, of(data))
			response, body, err := s.get(t, http.MethodGet, "/disks/0")
			if c.begun && (err == nil || !bytes.HasPrefix(data, body) || len(body) == 0) || !c.begun && (response.code != http.StatusBadGateway || len(body) > 1000) {
				t.Errorf("%d, %d bytes, %v", response.code, len(body), err)
			}
			if p := s.problem(t); p.Reason != c.reason || p.Message == "" || strings.Contains(p.Message, "secret") || !c.begun && strings.TrimSpace(string(body)) != p.Message {
				t.Errorf("%+v, answered %.200s", p, body)
			}
		})
	}
}

// TestRejectedImages holds that no byte of an image is served that refers to another file, and none that is another one than before.
func TestRejectedImages(t *testing.T) {
	t.Parallel()
	file := image(t, guest(1<<20))
	change := func(at int, with string) []byte {
		return append(append(bytes.Clone(file[:at]), with...), file[at+len(with):]...)
	}
	padded := func(text string) []byte { return append([]byte(text), make([]byte, 4096)...) }
	for name, c := range map[string]struct {
		data []byte
		want ovf.Reason
	}{
		"a descriptor of a VMDK": {padded("# Disk DescriptorFile\nRW 1 FLAT \"/etc/shadow\" 0\n"), ovf.ExternalReference},
		"the capacity 0":         {change(12, strings.Repeat("\x00", 8)), ovf.ExternalReference},
		"a flat extent":          {bytes.Replace(file, []byte(`SPARSE "a`), []byte(`FLAT   "a`), 1), ovf.ExternalReference},
		"a parent":               {bytes.Replace(file, []byte("parentCID=ffffffff"), []byte("parentCID=00000000"), 1), ovf.ParentDisk},
		"zeros behind":           {append(bytes.Clone(file), make([]byte, 512)...), ovf.InvalidImage},
		"HTML":                   {padded("<html>" + strings.Repeat("404 ", 400)), ovf.InvalidImage},
		"qcow2 with a file":      {append([]byte("QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x01\x00"), make([]byte, 4096)...), ovf.ParentDisk},
		"VHDX":                   {padded("vhdxfile"), ovf.InvalidImage},
		"another format":         {guest(4096), ovf.InvalidImage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &upstream{data: c.data}
			disk := of(c.data)
			disk.Format = "vmdk"
			s := u.serve(t, disk)
			for _, headers := range [][]string{nil, {"Range", "bytes=0-511"}} {
				response, body, err := s.get(t, http.MethodGet, "/disks/0", headers...)
				if err != nil || response.code != http.StatusUnprocessableEntity || s.status(t).Sent != 0 {
					t.Errorf("%d, %.200s, %v", response.code, body, err)
				}
			}
			if response, _, _ := s.get(t, http.MethodHead, "/disks/0"); response.code != http.StatusUnprocessableEntity {
				t.Errorf("HEAD: %d", response.code)
			}
			if p := s.problem(t); p.Reason != string(c.want) || !p.Permanent {
				t.Errorf("%+v, want %s", p, c.want)
			}
			if n := s.keptBytes.Load(); n != 0 {
				t.Errorf("%d bytes are kept", n)
			}
		})
	}
}

// TestAnotherHeader holds that a source cannot show a harmless header first, and send another one later with the same ETag.
func TestAnotherHeader(t *testing.T) {
	file := image(t, guest(8<<20))
	hostile := append([]byte("# Disk DescriptorFile\nRW 1 FLAT \"/etc/shadow\" 0\n"), make([]byte, len(file)-49)...)
	footer := bytes.Clone(file)
	copy(footer[len(footer)-1024:], make([]byte, 512))
	for name, c := range map[string]struct {
		data []byte
		sent int
	}{"all": {hostile[:len(file)], 0}, "the footer": {footer, len(file) - 2*BlockBytes}} {
		t.Run(name, func(t *testing.T) {
			var switched atomic.Bool
			u := &upstream{data: file, before: func(w http.ResponseWriter, r *http.Request, _ int64) bool {
				if switched.Load() {
					http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.data))
				}
				return switched.Load()
			}}
			s := u.serve(t, of(file))
			if response, _, _ := s.get(t, http.MethodHead, "/disks/0"); response.code != http.StatusOK {
				t.Fatal(response.code)
			}
			switched.Store(true)
			_, body, _ := s.get(t, http.MethodGet, "/disks/0")
			if p := s.problem(t); p.Reason != web.ReasonChanged || !p.Permanent || s.status(t).Sent < int64(c.sent) || s.status(t).Sent > int64(c.sent+BlockBytes) {
				t.Errorf("%+v, %d bytes", p, len(body))
			}
		})
	}
}

// TestCompressed holds that a compressed disk is sent as it is, and that what is in it is inspected before its last bytes.
func TestCompressed(t *testing.T) {
	t.Parallel()
	file := image(t, guest(4<<20))
	damaged := zipped(t, file)
	damaged[len(damaged)-6] ^= 1
	noFooter := bytes.Clone(file)
	copy(noFooter[len(noFooter)-1024:], make([]byte, 512))
	for name, c := range map[string]struct {
		data   []byte
		most   int64
		reason ovf.Reason
		code   int
	}{
		"a VMDK":                       {zipped(t, file), 1 << 30, "", 200},
		"a raw disk":                   {zipped(t, guest(3<<20)), 3 << 20, "", 200},
		"less than a head":             {zipped(t, guest(5000)), 5000, "", 200},
		"several streams":              {append(zipped(t, guest(100_000)), zipped(t, guest(5000))...), 105_000, "", 200},
		"a reference":                  {zipped(t, append([]byte("# Disk DescriptorFile\nRW 1 FLAT \"/etc/shadow\" 0\n"), guest(200_000)...)), 1 << 30, ovf.ExternalReference, 422},
		"not compressed":               {file, 1 << 30, ovf.InvalidImage, 422},
		"compressed twice":             {zipped(t, zipped(t, file)), 1 << 30, ovf.InvalidImage, 422},
		"a bomb":                       {zipped(t, make([]byte, 400<<20)), 1 << 28, ovf.LimitExceeded, 200},
		"a small bomb":                 {zipped(t, make([]byte, 2<<20)), 1 << 20, ovf.LimitExceeded, 422},
		"another checksum":             {damaged, 1 << 30, ovf.InvalidImage, 200},
		"truncated":                    {zipped(t, file)[:600_000], 1 << 30, ovf.InvalidImage, 200},
		"no footer":                    {zipped(t, noFooter), 1 << 30, ovf.InvalidImage, 200},
		"text behind":                  {append(zipped(t, file), "text"...), 1 << 30, ovf.InvalidImage, 200},
		"a head that does not arrive":  {append(append([]byte("\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff"), bytes.Repeat([]byte("n"), 300_000)...), 0), 1 << 30, ovf.InvalidImage, 422},
		"a parent that is in the head": {zipped(t, bytes.Replace(file, []byte("parentCID=ffffffff"), []byte("parentCID=00000000"), 1)), 1 << 30, ovf.ParentDisk, 422},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &upstream{data: c.data}
			s := u.serve(t, transfer.Disk{Name: "a.vmdk", Compression: transfer.CompressionGzip, MaxContent: c.most, Parts: []transfer.Part{{Size: int64(len(c.data)), Digest: digest(c.data)}}})
			response, body, err := s.get(t, http.MethodGet, "/disks/0")
			if response.code != c.code || (c.reason == "") != (err == nil && bytes.Equal(body, c.data)) {
				t.Errorf("%d, %d of %d bytes, %v", response.code, len(body), len(c.data), err)
			}
			got := s.status(t)
			if p := s.problem(t); p.Reason != string(c.reason) || (c.reason == "") != (got.Digest == transfer.DigestVerified) {
				t.Errorf("got %+v, %+v", got, p)
			}
			if c.reason != "" && got.Furthest > int64(len(c.data)-1) {
				t.Errorf("all %d bytes were sent", got.Furthest)
			}
		})
	}
}

// TestPlaces holds that the answers at the same time are bounded, and that a client that leaves gives its place back.
func TestPlaces(t *testing.T) {
	data := image(t, guest(1<<20))
	u := &upstream{data: data}
	s := u.serve(t, of(data))
	for range maxOfDisk {
		if _, ok := s.enter(t.Context(), s.disks[0].places, s.places); !ok {
			t.Fatal("no place")
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/disks/0", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(transfer.TokenHeader, token)
	client := &http.Client{Timeout: 200 * time.Millisecond}
	if response, err := client.Do(request); err == nil {
		response.Body.Close()
		t.Errorf("one answer more than %d: %d", maxOfDisk, response.StatusCode)
	}
	<-s.disks[0].places
	<-s.places
	if _, body, err := s.get(t, http.MethodGet, "/disks/0"); err != nil || !bytes.Equal(body, data) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

// TestGone holds that a client that leaves is no problem of the disk.
func TestGone(t *testing.T) {
	data := image(t, guest(16<<20))
	u := &upstream{data: data}
	s := u.serve(t, of(data))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/disks/0", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(transfer.TokenHeader, token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(response.Body, make([]byte, 1000))
	response.Body.Close()
	for len(s.places) > 0 {
		time.Sleep(time.Millisecond)
	}
	if p := s.problem(t); p.Reason != "" {
		t.Errorf("%+v", p)
	}
	if _, body, err := s.get(t, http.MethodGet, "/disks/0"); err != nil || !bytes.Equal(body, data) || s.status(t).Restarts != 1 {
		t.Errorf("again: %d bytes, %v", len(body), err)
	}
}

// TestKept holds the bound of the headers of all disks.
func TestKept(t *testing.T) {
	var all atomic.Int64
	for i := range maxKept/maxKeptOfDisk + 2 {
		var k kept
		err := k.add(0, make([]byte, maxKeptOfDisk), &all)
		if last := int64(i+1)*maxKeptOfDisk > maxKept; last != errors.Is(err, errKept) {
			t.Errorf("disk %d: %v", i, err)
		}
		if err := k.add(maxKeptOfDisk, []byte("more"), &all); err != nil && k.bytes > 0 {
			t.Error(err) // a grain directory
		}
	}
	if all.Load() > maxKept {
		t.Errorf("%d bytes are kept", all.Load())
	}
}

// FuzzRange holds that each answer is within the disk, and has at least one byte.
func FuzzRange(f *testing.F) {
	for _, text := range []string{"bytes=0-0", "bytes=5-", "bytes=-5", "bytes=9-3", "bytes=99999999999999999999-", "bytes=0-1,2-3", "bytes=-", "bytes=-0"} {
		f.Add(text, int64(1000))
	}
	f.Fuzz(func(t *testing.T, text string, size int64) {
		if size < 1 {
			return
		}
		part, partial := rangeOf(text, size)
		if part.offset < 0 || part.end > size || part.offset >= part.end || !partial && part != (span{0, size}) {
			t.Errorf("%q of %d bytes: %+v %v", text, size, part, partial)
		}
	})
}

// FuzzStatus holds that a status that the server writes is one that a controller reads.
func FuzzStatus(f *testing.F) {
	f.Add("a.vmdk", "message")
	f.Fuzz(func(t *testing.T, name, message string) {
		problem, _ := problemOf(&web.Error{Reason: web.ReasonChanged, Message: message})
		data, err := json.Marshal(&transfer.Status{Disks: []transfer.DiskStatus{{Name: name[:min(len(name), 1000)], Problem: &problem}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transfer.ParseStatus(data, 1); err != nil {
			t.Error(err)
		}
	})
}

// TestBlobParts holds that a disk in an OVA of a registry is read by ranges, and not at all without them.
func TestBlobParts(t *testing.T) {
	data := image(t, guest(4<<20))
	blob := append(bytes.Repeat([]byte("other "), 1000), data...)
	r, file := registered(t, blob, blob)
	disk := transfer.Disk{Name: "a.vmdk", Format: "vmdk", Parts: []transfer.Part{{Offset: 6000, Size: int64(len(data)), Digest: digest(data)}}}
	for name, breaks := range map[string]int64{"as it is": 0, "connections break": 700_000} {
		r.BreakAfter.Store(breaks)
		s := startTrusting(t, r.Authority, []transfer.File{file}, disk)
		for _, part := range [][2]int{{0, len(data)}, {1000, len(data)}, {5, 100}} {
			_, body, err := s.get(t, http.MethodGet, "/disks/0", "Range", fmt.Sprintf("bytes=%d-%d", part[0], part[1]-1))
			if err != nil || !bytes.Equal(body, data[part[0]:part[1]]) {
				t.Errorf("%s: bytes %v: %d, %v", name, part, len(body), err)
			}
		}
		if got := s.status(t); got.Digest != transfer.DigestVerified {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	r.BreakAfter.Store(0)
	r.NoRanges.Store(true)
	s := startTrusting(t, r.Authority, []transfer.File{file}, disk)
	if got, body, _ := s.get(t, http.MethodGet, "/disks/0"); got.code != http.StatusBadGateway || len(body) > 1000 || s.problem(t).Reason != web.ReasonNoRanges {
		t.Errorf("without ranges: %d, %d bytes, %+v", got.code, len(body), s.problem(t))
	}
	r.NoRanges.Store(false)
	other := slices.Concat(blob[:6000], data[:len(data)/2], []byte{1 + data[len(data)/2]}, data[len(data)/2+1:])
	r.Answer("/blobs/", func(w http.ResponseWriter, request *http.Request) {
		http.ServeContent(w, request, "", time.Time{}, bytes.NewReader(other))
	})
	s = startTrusting(t, r.Authority, []transfer.File{file}, disk)
	if _, body, err := s.get(t, http.MethodGet, "/disks/0"); err == nil || len(body) == len(data) || s.problem(t).Reason != web.ReasonChecksumMismatch {
		t.Errorf("another disk: %d bytes, %v, %+v", len(body), err, s.problem(t))
	}
}
