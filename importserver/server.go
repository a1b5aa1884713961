package importserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/vmdk"
)

// The limits of answers.
const (
	// MaxAnswers and maxOfDisk bound the answers with bytes at the same time: altogether, and for one disk. An importer of CDI has one, and
	// nbdkit a few.
	MaxAnswers = 48
	maxOfDisk  = 16
	// placeTimeout is how long a request waits for another answer to end.
	placeTimeout = 30 * time.Second
	// BlockBytes is the size of a block. An answer has two of them.
	BlockBytes = 128 << 10
	// stall bounds the time in which a client takes no block. CDI's importer ends itself after as long.
	stall = 10 * time.Minute
	// maxMessage bounds the message of a problem in bytes.
	maxMessage = 1 << 10
)

// Options are those of a server.
type Options struct {
	// Plan is valid.
	Plan *transfer.Plan
	// Token is what requests must have.
	Token string
	// Client reads the URLs of the plan. It is nil if there are none.
	Client *web.Client
	// Staged is how far the copy of the plan is. It is nil if there is none.
	Staged func() *transfer.StageStatus
	// Registry is how the registry of the blobs of the plan is connected to. It is nil if there are none.
	Registry *artifacts.Options
	Log      logr.Logger
	// Metrics has the metrics of the server.
	Metrics prometheus.Registerer
	// Scrapes serves /metrics.
	Scrapes http.Handler
}

// Server serves disks. Create it with New.
type Server struct {
	origin    origin
	volume    *transfer.Volume
	staged    func() *transfer.StageStatus
	token     transfer.Token
	disks     []*disk
	log       logr.Logger
	scrapes   http.Handler
	metrics   *metrics
	keptBytes atomic.Int64
	// inspecting, places and decompressions are semaphores.
	inspecting, places, decompressions chan struct{}
}

// disk is a disk of the plan and what happened to it.
type disk struct {
	plan *transfer.Disk
	size int64
	tag  string
	// places is a semaphore.
	places chan struct{}
	// kept belongs to the goroutine that inspects, until inspected is set. It does not change afterwards.
	inspected atomic.Bool
	kept      kept

	// reader is the present answer of a disk with zstd.
	reader atomic.Pointer[reader]

	mu     sync.Mutex
	status transfer.DiskStatus
	// final is an error after which the disk is not served; nil for none.
	final error
}

// reader is an answer that another one can end.
type reader struct{ end func() }

// takeOver ends the earlier answer of a disk with zstd: CDI's importer reads a disk with one connection, so the other end of an earlier one
// is gone, and it would keep the place until it stalls. Call the function at the end of the answer.
func (d *disk) takeOver(ctx context.Context, control *http.ResponseController) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	own := &reader{func() {
		cancel()
		_ = control.SetWriteDeadline(time.Now()) // a connection that has ended has none
	}}
	if earlier := d.reader.Swap(own); earlier != nil {
		earlier.end()
	}
	return ctx, func() {
		d.reader.CompareAndSwap(own, nil)
		cancel()
	}
}

// New returns a server.
func New(o Options) (*Server, error) {
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	token, err := transfer.NewToken(o.Token)
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // it says what is wrong
	case o.Client == nil && hasURL(o.Plan.Files):
		return nil, errors.New("the plan has URLs, and there is no client")
	case o.Registry == nil && hasBlob(o.Plan.Files):
		return nil, errors.New("the plan has blobs, and there is no registry")
	}
	s := &Server{
		volume: o.Plan.Volume, staged: o.Staged,
		origin: origin{files: o.Plan.Files, volume: o.Plan.Volume, client: o.Client, registry: o.Registry}, token: token, log: o.Log, scrapes: o.Scrapes, metrics: m,
		inspecting: make(chan struct{}, 1), places: make(chan struct{}, MaxAnswers), decompressions: make(chan struct{}, transfer.MaxDecompressed),
	}
	if o.Plan.Stage != nil {
		s.volume = nil // it has no whole file
	}
	for i := range o.Plan.Disks {
		p := &o.Plan.Disks[i]
		d := &disk{plan: p, size: p.Size(), tag: tagOf(o.Plan, p), places: make(chan struct{}, maxOfDisk)}
		d.status = transfer.DiskStatus{Name: p.Name, Size: d.size, Digest: transfer.DigestPending}
		for j := range p.Parts {
			if p.Parts[j].Digest == "" {
				d.status.Digest = transfer.DigestAbsent
			}
		}
		s.disks = append(s.disks, d)
	}
	return s, nil
}

// Route returns the handler of a request with the token; nil for every other one, and for a path that does not exist.
func (s *Server) Route(r *http.Request) http.Handler {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	if r.URL.Path == "/healthz" {
		return http.HandlerFunc(healthy)
	}
	if !s.token.In(r.Header.Get) {
		return nil
	}
	switch r.URL.Path {
	case transfer.PathStatus:
		return http.HandlerFunc(s.serveStatus)
	case "/metrics":
		return s.scrapes
	case transfer.PathArchive:
		if s.volume == nil {
			return nil
		}
		return http.HandlerFunc(s.serveArchive)
	}
	text, isDisk := strings.CutPrefix(r.URL.Path, "/disks/")
	n, err := strconv.Atoi(text)
	if !isDisk || err != nil || n < 0 || n >= len(s.disks) || text != strconv.Itoa(n) {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, s.disks[n]) })
}

func healthy(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok") // the kubelet is gone if this fails
}

// Status is what the server did until now.
func (s *Server) Status() *transfer.Status {
	all := &transfer.Status{Disks: make([]transfer.DiskStatus, len(s.disks))}
	if s.staged != nil {
		all.Stage = s.staged()
	}
	for i, d := range s.disks {
		d.mu.Lock()
		all.Disks[i] = d.status
		d.mu.Unlock()
	}
	return all
}

func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(s.Status()) // the client is gone if this fails
}

// serve answers a request for a disk.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, d *disk) {
	control := http.NewResponseController(w)
	if d.plan.Compression == transfer.CompressionZstd && r.Method == http.MethodGet {
		ctx, end := d.takeOver(r.Context(), control)
		defer end()
		r = r.WithContext(ctx)
	}
	decompresses := d.plan.Compression == transfer.CompressionZstd && (r.Method == http.MethodGet || !d.inspected.Load())
	places := []chan struct{}{d.places, s.places}
	if decompresses {
		places = append(places, s.decompressions)
	}
	leave, ok := s.enter(r.Context(), places...)
	if !ok {
		denyCrowded(w)
		return
	}
	defer leave()
	_ = control.SetReadDeadline(time.Time{})            // the server ends requests that take long
	_ = control.SetWriteDeadline(time.Now().Add(stall)) // as above
	err := d.rejected()
	if err == nil {
		err = s.inspect(r.Context(), d)
	}
	if err != nil {
		s.fail(w, r, d, err)
		return
	}
	h := w.Header()
	h.Set("Accept-Ranges", "bytes")
	h.Set("ETag", d.tag)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", "no-store")
	part, partial := rangeOf(r.Header.Get("Range"), d.size)
	if condition := r.Header.Get("If-Range"); r.Method == http.MethodHead || condition != "" && condition != d.tag {
		part, partial = span{0, d.size}, false
	}
	if d.plan.Compression == transfer.CompressionZstd { // it is read from its start only
		h.Set("Accept-Ranges", "none")
		part, partial = span{0, d.size}, false
	}
	h.Set("Content-Length", strconv.FormatInt(part.end-part.offset, 10))
	if r.Method == http.MethodHead {
		return
	}
	d.begin(part)
	a := &answer{server: s, disk: d, part: part, control: control, left: r.Context().Err}
	if err := a.send(w, r, partial); err != nil {
		if !a.begun {
			s.fail(w, r, d, err)
			return
		}
		s.note(r, d, err)
		panic(http.ErrAbortHandler) // the answer must not look complete
	}
}

// denyCrowded answers a request that got no place.
func denyCrowded(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, "too many requests for disks at the same time", http.StatusServiceUnavailable)
}

// enter takes a place of each semaphore for an answer. Call leave at its end.
func (s *Server) enter(ctx context.Context, all ...chan struct{}) (leave func(), ok bool) {
	patience := time.NewTimer(placeTimeout)
	defer patience.Stop()
	release := func(n int) {
		for _, places := range all[:n] {
			<-places
		}
	}
	for i, places := range all {
		select {
		case places <- struct{}{}:
			continue
		case <-patience.C:
		case <-ctx.Done():
		}
		release(i)
		return nil, false
	}
	s.metrics.answers.Inc()
	return func() {
		s.metrics.answers.Dec()
		release(len(all))
	}, true
}

// content reads a span of a disk.
func (s *Server) content(ctx context.Context, d *disk, part span) *content {
	return &content{ctx: ctx, origin: &s.origin, disk: d.plan, span: part, counted: func(bytes int64, resumptions int) {
		s.metrics.received.Add(float64(bytes))
		s.metrics.resumptions.Add(float64(resumptions))
		d.mu.Lock()
		defer d.mu.Unlock()
		d.status.Received += bytes
		d.status.Resumptions += int64(resumptions)
	}}
}

// rejected is the error after which the disk is not served.
func (d *disk) rejected() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.final
}

// found notes what was found in the image.
func (d *disk) found(image *vmdk.Image) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status.Format, d.status.VirtualSize = image.Format, image.Size
}

// begin counts a request.
func (d *disk) begin(part span) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status.Requests++
	if part == (span{0, d.size}) && d.status.Furthest > 0 {
		d.status.Restarts++
	}
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, d *disk, err error) {
	message, code := s.note(r, d, err)
	for _, name := range []string{"Content-Length", "Accept-Ranges", "ETag"} {
		w.Header().Del(name)
	}
	http.Error(w, message, code)
}

// note notes an error, and returns what to answer.
func (s *Server) note(r *http.Request, d *disk, err error) (message string, code int) {
	problem, code := problemOf(err)
	if left := (*gone)(nil); r.Context().Err() != nil || errors.As(err, &left) {
		s.log.V(1).Info("a client has left", "disk", d.plan.Name)
		return problem.Message, code
	}
	s.metrics.failures.WithLabelValues(problem.Reason).Inc()
	s.log.Error(err, "a disk cannot be served", "disk", d.plan.Name, "reason", problem.Reason)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status.Problem = &problem
	if problem.Reason == web.ReasonChecksumMismatch {
		d.status.Digest = transfer.DigestMismatch
	}
	if problem.Permanent {
		d.final = err
	}
	return problem.Message, code
}

// reasonUnreadable is the reason of errors of a volume.
const reasonUnreadable = "VolumeUnreadable"

// problemOf describes an error for the status, and is the code of an answer.
func problemOf(err error) (transfer.Problem, int) {
	var rejected *ovf.Rejection
	var layer *oci.Rejection
	var known *web.Error
	switch {
	case errors.As(err, &rejected):
		return transfer.Problem{Reason: string(rejected.Reason), Message: texts.Shorten(rejected.Error(), maxMessage), Permanent: true}, http.StatusUnprocessableEntity
	case errors.As(err, &layer):
		return transfer.Problem{Reason: string(layer.Reason), Message: texts.Shorten(layer.Error(), maxMessage), Permanent: true}, http.StatusUnprocessableEntity
	case errors.As(err, &known):
		permanent := known.Permanent || known.Reason == web.ReasonChanged
		return transfer.Problem{Reason: known.Reason, Message: texts.Shorten(known.Message, maxMessage), Permanent: permanent}, http.StatusBadGateway
	}
	return transfer.Problem{Reason: reasonUnreadable, Message: texts.Shorten(err.Error(), maxMessage)}, http.StatusBadGateway
}
