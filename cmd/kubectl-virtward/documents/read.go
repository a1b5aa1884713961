package documents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamldocuments "k8s.io/apimachinery/pkg/util/yaml"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// MaxFile bounds what is read of one file, in bytes.
const MaxFile = 16 << 20

// Stdin is how standard input is named on the command line.
const Stdin = "-"

// Document is one object of a file.
type Document struct {
	// Source is the name of the file, or "standard input".
	Source string
	// Index counts the documents of the file, from 1.
	Index int
	// Object as it was written.
	Object *unstructured.Unstructured
}

// Location names the document for messages: vm.yaml: document 2.
func (d Document) Location() string { return fmt.Sprintf("%s: document %d", d.Source, d.Index) }

// ReadAll reads files, directories and standard input, in the order given. Of a directory it takes the
// files that end in .yaml, .yml and .json, sorted by name, with those of its subdirectories if recursive.
func ReadAll(names []string, recursive bool, stdin io.Reader) ([]Document, error) {
	var all []Document
	for _, name := range names {
		if name == Stdin {
			documents, err := Read(Name(name), stdin)
			if err != nil {
				return nil, err
			}
			all = append(all, documents...)
			continue
		}
		files, err := expand(name, recursive)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			documents, err := readFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, documents...)
		}
	}
	return all, nil
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

func readFile(name string) ([]Document, error) {
	file, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Read(name, file)
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
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, unreadable(source, err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%s: larger than %d MiB, which is more than is read of one file", source, MaxFile>>20)
	}
	var documents []Document
	reader := yamldocuments.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for index := 1; ; {
		chunk, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", source, index, oneLine(err))
		}
		values, err := parse(chunk)
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", source, index, oneLine(err))
		}
		for _, value := range values {
			objects, err := objectsOf(value)
			if err != nil {
				return nil, fmt.Errorf("%s: document %d: %w", source, index, err)
			}
			for _, object := range objects {
				documents = append(documents, Document{Source: source, Index: index, Object: object})
			}
			index++
		}
	}
}

// parse turns a chunk of text into JSON values: one of YAML, or any number of JSON objects.
func parse(chunk []byte) ([]any, error) {
	if values, ok := parseJSON(chunk); ok {
		return values, nil
	}
	data, err := yaml.YAMLToJSONStrict(chunk)
	if err != nil {
		return nil, err
	}
	var value any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(data, &value); err != nil {
		return nil, err
	}
	if value == nil {
		return nil, nil
	}
	return []any{value}, nil
}

// parseJSON reads objects that follow one another. It tells whether the chunk is that; if not, it may still
// be YAML that begins with a brace.
func parseJSON(chunk []byte) ([]any, bool) {
	if !bytes.HasPrefix(bytes.TrimSpace(chunk), []byte("{")) {
		return nil, false
	}
	var values []any
	for decoder := json.NewDecoder(bytes.NewReader(chunk)); ; {
		var raw json.RawMessage
		switch err := decoder.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return values, true
		case err != nil:
			return nil, false
		}
		var value any
		strict, err := sigsjson.UnmarshalStrict(raw, &value, sigsjson.DisallowDuplicateFields)
		if err != nil || len(strict) > 0 {
			return nil, false
		}
		values = append(values, value)
	}
}

// objectsOf takes a list apart.
func objectsOf(value any) ([]*unstructured.Unstructured, error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is %s where an object is expected", describe(value))
	}
	items, listed := fields["items"].([]any)
	kind, _ := fields["kind"].(string)
	if !listed || !strings.HasSuffix(kind, "List") {
		return []*unstructured.Unstructured{{Object: fields}}, nil
	}
	objects := make([]*unstructured.Unstructured, 0, len(items))
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d]: is %s where an object is expected", i, describe(item))
		}
		objects = append(objects, &unstructured.Unstructured{Object: fields})
	}
	return objects, nil
}
