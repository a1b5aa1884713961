package lsp

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/virtward/virtward/cli/lsp/analysis"
	"github.com/virtward/virtward/cli/lsp/outline"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/lsp/text"
	"github.com/virtward/virtward/manifests"
)

// define returns where the object is written that a value names.
func define(s *server, d *document, p *protocol.TextDocumentParams) any {
	o := outline.Parse(d.String())
	f, ok := o.At(d.Offset(p.Position, s.encoding))
	if !ok {
		return nil
	}
	kinds := kindBeside(o, f.Document, f.Path, named(kindOf(o, f.Document).Kind, f.Path))
	for _, object := range d.result.Objects {
		if slices.Contains(kinds, object.Object.GetKind()) && object.Object.GetName() == o.Text(f) {
			return s.locationOf(d, object)
		}
	}
	return nil
}

// locationOf returns where the name of an object is written, as it was at the analysis.
func (s *server) locationOf(d *document, object manifests.Document) any {
	at, ok := object.Find("metadata.name")
	if !ok {
		return nil
	}
	uri, content := s.textOf(d, object.Source)
	if content == nil { // its columns before the position are not known
		start := text.Position{Line: at.Line - 1}
		return protocol.Location{URI: uri, Range: text.Range{Start: start, End: start}}
	}
	return protocol.Location{URI: uri, Range: diagnosticOf(content, s.encoding, analysis.Problem{Position: at}).Range}
}

// textOf returns the URI of a file of the folder of a document, and its text if it is open.
func (s *server) textOf(d *document, name string) (uri string, content *text.Text) {
	in, _ := place(s.folders, d.uri)
	for _, other := range s.documents {
		if folder, named := place(s.folders, other.uri); named == name && (folder == in || other == d) {
			return other.uri, other.Text
		}
	}
	if in == nil {
		return d.uri, d.Text
	}
	file := path.Join(in.path, name)
	if !strings.HasPrefix(file, "/") {
		file = "/" + file
	}
	return (&url.URL{Scheme: "file", Path: file}).String(), nil
}
