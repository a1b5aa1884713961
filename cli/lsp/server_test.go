package lsp

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/virtward/virtward/cli/lsp/analysis"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/lsp/text"
)

// A result that was ready when another document changed is not that of the present state.
func TestStaleResults(t *testing.T) {
	var out bytes.Buffer
	d := &document{uri: "file:///vm.yaml", version: 1, Text: text.New("a"), stale: true}
	s := &server{stream: protocol.NewStream(nil, &out), documents: map[string]*document{d.uri: d}, timer: time.NewTimer(time.Hour)}
	before := analyzed{uri: d.uri, generation: s.generation, result: &analysis.Result{}}
	s.changed(time.Hour)
	if err := s.finish(before); err != nil || !d.stale || out.Len() > 0 {
		t.Errorf("%v, stale %t: %s", err, d.stale, out.String())
	}
	if err := s.finish(analyzed{uri: d.uri, generation: s.generation, result: &analysis.Result{}}); err != nil || d.stale || !strings.Contains(out.String(), "publishDiagnostics") {
		t.Errorf("%v, stale %t: %s", err, d.stale, out.String())
	}
}
