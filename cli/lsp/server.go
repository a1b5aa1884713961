package lsp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/virtward/virtward/cli/lsp/analysis"
	"github.com/virtward/virtward/cli/lsp/fields"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/lsp/text"
	"github.com/virtward/virtward/cli/lsp/workspace"
)

// Bounds of the server.
const (
	// maxDocuments is the number of open documents that are analyzed.
	maxDocuments = 200
	// maxFolders is the number of folders.
	maxFolders = 20
	// maxWaiting is the number of requests that wait for an analysis.
	maxWaiting = 100
	// maxAnalysis bounds the time of the analysis of a document.
	maxAnalysis = 30 * time.Second
	// debounce is how long the server waits for further changes.
	debounce = 80 * time.Millisecond
)

// errExit is the error of a client that ends without shutdown.
var errExit = errors.New("the client ended without a shutdown request")

// server serves one client. One goroutine has the state: it handles messages, and starts analyses, which run beside it.
type server struct {
	stream   *protocol.Stream
	analyzer *analysis.Analyzer
	version  string
	// openFolder returns the file system of a directory, which does not lead out of it.
	openFolder func(directory string) (fs.FS, error)

	initialized, shutdown bool
	watches               bool
	encoding              text.Encoding
	folders               []*folder
	documents             map[string]*document
	waiting               []*protocol.Message
	// catalogue has the fields of a minor version of KubeVirt.
	catalogue *fields.Catalogue
	minor     string

	// generation counts the changes that make results stale: those of an analysis that began before the last one are dropped.
	generation int
	// stop cancels the running analysis; nil if none runs. again requests another one behind it.
	stop  context.CancelFunc
	again bool
	// scan requests that the folders are read again.
	scan    bool
	timer   *time.Timer
	results chan analyzed
}

// folder is a folder of the editor.
type folder struct {
	path string
	*workspace.Folder
}

// document is an open document.
type document struct {
	uri     string
	version int
	*text.Text
	// rejected is why the document is not analyzed; nil if it is.
	rejected error
	// analyzed is the version of the result; result is nil before the first one.
	analyzed int
	result   *analysis.Result
	// stale reports whether an analysis of the present state is due.
	stale bool
}

// analyzed is the result of a document, or the end of an analysis if it has no document.
type analyzed struct {
	uri string
	// generation is that of the server when the analysis began.
	generation int
	result     *analysis.Result
	err        error
	notes      []string
	// unscanned reports whether the folders must be read again, because the analysis was cancelled.
	unscanned bool
}

// serve serves until the client ends.
func (s *server) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.documents, s.results = map[string]*document{}, make(chan analyzed)
	s.timer = time.NewTimer(0)
	defer s.timer.Stop()
	type received struct {
		message *protocol.Message
		err     error
	}
	messages := make(chan received)
	go func() {
		for {
			m, err := s.stream.Read()
			select {
			case messages <- received{m, err}:
			case <-ctx.Done():
				return
			}
			invalid, large := (*protocol.Error)(nil), (*protocol.TooLarge)(nil)
			if err != nil && !errors.As(err, &invalid) && !errors.As(err, &large) {
				return
			}
		}
	}()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.timer.C:
			s.start(ctx)
		case r := <-s.results:
			err = s.finish(r)
		case r := <-messages:
			var invalid *protocol.Error
			var large *protocol.TooLarge
			switch {
			case errors.As(r.err, &large):
				err = s.skipped(large)
			case errors.As(r.err, &invalid):
				err = s.stream.Write(&protocol.Message{ID: json.RawMessage("null"), Error: invalid})
			case errors.Is(r.err, io.EOF):
				return errExit
			case r.err != nil:
				return r.err
			case r.message.Method == "exit":
				if !s.shutdown {
					return errExit
				}
				return nil
			default:
				err = s.handle(r.message)
			}
		}
		if err != nil {
			return err
		}
	}
}

// changed makes the results of all documents stale, and starts an analysis after a delay.
func (s *server) changed(delay time.Duration) {
	s.generation++
	for _, d := range s.documents {
		d.stale = d.rejected == nil
	}
	if s.stop != nil {
		s.stop()
	}
	s.timer.Reset(delay)
}

// start starts an analysis of all stale documents, the last changed ones first.
func (s *server) start(ctx context.Context) {
	if s.stop != nil {
		s.again = true
		return
	}
	var work []*document
	for _, d := range s.documents {
		if d.stale {
			work = append(work, d)
		}
	}
	if len(work) == 0 && !s.scan {
		return
	}
	slices.SortFunc(work, func(a, b *document) int {
		return cmp.Or(cmp.Compare(b.version-b.analyzed, a.version-a.analyzed), strings.Compare(a.uri, b.uri))
	})
	job := &job{analyzer: s.analyzer, folders: slices.Clone(s.folders), scan: s.scan, generation: s.generation, results: s.results, ended: ctx.Done()}
	s.scan = false
	for _, d := range s.documents {
		if d.rejected == nil {
			job.open = append(job.open, snapshotOf(d))
		}
	}
	for _, d := range work {
		job.work = append(job.work, snapshotOf(d))
	}
	ctx, s.stop = context.WithCancel(ctx)
	go job.run(ctx)
}

// finish takes the result of a document, or the end of an analysis.
func (s *server) finish(r analyzed) error {
	for _, note := range r.notes {
		if err := s.notify("window/showMessage", showMessage{Type: protocol.SeverityWarning, Message: note}); err != nil {
			return err
		}
	}
	if r.uri == "" {
		s.stop()
		s.stop = nil
		s.scan = s.scan || r.unscanned
		if s.again {
			s.again = false
			s.timer.Reset(0)
		}
		return nil
	}
	d := s.documents[r.uri]
	if d == nil || r.generation != s.generation {
		return nil
	}
	d.stale = false
	d.analyzed = d.version
	if r.err != nil {
		d.result = &analysis.Result{}
		if err := s.notify("window/showMessage", showMessage{Type: protocol.SeverityError, Message: fmt.Sprintf("%s: %v", d.uri, r.err)}); err != nil {
			return err
		}
	} else {
		d.result = r.result
	}
	if err := s.publish(d); err != nil {
		return err
	}
	return s.answerWaiting()
}

// showMessage are the parameters of window/showMessage.
type showMessage struct {
	Type    protocol.Severity `json:"type"`
	Message string            `json:"message"`
}

// publish sends the diagnostics of a document.
func (s *server) publish(d *document) error {
	version := d.version
	params := protocol.PublishDiagnosticsParams{URI: d.uri, Version: &version, Diagnostics: []protocol.Diagnostic{}}
	if d.rejected != nil {
		params.Diagnostics = append(params.Diagnostics, protocol.Diagnostic{Severity: protocol.SeverityWarning, Source: source, Message: d.rejected.Error()})
	} else if d.result != nil {
		for _, p := range d.result.Problems {
			params.Diagnostics = append(params.Diagnostics, diagnosticOf(d.Text, s.encoding, p))
		}
	}
	return s.notify("textDocument/publishDiagnostics", params)
}

func (s *server) notify(method string, params any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	return s.stream.Write(&protocol.Message{Method: method, Params: data})
}

// respond answers a request with a result or an error.
func (s *server) respond(m *protocol.Message, result any, failed *protocol.Error) error {
	answer := &protocol.Message{ID: m.ID, Error: failed}
	if failed == nil {
		data, err := json.Marshal(result)
		if err != nil {
			return fmt.Errorf("encoding the result of %s: %w", m.Method, err)
		}
		answer.Result = data
	}
	return s.stream.Write(answer)
}
