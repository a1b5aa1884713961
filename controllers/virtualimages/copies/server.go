package copies

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/limits/memory"
)

// Store reads stored images.
type Store interface {
	backend.Backend
	// Size is the number of bytes of an image that is ready.
	Size(ctx context.Context, image *backend.Image) (int64, error)
	// Open reads an image, or a part of it such as bytes=0-99. The caller closes the body.
	Open(ctx context.Context, image *backend.Image, part string) (*http.Response, error)
}

// The limits of readers.
const (
	// MaxReaders and maxOfImage bound the requests in progress: altogether, and for one image. A namespace has at most half of
	// what the others leave.
	MaxReaders = 64
	maxOfImage = 16
	// stall bounds the time without a byte, in both directions.
	stall = time.Minute
	// leastBytes is what a reader takes at least in a stall, if the server waits for it for half of that time. A reader that
	// takes a little now and then would keep its place until its token ends.
	leastBytes = 1 << 20
	// findTimeout bounds the time to find out whether an image is being copied.
	findTimeout = 10 * time.Second
	// known is how long an image is known to be copied, and how often a request in progress looks.
	known = 5 * time.Second
	// maxKnown bounds the images that are known.
	maxKnown = 1000
	// BufferBytes is the buffer of a reader.
	BufferBytes = 64 << 10
)

// ErrNotCopied is the error of an image that is not being copied.
var ErrNotCopied = errors.New("the image is not being copied")

// Server serves images to CDI's importers.
type Server struct {
	Keys *Keys
	// Find returns an image that is being copied and its store; ErrNotCopied for every other one.
	Find func(ctx context.Context, namespace, name, id string) (*backend.Image, Store, error)
	Now  func() time.Time

	mu sync.Mutex
	// readers are the requests in progress, and ofImage their number by the identifiers of images.
	readers *memory.Parts
	ofImage map[string]int
	found   map[string]found
}

type found struct {
	image *backend.Image
	store Store
	until time.Time
}

// pathOf is the path of an image.
func pathOf(namespace, name, id string) string {
	return "/images/" + namespace + "/" + name + "/" + id
}

// Route returns the handler of a request with a valid token; nil for every other one.
func (s *Server) Route(r *http.Request) http.Handler {
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) != 5 || parts[1] != "images" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	namespace, name, id := parts[2], parts[3], parts[4]
	user, password, _ := r.BasicAuth()
	keys, err := s.Keys.current()
	if err != nil {
		return nil
	}
	expires, valid := verify(keys, user, password, namespace, name, id, s.Now())
	if !valid {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, err := s.enter(r.Context(), namespace, id)
		if err != nil {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many readers", http.StatusServiceUnavailable)
			return
		}
		defer leave()
		s.serve(w, r, namespace, name, id, expires)
	})
}

// ended reports whether a request in progress has lost its permission: its token has expired, or the copy has ended. So a
// reader that takes one byte after another does not keep its place.
func (s *Server) ended(ctx context.Context, namespace, name, id string, expires time.Time) bool {
	if !s.Now().Before(expires) {
		return true
	}
	_, _, err := s.find(ctx, namespace, name, id)
	return errors.Is(err, ErrNotCopied)
}

// enter takes a place for a reader of an image. Call leave at its end.
func (s *Server) enter(ctx context.Context, namespace, id string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers == nil {
		s.readers, s.ofImage = memory.NewParts(MaxReaders), map[string]int{}
	}
	if s.ofImage[id] >= maxOfImage {
		return nil, memory.ErrBusy
	}
	release, err := s.readers.Acquire(ctx, namespace, 1)
	if err != nil {
		return nil, err
	}
	s.ofImage[id]++
	return func() {
		release()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ofImage[id]--; s.ofImage[id] == 0 {
			delete(s.ofImage, id)
		}
	}, nil
}

// find remembers for a moment that an image is being copied: an importer sends many requests.
func (s *Server) find(ctx context.Context, namespace, name, id string) (*backend.Image, Store, error) {
	key, now := namespace+"/"+name+"/"+id, s.Now()
	s.mu.Lock()
	f, ok := s.found[key]
	s.mu.Unlock()
	if ok && now.Before(f.until) {
		return f.image, f.store, nil
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	image, store, err := s.Find(ctx, namespace, name, id)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil || len(s.found) >= maxKnown {
		s.found = map[string]found{}
	}
	s.found[key] = found{image, store, now.Add(known)}
	return image, store, nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, namespace, name, id string, expires time.Time) {
	image, store, err := s.find(r.Context(), namespace, name, id)
	switch {
	case errors.Is(err, ErrNotCopied):
		http.NotFound(w, r)
		return
	case err != nil:
		http.Error(w, "the image cannot be read", http.StatusBadGateway)
		return
	}
	tag := strconv.Quote(id) // the content of an identifier never changes
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		size, err := store.Size(r.Context(), image)
		if err != nil {
			http.Error(w, "the image cannot be read", http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		return
	}
	part := r.Header.Get("Range")
	if condition := r.Header.Get("If-Range"); condition != "" && condition != tag {
		part = ""
	}
	if part != "" && !onePart.MatchString(part) {
		http.Error(w, "only one range is supported", http.StatusRequestedRangeNotSatisfiable)
		return
	}
	stream(w, r, store, image, part, s.each(known, func() bool { return s.ended(r.Context(), namespace, name, id, expires) }))
}

// each returns a function that calls another one at most once in each interval, and is false between its calls.
func (s *Server) each(interval time.Duration, check func() bool) func() bool {
	last := s.Now()
	return func() bool {
		now := s.Now()
		if now.Sub(last) < interval {
			return false
		}
		last = now
		return check()
	}
}

// onePart is a range with a start.
var onePart = regexp.MustCompile(`^bytes=\d{1,18}-\d{0,18}$`)

// stream copies an image, or a part of it, until ended. An answer that breaks off ends the connection, so that it is not taken
// for complete.
func stream(w http.ResponseWriter, r *http.Request, store Store, image *backend.Image, part string, ended func() bool) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stalled := time.AfterFunc(stall, cancel)
	defer stalled.Stop()
	response, err := store.Open(ctx, image, part)
	if err != nil {
		http.Error(w, "the image cannot be read", http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	if response.ContentLength >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(response.ContentLength, 10))
	}
	if text := response.Header.Get("Content-Range"); text != "" && response.StatusCode == http.StatusPartialContent {
		w.Header().Set("Content-Range", text)
	}
	control, buffer := http.NewResponseController(w), make([]byte, BufferBytes)
	_ = control.SetReadDeadline(time.Time{})            // the server ends requests that take long
	_ = control.SetWriteDeadline(time.Now().Add(stall)) // as above
	w.WriteHeader(response.StatusCode)
	left, taken := response.ContentLength, newPace()
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			stalled.Reset(stall)
			began := time.Now()
			_ = control.SetWriteDeadline(began.Add(stall)) // as above
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
			if !taken.keeps(n, time.Since(began)) {
				panic(http.ErrAbortHandler)
			}
			left -= int64(n)
		}
		if errors.Is(err, io.EOF) && left <= 0 {
			return
		}
		if err != nil || ended() {
			panic(http.ErrAbortHandler)
		}
	}
}

// pace is how fast a reader takes an image.
type pace struct {
	since   time.Time
	bytes   int
	blocked time.Duration
}

func newPace() *pace { return &pace{since: time.Now()} }

// keeps notes bytes, and how long the reader let the server wait for them. It returns false if the reader is too slow.
func (p *pace) keeps(bytes int, blocked time.Duration) bool {
	p.bytes += bytes
	p.blocked += blocked
	if time.Since(p.since) < stall {
		return true
	}
	fast := p.bytes >= leastBytes || p.blocked < stall/2
	*p = pace{since: time.Now()}
	return fast
}
