package downloads

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/ovf/transfer"
)

const token = "a token of more than 16 bytes"

// exports is the real server of an export behind what breaks its answers.
type exports struct {
	*httptest.Server

	mu     sync.Mutex
	server *exportserver.Server
	// change can replace an answer. It returns what to write to; nil if it has answered.
	change func(http.ResponseWriter, *http.Request) http.ResponseWriter
	// ranges are the requested ones.
	ranges []string
}

// serve measures a disk with a content, and serves it from now on.
func (e *exports) serve(t *testing.T, seed byte) {
	t.Helper()
	disk := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(disk[:6<<20])
	name := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(name, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	template := &v1beta1.VirtualMachineTemplate{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: mill}
spec:
  virtualMachine:
    spec:
      template:
        spec:
          domain: {memory: {guest: 1Gi}, devices: {disks: [{name: root, disk: {}}]}}
          volumes: [{name: root, persistentVolumeClaim: {claimName: root}}]
`), template); err != nil {
		t.Fatal(err)
	}
	s, err := exportserver.New(exportserver.Options{
		Plan:  &exportserver.Plan{Template: template, Disks: []exportserver.Disk{{Volume: "root", Path: name}}},
		Token: token, Log: logr.Discard(), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server = s
}

func newExports(t *testing.T) *exports {
	t.Helper()
	e := &exports{}
	e.serve(t, 1)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		server, change := e.server, e.change
		e.ranges = append(e.ranges, r.Header.Get("Range"))
		e.mu.Unlock()
		if change != nil {
			if w = change(w, r); w == nil {
				return
			}
		}
		if h := server.Route(r); h != nil {
			h.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

// whole is the file that the server sends.
func (e *exports) whole(t *testing.T) []byte {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/export.ova", nil)
	request.Header.Set(transfer.TokenHeader, token)
	recorder := httptest.NewRecorder()
	e.server.Route(request).ServeHTTP(recorder, request)
	return recorder.Body.Bytes()
}

// cut breaks an answer after some bytes.
type cut struct {
	http.ResponseWriter

	left int
}

func (c *cut) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left <= 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p) //nolint:wrapcheck // it is a writer of a test
}

func (c *cut) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// flipped changes a byte of an answer.
type flipped struct {
	http.ResponseWriter

	at int
}

func (f *flipped) Write(p []byte) (int, error) {
	if f.at >= 0 && f.at < len(p) {
		p = bytes.Clone(p)
		p[f.at]++
	}
	f.at -= len(p)
	return f.ResponseWriter.Write(p) //nolint:wrapcheck // as above
}

func (e *exports) options(t *testing.T, to string, notes io.Writer) Options {
	t.Helper()
	return Options{
		Client: e.Client(), URL: e.URL + "/export.ova", Header: http.Header{transfer.TokenHeader: {token}}, To: to, ErrOut: notes,
		Pause: time.Millisecond, Stall: 10 * time.Second,
	}
}

// left are the files beside the target.
func left(t *testing.T, to string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(to))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestBreaks holds that a download continues after connections that break, and what it is called with in the end.
func TestBreaks(t *testing.T) {
	e := newExports(t)
	whole := e.whole(t)
	e.change = func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
		if r.Method == http.MethodHead {
			return w
		}
		return &cut{w, 2 << 20}
	}
	to := filepath.Join(t.TempDir(), "mill.ova")
	var notes strings.Builder
	result, err := Get(t.Context(), e.options(t, to, &notes))
	if err != nil {
		t.Fatal(err, notes.String())
	}
	got, err := os.ReadFile(to)
	if err != nil || !bytes.Equal(got, whole) {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
	if result.Size != int64(len(whole)) || result.Breaks < 3 || result.Resumed != 0 || len(result.SHA256) != 64 || len(left(t, to)) != 1 {
		t.Errorf("got %+v and the files %v", result, left(t, to))
	}
	if e.ranges[0] != "" || e.ranges[1] != "" || !strings.HasPrefix(e.ranges[2], "bytes=") || !strings.Contains(notes.String(), "unexpected EOF: continuing in ") {
		t.Errorf("got the ranges %q and the notes %s", e.ranges, notes.String())
	}
	if _, err := Get(t.Context(), e.options(t, to, &notes)); err == nil || !strings.HasSuffix(err.Error(), "exists: use --overwrite to replace it") {
		t.Errorf("an existing file: %v", err)
	}
}

// TestInterruption holds that an interrupted download leaves its part, that the next one requests the rest only, and that it begins again
// with another version.
func TestInterruption(t *testing.T) {
	e := newExports(t)
	whole := e.whole(t)
	to := filepath.Join(t.TempDir(), "mill.ova")
	interrupted := errors.New("interrupted")
	interrupt := func() {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var seen atomic.Int64
		o := e.options(t, to, io.Discard)
		o.write = func(f *os.File, data []byte) (int, error) {
			if seen.Add(int64(len(data))) > 3<<20 {
				cancel(interrupted)
			}
			return f.Write(data)
		}
		if _, err := Get(ctx, o); !errors.Is(err, interrupted) {
			t.Fatalf("got %v", err)
		}
	}
	interrupt()
	if names := left(t, to); len(names) != 1 || !partNames.MatchString(strings.TrimPrefix(names[0], "mill.ova")) {
		t.Fatalf("got the files %v", names)
	}
	var notes strings.Builder
	result, err := Get(t.Context(), e.options(t, to, &notes))
	if got, _ := os.ReadFile(to); err != nil || !bytes.Equal(got, whole) || result.Resumed < 3<<20 || len(left(t, to)) != 1 || !strings.Contains(notes.String(), "% of an earlier download") {
		t.Errorf("got %d bytes, %+v, %v, %s", len(got), result, err, notes.String())
	}

	if err := os.Remove(to); err != nil {
		t.Fatal(err)
	}
	interrupt()
	e.serve(t, 2)
	notes.Reset()
	result, err = Get(t.Context(), e.options(t, to, &notes))
	if got, _ := os.ReadFile(to); err != nil || bytes.Equal(got, whole) || !bytes.Equal(got, e.whole(t)) || result.Resumed != 0 || len(left(t, to)) != 1 || !strings.Contains(notes.String(), "a part of another version") {
		t.Errorf("another version: %d bytes, %+v, %v, %s", len(got), result, err, notes.String())
	}
}

// TestErrors holds the errors of downloads, and what is left of the file.
func TestErrors(t *testing.T) {
	t.Parallel()
	full := func(f *os.File, data []byte) (int, error) {
		n, err := f.Write(data[:len(data)/2])
		return n, errors.Join(err, syscall.ENOSPC)
	}
	for name, c := range map[string]struct {
		// set changes the server and the options.
		set  func(*testing.T, *exports, *Options)
		want string
		is   error
		// parts is the number of parts that are left.
		parts int
	}{
		"the disk is full": {func(_ *testing.T, _ *exports, o *Options) { o.write = full }, "no space left on device: after making room, call the command again to continue", syscall.ENOSPC, 1},
		"another version during the download": {func(t *testing.T, e *exports, _ *Options) {
			began := false
			e.change = func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
				if r.Method == http.MethodHead {
					return w
				}
				if !began {
					began = true
					return &cut{w, 1 << 20}
				}
				e.serve(t, 2)
				e.server.Route(r).ServeHTTP(w, r)
				return nil
			}
		}, "", ErrChanged, 1},
		"another byte": {func(_ *testing.T, e *exports, _ *Options) {
			e.change = func(w http.ResponseWriter, _ *http.Request) http.ResponseWriter { return &flipped{w, 3 << 20} }
		}, "it was removed", ErrDigest, 0},
		"another range": {func(_ *testing.T, e *exports, _ *Options) {
			e.change = func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
				if r.Header.Get("Range") != "" {
					r.Header.Set("Range", "bytes=5-")
				}
				return &cut{w, 1 << 20}
			}
		}, `the server sends the range "bytes 5-`, nil, 1},
		"a wrong token":     {func(_ *testing.T, _ *exports, o *Options) { o.Header = nil }, "404 Not Found: it has no such export, or the token is not the right one", nil, 0},
		"no connection":     {func(_ *testing.T, e *exports, _ *Options) { e.Close() }, "after 10 requests without a byte: ", nil, 0},
		"an unknown server": {func(_ *testing.T, _ *exports, o *Options) { o.URL = strings.Replace(o.URL, "export.ova", "healthz", 1) }, "neither an ETag of an export nor a size", nil, 0},
		"a problem of the server": {func(_ *testing.T, e *exports, _ *Options) {
			e.change = func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
				if r.Method == http.MethodHead {
					return w
				}
				http.Error(w, "the disk changed", http.StatusBadGateway)
				return nil
			}
		}, "502 Bad Gateway: the disk changed", nil, 1},
		"a server that sends nothing": {func(_ *testing.T, e *exports, o *Options) {
			o.Stall = 50 * time.Millisecond
			e.change = func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
				if r.Method == http.MethodHead {
					return w
				}
				<-r.Context().Done()
				return nil
			}
		}, "no byte came for 50ms", nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExports(t)
			to := filepath.Join(t.TempDir(), "mill.ova")
			o := e.options(t, to, io.Discard)
			c.set(t, e, &o)
			_, err := Get(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v", err)
			}
			if names := left(t, to); len(names) != c.parts {
				t.Errorf("got the files %v", names)
			}
		})
	}
}

// TestNoRanges holds that all of the file is requested again from a server without ranges.
func TestNoRanges(t *testing.T) {
	e := newExports(t)
	whole := e.whole(t)
	var answers atomic.Int64
	e.change = func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
		r.Header.Del("Range")
		if r.Method == http.MethodGet && answers.Add(1) == 1 {
			return &cut{w, 2 << 20}
		}
		return w
	}
	to := filepath.Join(t.TempDir(), "mill.ova")
	var notes strings.Builder
	if _, err := Get(t.Context(), e.options(t, to, &notes)); err != nil || !strings.Contains(notes.String(), "the server sends no ranges: beginning again") {
		t.Fatal(err, notes.String())
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}
