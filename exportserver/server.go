package exportserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/exportserver/rawfile"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/archive"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/vmdk"
)

// The limits of a server.
const (
	// MaxAnswers bounds the downloads at the same time.
	MaxAnswers = 2
	// MaxTables bounds the grain tables of 32 MiB of the disks that are not zeros: 512 GiB.
	MaxTables = 16 << 10
	// stall bounds the time in which a client takes no bytes.
	stall = 10 * time.Minute
	// firstPause and maxPause bound the time before the disks are measured again after an error that can pass.
	firstPause = 5 * time.Second
	maxPause   = time.Minute
	// maxMessage bounds the message of a problem in bytes.
	maxMessage = 1 << 10
)

// pathStatus is the path of the status.
const pathStatus = "/status"

// Options are those of a server.
type Options struct {
	// Plan is valid.
	Plan *Plan
	// Token is what requests must have.
	Token string
	// Client reads the URLs of the plan. It is nil if there are none.
	Client *web.Client
	Log    logr.Logger
	// Metrics has the metrics of the server.
	Metrics prometheus.Registerer
	// Scrapes serves /metrics.
	Scrapes http.Handler
	// Pause is the first one before the disks are measured again; 5 seconds if it is 0.
	Pause time.Duration
}

// Server serves an OVA or an OCI artifact. Create it with New, and measure its disks with Run.
type Server struct {
	Options

	token transfer.Token
	// observer is the token for the status; its zero value is in no request.
	observer transfer.Token
	places   chan struct{}
	metrics  *metrics

	mu      sync.Mutex
	archive *archive.Archive
	status  Status
	// opened are the files that are read.
	opened []io.Closer
}

// New returns a server.
func New(o Options) (*Server, error) {
	token, err := transfer.NewToken(o.Token)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what is wrong
	}
	var observer transfer.Token
	if o.Plan.StatusToken != "" {
		if observer, err = transfer.NewToken(o.Plan.StatusToken); err != nil {
			return nil, fmt.Errorf("statusToken: %w", err)
		}
	}
	for i := range o.Plan.Disks {
		if o.Plan.Disks[i].URL != "" && o.Client == nil {
			return nil, errors.New("the plan has URLs, and there is no client")
		}
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	return &Server{Options: o, token: token, observer: observer, metrics: m, places: make(chan struct{}, MaxAnswers), status: Status{Phase: PhaseMeasuring}}, nil
}

// Run measures the disks until they are measured, an error does not pass, or the context ends. The server serves the OVA afterwards, until
// the context ends.
func (s *Server) Run(ctx context.Context) {
	for wait := cmp.Or(s.Pause, firstPause); ; wait = min(2*wait, maxPause) {
		if s.Measure(ctx) == nil || s.Status().Phase == PhaseFailed {
			return
		}
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}

// Measure reads all disks. The server can serve the OVA afterwards, until the context ends. An error is part of the status too.
func (s *Server) Measure(ctx context.Context) error {
	s.change(func(status *Status) { status.Phase = PhaseMeasuring })
	s.closeFiles()
	begun := time.Now()
	a, err := s.measure(ctx)
	if err != nil {
		s.fail(err)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.archive = a
	s.status.Phase, s.status.Name, s.status.Size, s.status.Tag, s.status.Files = PhaseReady, FileOf(s.Plan.Format, s.Plan.Template.Name), a.Size(), a.Tag(), a.Files
	s.status.Problem = nil
	s.Log.Info("the disks are measured", "bytes", s.status.All, "file", a.Size(), "seconds", int(time.Since(begun).Seconds()))
	return nil
}

func (s *Server) measure(ctx context.Context) (*archive.Archive, error) {
	options := archive.Options{MaxTables: MaxTables, Progress: func(done, all int64) {
		s.change(func(status *Status) { status.Done, status.All = done, all })
		s.metrics.measured.Set(float64(done))
	}}
	if s.Plan.Format == v1beta1.ExportOCI {
		object, created, err := ObjectOf(s.Plan.Template)
		if err != nil {
			return nil, err
		}
		contents, err := s.contents(ctx)
		if err != nil {
			return nil, err
		}
		return archive.NewArtifact(object, created, contents, options) //nolint:wrapcheck // it names the volume
	}
	export, err := ovf.NewExport(s.Plan.Template, ovf.ExportOptions{Hardware: s.Plan.Hardware, KeepUserData: s.Plan.KeepUserData})
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the field
	}
	s.change(func(status *Status) { status.Warnings = export.Warnings })
	contents, err := s.contents(ctx)
	if err != nil {
		return nil, err
	}
	return archive.New(export, contents, options) //nolint:wrapcheck // it names the volume
}

// ObjectOf is a template as an artifact has it, and the time of the artifact: that of the template, so that each export has the same bytes.
func ObjectOf(template *v1beta1.VirtualMachineTemplate) (object *oci.Object, created string, err error) {
	template = template.DeepCopy()
	template.APIVersion, template.Kind = v1beta1.GroupVersion.String(), apikinds.VirtualMachineTemplate
	data, err := json.Marshal(template)
	if err != nil {
		return nil, "", fmt.Errorf("encoding the template: %w", err)
	}
	if !template.CreationTimestamp.IsZero() {
		created = template.CreationTimestamp.UTC().Format(time.RFC3339)
	}
	object, err = oci.NewObject(data)
	return object, created, err //nolint:wrapcheck // it names the field
}

// contents opens the disks.
func (s *Server) contents(ctx context.Context) (map[string]archive.Content, error) {
	contents := map[string]archive.Content{}
	from := &origin{ctx: ctx, client: s.Client}
	for i := range s.Plan.Disks {
		d := &s.Plan.Disks[i]
		content, err := s.open(from, d)
		if err != nil {
			return nil, fmt.Errorf("the volume %s: %w", d.Volume, err)
		}
		contents[d.Volume] = content
	}
	return contents, nil
}

// open opens a disk.
func (s *Server) open(from *origin, d *Disk) (archive.Content, error) {
	if d.URL != "" {
		return from.remote(d.URL)
	}
	f, err := rawfile.Open(d.Path)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the path
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, f)
	return f, nil
}

// closeFiles closes the files of a measuring that failed.
func (s *Server) closeFiles() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.opened {
		_ = f.Close() // it was read only
	}
	s.opened = nil
}

func (s *Server) change(do func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(&s.status)
}

// fail notes an error.
func (s *Server) fail(err error) {
	problem := problemOf(err)
	s.Log.Error(err, "the export failed", "reason", problem.Reason, "permanent", problem.Permanent)
	s.metrics.failures.WithLabelValues(problem.Reason).Inc()
	s.change(func(status *Status) {
		if status.Problem = &problem; problem.Permanent {
			status.Phase = PhaseFailed
		}
	})
}

// problemOf describes an error for the status. Only errors of servers of URLs can pass.
func problemOf(err error) transfer.Problem {
	var known *web.Error
	message := texts.Shorten(texts.OneLine(err.Error()), maxMessage)
	switch {
	case errors.Is(err, vmdk.ErrChanged):
		return transfer.Problem{Reason: web.ReasonChanged, Message: message, Permanent: true}
	case errors.As(err, &known):
		return transfer.Problem{Reason: known.Reason, Message: message, Permanent: known.Permanent || known.Reason == web.ReasonChanged}
	}
	return transfer.Problem{Reason: ReasonFailed, Message: message, Permanent: !errors.Is(err, context.Canceled)}
}

// Status is what the server did until now.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Route returns the handler of a request with the token; nil for every other one, and for a path that does not exist.
func (s *Server) Route(r *http.Request) http.Handler {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	if r.URL.Path == "/healthz" {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	}
	if r.URL.Path == pathStatus && s.observer.In(r.Header.Get) {
		return http.HandlerFunc(s.serveStatus)
	}
	if !s.token.In(r.Header.Get) {
		return nil
	}
	switch r.URL.Path {
	case pathStatus:
		return http.HandlerFunc(s.serveStatus)
	case "/metrics":
		return s.Scrapes
	case PathOf(s.Plan.Format):
		return http.HandlerFunc(s.serve)
	}
	return nil
}

func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(s.Status()) // the client is gone if this fails
}

// serve answers a request for the OVA.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	a, status := s.archive, s.status
	s.mu.Unlock()
	switch {
	case status.Phase == PhaseFailed:
		http.Error(w, status.Problem.Message, http.StatusBadGateway)
		return
	case a == nil:
		unavailable(w, "the disks are measured")
		return
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		unavailable(w, "too many downloads at the same time")
		return
	}
	s.metrics.answers.Inc()
	defer s.metrics.answers.Dec()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})            // the server ends requests that take long
	_ = control.SetWriteDeadline(time.Now().Add(stall)) // as above
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // several ranges are rarely useful, and each would start a reading
	}
	reader := &failing{Reader: a.Reader()}
	defer reader.Close()
	h := w.Header()
	h.Set("ETag", `"`+a.Tag()+`"`)
	h.Set("Content-Type", formOf(s.Plan.Format).mediaType)
	h.Set("Content-Disposition", `attachment; filename="`+status.Name+`"`)
	h.Set("Cache-Control", "no-store")
	sent := &sender{ResponseWriter: w, control: control, sum: sha256.New(), count: s.metrics.sent}
	http.ServeContent(sent, r, "", time.Time{}, reader)
	s.change(func(status *Status) {
		status.Requests++
		status.Sent += sent.bytes
		if sent.code == http.StatusOK && sent.bytes == a.Size() {
			status.Completed++
			status.SHA256 = hex.EncodeToString(sent.sum.Sum(nil))
		}
	})
	if reader.err != nil && r.Context().Err() == nil {
		s.fail(reader.err)
		panic(http.ErrAbortHandler) // the answer must not look complete
	}
}

func unavailable(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, message, http.StatusServiceUnavailable)
}

// failing notes the error of a reader.
type failing struct {
	*archive.Reader

	err error
}

func (f *failing) Read(into []byte) (int, error) {
	n, err := f.Reader.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err //nolint:wrapcheck // io.Reader
}

// sender counts what is sent, and ends the answer to a client that takes no bytes.
type sender struct {
	http.ResponseWriter

	control *http.ResponseController
	code    int
	bytes   int64
	sum     hash.Hash
	count   prometheus.Counter
}

// WriteHeader implements http.ResponseWriter.
func (s *sender) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (s *sender) Write(data []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(stall)) // without one, the server decides
	n, err := s.ResponseWriter.Write(data)
	s.bytes += int64(n)
	s.count.Add(float64(n))
	_, _ = s.sum.Write(data[:n]) // a hash returns no error
	return n, err                //nolint:wrapcheck // io.Writer
}
