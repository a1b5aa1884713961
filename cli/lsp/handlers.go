package lsp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtward/virtward/cli/lsp/analysis"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/lsp/text"
	"github.com/virtward/virtward/cli/lsp/workspace"
)

// source is the source of all diagnostics.
const source = "virtward"

// request is a method with an answer about a document.
type request struct {
	// analyzed reports whether the method waits until the document is analyzed.
	analyzed bool
	answer   func(*server, *document, *protocol.TextDocumentParams) any
}

// requests are the methods with an answer about a document.
func requests() map[string]request {
	return map[string]request{
		"textDocument/codeLens":   {analyzed: true, answer: codeLenses},
		"textDocument/hover":      {analyzed: true, answer: hover},
		"textDocument/completion": {answer: complete},
		"textDocument/definition": {analyzed: true, answer: define},
		"textDocument/inlayHint":  {analyzed: true, answer: inlayHints},
		"textDocument/codeAction": {analyzed: true, answer: quickFixes},
		"textDocument/rename":     {answer: rename},
	}
}

// notifications are the methods without an answer. An error ends the server only if it cannot write.
func notifications() map[string]func(*server, *protocol.Message) error {
	return map[string]func(*server, *protocol.Message) error{
		"initialized":                     (*server).watch,
		"textDocument/didOpen":            (*server).open,
		"textDocument/didChange":          (*server).change,
		"textDocument/didClose":           (*server).close,
		"textDocument/didSave":            (*server).rescan,
		"workspace/didChangeWatchedFiles": (*server).rescan,
		"$/cancelRequest":                 (*server).cancel,
	}
}

// handle handles a message. It ignores unknown notifications and responses.
func (s *server) handle(m *protocol.Message) error {
	isRequest := len(m.ID) > 0
	if !isRequest {
		if notified := notifications()[m.Method]; notified != nil && s.initialized {
			return notified(s, m)
		}
		return nil
	}
	switch {
	case m.Method == "":
		return nil
	case m.Method == "initialize":
		return s.initialize(m)
	case !s.initialized:
		return s.respond(m, nil, &protocol.Error{Code: protocol.CodeNotInitialized, Message: "initialize must be the first request"})
	case s.shutdown:
		return s.respond(m, nil, &protocol.Error{Code: protocol.CodeInvalidRequest, Message: "the server is shut down"})
	case m.Method == "shutdown":
		s.shutdown = true
		return s.respond(m, nil, nil)
	}
	if _, known := requests()[m.Method]; !known {
		return s.respond(m, nil, &protocol.Error{Code: protocol.CodeUnknownMethod, Message: m.Method + " is not supported"})
	}
	return s.answer(m)
}

// answer answers a request about a document, or keeps it until the document is analyzed.
func (s *server) answer(m *protocol.Message) error {
	var params protocol.TextDocumentParams
	if err := json.Unmarshal(m.Params, &params); err != nil {
		return s.respond(m, nil, &protocol.Error{Code: protocol.CodeInvalidParams, Message: "params: " + err.Error()})
	}
	method := requests()[m.Method]
	d := s.documents[params.TextDocument.URI]
	switch {
	case d == nil || d.rejected != nil:
		return s.respond(m, nil, nil)
	case method.analyzed && (d.result == nil || d.analyzed != d.version):
		if len(s.waiting) >= maxWaiting {
			return s.respond(m, nil, &protocol.Error{Code: protocol.CodeInternal, Message: "too many requests wait for an analysis"})
		}
		s.waiting = append(s.waiting, m)
		return nil
	}
	return s.respond(m, method.answer(s, d, &params), nil)
}

// answerWaiting answers the requests that waited, or keeps them.
func (s *server) answerWaiting() error {
	waiting := s.waiting
	s.waiting = nil
	for _, m := range waiting {
		if err := s.answer(m); err != nil {
			return err
		}
	}
	return nil
}

// decoded decodes the parameters of a notification, to which there is no answer.
func decoded(m *protocol.Message, params any) bool { return json.Unmarshal(m.Params, params) == nil }

// cancel ends a request that waits.
func (s *server) cancel(m *protocol.Message) error {
	var params struct {
		ID json.RawMessage `json:"id"`
	}
	if !decoded(m, &params) {
		return nil // there is no such request
	}
	i := slices.IndexFunc(s.waiting, func(w *protocol.Message) bool { return string(w.ID) == string(params.ID) })
	if i < 0 {
		return nil
	}
	cancelled := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return s.respond(cancelled, nil, &protocol.Error{Code: protocol.CodeCancelled, Message: "cancelled"})
}

// initialize agrees with the client on what both can do.
func (s *server) initialize(m *protocol.Message) error {
	var params protocol.InitializeParams
	if err := json.Unmarshal(m.Params, &params); err != nil {
		return s.respond(m, nil, &protocol.Error{Code: protocol.CodeInvalidParams, Message: "params: " + err.Error()})
	}
	if s.initialized {
		return s.respond(m, nil, &protocol.Error{Code: protocol.CodeInvalidRequest, Message: "initialize must be sent once"})
	}
	s.initialized, s.watches = true, params.Capabilities.Workspace.DidChangeWatchedFiles.DynamicRegistration
	s.encoding = text.UTF16
	for _, offered := range params.Capabilities.General.PositionEncodings {
		if slices.Contains([]text.Encoding{text.UTF8, text.UTF16, text.UTF32}, offered) {
			s.encoding = offered
			break
		}
	}
	directories := params.WorkspaceFolders
	if len(directories) == 0 && params.RootURI != "" {
		directories = []protocol.WorkspaceFolder{{URI: params.RootURI}}
	}
	for _, d := range directories[:min(len(directories), maxFolders)] {
		if err := s.addFolder(d.URI); err != nil {
			if err := s.notify("window/showMessage", showMessage{Type: protocol.SeverityWarning, Message: err.Error()}); err != nil {
				return err
			}
		}
	}
	s.scan = true
	return s.respond(m, protocol.InitializeResult{
		ServerInfo: protocol.ServerInfo{Name: "virtward", Version: s.version},
		Capabilities: protocol.ServerCapabilities{
			PositionEncoding: s.encoding,
			TextDocumentSync: protocol.TextDocumentSyncOptions{OpenClose: true, Change: protocol.SyncIncremental, Save: true},
			CodeLensProvider: &protocol.CodeLensOptions{},

			HoverProvider: true, DefinitionProvider: true, InlayHintProvider: true, RenameProvider: true,
			CodeActionProvider: &protocol.CodeActionOptions{CodeActionKinds: []string{protocol.QuickFix}},
			CompletionProvider: &protocol.CompletionOptions{TriggerCharacters: []string{".", " ", ":"}},
		},
	}, nil)
}

func (s *server) addFolder(uri string) error {
	directory, ok := pathOf(uri)
	if !ok {
		return fmt.Errorf("the folder %s is not a directory of this machine: its files are not read", uri)
	}
	fsys, err := s.openFolder(directory)
	if err != nil {
		return fmt.Errorf("the folder %s: %w", directory, err)
	}
	s.folders = insert(s.folders, &folder{path: directory, Folder: workspace.NewFolder(fsys)})
	return nil
}

// watch asks the client to report changes of manifests that are not open.
func (s *server) watch(*protocol.Message) error {
	s.timer.Reset(0)
	if !s.watches {
		return nil
	}
	data, err := json.Marshal(map[string]any{"registrations": []any{map[string]any{
		"id": "manifests", "method": "workspace/didChangeWatchedFiles",
		"registerOptions": map[string]any{"watchers": []any{map[string]any{"globPattern": "**/*.{yaml,yml,json}"}}},
	}}})
	if err != nil {
		return err
	}
	return s.stream.Write(&protocol.Message{ID: json.RawMessage(`"watch"`), Method: "client/registerCapability", Params: data})
}

func (s *server) open(m *protocol.Message) error {
	var params protocol.DidOpenTextDocumentParams
	if !decoded(m, &params) {
		return nil // the client violates the protocol: there is no document
	}
	item := params.TextDocument
	d := &document{uri: item.URI, version: item.Version, Text: text.New(""), analyzed: item.Version - 1}
	if known := s.documents[item.URI]; known == nil && len(s.documents) >= maxDocuments {
		d.rejected = fmt.Errorf("at most %d open documents are analyzed: close others, and open this one again", maxDocuments)
		return s.publish(d)
	}
	s.documents[d.uri] = d
	return s.edit(d, []text.Change{{Text: item.Text}}, 0)
}

func (s *server) change(m *protocol.Message) error {
	var params protocol.DidChangeTextDocumentParams
	if !decoded(m, &params) {
		return nil // an unknown change: the next one is rejected, or replaces the text
	}
	d := s.documents[params.TextDocument.URI]
	if d == nil {
		return nil
	}
	d.version = params.TextDocument.Version
	return s.edit(d, params.ContentChanges, debounce)
}

// edit changes a document. One whose change is rejected is not analyzed until its whole text is replaced.
func (s *server) edit(d *document, changes []text.Change, delay time.Duration) error {
	if d.rejected != nil {
		whole := slices.IndexFunc(changes, func(c text.Change) bool { return c.Range == nil })
		if whole < 0 {
			return nil
		}
		changes = changes[whole:]
	}
	edited, err := d.Apply(changes, s.encoding, workspace.MaxFile)
	if err != nil {
		if errors.Is(err, text.ErrTooLarge) {
			err = fmt.Errorf("the document is larger than %d MiB: it is not analyzed", workspace.MaxFile>>20)
		}
		return s.reject(d, err)
	}
	d.rejected, d.Text = nil, edited
	s.changed(delay)
	return nil
}

// reject ends the analysis of a document, until its whole text is replaced.
func (s *server) reject(d *document, reason error) error {
	d.rejected, d.Text, d.result = fmt.Errorf("%w; open it again when it is changed", reason), text.New(""), nil
	s.changed(debounce)
	if err := s.publish(d); err != nil {
		return err
	}
	return s.answerWaiting()
}

// skipped answers a message that was too large. It can be a change of any open document, so none of them is known.
func (s *server) skipped(large *protocol.TooLarge) error {
	failed := &protocol.Error{Code: protocol.CodeInvalidRequest, Message: large.Error()}
	if err := s.stream.Write(&protocol.Message{ID: json.RawMessage("null"), Error: failed}); err != nil {
		return err
	}
	if strings.Contains(large.Begin, `"textDocument/didOpen"`) { // it is not open here
		return nil
	}
	for _, d := range s.documents {
		if d.rejected != nil {
			continue
		}
		if err := s.reject(d, large); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) close(m *protocol.Message) error {
	var params protocol.TextDocumentParams
	if !decoded(m, &params) {
		return nil // there is no such document
	}
	d := s.documents[params.TextDocument.URI]
	if d == nil {
		return nil
	}
	delete(s.documents, d.uri)
	s.changed(debounce)
	if err := s.publish(&document{uri: d.uri, version: d.version, Text: d.Text}); err != nil {
		return err
	}
	return s.answerWaiting()
}

// rescan reads the folders again.
func (s *server) rescan(*protocol.Message) error {
	s.scan = true
	s.changed(debounce)
	return nil
}

// diagnosticOf returns a problem as a diagnostic. Positions of problems count from 1, in code points.
func diagnosticOf(of *text.Text, e text.Encoding, p analysis.Problem) protocol.Diagnostic {
	begin := of.Offset(text.Position{Line: max(p.Line, 1) - 1, Character: max(p.Column, 1) - 1}, text.UTF32)
	d := protocol.Diagnostic{
		Range:    text.Range{Start: of.Position(begin, e), End: of.Position(begin+tokenLength(of.String()[begin:]), e)},
		Severity: severityOf(p.Severity), Code: p.Rule, Source: source, Message: p.Message,
	}
	if p.Remedy != "" {
		d.Message += "\n" + p.Remedy
	}
	return d
}
