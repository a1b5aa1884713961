package backendtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/web"
)

// DiskBytes is the number of bytes of the files that can be imported.
const DiskBytes = 3 << 20

// disk is a QCOW2 of 1 GiB.
func disk() []byte {
	data := make([]byte, DiskBytes)
	copy(data, "QFI\xfb\x00\x00\x00\x03")
	binary.BigEndian.PutUint64(data[24:], 1<<30)
	for i := 200; i < len(data); i++ {
		data[i] = byte(i * 7) //nolint:gosec // any bytes
	}
	return data
}

// Sources is a web server: /disk can be imported, /page is a web page, /missing does not exist at first, and /held ends only when
// Release is called.
type Sources struct {
	*httptest.Server

	disk     []byte
	mu       sync.Mutex
	exists   bool
	released chan struct{}
}

// NewSources starts the web server.
func NewSources(t *testing.T) *Sources {
	t.Helper()
	s := &Sources{disk: disk(), released: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/disk", s.file)
	mux.HandleFunc("/held", s.held)
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<!DOCTYPE html><html></html>") })
	mux.HandleFunc("/missing", func(w http.ResponseWriter, r *http.Request) {
		if !s.isThere() {
			http.NotFound(w, r)
			return
		}
		s.file(w, r)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *Sources) file(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"1"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.disk))
}

// held sends parts at once, and of the whole file only the first part before Release.
func (s *Sources) held(w http.ResponseWriter, r *http.Request) {
	if !s.Held(r.URL.Path) || r.Header.Get("Range") != "" {
		s.file(w, r)
		return
	}
	w.Header().Set("ETag", `"1"`)
	w.Header().Set("Content-Length", fmt.Sprint(len(s.disk)))
	const first = 1 << 20
	if _, err := w.Write(s.disk[:first]); err != nil {
		return
	}
	w.(http.Flusher).Flush()
	select {
	case <-r.Context().Done():
	case <-s.released:
		_, _ = w.Write(s.disk[first:])
	}
}

// Held reports whether a URL is of a file that does not end yet.
func (s *Sources) Held(url string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.released:
		return false
	default:
		return strings.HasSuffix(url, "/held")
	}
}

// Release ends the transfers of /held, and those that follow.
func (s *Sources) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.released)
}

// hold undoes Release.
func (s *Sources) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = make(chan struct{})
}

// exist makes /missing exist, or not.
func (s *Sources) exist(exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exists = exists
}

func (s *Sources) isThere() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exists
}

// Open is for the options of a backend. It permits the address of the web server.
func (s *Sources) Open(context.Context, *backend.Image) (*web.Client, error) {
	permitted := &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	return web.New(web.Options{Sources: permitted, Timeout: 10 * time.Second, Stall: time.Minute}) //nolint:wrapcheck // it is an Error of the source
}
