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

// Bounds of what is read, in bytes.
const (
	// MaxFile bounds one file.
	MaxFile = 16 << 20
	// MaxFiles bounds all files together.
	MaxFiles = 512 << 20
)

// Stdin is how standard input is named on the command line.
const Stdin = "-"

// Document is one object of a file, or of the cluster.
type Document struct {
	// Source is the name of the file, or "standard input", or "cluster".
	Source string
	// File is the name under which the file can be opened; empty if it was not read from one.
	File string
	// Index counts the documents of the file, from 1; it is 0 in the cluster.
	Index int
	// Object as it was written.
	Object *unstructured.Unstructured

	// text is what the object was read from, and base leads from its beginning to the object.
	text *text
	base []string
}

// Location names the document for messages: vm.yaml: document 2.
func (d Document) Location() string {
	if d.Index == 0 {
		return d.Source
	}
	return fmt.Sprintf("%s: document %d", d.Source, d.Index)
}

// ReadAll reads files, directories and standard input, in the order given, some of them at once. Of a directory it takes
// the files that end in .yaml, .yml and .json, sorted by name, with those of its subdirectories if recursive. It ends
// with the context.
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

// expandAll lists the files behind names.
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

// readNamed reads a file, or standard input. bytes are those of all files that were read.
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

// Name is how messages call a file.
func Name(file string) string {
	if file == Stdin {
		return "standard input"
	}
	return file
}

// expand lists the files behind a name.
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

// unreadable says what is wrong with a file, without the system call that found out.
func unreadable(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Read reads the documents of one file: YAML documents between lines of ---, or JSON objects after one
// another. Lists are taken apart; empty documents are passed over.
func Read(source string, r io.Reader) ([]Document, error) {
	return read(context.Background(), source, r, new(atomic.Int64))
}

func read(ctx context.Context, source string, r io.Reader, bytes *atomic.Int64) ([]Document, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, unreadable(source, err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%s: larger than %d MiB, which is more than is read of one file", source, MaxFile>>20)
	}
	if bytes.Add(int64(len(data))) > MaxFiles {
		return nil, fmt.Errorf("the files have more than %d MiB, which is more than is read at once", MaxFiles>>20)
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

// split takes a file apart, as far as that can be done; the error says what is wrong with what follows.
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

// parse turns a chunk of text into JSON values: one of YAML, or any number of JSON objects.
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

// parseJSON reads objects that follow one another. It reports whether the chunk is that; if not, it may still
// be YAML that begins with a brace.
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

// object is one object of a document, and the way to it from the document's beginning.
type object struct {
	*unstructured.Unstructured
	base []string
}

// objectsOf takes a list apart.
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
