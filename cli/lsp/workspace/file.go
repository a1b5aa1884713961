package workspace

import (
	"context"
	"hash/maphash"
	"io/fs"
	"regexp"
	"strings"

	"github.com/virtward/virtward/manifests"
)

// File is a file, or an open document, that was parsed.
type File struct {
	Name      string
	Documents []manifests.Document
	// Unreadable are the documents that cannot be parsed.
	Unreadable []manifests.Unreadable
	// Hash identifies the content in this process.
	Hash uint64
	// Relevant reports whether the file has a kind of KubeVirt or of Virtward. The documents of others are not kept.
	Relevant bool

	// info is that of the file in the folder; nil for open documents.
	info fs.FileInfo
}

var seed = maphash.MakeSeed()

// relevant matches an apiVersion of a group of KubeVirt or Virtward, also in a text that cannot be parsed.
var relevant = regexp.MustCompile(`apiVersion["']?\s*:\s*["']?[a-z0-9.]*(kubevirt|virtward|kupenstack)\.io/`)

// Parse parses a text.
func Parse(ctx context.Context, name, content string) (*File, error) {
	f := &File{Name: name, Hash: maphash.String(seed, content), Relevant: relevant.MatchString(content)}
	if !f.Relevant {
		return f, nil
	}
	parts, err := manifests.ReadParts(ctx, name, strings.NewReader(content))
	if err != nil {
		return nil, err
	}
	f.Documents, f.Unreadable = parts.Documents, parts.Unreadable
	return f, nil
}
