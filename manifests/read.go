package manifests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/parallel"
)

// Sizes in bytes.
const (
	// MaxFile is the size of one file.
	MaxFile = 16 << 20
	// MaxFiles is the size of all files together.
	MaxFiles = 512 << 20
)

// Stdin is the name of standard input on the command line.
const Stdin = "-"

// Document is an object of a file, or of the cluster.
type Document struct {
	// Source is the name of the file, or "standard input", or "cluster".
	Source string
	// File is the path of the file; empty for standard input and the cluster.
	File string
	// Index counts the documents of the file, from 1; it is 0 in the cluster.
	Index int
	// Object as it was written.
	Object *unstructured.Unstructured

	// text is the text of the document, and base is the path in it to the object.
	text *text
	base []string
}

// Location returns the location for messages: vm.yaml: document 2.
func (d Document) Location() string {
	if d.Index == 0 {
		return d.Source
	}
	return fmt.Sprintf("%s: document %d", d.Source, d.Index)
}

// ReadAll reads files, directories and standard input in parallel, and keeps their order. Of a directory, it reads the
// files that end in .yaml, .yml and .json, sorted by name, and those of its subdirectories if recursive is true. It
// stops when the context is done.
func ReadAll(ctx context.Context, names []string, recursive bool, stdin io.Reader) ([]Document, error) {
	files, err := expandAll(names, recursive)
	if err != nil {
		return nil, err
	}
	found := make([][]Document, len(files))
	var bytes atomic.Int64
	err = parallel.Each(ctx, len(files), func(i int) (err error) {
		found[i], err = readNamed(ctx, files[i], stdin, &bytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(found...), nil
}

// expandAll lists the files of names.
func expandAll(names []string, recursive bool) ([]string, error) {
	var files []string
	for _, name := range names {
		if name == Stdin {
			files = append(files, name)
			continue
		}
		more, err := expand(name, recursive)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

// readNamed reads a file, or standard input. bytes is the size of all files that were read.
func readNamed(ctx context.Context, name string, stdin io.Reader, bytes *atomic.Int64) ([]Document, error) {
	if name == Stdin {
		return read(ctx, Name(name), stdin, bytes)
	}
	file, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	documents, err := read(ctx, name, file, bytes)
	for i := range documents {
		documents[i].File = name
	}
	return documents, err
}

// Name returns the name of a file in messages.
func Name(file string) string {
	if file == Stdin {
		return "standard input"
	}
	return file
}

// expand returns a file, or the files of a directory.
func expand(name string, recursive bool) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var files []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !recursive:
			return fs.SkipDir
		case !entry.IsDir() && isManifest(path):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, unreadable(name, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: the directory holds no .yaml, .yml or .json files", name)
	}
	return files, nil
}

func isManifest(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// Open opens a file for reading.
func Open(name string) (*os.File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	return file, nil
}

// unreadable returns an error without the name of the system call.
func unreadable(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Read reads the documents of one file: YAML documents between lines of ---, or a sequence of JSON objects. It returns
// the items of lists, and skips empty documents.
func Read(source string, r io.Reader) ([]Document, error) {
	return read(context.Background(), source, r, new(atomic.Int64))
}

func read(ctx context.Context, source string, r io.Reader, bytes *atomic.Int64) ([]Document, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, unreadable(source, err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%s: must be no larger than %d MiB", source, MaxFile>>20)
	}
	if bytes.Add(int64(len(data))) > MaxFiles {
		return nil, fmt.Errorf("the files together must be no larger than %d MiB", MaxFiles>>20)
	}
	texts, broken := split(data)
	values := make([][]value, len(texts))
	errs := make([]error, len(texts))
	if err := parallel.Each(ctx, len(texts), func(i int) error {
		values[i], errs[i] = parse(texts[i])
		return nil
	}); err != nil {
		return nil, err
	}
	var documents []Document
	index := 1
	for i := range texts {
		if errs[i] != nil {
			return nil, fmt.Errorf("%s: document %d: %w", source, index, oneLine(errs[i]))
		}
		for _, v := range values[i] {
			objects, err := objectsOf(v.value)
			if err != nil {
				return nil, fmt.Errorf("%s: document %d: %w", source, index, err)
			}
			for _, o := range objects {
				documents = append(documents, Document{Source: source, Index: index, Object: o.Unstructured, text: v.text, base: o.base})
			}
			index++
		}
	}
	if broken != nil {
		return nil, fmt.Errorf("%s: document %d: %w", source, index, oneLine(broken))
	}
	return documents, nil
}

// split splits a file into chunks. The error is about what follows the last chunk.
func split(data []byte) (texts []*text, err error) {
	for chunks := newChunks(data); ; {
		chunk, err := chunks.next()
		switch {
		case errors.Is(err, io.EOF):
			return texts, nil
		case err != nil:
			return texts, err
		}
		texts = append(texts, chunk)
	}
}

// value is a JSON value, and the text that it was read from.
type value struct {
	value any
	text  *text
}

// parse parses a chunk of text: one YAML document, or any number of JSON objects.
func parse(chunk *text) ([]value, error) {
	if values, ok := parseJSON(chunk); ok {
		return values, nil
	}
	data, err := yaml.YAMLToJSONStrict(chunk.content)
	if err != nil {
		return nil, err
	}
	var v any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(data, &v); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, nil
	}
	return []value{{v, chunk}}, nil
}

// parseJSON reads a sequence of JSON objects. It returns false if the chunk is none: it may be YAML that begins with a
// brace.
func parseJSON(chunk *text) ([]value, bool) {
	if !bytes.HasPrefix(bytes.TrimSpace(chunk.content), []byte("{")) {
		return nil, false
	}
	var values []value
	at := cursor{text: chunk, line: chunk.line, column: chunk.column}
	for decoder := json.NewDecoder(bytes.NewReader(chunk.content)); ; {
		var raw json.RawMessage
		switch err := decoder.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return values, true
		case err != nil:
			return nil, false
		}
		var v any
		strict, err := sigsjson.UnmarshalStrict(raw, &v, sigsjson.DisallowDuplicateFields)
		if err != nil || len(strict) > 0 {
			return nil, false
		}
		at.advance(int(decoder.InputOffset()) - len(raw))
		values = append(values, value{v, newText(raw, at.line, at.column)})
	}
}

// object is one object of a document, and its path in the document.
type object struct {
	*unstructured.Unstructured
	base []string
}

// objectsOf returns an object, or the items of a list.
func objectsOf(value any) ([]object, error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is %s where an object is expected", describe(value))
	}
	items, listed := fields["items"].([]any)
	kind, _ := fields["kind"].(string)
	if !listed || !strings.HasSuffix(kind, "List") {
		return []object{{Unstructured: &unstructured.Unstructured{Object: fields}}}, nil
	}
	objects := make([]object, 0, len(items))
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d]: is %s where an object is expected", i, describe(item))
		}
		objects = append(objects, object{&unstructured.Unstructured{Object: fields}, []string{"items", strconv.Itoa(i)}})
	}
	return objects, nil
}
