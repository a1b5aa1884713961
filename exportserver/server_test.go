package exportserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/test/await"
)

const token = "a token of more than 16 bytes"

// exporter stands for the server of a VirtualMachineExport: it sends a raw image to requests with a token, without an ETag.
type exporter struct {
	*httptest.Server

	data     atomic.Pointer[[]byte]
	modified time.Time
	// breaks is how many answers break off after some bytes.
	breaks atomic.Int64
}

func newExporter(t *testing.T, data []byte) *exporter {
	e := &exporter{modified: time.Unix(1_000_000, 0)}
	e.data.Store(&data)
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-kubevirt-export-token") != "secret" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		if e.breaks.Add(-1) >= 0 {
			w.Header().Set("Content-Length", "100")
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", e.modified, bytes.NewReader(*e.data.Load()))
	}))
	e.Config.ErrorLog = nil
	t.Cleanup(e.Close)
	return e
}

func (e *exporter) client(t *testing.T, header string) *web.Client {
	t.Helper()
	c, err := web.New(web.Options{
		Sources:     &sources.Sources{Hosts: []string{"127.0.0.1"}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Authorities: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}),
		Headers:     map[string]string{"x-kubevirt-export-token": header}, Timeout: 10 * time.Second, Stall: 10 * time.Second, Pause: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func plan(t *testing.T, url, file string) *Plan {
	t.Helper()
	template := &v1beta1.VirtualMachineTemplate{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: mill}
spec:
  virtualMachine:
    spec:
      dataVolumeTemplates:
      - {metadata: {name: root}, spec: {sourceRef: {kind: DataSource, name: a}, storage: {}}}
      - {metadata: {name: data}, spec: {sourceRef: {kind: DataSource, name: a}, storage: {}}}
      template:
        spec:
          domain: {memory: {guest: 1Gi}, devices: {disks: [{name: root, disk: {}}, {name: data, disk: {}}]}}
          volumes: [{name: root, dataVolume: {name: root}}, {name: data, dataVolume: {name: data}}]
`), template); err != nil {
		t.Fatal(err)
	}
	return &Plan{
		Template: template, Disks: []Disk{{Volume: "root", URL: url}, {Volume: "data", Path: file}},
		Sources: transfer.Sources{Hosts: []string{"127.0.0.1"}, Networks: []string{"127.0.0.0/8"}},
		Headers: map[string]string{"x-kubevirt-export-token": "/export/token"},
		Serving: transfer.Serving{CertificateFile: "/serving/tls.crt", KeyFile: "/serving/tls.key", TokenFile: "/serving/token"},
	}
}

// image has random, compressible and empty parts.
func image(size int) []byte {
	data := bytes.Repeat([]byte("the mill turns "), size/15+1)[:size]
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data[:size/4])
	clear(data[size/2 : size*3/4])
	return data
}

// started is a server whose disks are measured, and its address.
func started(t *testing.T, e *exporter) (*Server, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "data.raw")
	if err := os.WriteFile(file, image(3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	s, err := New(Options{Plan: plan(t, e.URL, file), Token: token, Client: e.client(t, "secret"), Log: logr.Discard(), Metrics: registry, Scrapes: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), Pause: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s, served(t, s)
}

// served is the address of a server.
func served(t *testing.T, s *Server) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler := s.Route(r); handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// answer is an answer and its body, as far as it was sent.
type answer struct {
	code   int
	header http.Header
	body   []byte
	err    error
}

func get(t *testing.T, method, url string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1]) //nolint:gosec // pairs
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, body, err}
}

// TestExport downloads an OVA as a whole and by resuming, with a source that breaks off, and lets an import read it.
func TestExport(t *testing.T) {
	e := newExporter(t, image(5<<20))
	s, url := started(t, e)
	if got := get(t, http.MethodGet, url+"/export.ova"); got.code != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("before the measuring: %d", got.code)
	}
	if err := s.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.breaks.Store(1)
	whole := get(t, http.MethodGet, url+"/export.ova")
	if whole.err != nil || whole.code != http.StatusOK || whole.header.Get("Accept-Ranges") != "bytes" {
		t.Fatal(whole.code, whole.err)
	}
	tag, half := whole.header.Get("ETag"), len(whole.body)/2
	if head := get(t, http.MethodHead, url+"/export.ova"); head.code != http.StatusOK || head.header.Get("ETag") != tag || head.header.Get("Content-Length") != whole.header.Get("Content-Length") {
		t.Errorf("HEAD: %+v", head)
	}
	rest := get(t, http.MethodGet, url+"/export.ova", "Range", "bytes="+itoa(half)+"-", "If-Range", tag)
	if rest.code != http.StatusPartialContent || !bytes.Equal(rest.body, whole.body[half:]) {
		t.Errorf("the rest: %d, %d bytes", rest.code, len(rest.body))
	}
	if several := get(t, http.MethodGet, url+"/export.ova", "Range", "bytes=1-2,5-6"); several.code != http.StatusOK || !bytes.Equal(several.body, whole.body) {
		t.Errorf("several ranges: %d, %d bytes", several.code, len(several.body))
	}
	if other := get(t, http.MethodGet, url+"/export.ova", "Range", "bytes=1-2", "If-Range", `"other"`); other.code != http.StatusOK || !bytes.Equal(other.body, whole.body) {
		t.Errorf("another version: %d, %d bytes", other.code, len(other.body))
	}
	status, err := ParseStatus(get(t, http.MethodGet, url+"/status").body)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(whole.body)
	if status.Phase != PhaseReady || status.Name != "mill.ova" || status.Size != int64(len(whole.body)) || status.SHA256 != hex.EncodeToString(sum[:]) ||
		status.Done != 8<<20 || status.All != 8<<20 || status.Completed != 3 || status.Requests != 5 || len(status.Files) != 4 || len(status.Warnings) == 0 {
		t.Errorf("got the status %+v", status)
	}
	metrics := string(get(t, http.MethodGet, url+"/metrics").body)
	for _, want := range []string{"virtward_export_server_measured_bytes 8.388608e+06\n", "virtward_export_server_answers 0\n", fmt.Sprintf("virtward_export_server_sent_bytes_total %v\n", float64(status.Sent))} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in %s", want, metrics)
		}
	}
	found, err := appliance.Inspect("mill.ova", bytes.NewReader(whole.body), appliance.Options{})
	if err != nil || found.Verdict != appliance.Importable || !found.Package.Manifest.Verified {
		t.Fatal(err, found)
	}
	for i, size := range []int{5 << 20, 3 << 20} {
		want := sha256.Sum256(image(size))
		if found.VirtualSystem.Disks[i].ContentSHA256 != hex.EncodeToString(want[:]) {
			t.Errorf("the disk %d has another content", i)
		}
	}
}

func itoa(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// TestChanged holds that an answer ends before the bytes of a disk that changed, and that no further one begins.
func TestChanged(t *testing.T) {
	e := newExporter(t, image(20<<20)) // more than the blocks in memory
	s, url := started(t, e)
	if err := s.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := get(t, http.MethodGet, url+"/export.ova")
	changed := image(20 << 20)
	changed[1<<20]++
	e.data.Store(&changed)
	after := get(t, http.MethodGet, url+"/export.ova")
	if after.err == nil || !bytes.HasPrefix(before.body, after.body) {
		t.Errorf("got %d bytes, %v", len(after.body), after.err)
	}
	if status := s.Status(); status.Phase != PhaseFailed || status.Problem.Reason != web.ReasonChanged || !status.Problem.Permanent {
		t.Errorf("got %+v", status.Problem)
	}
	if got := get(t, http.MethodGet, url+"/export.ova"); got.code != http.StatusBadGateway || !strings.Contains(string(got.body), "changed") {
		t.Errorf("got %d %s", got.code, got.body)
	}
}

// TestLinks holds that a volume cannot name a file beside it.
func TestLinks(t *testing.T) {
	folder := t.TempDir()
	for name, data := range map[string]string{"token": token, "disk.img": "content"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(folder, "link.img")
	if err := os.Symlink("token", link); err != nil {
		t.Fatal(err)
	}
	p := plan(t, "", link)
	p.Disks[0].Path = filepath.Join(folder, "disk.img")
	s, err := New(Options{Plan: p, Token: token, Log: logr.Discard(), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	s.Run(t.Context()) // it ends, as the problem does not pass
	if status := s.Status(); status.Phase != PhaseFailed || status.Problem.Reason != ReasonFailed || !strings.Contains(status.Problem.Message, "the volume data: "+link+": it is neither") {
		t.Errorf("got %+v", status.Problem)
	}
}

// TestRetry holds that a server of disks that is away for a while ends no export: neither while the disks are measured, nor later.
func TestRetry(t *testing.T) {
	e := newExporter(t, image(20<<20))
	s, url := started(t, e)
	e.breaks.Store(1 << 30)
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		s.Run(t.Context())
	}()
	await.Until(t, func() error {
		if s.Status().Problem == nil {
			return errors.New("there is no problem")
		}
		return nil
	})
	if status := s.Status(); status.Phase != PhaseMeasuring || status.Problem.Permanent {
		t.Errorf("got %+v", status)
	}
	e.breaks.Store(0)
	<-ran
	if status := s.Status(); status.Phase != PhaseReady || status.Problem != nil {
		t.Fatalf("got %+v", status)
	}
	e.breaks.Store(1 << 30)
	if broken := get(t, http.MethodGet, url+"/export.ova"); broken.err == nil {
		t.Error("an answer without its disk is complete")
	}
	e.breaks.Store(0)
	if again := get(t, http.MethodGet, url+"/export.ova"); again.err != nil || again.code != http.StatusOK {
		t.Errorf("got %d, %v", again.code, again.err)
	}
}

// TestRejected holds who gets nothing, and what plans and sources are errors.
func TestRejected(t *testing.T) {
	e := newExporter(t, image(1<<20))
	s, url := started(t, e)
	for _, c := range []struct{ method, path, token string }{
		{http.MethodGet, "/export.ova", "Bearer wrong"}, {http.MethodGet, "/status", ""}, {http.MethodGet, "/other", "Bearer " + token}, {http.MethodPost, "/export.ova", "Bearer " + token},
	} {
		if got := get(t, c.method, url+c.path, "Authorization", c.token); got.code != http.StatusNotFound {
			t.Errorf("%s %s: %d", c.method, c.path, got.code)
		}
	}
	if got := get(t, http.MethodGet, url+"/healthz", "Authorization", ""); got.code != http.StatusOK {
		t.Errorf("/healthz: %d", got.code)
	}
	s.Client = e.client(t, "wrong")
	if err := s.Measure(t.Context()); !web.HasReason(err, web.ReasonUnauthorized) || s.Status().Problem.Reason != web.ReasonUnauthorized {
		t.Errorf("a wrong token: %v", err)
	}
	s.Client = e.client(t, "secret")
	s.Plan.Disks = s.Plan.Disks[:1]
	if err := s.Measure(t.Context()); err == nil || !strings.Contains(err.Error(), "the volume data has no content") {
		t.Errorf("a missing disk: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Measure(canceled); err == nil {
		t.Error("the context ends nothing")
	}
	if _, err := New(Options{Plan: s.Plan, Token: "short"}); err == nil {
		t.Error("a short token is accepted")
	}
}

// TestParse holds the errors of plans.
func TestParse(t *testing.T) {
	valid := func() *Plan { return plan(t, "https://127.0.0.1/disk.img", "/dev/disk-1") }
	data, err := json.Marshal(valid())
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Parse(data); err != nil || len(p.Disks) != 2 {
		t.Fatal(p, err)
	}
	for want, change := range map[string]func(*Plan){
		"template: Required":                         func(p *Plan) { p.Template = nil },
		"disks: Too many":                            func(p *Plan) { p.Disks = make([]Disk, MaxDisks+1) },
		"disks[1].volume: Invalid value":             func(p *Plan) { p.Disks[1].Volume = "root" },
		"disks[0]: Required value: name either":      func(p *Plan) { p.Disks[0].Path = "/a" },
		"disks[1].path: Invalid value: \"/a/../b\"":  func(p *Plan) { p.Disks[1].Path = "/a/../b" },
		"disks[0].url: Invalid value: \"http://exam": func(p *Plan) { p.Disks[0].URL = "http://example.org/?secret" },
		"disks[0]: Too long":                         func(p *Plan) { p.Disks[0].URL = "https://127.0.0.1/" + strings.Repeat("a", maxText) },
		"sources.networks: Invalid value":            func(p *Plan) { p.Sources.Networks = []string{"1"} },
		"serving: Invalid value":                     func(p *Plan) { p.Serving.KeyFile = "" },
		"serving.tokenFile: Invalid value":           func(p *Plan) { p.Serving.TokenFile = "token" },
		"headers[x]: Invalid value":                  func(p *Plan) { p.Headers = map[string]string{"x": "token"} },
	} {
		p := valid()
		change(p)
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(data); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	if _, err := Parse([]byte(`{"other":1}`)); err == nil || !strings.Contains(err.Error(), "unknown field") {
		t.Errorf("got %v", err)
	}
}

// TestParseStatus holds what a status must have. A pod that a user controls can send any.
func TestParseStatus(t *testing.T) {
	for text, want := range map[string]string{
		`{"phase":"Measuring","done":1,"all":2,"requests":0,"completed":0,"sent":0}`:         "",
		`{"phase":"Ready","size":1,"name":"a.ova","tag":"00112233445566778899aabbccddeeff"}`: "",
		`{"phase":"Ready","size":1,"name":"a.ova","tag":"<b>"}`:                              "it is ready without a size, a name or a tag",
		`{"phase":"Done"}`:   `phase is "Done"`,
		`{"phase":"Failed"}`: "it has failed without a problem",
		`{"phase":"Failed","problem":{"reason":"A","message":"` + strings.Repeat("a", maxMessage+1) + `","permanent":true}}`: "the message of the problem has more than 1024 bytes",
		`{"phase":"Measuring","done":3,"all":2}`:                                      "done, all or size is not possible",
		`{"phase":"Measuring","files":[` + strings.Repeat("{},", MaxDisks+4) + `{}]}`: "it has more than 68 files",
		`{"other":1}`: "unknown field",
	} {
		if _, err := ParseStatus([]byte(text)); (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), "the status: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// TestBounds holds that a server needs less than 100 MB together with an idle process.
func TestBounds(t *testing.T) {
	const idle = 15 << 20
	sum := int64(idle)
	for _, b := range Bounds() {
		sum += b.Bytes
	}
	if sum > 100e6 {
		t.Errorf("the bounds are %d bytes together", sum)
	}
}
